"""What Hugging Face transformers computes for a Llama: float32, eager attention.

The activations have the names of golden/goldens/README.md and the shape [T, width].
"""
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from transformers import DynamicCache, LlamaForCausalLM, logging
from transformers.models.llama import modeling_llama

torch.set_grad_enabled(False)
logging.set_verbosity_error()
logging.disable_progress_bar()


def load(folder):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    return model


def eos_ids(folder):
    """The ids that end a text: generation_config.json has the last word, config.json the first."""
    ids = None
    for file in ("config.json", "generation_config.json"):
        if (Path(folder) / file).exists():
            ids = json.loads((Path(folder) / file).read_text()).get("eos_token_id", ids)
    return [] if ids is None else ids if isinstance(ids, list) else [ids]


def random_ids(model, length, seed=0):
    """A prompt for a model that never learnt anything."""
    return [0] + np.random.default_rng([length, seed]).integers(8, model.config.vocab_size, length - 1).tolist()


def rows(tensor):
    """[1, T, width], or heads [1, heads, T, D], as [T, width]."""
    tensor = tensor.transpose(1, 2).flatten(2) if tensor.ndim == 4 else tensor
    return tensor[0].numpy().copy()


@contextmanager
def recorded(model):
    """While this is open, `values` collects every tensor of the next pass by name."""
    values, hooks, names = {}, [], iter(range(model.config.num_hidden_layers))
    original = modeling_llama.apply_rotary_pos_emb

    def output(module, name):
        hooks.append(module.register_forward_hook(lambda _, args, out: values.__setitem__(name, rows(out))))

    def argument(module, name):
        hooks.append(module.register_forward_pre_hook(lambda _, args: values.__setitem__(name, rows(args[0]))))

    def rotary(q, k, *rest, **options):
        q_rope, k_rope = original(q, k, *rest, **options)
        i = next(names)
        values[f"layers.{i}.q_rope"], values[f"layers.{i}.k_rope"] = rows(q_rope), rows(k_rope)
        return q_rope, k_rope

    output(model.model.embed_tokens, "embedding")
    for i, layer in enumerate(model.model.layers):
        output(layer.input_layernorm, f"layers.{i}.attn_norm")
        for name in "qkv":
            output(getattr(layer.self_attn, f"{name}_proj"), f"layers.{i}.{name}")
        argument(layer.self_attn.o_proj, f"layers.{i}.attn_out")
        argument(layer.post_attention_layernorm, f"layers.{i}.attn_residual")
        output(layer.post_attention_layernorm, f"layers.{i}.mlp_norm")
        output(layer.mlp.gate_proj, f"layers.{i}.gate")
        output(layer.mlp.up_proj, f"layers.{i}.up")
        output(layer.mlp, f"layers.{i}.mlp_out")
        output(layer, f"layers.{i}.residual")
    output(model.model.norm, "final_norm")
    output(model.lm_head, "logits")
    modeling_llama.apply_rotary_pos_emb = rotary
    try:
        yield values
    finally:
        modeling_llama.apply_rotary_pos_emb = original
        for hook in hooks:
            hook.remove()


def activations(model, ids):
    """Every tensor of the forward pass over `ids`."""
    with recorded(model) as values:
        model(torch.tensor([ids]), use_cache=False)
    return values


def greedy_steps(model, ids, count, keep_cache):
    """`count` greedy steps with the cache, not stopped by eos.

    Returns tokens, logits [count, V], and what the cache holds after `keep_cache` steps: {name: [S, Hkv x D]}.
    """
    cache, feed, tokens, logits, kept = DynamicCache(config=model.config), ids, [], [], {}
    for step in range(count):
        row = model(torch.tensor([feed]), past_key_values=cache, use_cache=True).logits[0, -1]
        contents = cache_contents(cache)
        assert all(np.array_equal(contents[name][:len(old)], old) for name, old in kept.items()), "the cache only grows"
        if step <= keep_cache:
            kept = contents
        logits.append(row.numpy().copy())
        tokens.append(int(row.argmax()))
        feed = tokens[-1:]
    return tokens, np.stack(logits), kept


def cache_contents(cache):
    contents = {}
    for i, layer in enumerate(cache.layers):
        contents[f"layers.{i}.k_rope"], contents[f"layers.{i}.v"] = rows(layer.keys), rows(layer.values)
    return contents


def greedy_text(model, ids, count, eos, assistant=None):
    """transformers' own generate. Returns the new tokens, with the eos, and their logits [n, V]."""
    options = {"assistant_model": assistant} if assistant else {}
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                         num_beams=1, max_new_tokens=count, temperature=None, top_p=None, top_k=None,
                         eos_token_id=eos or None, pad_token_id=0, return_dict_in_generate=True, output_logits=True,
                         **options)
    return out.sequences[0, len(ids):].tolist(), torch.cat(out.logits).numpy()


def constant_drafts(model, count):
    """Makes a model draft `count` tokens a round when it assists."""
    model.generation_config.num_assistant_tokens = count
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0
    return model


def choices(model, ids, first):
    """Argmax, top-2 margin and largest logit after each prefix that ends at `first` or later. ids: [T]"""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, first:].numpy()
    return logits.argmax(-1).tolist(), margins(logits), np.abs(logits).max(axis=1).astype(np.float64)


def margins(logits):
    """Largest minus second largest of each row."""
    top = np.sort(logits, axis=-1)[:, -2:]
    return (top[:, 1] - top[:, 0]).astype(np.float64)
