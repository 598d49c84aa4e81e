"""Writes code_points.json: how Hugging Face tokenizers treats every code point there is.

    python make_code_points.py      # about fifteen minutes

All code points but the surrogates are asked, in the order of their numbers. The answers are kept as CRC-32, for
each block of 4,096 code points where the place of a difference helps.
"""
import json
import zlib
from array import array
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

import make_unicode_data

OUT = Path(__file__).resolve().parent / "code_points.json"
BLOCK = 4096
SURROGATES = range(0xD800, 0xE000)

# The pre-tokenizers of published models, without those that only turn bytes into ByteLevel's alphabet.
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def chain(*parts, use_regex=False, add_prefix_space=False):
    last = {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "Sequence", "pretokenizers": [*parts, last]}


CHAINS = {
    "Llama 3": chain(split(LLAMA_3)),
    "GPT-2": chain(use_regex=True),
    "cl100k (GPT-4)": chain(split(CL100K)),
    "o200k (GPT-4o)": chain(split(O200K)),
    "Qwen2": chain(split(LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}"))),
    "DeepSeek-V3": chain(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK)),
    "StarCoder": chain(digits(True), use_regex=True),
    "Mistral-Nemo (tekken)": chain(split(TEKKEN)),
    "digits in runs, a space in front": chain(digits(False), use_regex=True, add_prefix_space=True),
}
REGEXES = [r"\p{L}+", r"\P{L}+", r"[^\p{P}\p{S}]+", r"[\P{M}\p{Mn}]+", r"\s+", r"\S+", r"\d+", ".+",
           "(?i:[sdmt])+", "(?i:[^sk]+)", *(f"(?i:{letter})+" for letter in "abcdefghijklmnopqrstuvwxyzAKS")]
GROUPS = ["C", "L", "LC", "M", "N", "P", "S", "Z"]


def code_points(first=0, last=0x110000):
    return [chr(c) for c in range(first, last) if c not in SURROGATES]


def crc(data):
    return f"{zlib.crc32(bytes(data)):08x}"


def pieces(pre_tokenizer, text):
    return [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]


def members(name):
    """The ranges of a property, [first, last]. Surrogates, which no text has, are of the categories C and Cs."""
    inside = bytearray(b"\1") * 0x110000
    for c in SURROGATES:
        inside[c] = name in ("C", "Cs")
    for piece in pieces(pre_tokenizers.Split(Regex(rf"\p{{{name}}}"), "removed"), "".join(code_points())):
        for c in piece:
            inside[ord(c)] = 0
    edges = [c for c in range(0x110001) if (c < 0x110000 and inside[c]) != (c > 0 and inside[c - 1])]
    return [(first, end - 1) for first, end in zip(edges[::2], edges[1::2])]


def property_crcs():
    names = GROUPS + make_unicode_data.CATEGORIES + make_unicode_data.SCRIPTS[1:]
    return {name: crc(array("I", [c for pair in members(name) for c in pair])) for name in names}


def regex_crcs():
    """Of the lengths of the pieces of one text, in bytes."""
    text = "".join(code_points())
    found = {regex: pieces(pre_tokenizers.Split(Regex(regex), "isolated"), text) for regex in REGEXES}
    return {regex: crc(array("I", [len(piece.encode()) for piece in made])) for regex, made in found.items()}


def contexts(c):
    """A character beside spaces, letters of both cases, itself, a digit, a line end and an apostrophe."""
    return f"{c} {c}a{c}{c}B{c}1{c}\n{c}'{c}e!"


def chain_crcs(parts):
    """For each block, of the lengths of its contexts' pieces; a piece has one character for each byte."""
    tokenizer = json.loads(Tokenizer(models.BPE()).to_str())
    tokenizer["pre_tokenizer"] = parts
    pre_tokenizer = Tokenizer.from_str(json.dumps(tokenizer)).pre_tokenizer
    texts = ("".join(map(contexts, code_points(first, first + BLOCK))) for first in range(0, 0x110000, BLOCK))
    return [crc(array("I", map(len, pieces(pre_tokenizer, text)))) for text in texts]


def beside_added_tokens():
    """For each block, of one byte for each character: 1 if it is a word character before a single_word token, 2 if
    after one, 4 if a token takes it with lstrip, 8 with rstrip."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken("<word>", single_word=True), AddedToken("<strip>", lstrip=True, rstrip=True)])
    made = []
    for first in range(0, 0x110000, BLOCK):
        block = code_points(first, first + BLOCK)
        flags = bytearray(len(block))
        for bit, form, found_if in ((1, "{}<word>", 0), (2, "<word>{}", 0), (4, "x{}<strip>x", 8), (8, "x<strip>{}x", 8)):
            for number, encoding in enumerate(tokenizer.encode_batch([form.format(c) for c in block])):
                spans = [end - begin for begin, end in encoding.offsets]
                if (found_if in spans) if found_if else not spans:
                    flags[number] |= bit
        made.append(crc(flags))
    return made


def main():
    content = {
        "tokenizers": tokenizers.__version__, "block": BLOCK, "properties": property_crcs(), "regexes": regex_crcs(),
        "beside_added_tokens": beside_added_tokens(),
        "chains": [{"name": name, "pre_tokenizer": parts, "crc32": chain_crcs(parts)} for name, parts in CHAINS.items()]}
    OUT.write_text(json.dumps(content, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
