"""Makes golden/checkpoints/: tiny random Llamas, each with a shape or a spelling that the embedded pair has not.

    python goldens_tiny_models.py

The files are committed; make_goldens.py reads them and does not make them anew.
"""
import copy
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).resolve().parent
LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64}


@dataclass(frozen=True)
class Tiny:
    """Fields of config.json, its type and how it is written."""
    fields: dict                       # over COMMON; None takes a field out
    dtype: torch.dtype
    shards_of: str = "1GB"
    generation_config: dict | None = None
    newer_spelling: bool = False       # rope_parameters and dtype, as transformers 5 writes them


COMMON = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 0, "eos_token_id": 1,
    "head_dim": 8, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 256,
    "mlp_bias": False, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_scaling": {"rope_type": "llama3"} | LLAMA3,
    "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": 96}

MODELS = {
    "untied": Tiny({"tie_word_embeddings": False, "rope_theta": 500000.0}, torch.float32),
    "plain_rope": Tiny({"rope_scaling": None, "rope_theta": 10000, "head_dim": None, "eos_token_id": [1, 7],
                        "rms_norm_eps": 1e-3}, torch.float16),
    "one_kv_head": Tiny({"num_key_value_heads": 1, "head_dim": 16, "rope_scaling": {"type": "llama3"} | LLAMA3,
                         "vocab_size": 64}, torch.bfloat16),
    "all_kv_heads": Tiny({"num_key_value_heads": None, "eos_token_id": None, "rms_norm_eps": None,
                          "rope_theta": None}, torch.bfloat16),
    "wide_heads": Tiny({"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
                        "vocab_size": 130}, torch.bfloat16),
    "sharded": Tiny({"num_hidden_layers": 4, "tie_word_embeddings": False}, torch.bfloat16, shards_of="30KB",
                    generation_config={"bos_token_id": 0, "eos_token_id": [1, 2, 3]}),
    "newer_spelling": Tiny({"num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 36, "head_dim": 12},
                           torch.float16, newer_spelling=True),
}


def config_fields(tiny):
    """config.json as the model's authors would have written it; fields that are None are left out, or null."""
    fields = {k: v for k, v in (COMMON | tiny.fields).items() if v is not None or k in ("rope_scaling", "eos_token_id")}
    name = str(tiny.dtype).removeprefix("torch.")
    if not tiny.newer_spelling:
        return fields | {"torch_dtype": name}
    rope = fields.pop("rope_scaling") | {"rope_theta": fields.pop("rope_theta")}
    return fields | {"dtype": name, "rope_parameters": rope}


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def randomise(model, seed):
    """Weights whose logits lie well apart; no norm weight is 1. From NumPy, so that they stay the same.

    Embeddings are small, so that eps counts in the first norm; the last norm makes up for it.
    """
    random = np.random.default_rng(seed)
    for name, parameter in sorted(model.state_dict().items()):
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if parameter.ndim == 1:
            values = random.uniform(0.5, 1.5, parameter.shape) * (5 if name == "model.norm.weight" else 1)
        elif name == "model.embed_tokens.weight":
            values = random.normal(0, 0.1, parameter.shape)
        else:
            values = random.normal(0, 1.5 * parameter.shape[1] ** -0.5, parameter.shape)
        parameter.copy_(torch.from_numpy(values))


def make(name, seed):
    tiny, folder = MODELS[name], HERE / "checkpoints" / name
    shutil.rmtree(folder, ignore_errors=True)
    fields = config_fields(tiny)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**copy.deepcopy(fields)))
    with torch.no_grad():
        randomise(model, seed)
    model.to(tiny.dtype).save_pretrained(folder, max_shard_size=tiny.shards_of)
    (folder / "generation_config.json").unlink()
    write_json(folder / "config.json", fields)
    if tiny.generation_config:
        write_json(folder / "generation_config.json", tiny.generation_config)
    for file in folder.iterdir():
        file.chmod(0o644)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {len(list(folder.iterdir()))} files, {size} bytes")


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    for number, name in enumerate(MODELS):
        make(name, 1000 + number)
