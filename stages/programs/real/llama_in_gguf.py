"""What a Llama is called in a GGUF file and in a checkpoint of Hugging Face's layout. Pure Python.

GGUF's keys and tensors: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""
import math
import re
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tool import Trouble  # noqa: E402

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
NAMES_OF_A_LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
                    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
                    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
                    "ffn_down": "mlp.down_proj"}
ROPE_FACTORS = "rope_freqs.weight"  # what llama.cpp divides RoPE's frequencies by; it is no weight of the model

# All keys that describe a Llama; what else a file says of its model might change what it computes.
KNOWN_KEYS = {"block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
              "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
              "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count", "rope.scaling.type"}
# Only these values of them change nothing.
HARMLESS = {"expert_count": 0, "expert_used_count": 0, "rope.scaling.finetuned": False}
# Meta's, of Llama 3.1 to 3.3; the factor is 8 or 32.
LLAMA3_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                  "rope_type": "llama3"}


def hugging_face_name(name):
    """blk.3.ffn_up.weight -> model.layers.3.mlp.up_proj.weight"""
    stem = name[:-len(".weight")] if name.endswith(".weight") else ""
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if stem in NAMES:
        return NAMES[stem] + ".weight"
    if layer and layer[2] in NAMES_OF_A_LAYER:
        return f"model.layers.{layer[1]}.{NAMES_OF_A_LAYER[layer[2]]}.weight"
    if name.endswith(".bias"):
        raise Trouble(f"the tensor {name}: a Llama with biases is not supported")
    raise Trouble(f"the tensor {name} is none of a Llama's")


def adjacent_pairs(rows, heads):
    """RoPE turns pairs of rows of q and k. Hugging Face's pairs are rows i and i + D/2 of a head, llama.cpp's 2i and
    2i + 1. Returns for each row of llama.cpp's matrix the row of Hugging Face's."""
    dims = rows // heads
    return [head * dims + half * (dims // 2) + i for head in range(heads) for i in range(dims // 2) for half in (0, 1)]


def heads_that_turn(name, config):
    """How many heads a matrix has whose rows RoPE turns; 0 for all other tensors."""
    return {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2], 0)


def rope_factors(scaling, theta, head_dim):
    """What Llama 3's scaling divides RoPE's frequencies by, one number for each pair."""
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high, factors = scaling["low_freq_factor"], scaling["high_freq_factor"], []
    for i in range(0, head_dim, 2):
        turns = original / (2 * math.pi * theta ** (i / head_dim))  # within the old context
        kept = min(max((turns - low) / (high - low), 0), 1)
        factors.append(1 / ((1 - kept) / factor + kept))
    return factors


def rope_scaling(factors, theta, head_dim):
    """The scaling that these factors come from."""
    scaling = {"factor": float(round(max(factors))), **LLAMA3_SCALING}
    expected = rope_factors(scaling, theta, head_dim)
    if len(factors) != len(expected) or not all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(factors, expected)):
        raise Trouble(f"{ROPE_FACTORS} is not Llama 3's scaling, and no other is supported")
    return scaling


def shortest(value):
    """1e-05 for 9.999999747378752e-06: the shortest decimal number that is the same float32."""
    single = struct.pack("<f", value)
    return next(float(f"{value:.{digits}g}") for digits in range(1, 18)
                if struct.pack("<f", float(f"{value:.{digits}g}")) == single)


class Fields:
    """The key-value pairs of a GGUF file, read by type."""

    def __init__(self, values):
        self.values = values

    def get(self, key, kind, otherwise=None):
        """`otherwise` where there is no such key; without it the key must be there."""
        value = self.values.get(key)
        if value is None and otherwise is not None:
            return otherwise
        good = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
        if not good or (kind is float and not math.isfinite(value)) or (kind is int and value < 0):
            what = "is missing" if value is None else f"is {str(value)[:40]}, and must be one {kind.__name__}"
            raise Trouble(f"{key} {what}")
        return value


def check_is_llama(fields):
    architecture = fields.get("general.architecture", str)
    if architecture != "llama":
        raise Trouble(f"general.architecture is {architecture!r}; only 'llama' is supported")
    if fields.get("split.count", int, 1) > 1:
        raise Trouble("it is one part of a split file: merge the parts first (llama-gguf-split --merge)")
    for key, value in fields.values.items():
        name = key[len("llama."):] if key.startswith("llama.") else None
        if name is None or name in KNOWN_KEYS or (name in HARMLESS and value == HARMLESS[name]):
            continue
        raise Trouble(f"{key} is {str(value)[:40]}, which is not supported")
    scaling = fields.get("llama.rope.scaling.type", str, "none")
    if scaling != "none":
        raise Trouble(f"llama.rope.scaling.type is {scaling!r}, which is not supported")


def config_of(fields, shapes, factors):
    """config.json. shapes: of all tensors, by Hugging Face's names. factors: of RoPE, or an empty list."""
    check_is_llama(fields)

    def size(key, otherwise=None):
        value = fields.get("llama." + key, int, otherwise)
        if value < 1:
            raise Trouble(f"llama.{key} is {value}")
        return value
    heads, width = size("attention.head_count"), size("embedding_length")
    head_dim = size("attention.key_length", width // heads or None)
    for key in ("attention.value_length", "rope.dimension_count"):
        if size(key, head_dim) != head_dim:
            raise Trouble(f"llama.{key} is {size(key)} where a head has {head_dim} dimensions, which is not supported")
    theta = shortest(fields.get("llama.rope.freq_base", float, 10000.0))
    config = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False,
        **ids_of_tokens(fields), "head_dim": head_dim, "hidden_act": "silu", "hidden_size": width,
        "intermediate_size": size("feed_forward_length"), "max_position_embeddings": size("context_length"),
        "mlp_bias": False, "model_type": "llama", "num_attention_heads": heads, "num_hidden_layers": size("block_count"),
        "num_key_value_heads": size("attention.head_count_kv", heads),
        "rms_norm_eps": shortest(fields.get("llama.attention.layer_norm_rms_epsilon", float)), "rope_theta": theta,
        "tie_word_embeddings": "lm_head.weight" not in shapes, "torch_dtype": "bfloat16",
        "vocab_size": shapes.get("model.embed_tokens.weight", (0,))[0]}
    if factors:
        config["rope_scaling"] = rope_scaling(factors, theta, head_dim)
    check_shapes(config, shapes)
    return config


def ids_of_tokens(fields):
    """bos_token_id, eos_token_id (all tokens that end an answer) and pad_token_id, where the file has them."""
    def ids(*kinds):
        keys = [f"tokenizer.ggml.{kind}_token_id" for kind in kinds]
        return sorted({fields.get(key, int) for key in keys if key in fields.values})
    found = {"bos_token_id": ids("bos"), "eos_token_id": ids("eos", "eot", "eom"), "pad_token_id": ids("padding")}
    return {key: values if len(values) > 1 else values[0] for key, values in found.items() if values}


def shapes_of(config):
    """The shape of each tensor that such a Llama has."""
    width, hidden, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    layer = {"input_layernorm": (width,), "self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width),
             "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, queries), "post_attention_layernorm": (width,),
             "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width), "mlp.down_proj": (width, hidden)}
    shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, width)
    for number in range(config["num_hidden_layers"]):
        shapes.update({f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()})
    return shapes


def check_shapes(config, shapes):
    expected = shapes_of(config)
    for name in sorted(expected.keys() | shapes.keys()):
        if name not in shapes:
            raise Trouble(f"there is no tensor for {name}")
        if name not in expected or tuple(shapes[name]) != expected[name]:
            raise Trouble(f"the tensor for {name} has the shape {list(shapes[name])}; such a Llama has "
                          f"{list(expected[name]) if name in expected else 'none of this name'}")
