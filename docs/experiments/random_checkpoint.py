"""Writes a checkpoint of random weights: a model of any size in seconds, to measure times with.

The numbers are random bits: a sign, a mantissa, and one of two exponents, which is set for each kind of tensor. The
embedding is the largest, and the head is tied to it. So what a token adds to the residual stream outweighs what the
layers add, the likeliest next token is the same token again, and a greedy text repeats its last token for ever.
"""
import json
import math
import random
import struct

SHAPE_133M = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 11, "num_attention_heads": 6,
              "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 49152}
SMALL, LARGE = 0x3C, 0x3F  # upper bytes of bfloat16: magnitudes from 1/128 to 1/32, and from 1/2 to 2
ONE = b"\x80\x3f"


def config(shape):
    return {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 0, "eos_token_id": 1,
            "hidden_act": "silu", "max_position_embeddings": 2048, "mlp_bias": False, "model_type": "llama",
            "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            **shape}


def tensors(shape):
    """(name, sizes, upper byte; None: all ones) in the order of the file."""
    model, inner = shape["hidden_size"], shape["intermediate_size"]
    heads, kv_heads = (shape[f"num_{name}_heads"] * shape["head_dim"] for name in ("attention", "key_value"))
    layer = {"input_layernorm": [model], "self_attn.q_proj": [heads, model], "self_attn.k_proj": [kv_heads, model],
             "self_attn.v_proj": [kv_heads, model], "self_attn.o_proj": [model, heads], "post_attention_layernorm": [model],
             "mlp.gate_proj": [inner, model], "mlp.up_proj": [inner, model], "mlp.down_proj": [model, inner]}
    yield "model.embed_tokens.weight", [shape["vocab_size"], model], LARGE
    for i in range(shape["num_hidden_layers"]):
        for name, sizes in layer.items():
            yield f"model.layers.{i}.{name}.weight", sizes, SMALL if len(sizes) > 1 else None
    yield "model.norm.weight", [model], None


def numbers(count, upper, dice):
    """`count` bfloat16 numbers: the lower byte is random, the sign of the upper one, too."""
    if upper is None:
        return ONE * count
    signs = bytes(upper | (byte & 0x80) for byte in range(256))
    data = bytearray(dice.randbytes(2 * count))
    data[1::2] = data[1::2].translate(signs)
    return data


def write(folder, shape, seed=1):
    """config.json and model.safetensors in a folder. Equal shapes and seeds give equal files."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, sizes, _ in tensors(shape):
        start, end = end, end + 2 * math.prod(sizes)
        header[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    dice = random.Random(seed)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, sizes, upper in tensors(shape):
            file.write(numbers(math.prod(sizes), upper, dice))
    (folder / "config.json").write_text(json.dumps(config(shape), indent=1) + "\n", encoding="utf-8")
