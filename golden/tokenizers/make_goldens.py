"""Writes the golden encodings, decodings and chats with Hugging Face tokenizers and transformers.

    python make_goldens.py

Reads lines.jsonl, fixtures/lines.jsonl and the tokenizers; writes NAME.encode.jsonl, NAME.decode.jsonl,
NAME.special_as_text.jsonl, chat.jsonl and manifest.json.
"""
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import tokenizers
import transformers
from tokenizers import Tokenizer

import chats
import make_synthetic
import measure

HERE = Path(__file__).resolve().parent
EMBEDDED = HERE.parent / "models" / "target"
REMAKE = ("pip install -r golden/requirements.txt; python make_other.py; python make_lines.py; "
          "python make_code_points.py; python make_blocks.py; python make_folders.py; python make_goldens.py")


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def write_lines(path, items):
    text = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in items)
    path.write_text(text, encoding="utf-8", newline="\n")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def encodings(tokenizer, lines):
    """[ids with special tokens, ids without]; the second is null where both are the same."""
    both = [[e.ids for e in tokenizer.encode_batch(lines, add_special_tokens=flag)] for flag in (True, False)]
    return [[a, None if a == b else b] for a, b in zip(*both)]


def special_as_text(tokenizer, lines, encoded):
    """The lines whose ids change when the texts of special tokens are split like other text."""
    tokenizer.encode_special_tokens = True
    for number, (line, (with_added, without)) in enumerate(zip(lines, encoded)):
        ids = tokenizer.encode(line, add_special_tokens=False).ids
        if ids != (with_added if without is None else without):
            yield {"line": number, "ids": ids}
    tokenizer.encode_special_tokens = False


def id_sequences(tokenizer, lines, random, count):
    """Sequences to decode: single tokens, random ones, bytes, cut lines, special tokens, unknown ids."""
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    added = sorted(tokenizer.get_added_tokens_decoder()) or [0]
    single = [i for token, i in vocabulary.items() if len(token) == 1 and i not in added]
    single.sort()
    wide = [line for line in lines if 3 < len(line) < 80 and any(ord(c) > 127 for c in line)] or lines
    yield []
    for n in range(count):
        length = 1 + random.below(10)
        ids = tokenizer.encode(random.pick(wide), add_special_tokens=n % 8 == 0).ids
        start = random.below(len(ids) + 1)
        cut = ids[start:start + 1 + random.below(24)]
        kind = n % 6
        if kind == 0:
            yield [random.below(size) for _ in range(length)]
        elif kind == 1:
            yield [random.pick(single) for _ in range(length)]
        elif kind == 2:
            yield [random.pick([random.below(size), random.pick(single), random.pick(added)]) for _ in range(length)]
        elif kind == 3 and n % 4 == 1:
            beyond = random.pick([size, size + 1, size + random.below(1000), 2 ** 31 - 1])
            yield cut[:5] + [beyond] + cut[5:] + [random.pick(single), beyond, random.pick(added)]
        else:
            yield cut
    yield from ([i] for i in added[:40])
    yield [size]


def decodings(tokenizer, lines, random, count):
    """Each sequence with its text, without and with the special tokens."""
    for ids in id_sequences(tokenizer, lines, random, count):
        yield {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True),
               "raw": tokenizer.decode(ids, skip_special_tokens=False)}


def make(name, source, lines, count):
    """The goldens of one tokenizer; returns its entry of the manifest."""
    tokenizer = Tokenizer.from_file(str(source))
    random = make_synthetic.Random(17)
    encoded = encodings(tokenizer, lines)
    write_lines(HERE / f"{name}.encode.jsonl", encoded)
    special = list(special_as_text(tokenizer, lines, encoded))
    if special:
        write_lines(HERE / f"{name}.special_as_text.jsonl", special)
    decoded = list(decodings(tokenizer, lines, random, count))
    write_lines(HERE / f"{name}.decode.jsonl", decoded)
    print(name, len(encoded), "encoded,", len(decoded), "decoded")
    return {"sha256": sha256(source), "entries": tokenizer.get_vocab_size(), "encode_lines": len(encoded),
            "decode_lines": len(decoded), "special_as_text_lines": len(special),
            "exercised": measure.effects(source, lines, encoded, decoded)}


def make_chats():
    """chat.jsonl by the embedded tokenizer's own template."""
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(str(EMBEDDED))
    plain = Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))
    items = []
    for messages, date, prompt in chats.conversations():
        text = fast.apply_chat_template(messages, tokenize=False, date_string=date, add_generation_prompt=prompt)
        ids = plain.encode(text, add_special_tokens=False).ids
        assert ids == fast(text, add_special_tokens=False)["input_ids"]
        items.append({"messages": messages, "date": date, "add_generation_prompt": prompt, "text": text,
                      "ids_embedded": ids})
    write_lines(HERE / "chat.jsonl", items)
    return len(items)


def main():
    lines, fixture_lines = read_lines(HERE / "lines.jsonl"), read_lines(HERE / "fixtures" / "lines.jsonl")
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        synthetic = Path(folder) / "tokenizer.json"
        subprocess.run([sys.executable, HERE / "make_synthetic.py", synthetic], check=True)
        made["llama3_synthetic"] = make("llama3_synthetic", synthetic, lines, 500)
    for name in ("other_flags", "gpt2_style"):
        made[name] = make(name, HERE / name / "tokenizer.json", lines, 500)
    if (EMBEDDED / "tokenizer.json").exists():
        made["embedded"] = make("embedded", EMBEDDED / "tokenizer.json", lines, 500)
    for source in sorted((HERE / "fixtures").glob("*.json")):
        made[f"fixtures/{source.stem}"] = make(f"fixtures/{source.stem}", source, fixture_lines, 60)
    manifest = {
        "python": platform.python_version(), "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__, "remake": REMAKE,
        "llama3_synthetic_sha256": made["llama3_synthetic"]["sha256"],
        "embedded_sha256": made.get("embedded", {}).get("sha256"), "chats": make_chats(),
        "lines": measure.contents(lines), "tokenizers_made": made,
        "sha256": {str(p.relative_to(HERE)): sha256(p) for p in sorted(HERE.rglob("*.json*"))
                   if p.name != "manifest.json"}}
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
