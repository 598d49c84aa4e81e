"""Compares what a drafter can learn to minimise, on the layer that drafts as EAGLE-3.

    python compare_losses.py            writes figures/losses.json and prints its table

The layers begin with the same weights and learn side by side from the same passes of the target: cross-entropy of the
text, divergence from the target, total variation, and total variation after as many steps of divergence as half of the
run has. They are measured on what measure_heads.py measures. A run can be stopped at any time and goes on from its last
checkpoint.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer

import heads
import textgen
from measure_heads import POSITIONS, markdown, measure, ratios, texts_of, together
from model import load
from train_heads import Run

HERE = Path(__file__).resolve().parent
KIND, STEPS, PLACES, SEED = "eagle3", 300, 64, 0
AFTERWARDS = "total-variation, after divergence"
OBJECTIVES = ["cross-entropy", "divergence", "total-variation", AFTERWARDS]


def make(name, target, kept):
    """The same beginning for each objective, which the name has after a colon."""
    torch.manual_seed(SEED)
    network = heads.make(KIND, target, kept)
    network.objective = name.split(":")[1]
    return network


class Comparison(Run):
    """One of its layers changes the objective on its way."""

    def __init__(self, target, steps: int, work: Path):
        super().__init__([f"{KIND}:{objective}" for objective in OBJECTIVES], target, steps, PLACES, work, make)

    def one_step(self) -> dict:
        changing = self.networks[f"{KIND}:{AFTERWARDS}"]
        changing.objective = "divergence" if self.step < self.steps // 2 else "total-variation"
        return super().one_step()


def compared(target, networks: dict, n_prompts: int, max_new_tokens: int) -> dict:
    tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
    results = {name: {} for name in networks}
    for kind in textgen.KINDS:
        texts = texts_of(target, tokenizer, kind, n_prompts, max_new_tokens)
        for name, counts in measure(target, networks, *texts).items():
            results[name][kind] = counts
        print(f"{kind} done", file=sys.stderr, flush=True)
    return {name: together(kinds) for name, kinds in results.items()}


def table(results: dict) -> str:
    """Alpha at temperature 1 by position, which is one minus the total variation, and of greedy rounds."""
    rows = [[name, *ratios(r["overlap"], [r["overlap_places"]] * POSITIONS), *ratios(r["accepted"], r["tested"])[:1],
             f"{r['emitted'] / r['rounds']:.2f}"] for name, r in results.items()]
    return markdown(["objective", *(f"overlap {i + 1}" for i in range(POSITIONS)), "greedy alpha 1", "tokens per round"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of the checkpoint and the curves")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "losses.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load(HERE / "models" / "target").requires_grad_(False)
    run = Comparison(target, options.steps, options.work)
    run.train()
    torch.set_grad_enabled(False)
    networks = {name.split(":")[1]: network.eval() for name, network in run.networks.items()}
    results = compared(target, networks, options.prompts, options.max_new_tokens)
    options.output.write_text(json.dumps({"steps": options.steps, "seed": SEED, "drafter": KIND, "objectives": results},
                                         indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
