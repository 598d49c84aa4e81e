"""Writes lines.jsonl and fixtures/lines.jsonl, the inputs of the golden encodings.

    python3 make_lines.py

Only the standard library is used. A line that came already is not written again.
"""
import json
import unicodedata
from itertools import product
from pathlib import Path

import make_synthetic
import sentences
import word_pools as pools

HERE = Path(__file__).resolve().parent
SPACES = [chr(c) for c in (*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010),
                           0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0x3164, 0xFEFF)]
ADVERSARIAL = list("aAzeé1٣²Ⅳ'’sStTlLdDſrvm!.,-_#<|>\t\n\n\r   ") + ["\r\n", "\u00a0", "\u3000", "\u0301", "\u200d",
               "\u2028", "\u0085", "\u000b", "\u001c", "中", "한", "ひ", "ก", "अ", "ा", "ع", "👍", "\U0001f3fd", "\u0000",
               "'re", "'LL", "'ve", "=", "\ufffd", "\u1680", "\u2009"]
DIGITS = [0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xBE6, 0xC66, 0xE50, 0xF20, 0x1040, 0x17E0, 0x1810,
          0xFF10, 0x104A0, 0x1D7CE, 0x1E950]
LETTERS = ["a", "Ω", "ж", "ع", "א", "क", "ก", "中", "あ", "한", "ა", "ሰ", "ß", "ı", "𝔘", "ǅ", "ʰ", "ª"]
OTHERS = list("!'\"_-.(") + ["…", "€", "\u0301", "\ufe0f", "🦙", "\u200b", "½", "Ⅳ", "①"]
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eom_id|>", "<|python_tag|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_0|>",
           "<|reserved_special_token_1|>", "<|reserved_special_token_247|>", "<|endoftext|>"]


def settled(code):
    """Whether no Unicode version will change the character: it is old, or never to be assigned."""
    if 0xD800 <= code < 0xE000:
        return False
    old = unicodedata.ucd_3_2_0.category(chr(code)) != "Cn"
    return old or 0xFDD0 <= code < 0xFDF0 or code & 0xFFFE == 0xFFFE or 0x40000 <= code < 0xE0000


def texts():
    """Sentences, their decomposed and upper-case forms, code, emoji and oddities."""
    yield from sentences.FACTS + sentences.SENTENCES + sentences.EMOJI + sentences.CODE + sentences.ODD
    for line in sentences.SENTENCES:
        yield unicodedata.normalize("NFD", line)
        yield line.upper()[:60]
        yield line.replace(" ", "")[:40]
        yield "  " + line[:30] + " \n"


def white_space():
    """Every space alone, before and after letters, in runs and in mixtures."""
    for space in SPACES:
        for form in ("{}", "{0}{0}", "a{}", "{}a", "a{}b", "a{0}{0}b", " {}a", "{} a", "\n{}", "{}\n", "!{}", "{}!",
                     "1{0}{0}2"):
            yield form.format(space)
    for length in range(3, 100, 7):
        yield " " * length
        yield " " * length + "x"
        yield "x" + "\t" * length + "\n" * (length % 9)
    for parts in product(["\r", "\n", "\r\n", " ", "\t"], repeat=3):
        yield "".join(parts)
    for parts in product(["\r\n", " ", "\u3000"], repeat=3):
        yield "a" + "".join(parts) + "b"
    # U+180E was a space until Unicode 6.2 and still is one for PCRE2.
    yield from ["a \u180e b", "a\u180e b", "\u180e b", "! \u180e", "\u180e!?", " \u180e\u180e  a", "1\u180e\n", "a  \u180e"]


def characters():
    """One character a line: all of U+0000 to U+017F, then a sample of every plane in use."""
    yield from map(chr, range(0x180))
    for code in [*range(0x180, 0x3400, 61), *range(0x3400, 0xD800, 997), *range(0xE000, 0x10000, 251),
                 *range(0x10000, 0x20000, 1511), *range(0x20000, 0x110000, 40961), 0xD7FF, 0x1F9D9, 0x10FFFF]:
        if settled(code):
            yield chr(code)


def digits():
    """Digits of many scripts, runs of them, and other numbers."""
    for zero in DIGITS:
        yield "".join(chr(zero + d) for d in (1, 2, 3, 4, 5, 6, 7))
        yield "a" + chr(zero + 9) + chr(zero) + " " + chr(zero)
    for length in (1, 2, 3, 4, 5, 6, 7, 10, 31, 100):
        yield "9876543210"[:length] * (1 + length // 10)
    yield from ["x²³¹⁰", "Ⅰ Ⅱ Ⅲ Ⅻ ⅿ ⅯⅩⅤ", "₀₁₂₃ ½⅓¼ ①⑳㉛ ❶ 𐄇 ௧௨",
                "12٣४５𝟞７", "3.14159e-10", "1 000 000", "1,2.3:4", "٠٫٥", "一二三 〇"]


def contractions():
    """English contractions in all cases, with straight and curly apostrophes."""
    for ending in "s t re ve m ll d S T RE VE M LL D Re lL ſ x r l v".split():
        for form in ("I'{}", "'{}", "it’{}", "we'{} go", " '{}'", "''{}", "'{0}{0}", "9'{}", "é'{}mn"):
            yield form.format(ending)


def special_texts():
    """Texts of Llama 3's special tokens within other text, whole and damaged."""
    for token in SPECIAL:
        for form in ("{}", "a{}b", " {} ", "{0}{0}", "<{}>", "<|{}|>", "\n{}\n\n", "don't{}'s", "{} hello"):
            yield form.format(token)
        yield token[:-1]
        yield token[1:]
        yield token.upper()
        yield token[:-2] + " |>"
    yield "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    yield "<|<|eot_id|>eot_id|>"
    yield "   <|eot_id|>   x   <|eot_id|>\n\n<|eot_id|> \n"


def added_texts(random):
    """The added tokens of other_flags beside spaces, letters, marks and one another."""
    other = json.loads((HERE / "other_flags" / "tokenizer.json").read_text(encoding="utf-8"))
    added = [token["content"] for token in other["added_tokens"]]
    for token in added:
        for form in ("{}", "a {} b", "a  {}  b", "x{}y", "{0}{0}", "({})", "\t{}\n", "\u00a0{}\u3000", "_{}_",
                     "é{}\u0301", "1{}2"):
            yield form.format(token)
    yield from ["<sp> x  y", "<r> x z", "<sp>    <r>    <both>    dog", "aXfoobar", "<a><a><b><b>",
                "a -- b - c", "cat\u200d cat_ cat1 cat\u0301", "Ⓐcat", "Ⅳcat", "²cat", "½cat", "cat中", "cat٣",
                "cat\u20dd", "cat\u203f", "🄰cat", "cat\u180e", "cat\u0085", "\u001c<mask>", "\u0085<mask>", "\u180e<mask>"]
    parts = added + [" ", " ", "  ", "\n", "a", "the ", "<", ">", "é"]
    for _ in range(150):
        yield "".join(random.pick(parts) for _ in range(2 + random.below(7)))


def long_lines(random):
    """Lines of hundreds or thousands of characters."""
    yield "".join(random.pick("etaoinshrdlu") for _ in range(5000))
    yield "ab" * 700
    yield "語" * 400
    yield " " * 3000 + "x"
    yield "\n" * 500 + " " * 501
    yield " \n\t" * 200
    yield "!?" * 400
    yield "7" * 1000
    yield "o" + "\u0301\u0323\u0308" * 150
    yield "<|eot_id|>" * 60
    yield " ".join(random.pick(pools.ENGLISH) for _ in range(400))


def random_lines(random):
    """Strings over an adversarial alphabet, over all of Unicode, and words of many languages."""
    for _ in range(500):
        yield "".join(random.pick(ADVERSARIAL) for _ in range(1 + random.below(16)))
    for _ in range(120):
        codes = [random.below(random.pick([0x80, 0x250, 0x3000, 0x10000, 0x110000])) for _ in range(1 + random.below(8))]
        yield "".join(chr(c) for c in codes if settled(c))
    for _ in range(120):
        yield "".join(random.pick(random.pick([LETTERS, SPACES, OTHERS])) for _ in range(2 + random.below(10)))
    words = pools.ENGLISH + pools.GERMAN + pools.VIETNAMESE + pools.RUSSIAN + pools.GREEK
    words += pools.ARABIC_ETC + pools.EAST_ASIAN + pools.CODE
    for _ in range(120):
        between = ["", " ", " ", "\n", "_", "."]
        yield "".join(random.pick(between) + random.pick(words) for _ in range(2 + random.below(5)))


def synthetic_tokens(random):
    """Tokens of the synthetic vocabulary: those that merging does not reach, and others at random."""
    vocabulary = make_synthetic.make_vocabulary(make_synthetic.byte_characters())
    tokens = list(vocabulary.rank)
    for token in tokens[-make_synthetic.FILL - make_synthetic.UNREACHABLE::8]:
        yield token.decode()
        yield "a" + token.decode() + "s" + token.decode()
    for _ in range(80):
        yield b"".join(random.pick(tokens) for _ in range(3)).decode("utf-8", "ignore")


def fixture_lines(random):
    """Short strings over the letters of the fixtures."""
    yield ""
    for length in (1, 2, 3, 4):
        yield from map("".join, product("abcd" if length < 4 else "bcd", repeat=length))
    for _ in range(150):
        yield "".join(random.pick("abcdabcd xé") for _ in range(5 + random.below(12)))
    yield from ["dcba", " dcba", "ddd", " ddd", "abcd" * 30, "a" * 41, "xyz", "é", "  ", "dcba dcba"]


def write(path, lines):
    """Writes the lines without repetitions."""
    lines = list(dict.fromkeys(lines))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")
    print(f"{path.relative_to(HERE)}: {len(lines)} lines, {sum(len(line.encode()) for line in lines)} bytes of text")


def main():
    random = make_synthetic.Random(11)
    lines = [*texts(), *white_space(), *characters(), *digits(), *contractions(), *special_texts()]
    lines += [*added_texts(random), *long_lines(random), *random_lines(random), *synthetic_tokens(random)]
    write(HERE / "lines.jsonl", lines)
    write(HERE / "fixtures" / "lines.jsonl", fixture_lines(random))


if __name__ == "__main__":
    main()
