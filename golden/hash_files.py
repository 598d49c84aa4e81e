"""Writes golden/SHA256SUMS: what every golden file must hold. `make doctor` looks whether it does.

    python golden/hash_files.py        # after golden files were made anew
    cd golden && sha256sum -c --quiet SHA256SUMS
"""
import hashlib
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent
FOLDERS = ["models", "checkpoints", "goldens", "tokenizers", "schedule"]
KINDS = {".json", ".jsonl", ".safetensors", ".txt"}


def golden_files():
    found = [path for folder in FOLDERS for path in (GOLDEN / folder).rglob("*") if path.suffix in KINDS]
    return sorted([*found, GOLDEN / "draft_text.txt"])


def main():
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(GOLDEN)}\n" for path in golden_files()]
    (GOLDEN / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
