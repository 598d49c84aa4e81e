"""Writes folders.jsonl: tokens that stand in tokenizer_config.json, and what transformers makes of texts with them.

    python make_folders.py

README.md describes the file. What transformers reads and specdec refuses by name is left out.
"""
import json
import os
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

import make_other  # noqa: E402
import make_synthetic  # noqa: E402

HERE = Path(__file__).resolve().parent
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
CONTENTS = ["<x>", "<y>", "<z>", "<w>", "ab", "aba"]  # the last three are tokens of the model
PIECES = [*CONTENTS, "a", "b", " ", "  ", "<", ">"]
MODEL = make_other.fixture("ab<>wxyzĠ", ["ab", "<w>", "aba"], ["a b"], False)
CASES = 80


def flags(random, content):
    """An added token. `normalized` is always the same for a content: files that contradict each other are refused."""
    some = {name: random.below(4) == 0 for name in ("single_word", "lstrip", "rstrip")}
    return {"content": content, **some, "normalized": content in ("<z>", "ab"), "special": random.below(2) == 0}


def tokens(random):
    """Of each content, a text or an object: files that describe a new token in several ways are refused."""
    return [{"__type": "AddedToken", **flags(random, content), "normalized": False} if random.below(2) else content
            for content in CONTENTS]


def some(random, items):
    return [item for item in items if random.below(3) == 0]


def listed(random, added):
    """added_tokens_decoder: what tokenizer.json has, sometimes with other flags, and new tokens."""
    by_id = {}
    for known in added:
        change = random.below(3) == 0
        by_id[known["id"]] = flags(random, known["content"]) if change else {**known}
        by_id[known["id"]].pop("id", None)
    vocab = MODEL["model"]["vocab"]
    following = max([len(vocab), *(known["id"] + 1 for known in added)])
    for content in some(random, CONTENTS):
        if content in [known["content"] for known in added]:
            continue
        if content in vocab:
            by_id[vocab[content]] = flags(random, content)
        else:
            by_id[following] = flags(random, content)
            following += 1
    return {str(id_): by_id[id_] for id_ in sorted(by_id, key=str)}


def folder(random):
    """The files' contents."""
    vocab = MODEL["model"]["vocab"]
    added, following = [], len(vocab)
    for content in some(random, CONTENTS):
        known = content in vocab
        added.append({"id": vocab[content] if known else following, **flags(random, content)})
        following += not known
    files = {"tokenizer.json": {**MODEL, "added_tokens": sorted(added, key=lambda one: one["id"])}}
    special = tokens(random)
    config = {name: random.pick(special) for name in some(random, NAMES)}
    if random.below(2) == 0:
        config["added_tokens_decoder"] = listed(random, added)
    for key in some(random, ["extra_special_tokens", "additional_special_tokens"]):
        config[key] = random.pick([None, [], [random.pick(special) for _ in range(1 + random.below(3))]])
    if random.below(8) > 0:
        files["tokenizer_config.json"] = config
    if random.below(3) == 0:
        named = {name: untyped(random.pick(special)) for name in some(random, NAMES)}
        key = random.pick(["extra_special_tokens", "additional_special_tokens"])
        texts = [one for one in special if isinstance(one, str)]
        files["special_tokens_map.json"] = {**named, **({key: [random.pick(texts)]} if texts else {})}
    return files


def untyped(token):
    """As special_tokens_map.json writes it."""
    return token if isinstance(token, str) else {key: value for key, value in token.items() if key != "__type"}


def answers(files, texts):
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            Path(directory, name).write_text(json.dumps(content), encoding="utf-8")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    return {"ids": ids, "decoded": [tokenizer.decode(one, skip_special_tokens=True) for one in ids]}


def main():
    transformers.logging.set_verbosity_error()
    random = make_synthetic.Random(23)
    lines = [MODEL]
    while len(lines) <= CASES:
        files = folder(random)
        texts = ["".join(random.pick(PIECES) for _ in range(12)) for _ in range(2)]
        lines.append({"files": {name: content for name, content in files.items() if name != "tokenizer.json"},
                "added_tokens": files["tokenizer.json"]["added_tokens"], "texts": texts, **answers(files, texts)})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (HERE / "folders.jsonl").write_text(text, encoding="ascii", newline="\n")


if __name__ == "__main__":
    main()
