"""Writes a checkpoint in Hugging Face's layout as a GGUF file, which llama.cpp reads: pure Python, bytes to bytes.

    python3 tests/benchmarks/peers/gguf_file.py CHECKPOINT_DIR OUT.gguf

Matrices keep their type; norms become float32, which llama.cpp wants. The file has no tokenizer: programs feed ids.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""
import json
import math
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "stages/programs/real"))
from llama_in_gguf import NAMES, NAMES_OF_A_LAYER, ROPE_FACTORS, adjacent_pairs, rope_factors  # noqa: E402

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8                       # types of values
TYPES = {"F32": (0, 4), "F16": (1, 2), "BF16": (30, 2)}  # of tensors: GGUF's number, and bytes of an element
GGUF_NAMES = {ours: theirs for theirs, ours in {**NAMES, **NAMES_OF_A_LAYER}.items()}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    stem = name.removesuffix(".weight")
    if stem in GGUF_NAMES:
        return GGUF_NAMES[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.weight"


def with_rows(data, order):
    """A matrix whose row r is row order[r] of the other."""
    width = len(data) // len(order)
    return b"".join(data[row * width:(row + 1) * width] for row in order)


def as_float32(data, dtype):
    if dtype == "F32":
        return bytes(data)
    if dtype == "F16":
        return struct.pack(f"<{len(data) // 2}f", *struct.unpack(f"<{len(data) // 2}e", data))
    wide = bytearray(2 * len(data))  # bfloat16 is the upper half of a float32
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return bytes(wide)


def factors_of(config):
    """What llama.cpp divides RoPE's frequencies by; empty where the model has no scaling."""
    scaling = config.get("rope_scaling")
    return rope_factors(scaling, config["rope_theta"], config["head_dim"]) if scaling else []


def metadata(config):
    """(key, type of value, value) of all that llama.cpp asks for."""
    sizes = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
             "block_count": config["num_hidden_layers"], "feed_forward_length": config["intermediate_size"],
             "attention.head_count": config["num_attention_heads"],
             "attention.head_count_kv": config["num_key_value_heads"], "attention.key_length": config["head_dim"],
             "attention.value_length": config["head_dim"], "rope.dimension_count": config["head_dim"],
             "vocab_size": config["vocab_size"]}
    return [("general.architecture", STRING, "llama"),
            *(("llama." + key, UINT32, value) for key, value in sizes.items()),
            ("llama.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
            ("llama.rope.freq_base", FLOAT32, config["rope_theta"]),
            ("tokenizer.ggml.model", STRING, "none")]


def infos(config, header):
    """(name, sizes, type) of each tensor in the order of the file; sizes as Hugging Face orders them."""
    found = [(gguf_name(name), entry["shape"], "F32" if len(entry["shape"]) == 1 else entry["dtype"])
             for name, entry in header.items()]
    factors = factors_of(config)
    return found + [(ROPE_FACTORS, [len(factors)], "F32")] * bool(factors)


def contents(config, header, data):
    """The bytes of each tensor in the same order. data: what the header's offsets count in."""
    heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        content, rows = data[begin:end], entry["shape"][0]
        turned = next((count for matrix, count in heads.items() if name.endswith(f".{matrix}.weight")), None)
        if turned:
            content = with_rows(content, adjacent_pairs(rows, turned))
        yield as_float32(content, entry["dtype"]) if len(entry["shape"]) == 1 else content
    if factors := factors_of(config):
        yield struct.pack(f"<{len(factors)}f", *factors)


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def packed(value, kind):
    return text(value) if kind == STRING else struct.pack("<f" if kind == FLOAT32 else "<I", value)


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def head_of(pairs, tensors):
    """All that stands before the data, of metadata() and infos(). GGUF's sizes begin with a row's."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(pairs))]
    parts += [text(key) + struct.pack("<I", kind) + packed(value, kind) for key, kind, value in pairs]
    offset = 0
    for name, sizes, dtype in tensors:
        parts.append(text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *reversed(sizes), TYPES[dtype][0], offset))
        size = math.prod(sizes) * TYPES[dtype][1]
        offset += size + len(padding(size))
    head = b"".join(parts)
    return head + padding(len(head))


def read_safetensors(file):
    """name -> entry in the order of the data, and where the data begins."""
    with file.open("rb") as opened:
        length, = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    return dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"])), 8 + length


class Part:
    """Bytes of a file, read when they are sliced."""

    def __init__(self, opened, start):
        self.opened, self.start = opened, start

    def __getitem__(self, where):
        self.opened.seek(self.start + where.start)
        return self.opened.read(where.stop - where.start)


def write(checkpoint, out):
    """The file appears whole or not at all."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    header, start = read_safetensors(checkpoint / "model.safetensors")
    partial = out.with_name(out.name + ".part")
    with partial.open("wb") as file, (checkpoint / "model.safetensors").open("rb") as weights:
        file.write(head_of(metadata(config), infos(config, header)))
        for content in contents(config, header, Part(weights, start)):
            file.write(content + padding(len(content)))
    partial.replace(out)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
