"""Makes the small tokenizers: other_flags/, gpt2_style/, missing_bytes/ and fixtures/.

    python make_other.py

Their flags are those that Llama 3's tokenizer does not use. Needs Hugging Face tokenizers.
"""
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import sentences
import word_pools as pools

HERE = Path(__file__).resolve().parent

# Added tokens of other_flags: content and the flags that are not False.
ADDED = [
    ("<mask>", "lstrip special"), ("<r>", "rstrip"), ("<both>", "lstrip rstrip"), ("<sp>", "rstrip special"),
    ("cat", "single_word normalized"), ("dog", "single_word lstrip rstrip"), ("Zoo", "single_word special"),
    ("<a>", ""), ("<a><b>", ""), ("<b>", "normalized"), ("foo", ""), ("foobar", "special"), ("Xfoo", "single_word"),
    ("bar", "normalized"), ("<x>", ""), ("<<x>>", "normalized"), ("two words", ""), ("größe", ""),
    ("naïve", "single_word"), ("日本", ""), ("👍🏽", ""), ("\n\n\n", "normalized"), ("    ", "normalized"), ("Ġthe", ""),
    ("q", "single_word"), ("42", ""), ("<|eot_id|>", "special"), ("é", "single_word normalized"), ("e\u0301!", ""),
    (" x ", ""), ("-", "lstrip single_word"),
]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def training_lines():
    """Our own words and sentences; the words of a pool are put one after another."""
    lines = sentences.SENTENCES + sentences.CODE + sentences.EMOJI
    for words in (pools.ENGLISH, pools.GERMAN, pools.FRENCH, pools.OTHER_LATIN, pools.VIETNAMESE, pools.RUSSIAN,
                  pools.GREEK, pools.ARABIC_ETC, pools.CODE):
        lines += [" ".join(words[i:i + 8]) for i in range(0, len(words), 8)]
    return lines + [a + b for a in pools.ENGLISH_STEMS for b in ("e", "ed", "ing", "ion")]


def train(pre_tokenizer, size, first_tokens):
    """A byte-level BPE tokenizer; first_tokens are special and take the ids from 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=first_tokens, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def other_flags():
    """Tokens around the text instead of BOS, digits apart, a space before every piece, many added tokens."""
    pieces = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)])
    tokenizer = train(pieces, 2000, ["<pad>", "<unk>", "<task>", "</s>", "<eod>", "<sep>"])
    for content, flags in ADDED:
        tokenizer.add_tokens([AddedToken(content, **{name: name in flags.split() for name in FLAGS})])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<task> $A </s>:0", pair="<task> $A </s> $B:1 </s>:1",
        special_tokens=[("<task>", tokenizer.token_to_id("<task>")),
                        {"id": "</s>", "ids": [tokenizer.token_to_id(t) for t in ("</s>", "<eod>")],
                         "tokens": ["</s>", "<eod>"]}])
    return json.loads(tokenizer.to_str())


def gpt2_style():
    """GPT-2's shape: ByteLevel with its own regex, merges as strings, one special token in the vocabulary."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), 1200, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    content = json.loads(tokenizer.to_str())
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    return content


def missing_bytes():
    """SmolLM2's shape: single digits, GPT-2's regex, no token for 21 of the bytes."""
    pieces = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    content = json.loads(train(pieces, 700, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]).to_str())
    missing = [0x04, 0x06, 0x13, 0x14, 0x16, 0x1d, 0xc0, 0xc1, 0xf1, 0xf2, *range(0xf5, 0x100)]
    # The alphabet as ByteLevel writes it: U+0100 and up for the bytes that do not stand for themselves.
    names = {chr(byte) if byte >= 0xa1 else chr(0x100 + byte) for byte in missing}
    vocab = content["model"]["vocab"]
    assert names <= vocab.keys() and not any(names & set("".join(pair)) for pair in content["model"]["merges"])
    kept = [name for name in sorted(vocab, key=vocab.get) if name not in names]
    content["model"]["vocab"] = {name: i for i, name in enumerate(kept)}
    return content


def fixture(letters, tokens, merges, ignore_merges, regex=None, unk_token=None, fuse_unk=False):
    """A tokenizer of a few letters. The ids run against the order of the merges."""
    tokenizer = Tokenizer(models.BPE())
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex is None)]
    if regex is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(regex), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    content = json.loads(tokenizer.to_str())
    names = list(letters) + tokens
    content["model"]["vocab"] = {name: len(names) - 1 - i for i, name in enumerate(names)}
    content["model"]["merges"] = [pair.split() for pair in merges]
    content["model"].update(ignore_merges=ignore_merges, unk_token=unk_token, fuse_unk=fuse_unk)
    return content


def fixtures():
    """Duplicate splits, unreachable tokens and missing letters, each with and without ignore_merges; and what
    stands for a missing letter: a token that takes part in merges, or another letter."""
    # letters, other tokens (the last gets id 0), merges
    duplicates = ("abcdĠ", ["ab", "bc", "cd", "abc", "bcd", "abcd", "Ġa", "Ġab", "Ġabc", "aa", "aaa"],
                  ["b c", "ab c", "a bc", "c d", "abc d", "a b", "ab cd", "bc d", "b cd", "a bcd", "Ġ a", "Ġa b",
                   "Ġ ab", "Ġab c", "Ġ abc", "aa a", "a aa", "a a"])
    unreachable = ("abcdĠ", ["ab", "cd", "bc", "abcd", "abc", "dd", "dcba", "Ġd", "Ġdcba", "ddd"],
                   ["b c", "a b", "c d", "ab cd", "ab c", "d d", "Ġ d"])
    missing = ("abdĠ", ["ab", "bd", "abc", "Ġc"], ["a b", "b d"])
    made = {}
    for name, parts in (("duplicate_splits", duplicates), ("unreachable", unreachable), ("missing_letters", missing)):
        for ignore in (False, True):
            made[name + ("_ignore_merges" if ignore else "")] = fixture(*parts, ignore)
    unknown = ("abdĠ", ["ab", "bd", "abc", "Ġc", "<unk>", "<unk>a", "b<unk>", "<unk><unk>"],
               ["b <unk>", "a b", "b d", "<unk> a", "<unk> <unk>"])
    for ignore in (False, True):
        ending = "_ignore_merges" if ignore else ""
        made["unknown_token" + ending] = fixture(*unknown, ignore, unk_token="<unk>")
        made["unknown_token_fused" + ending] = fixture(*unknown, ignore, unk_token="<unk>", fuse_unk=True)
    made["unknown_letter"] = fixture(*missing, False, unk_token="b")
    made["fuse_without_unknown"] = fixture(*missing, False, fuse_unk=True)
    made["split_on_letter"] = fixture(*duplicates, True, regex="d")
    return made


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(HERE / "other_flags" / "tokenizer.json", other_flags())
    write(HERE / "gpt2_style" / "tokenizer.json", gpt2_style())
    write(HERE / "missing_bytes" / "tokenizer.json", missing_bytes())
    for name, content in fixtures().items():
        write(HERE / "fixtures" / f"{name}.json", content)
