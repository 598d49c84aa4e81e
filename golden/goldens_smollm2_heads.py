"""Makes the golden files of SmolLM2's drafters, heads/smollm2: rounds of them, and what is accepted in the greedy texts.

    python goldens_smollm2_heads.py [--model DIR]      into goldens/smollm2, where greedy.jsonl is
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import check_goldens
import goldens_files as files
import goldens_heads
import goldens_transformers as theirs
import heads
from drafting import see
from model import Shape
from published_heads import Eagle3OfTarget, MedusaOfFewer

HERE = Path(__file__).resolve().parent
OUT, FOLDER = HERE / "goldens/smollm2", HERE / "heads/smollm2"
PROMPTS = ["short", "rewrite-0", "several_turns"]
EVERY = 64                                  # one column of the logits in so many


class Target:
    """The model as transformers computes it in float32, as drafters read it."""

    def __init__(self, folder):
        self.whole = theirs.load(folder)
        self.model, self.head = self.whole.model, self.whole.lm_head

    def stream(self, x, caches):
        """The residual stream before the first block and after each one."""
        found, hooks = [x], [layer.register_forward_hook(lambda _, args, out: found.append(out)) for layer in
                             self.model.layers]
        self.model(inputs_embeds=x, use_cache=False)
        for hook in hooks:
            hook.remove()
        return found


def load(folder, vocab_size):
    """A saved drafter, made as its configuration and its lists say."""
    fields, stored = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    kept = stored["t2d"].nonzero()[:, 0]
    if "medusa_num_layers" in fields:
        count = sum(name.endswith(".0.linear.weight") for name in stored)
        return heads.fill(MedusaOfFewer(fields["hidden_size"], count, kept, vocab_size), folder)
    names = {"d_model": "hidden_size", "d_ff": "intermediate_size", "n_heads": "num_attention_heads",
             "n_kv_heads": "num_key_value_heads", "max_seq_len": "max_position_embeddings", "vocab_size": "vocab_size"}
    head_dim = fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]
    shape = Shape(n_layers=1, head_dim=head_dim, **{ours: fields[name] for ours, name in names.items()})
    network = Eagle3OfTarget(shape, kept, blocks=fields["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    powers = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    network.inv_freq = 1.0 / fields["rope_theta"] ** powers
    return heads.fill(network, folder)


def write_rounds(target, network, prompts, path):
    """Tokens, rows and some columns of the logits."""
    tensors = {}
    for name, ids in prompts.items():
        of_round = goldens_heads.round_of(network, target, lambda text: see(target, torch.tensor([text])), ids)
        columns = np.arange(0, of_round["logits"].shape[1], EVERY)
        kept = {key: of_round[key] for key in ("token_ids", "tokens", "rows")}
        kept |= {"logits": of_round["logits"][:, columns], "logits_ids": network.kept().numpy()[columns].astype(np.int32)}
        tensors |= {f"{name}.{key}": tensor for key, tensor in kept.items()}
    path.parent.mkdir(exist_ok=True)
    files.write_tensors(path, tensors)


def make(model):
    target = Target(model)
    networks = {path.parent.name: load(path.parent, target.whole.config.vocab_size)
                for path in sorted(FOLDER.glob("*/config.json"))}
    with torch.no_grad():
        goldens_heads.make_acceptance(target, networks, OUT)
        prompts = goldens_heads.prompts_of(OUT, PROMPTS)
        for name, network in networks.items():
            write_rounds(target, network, prompts, OUT / "heads" / f"{name}.safetensors")
    manifest = {"model": "golden/heads/smollm2", "sha256": goldens_heads.hashes(FOLDER)}
    files.write_json(OUT / "heads" / "manifest.json", manifest)
    check_goldens.check_drafters(OUT, write=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=check_goldens.REAL_MODEL)
    options = parser.parse_args()
    torch.set_num_threads(1)
    make(options.model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
