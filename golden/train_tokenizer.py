"""Trains the byte-level BPE tokenizer, in Llama 3's format, on the project's own text.

3,840 BPE entries (256 of them single bytes) and 256 special tokens with the
names and the order that Llama 3 gives them.
"""
import json
import os
import re
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import textgen

BPE_ENTRIES = 3840
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTEXT = 2048

# Renders what Llama 3.2's template renders, for conversations without tools.
CHAT_TEMPLATE = """\
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- set instructions = "" %}
{%- set turns = messages %}
{%- if messages and messages[0]["role"] == "system" %}
    {%- set instructions = messages[0]["content"] | trim %}
    {%- set turns = messages[1:] %}
{%- endif %}
{{- bos_token + "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- instructions + "<|eot_id|>" }}
{%- for turn in turns %}
    {{- "<|start_header_id|>" + turn["role"] + "<|end_header_id|>\\n\\n" }}
    {{- turn["content"] | trim }}
    {{- "<|eot_id|>" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}
{%- endif %}
"""


def special_names() -> list[str]:
    """Llama 3's 256 special tokens in the order of their ids."""
    reserved = iter(f"reserved_special_token_{i}" for i in range(248))
    named = {0: "begin_of_text", 1: "end_of_text", 4: "finetune_right_pad_id", 6: "start_header_id",
             7: "end_header_id", 8: "eom_id", 9: "eot_id", 10: "python_tag"}
    return [f"<|{named[i] if i in named else next(reserved)}|>" for i in range(256)]


SPECIAL = {name: BPE_ENTRIES + i for i, name in enumerate(special_names())}
BOS, END_OF_TEXT = SPECIAL["<|begin_of_text|>"], SPECIAL["<|end_of_text|>"]
EOM, EOT = SPECIAL["<|eom_id|>"], SPECIAL["<|eot_id|>"]
EOS_IDS = [END_OF_TEXT, EOM, EOT]


def training_pieces():
    """The text between special tokens of the documents set aside for the tokenizer."""
    for seed in textgen.TOKENIZER_SEEDS:
        yield from re.split(r"<\|[a-z_]+\|>", textgen.bare_document(textgen.training_kind(seed), seed).text())


def learn_bpe() -> dict:
    """Vocabulary and merges."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=BPE_ENTRIES, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training_pieces(), trainer)
    assert tokenizer.get_vocab_size() == BPE_ENTRIES
    return json.loads(tokenizer.to_str())["model"]


def byte_level(add_prefix_space: bool, trim_offsets: bool, use_regex: bool) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets, "use_regex": use_regex}


def tokenizer_json(bpe: dict) -> dict:
    """The content of tokenizer.json."""
    bos = lambda type_id: {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": type_id}}
    sequence = lambda name, type_id: {"Sequence": {"id": name, "type_id": type_id}}
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    merges = [m if isinstance(m, str) else " ".join(m) for m in bpe["merges"]]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": id_, "content": name, **flags} for name, id_ in SPECIAL.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            byte_level(False, True, False)]},
        "post_processor": {"type": "Sequence", "processors": [
            byte_level(True, False, True),
            {"type": "TemplateProcessing", "single": [bos(0), sequence("A", 0)],
             "pair": [bos(0), sequence("A", 0), bos(1), sequence("B", 1)],
             "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [BOS], "tokens": ["<|begin_of_text|>"]}}}]},
        "decoder": byte_level(True, True, True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": dict(sorted(bpe["vocab"].items(), key=lambda x: x[1])), "merges": merges}}


def tokenizer_config() -> dict:
    flags = dict(lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)
    return {"added_tokens_decoder": {str(id_): {"content": name, **flags} for name, id_ in SPECIAL.items()},
            "bos_token": "<|begin_of_text|>", "chat_template": CHAT_TEMPLATE, "clean_up_tokenization_spaces": False,
            "eos_token": "<|eot_id|>", "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": CONTEXT, "tokenizer_class": "PreTrainedTokenizerFast"}


def generation_config() -> dict:
    return {"bos_token_id": BOS, "do_sample": True, "eos_token_id": EOS_IDS, "temperature": 0.6, "top_p": 0.9}


def special_tokens_map() -> dict:
    flags = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    return {"bos_token": {"content": "<|begin_of_text|>", **flags}, "eos_token": {"content": "<|eot_id|>", **flags}}


def write_json(path: Path, content: dict):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def make_tokenizer(folders: list[Path]):
    """Writes the tokenizer files into the first folder. The others get links to them."""
    first, *others = folders
    write_json(first / "tokenizer.json", tokenizer_json(learn_bpe()))
    write_json(first / "tokenizer_config.json", tokenizer_config())
    write_json(first / "special_tokens_map.json", special_tokens_map())
    for folder in folders:
        write_json(folder / "generation_config.json", generation_config())
    for folder in others:
        link_tokenizer(folder, first)


def link_tokenizer(folder: Path, first: Path):
    """Links the tokenizer files of a model to those of another one."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(Path(os.path.relpath(first, folder)) / name)
