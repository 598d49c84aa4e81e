"""Writes SHA256SUMS into each folder of golden files: what they must hold. `make doctor` looks whether they do.

    python golden/hash_files.py                             # after golden files were made anew
    cd golden/models && sha256sum -c --quiet SHA256SUMS
"""
import hashlib
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent
FOLDERS = [GOLDEN, *(GOLDEN / name for name in ("models", "heads", "checkpoints", "goldens", "tokenizers", "schedule"))]
KINDS = {".json", ".jsonl", ".safetensors", ".txt"}


def golden_files(folder):
    if folder == GOLDEN:
        return [GOLDEN / "draft_text.txt"]
    return sorted(path for path in folder.rglob("*") if path.suffix in KINDS)


def main():
    for folder in FOLDERS:
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
                 for path in golden_files(folder)]
        (folder / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
