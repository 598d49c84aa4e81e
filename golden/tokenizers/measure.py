"""Counts what the golden files exercise: contents of the lines, and flags that change an encoding."""
import json
import re
import unicodedata
from collections import Counter

from tokenizers import Tokenizer

CONTENTS = {
    "combining marks": lambda s: any(unicodedata.category(c) in ("Mn", "Mc", "Me") for c in s),
    "control characters": lambda s: any(unicodedata.category(c) == "Cc" for c in s),
    "line ends": lambda s: "\n" in s or "\r" in s,
    "CR": lambda s: "\r" in s,
    "white space other than ASCII": lambda s: bool(re.search(r"(?![\x00-\x7f])\s", s)),
    "U+180E": lambda s: "\u180e" in s,
    "runs of white space": lambda s: bool(re.search(r"\s\s", s)),
    "white space at either end": lambda s: s != s.strip(),
    "numbers other than 0-9": lambda s: any(unicodedata.category(c)[0] == "N" and c not in "0123456789" for c in s),
    "digit runs of four or more": lambda s: bool(re.search(r"\d{4}", s)),
    "contractions": lambda s: bool(re.search(r"'(s|t|re|ve|m|ll|d|\u017f)", s, re.I)),
    "beyond the BMP": lambda s: any(ord(c) > 0xFFFF for c in s),
    "zero width joiner": lambda s: "\u200d" in s,
    "U+FFFD": lambda s: "\ufffd" in s,
    "private use, unassigned, noncharacters": lambda s: any(unicodedata.category(c) in ("Co", "Cn") for c in s),
    "special tokens' texts": lambda s: bool(re.search(r"<\|\w+\|>", s)),
    "one character": lambda s: len(s) == 1,
    "1,000 bytes or more": lambda s: len(s.encode()) >= 1000,
}


def contents(lines):
    """How many lines hold what; and how many have letters of each script."""
    scripts = Counter()
    for line in lines:
        scripts.update({unicodedata.name(c, "?").split()[0].split("-")[0].lower() for c in line if c.isalpha()})
    counts = {name: sum(map(test, lines)) for name, test in CONTENTS.items()}
    return {"count": len(lines), "bytes": sum(len(s.encode()) for s in lines), **counts,
            "letters of": {name: n for name, n in scripts.most_common() if n >= 5}}


def changed(content, lines, encoded):
    """How many lines a changed tokenizer encodes in another way."""
    tokenizer = Tokenizer.from_str(json.dumps(content))
    ids = [e.ids for e in tokenizer.encode_batch(lines, add_special_tokens=False)]
    return sum(a != (b[0] if b[1] is None else b[1]) for a, b in zip(ids, encoded))


def variants(source):
    """The tokenizer with one thing changed at a time, by what was changed."""
    def fresh():
        return json.loads(source.read_text(encoding="utf-8"))

    content = fresh()
    content["model"]["ignore_merges"] = not content["model"]["ignore_merges"]
    yield "ignore_merges", content
    content = fresh()
    first = {}
    for pair in content["model"]["merges"]:
        first.setdefault("".join(pair).replace(" ", ""), pair)
    if len(first) < len(content["model"]["merges"]):
        content["model"]["merges"] = list(first.values())
        yield "second splits of a token", content
    for flag in ("single_word", "lstrip", "rstrip", "normalized"):
        content = fresh()
        tokens = [token for token in content["added_tokens"] if token[flag]]
        for token in tokens:
            token[flag] = False
        if tokens:
            yield flag, content
    for flag in ("add_prefix_space", "use_regex", "individual_digits"):
        content = fresh()
        steps = content["pre_tokenizer"].get("pretokenizers", [content["pre_tokenizer"]])
        if any(step.get(flag) for step in steps):
            for step in steps:
                step[flag] = False if flag in step else None
            yield flag, json.loads(json.dumps(content).replace(f', "{flag}": null', ""))


def effects(source, lines, encoded, decoded):
    """Lines that would differ without a flag; lines with added tokens; decodings with U+FFFD."""
    counts = {f"encodings that change with {what}": changed(content, lines, encoded)
              for what, content in variants(source)}
    added = {token["id"] for token in json.loads(source.read_text(encoding="utf-8"))["added_tokens"]}
    counts["encodings with added tokens"] = sum(not added.isdisjoint(a if b is None else b) for a, b in encoded)
    counts["decodings with U+FFFD"] = sum("\ufffd" in item["raw"] for item in decoded)
    counts["decodings that change with skip_special_tokens"] = sum(item["raw"] != item["text"] for item in decoded)
    return counts
