"""Writes NAME.blocks.json: what Hugging Face tokenizers makes of 10,000 lines, as checksums.

    python make_blocks.py                         # of missing_bytes
    python make_blocks.py --smollm2 FOLDER        # of SmolLM2's tokenizer.json, in a folder that `make real` made

README.md describes the lines and the file.
"""
import json
import sys
import zlib
from pathlib import Path

import tokenizers
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
LINES = 10000
BLOCK = 10  # lines that share a checksum


def ten_thousand_lines():
    """lines.jsonl, and then two of them joined."""
    lines = [json.loads(line) for line in (HERE / "lines.jsonl").read_text(encoding="ascii").splitlines()]
    count = len(lines)
    yield from lines
    for k in range(count, LINES):
        yield lines[k % count] + lines[(31 * k + k // count) % count]


def checksums(texts):
    """CRC-32 of every BLOCK texts, each with a line end after it."""
    joined = ["".join(text + "\n" for text in texts[i:i + BLOCK]) for i in range(0, LINES, BLOCK)]
    return [f"{zlib.crc32(text.encode()):08x}" for text in joined]


def make(name, source):
    tokenizer = Tokenizer.from_file(str(source))
    lines = list(ten_thousand_lines())
    ids = [encoding.ids for encoding in tokenizer.encode_batch(lines, add_special_tokens=False)]
    raw = tokenizer.decode_batch(ids, skip_special_tokens=False)
    text = tokenizer.decode_batch(ids, skip_special_tokens=True)
    content = {"tokenizers": tokenizers.__version__, "lines": LINES, "block": BLOCK,
               "tokens": sum(map(len, ids)), "lines_that_lose_bytes": sum(a != b for a, b in zip(lines, raw)),
               "ids": checksums([json.dumps(one, separators=(",", ":")) for one in ids]),
               "decoded": checksums([a + b for a, b in zip(raw, text)])}
    (HERE / f"{name}.blocks.json").write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    print(name, {key: value for key, value in content.items() if not isinstance(value, list)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--smollm2"]:
        make("smollm2", Path(sys.argv[2]) / "tokenizer.json")
    else:
        make("missing_bytes", HERE / "missing_bytes" / "tokenizer.json")
