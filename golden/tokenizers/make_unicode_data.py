"""Writes common/tokenizer/unicode_data.inc: the category and the script of every code point in Unicode 16.

    pip install regex==2024.11.6     # in an environment of its own: transformers needs a newer one
    python make_unicode_data.py

The newer ones have Unicode 17. That `tokenizers` has the same properties is what code_points.json says.
"""
from importlib.metadata import version
from pathlib import Path

import regex

OUT = Path(__file__).resolve().parents[2] / "common" / "tokenizer" / "unicode_data.inc"
CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs").split()
SCRIPTS = """Unknown
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common
Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs
Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema
Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki
Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic
Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao
Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu
Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian
Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa
Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian
Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil
Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho
Warang_Citi Yezidi Yi Zanabazar_Square""".split()
HEAD = """// Made by golden/tokenizers/make_unicode_data.py from Unicode 16.0; included by unicode.cpp alone.
//
// A run is 256 * first + name: from code point `first` to the next run's, the property is that name.
// clang-format off
"""


def runs(field, names):
    """The runs of a property in which every code point has exactly one of the names."""
    text = "".join(map(chr, range(0x110000)))
    found = sorted((match.start(), match.end(), number) for number, name in enumerate(names)
                   for match in regex.finditer(rf"\p{{{field}={name}}}+", text))
    assert found[0][0] == 0 and found[-1][1] == len(text)
    assert all(a[1] == b[0] for a, b in zip(found, found[1:])), "a code point has no name, or two"
    return [first * 256 + number for first, _, number in found]


def wrapped(items, width=98):
    """The items with commas between them, in lines."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{item}, " if item is not items[-1] else item
    return "".join(f"  {line.rstrip()}\n" for line in lines)


def table(what, names, numbers):
    return (f"constexpr std::array<std::string_view, {len(names)}> k{what}Names = {{\n"
            + wrapped([f'"{name}"' for name in names]) + "};\n"
            f"constexpr std::array<std::uint32_t, {len(numbers)}> k{what}Runs = {{\n"
            + wrapped([f"{number:#x}" for number in numbers]) + "};\n")


def main():
    assert version("regex") == "2024.11.6", "another version of Unicode"
    OUT.write_text(HEAD + table("Category", CATEGORIES, runs("gc", CATEGORIES))
                   + table("Script", SCRIPTS, runs("sc", SCRIPTS)), encoding="ascii")
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
