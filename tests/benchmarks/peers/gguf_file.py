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

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8                       # types of values
TYPES = {"F32": (0, 4), "F16": (1, 2), "BF16": (30, 2)}  # of tensors: GGUF's number, and bytes of an element
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
NAMES_OF_A_LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
                    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
                    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                    "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    stem = name.removesuffix(".weight")
    if stem in NAMES:
        return NAMES[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{NAMES_OF_A_LAYER[rest]}.weight"


def adjacent_pairs(rows, heads):
    """RoPE turns pairs of rows of q and k. Hugging Face's pairs are rows i and i + D/2 of a head, llama.cpp's 2i and
    2i + 1. Returns for each row of llama.cpp's matrix the row of Hugging Face's."""
    dims = rows // heads
    return [head * dims + half * (dims // 2) + i for head in range(heads) for i in range(dims // 2) for half in (0, 1)]


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


def rope_factors(config):
    """What llama.cpp divides RoPE's frequencies by: Llama 3's scaling; empty where there is none."""
    scaling = config.get("rope_scaling")
    if not scaling:
        return []
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high, factors = scaling["low_freq_factor"], scaling["high_freq_factor"], []
    for i in range(0, config["head_dim"], 2):
        turns = original / (2 * math.pi * config["rope_theta"] ** (i / config["head_dim"]))  # within the old context
        kept = min(max((turns - low) / (high - low), 0), 1)
        factors.append(1 / ((1 - kept) / factor + kept))
    return factors


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
    factors = rope_factors(config)
    return found + [("rope_freqs.weight", [len(factors)], "F32")] * bool(factors)


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
    if factors := rope_factors(config):
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
