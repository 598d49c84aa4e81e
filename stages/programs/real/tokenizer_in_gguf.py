"""The tokenizer of a GGUF file as Hugging Face's tokenizer.json and tokenizer_config.json. Pure Python.

GGUF names a pre-tokenizer but does not contain it, so those that are known stand here.
"""
import json

from llama_in_gguf import Trouble

LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # GGUF's types of tokens


def byte_level(**more):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **more}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


GPT2 = {"pre_tokenizer": byte_level(), "ignore_merges": False, "begins_with_bos": False}
SMOLLM = {**GPT2, "pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level())}
LLAMA3 = {"ignore_merges": True, "begins_with_bos": True, "pre_tokenizer": sequence(
    {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False},
    byte_level(use_regex=False))}
KNOWN = {"gpt-2": GPT2, "gpt2": GPT2, "smollm": SMOLLM, "llama-bpe": LLAMA3, "llama3": LLAMA3, "llama-v3": LLAMA3}


def kind_of(fields):
    """The pre-tokenizer of a file; None where it has no tokenizer at all."""
    model = fields.get("tokenizer.ggml.model", str, "none")
    if model == "none":
        return None
    if model != "gpt2":
        raise Trouble(f"tokenizer.ggml.model is {model!r}; only byte-level BPE ('gpt2') is supported, as Llama 3 has")
    pre = fields.get("tokenizer.ggml.pre", str)
    if pre not in KNOWN:
        raise Trouble(f"tokenizer.ggml.pre is {pre!r}; known are {', '.join(map(repr, KNOWN))}")
    return KNOWN[pre]


def tokens_of(fields, rows):
    """Tokens and their types. rows: of the embedding."""
    tokens, types = (fields.get(f"tokenizer.ggml.{name}", list) for name in ("tokens", "token_type"))
    if not len(tokens) == len(types) <= rows:
        raise Trouble(f"{len(tokens)} tokens with {len(types)} types do not fit an embedding of {rows} rows")
    used = [token for token, kind in zip(tokens, types) if kind != UNUSED]
    if len(set(used)) != len(used):
        twice = next(token for place, token in enumerate(used) if token in used[:place])
        raise Trouble(f"two tokens are {twice!r}")
    odd = next((place for place, kind in enumerate(types) if kind not in (NORMAL, CONTROL, USER_DEFINED, UNUSED)), None)
    if odd is not None:
        raise Trouble(f"the token {tokens[odd]!r} has the type {types[odd]}, which byte-level BPE does not have")
    return tokens, types


def added_tokens(tokens, types):
    return [{"id": id, "content": tokens[id], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": kind == CONTROL} for id, kind in enumerate(types) if kind in (CONTROL, USER_DEFINED)]


def vocabulary(tokens, types):
    """All tokens up to the last normal one. Llama 3's special tokens, which follow it, are added tokens alone."""
    end = 1 + max((id for id, kind in enumerate(types) if kind == NORMAL), default=-1)
    return {tokens[id]: id for id in range(end) if types[id] != UNUSED}


def merges_of(fields):
    merges = [merge.split(" ") for merge in fields.get("tokenizer.ggml.merges", list)]
    odd = next((merge for merge in merges if len(merge) != 2), None)
    if odd is not None:
        raise Trouble(f"the merge {' '.join(odd)!r} is not two tokens")
    return merges


def around_texts(fields, kind, tokens):
    """What a text begins and ends with: two lists of at most one id."""
    def side(place, otherwise):
        if not fields.get(f"tokenizer.ggml.add_{place}_token", bool, otherwise):
            return []
        return [token_id(fields, place, tokens)]
    return side("bos", kind["begins_with_bos"]), side("eos", False)


def token_id(fields, name, tokens):
    id = fields.get(f"tokenizer.ggml.{name}_token_id", int)
    if id >= len(tokens):
        raise Trouble(f"tokenizer.ggml.{name}_token_id is {id}, and there are {len(tokens)} tokens")
    return id


def post_processor(before, after, tokens):
    """None where nothing is put around a text."""
    if not before and not after:
        return None

    def pieces(text, type_id):
        special = [[{"SpecialToken": {"id": tokens[id], "type_id": type_id}} for id in side] for side in (before, after)]
        return [*special[0], {"Sequence": {"id": text, "type_id": type_id}}, *special[1]]
    return {"type": "Sequence", "processors": [
        byte_level(add_prefix_space=True, trim_offsets=False),
        {"type": "TemplateProcessing", "single": pieces("A", 0), "pair": pieces("A", 0) + pieces("B", 1),
         "special_tokens": {tokens[id]: {"id": tokens[id], "ids": [id], "tokens": [tokens[id]]}
                            for id in before + after}}]}


def tokenizer_of(fields, kind, rows):
    """tokenizer.json"""
    tokens, types = tokens_of(fields, rows)
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(tokens, types),
        "normalizer": None, "pre_tokenizer": kind["pre_tokenizer"],
        "post_processor": post_processor(*around_texts(fields, kind, tokens), tokens),
        "decoder": byte_level(add_prefix_space=True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": kind["ignore_merges"], "vocab": vocabulary(tokens, types), "merges": merges_of(fields)}}


def tokenizer_config_of(fields, positions):
    """tokenizer_config.json, with the chat template where the file has one."""
    tokens, names = fields.get("tokenizer.ggml.tokens", list), {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    config = {"clean_up_tokenization_spaces": False, "model_max_length": positions,
              "tokenizer_class": "PreTrainedTokenizerFast"}
    for name, theirs in names.items():
        if f"tokenizer.ggml.{theirs}_token_id" in fields.values:
            config[f"{name}_token"] = tokens[token_id(fields, theirs, tokens)]
    if "tokenizer.chat_template" in fields.values:
        config["chat_template"] = fields.get("tokenizer.chat_template", str)
    return config


def files_of(fields, rows, positions):
    """{name: text} of the tokenizer's files; none where there is no tokenizer."""
    kind = kind_of(fields)
    if kind is None:
        return {}
    return {"tokenizer.json": json.dumps(tokenizer_of(fields, kind, rows), ensure_ascii=False) + "\n",
            "tokenizer_config.json": json.dumps(tokenizer_config_of(fields, positions), ensure_ascii=False, indent=2) + "\n"}
