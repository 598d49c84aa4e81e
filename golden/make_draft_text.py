"""Makes draft_text.txt: documents of training, one after the other, that the n-gram drafters count.

    python make_draft_text.py            writes draft_text.txt
    python make_draft_text.py --check    compares it with what would be written

Kinds come as often as in training. Needs the standard library only.
"""
import argparse
import sys
from pathlib import Path

import textgen

FILE = Path(__file__).resolve().parent / "draft_text.txt"
FIRST_SEED = 600_000_000                  # train_heads.py begins here, too
MOST_BYTES = 300_000


def draft_text() -> bytes:
    """The documents of consecutive seeds, as many as there is room for. No separators: each begins with its own token."""
    text, seed = b"", FIRST_SEED
    while True:
        document = textgen.document(textgen.training_kind(seed), seed).text().encode()
        if len(text) + len(document) > MOST_BYTES:
            return text
        text, seed = text + document, seed + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    text = draft_text()
    if not parser.parse_args().check:
        FILE.write_bytes(text)
    elif not FILE.exists() or FILE.read_bytes() != text:
        sys.exit(f"{FILE.name} is not what {Path(__file__).name} writes")
    print(f"{FILE.name}: {len(text)} bytes, {text.count(textgen.BEGIN.encode())} documents")


if __name__ == "__main__":
    main()
