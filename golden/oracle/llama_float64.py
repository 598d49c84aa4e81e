"""The forward pass of Llama in NumPy float64, every tensor by name.

    checkpoint = Checkpoint("golden/models/target")
    tensors = forward(checkpoint.config, checkpoint, [3840, 71, 305])
    tensors["logits"]                                            # [T, vocab_size]

Shapes: T tokens of this pass, S tokens with those before them, H query heads, Hkv key and value heads,
D head_dim, E d_model, F d_ff, V vocab_size. A tensor's row is a token; its heads lie side by side.

RoPE angles are float32(position) x float32(frequency), as transformers computes them; all else is float64.
"""
import json
from pathlib import Path

import numpy as np


class Tensors:
    """Those of a folder in Hugging Face's layout. `tensors[name]` is one of them in float64, read when asked for."""

    def __init__(self, folder):
        folder = Path(folder)
        index = folder / "model.safetensors.index.json"
        files = (set(json.loads(index.read_text())["weight_map"].values()) if index.exists()
                 else ["model.safetensors"])
        self.places = {}                                         # name: (data, dtype, shape, begin, end)
        for file in files:
            data = np.memmap(folder / file, dtype=np.uint8, mode="r")
            header_size = int(data[:8].view("<u8")[0])
            header = json.loads(bytes(data[8:8 + header_size]))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = (8 + header_size + offset for offset in entry["data_offsets"])
                self.places[name] = (data, entry["dtype"], entry["shape"], begin, end)

    def __contains__(self, name):
        return name in self.places

    def __getitem__(self, name):
        data, dtype, shape, begin, end = self.places[name]
        raw = np.array(data[begin:end])                          # a copy, so that it is aligned
        if dtype == "BF16":                                      # the upper half of a float32
            values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = raw.view({"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "I8": "i1",
                               "BOOL": "u1"}[dtype])
        return values.reshape(shape).astype(np.float64)

    def in_memory(self):
        """The weights as a dictionary: 8 bytes a parameter, but nothing is read or converted twice."""
        return {name: self[name] for name in self.places}


class Checkpoint(Tensors):
    """A Llama's tensors and configuration."""

    def __init__(self, folder):
        super().__init__(folder)
        self.config = Config(json.loads((Path(folder) / "config.json").read_text()))


class Config:
    """What the forward pass needs of config.json, in the older spelling or that of transformers 5."""

    def __init__(self, fields):
        self.n_layers = fields["num_hidden_layers"]
        self.n_heads = fields["num_attention_heads"]
        self.n_kv_heads = fields.get("num_key_value_heads") or self.n_heads
        self.head_dim = fields.get("head_dim") or fields["hidden_size"] // self.n_heads
        self.d_model, self.d_ff = fields["hidden_size"], fields["intermediate_size"]
        self.vocab_size, self.max_seq_len = fields["vocab_size"], fields["max_position_embeddings"]
        self.norm_eps = fields.get("rms_norm_eps", 1e-6)
        self.tied = fields.get("tie_word_embeddings", False)
        self.rope = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
        self.rope_theta = self.rope.get("rope_theta", fields.get("rope_theta", 10000.0))


def inverse_frequencies(config):
    """Angle of each pair at position 1, float32 [D/2]; Llama 3 slows the low frequencies down.

    Su et al., RoFormer, section 3.2.2; the scaling is that of transformers' `_compute_llama3_parameters`, to the bit:
    where it divides a number by a tensor, PyTorch multiplies by the reciprocal.
    """
    one, exponents = np.float32(1), np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    inv_freq = one / np.power(float(config.rope_theta), exponents.astype(np.float64)).astype(np.float32)
    rope = config.rope
    if rope.get("rope_type", rope.get("type", "default")) == "default":
        return inv_freq
    old, factor = rope.get("original_max_position_embeddings", config.max_seq_len), np.float32(rope["factor"])
    low, high = np.float32(rope["low_freq_factor"]), np.float32(rope["high_freq_factor"])
    wavelength = one / inv_freq * np.float32(2 * np.pi)
    smooth = (one / wavelength * np.float32(old) - low) / (high - low)   # 1 at the blend's short end, 0 at its long one
    blended = (one - smooth) * inv_freq / factor + smooth * inv_freq
    scaled = np.where(wavelength > old / low, inv_freq / factor, inv_freq)
    return np.where((wavelength >= old / high) & (wavelength <= old / low), blended, scaled)


def rms_norm(x, weight, eps):
    """Zhang and Sennrich, equation 4. x: [T, E]"""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, inv_freq, first_position):
    """RoPE by halves: element i of a head turns together with element i + D/2. x: [T, heads x D]"""
    positions = np.arange(first_position, first_position + len(x)).astype(np.float32)
    angles = (positions[:, None] * inv_freq).astype(np.float64)[:, None, :]        # [T, 1, D/2], rounded to float32
    cos, sin = np.cos(angles), np.sin(angles)
    heads = x.reshape(len(x), -1, 2, len(inv_freq))                                # [T, heads, 2, D/2]
    first, second = heads[:, :, 0], heads[:, :, 1]
    return np.stack([first * cos - second * sin, second * cos + first * sin], axis=2).reshape(x.shape)


def attention(q, k, v, config):
    """softmax(q k^T / sqrt(D)) v, each token seeing itself and those before it; H / Hkv query heads share a key head.

    Vaswani et al., equation 1. q: [T, H x D], the last T of the S tokens; k, v: [S, Hkv x D]; result: [T, H x D]
    """
    T, S, group = len(q), len(k), config.n_heads // config.n_kv_heads
    q, k, v = (x.reshape(len(x), -1, config.head_dim).transpose(1, 0, 2) for x in (q, k, v))   # [heads, rows, D]
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(config.head_dim)                               # [H, T, S]
    scores[:, np.arange(S) > np.arange(S - T, S)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(1, 0, 2).reshape(T, -1)


def silu(x):
    return x / (1 + np.exp(-x))


def forward(config, weights, ids, cache=None):
    """All tensors of a pass over `ids`, in the order of the data flow; cache: as below."""
    return forward_rows(config, weights, weights["model.embed_tokens.weight"][np.asarray(ids)], cache)


def forward_rows(config, weights, x, cache=None):
    """The same where something else than embeddings enters the first block. x: [T, E]

    cache: a list of one (k, v) a layer for the tokens before `ids`, or an empty list; it is extended in place.
    """
    cache = [] if cache is None else cache
    past = len(cache[0][0]) if cache else 0
    if not cache:
        empty = np.zeros((0, config.n_kv_heads * config.head_dim))
        cache[:] = [(empty, empty)] * config.n_layers
    inv_freq, tensors = inverse_frequencies(config), {}
    tensors["embedding"] = x
    for i in range(config.n_layers):
        layer, cache[i] = block(config, weights, f"model.layers.{i}.", x, inv_freq, past, cache[i])
        tensors |= {f"layers.{i}.{name}": tensor for name, tensor in layer.items()}
        x = layer["residual"]
    x = tensors["final_norm"] = rms_norm(x, weights["model.norm.weight"], config.norm_eps)
    tensors["logits"] = x @ weights["model.embed_tokens.weight" if config.tied else "lm_head.weight"].T
    return tensors


def block(config, weights, prefix, x, inv_freq, past, cache):
    """One transformer block. x: [T, E]; cache: its (k, v) of the `past` tokens before. Returns tensors and cache."""
    weight = lambda name: weights[f"{prefix}{name}.weight"]
    t = {}
    t["attn_norm"] = rms_norm(x, weight("input_layernorm"), config.norm_eps)
    t["q"] = t["attn_norm"] @ weight("self_attn.q_proj").T
    t["k"] = t["attn_norm"] @ weight("self_attn.k_proj").T
    t["v"] = t["attn_norm"] @ weight("self_attn.v_proj").T
    t["q_rope"], t["k_rope"] = rotate(t["q"], inv_freq, past), rotate(t["k"], inv_freq, past)
    k, v = np.concatenate([cache[0], t["k_rope"]]), np.concatenate([cache[1], t["v"]])         # [S, Hkv x D]
    t["attn_out"] = attention(t["q_rope"], k, v, config)
    t["attn_residual"] = x + t["attn_out"] @ weight("self_attn.o_proj").T
    t["mlp_norm"] = rms_norm(t["attn_residual"], weight("post_attention_layernorm"), config.norm_eps)
    t["gate"] = t["mlp_norm"] @ weight("mlp.gate_proj").T
    t["up"] = t["mlp_norm"] @ weight("mlp.up_proj").T
    t["mlp_out"] = (silu(t["gate"]) * t["up"]) @ weight("mlp.down_proj").T
    t["residual"] = t["attn_residual"] + t["mlp_out"]
    return t, (k, v)
