"""Measures the drafters of the embedded target that read its rows, on text after held-out prompts.

    python measure_heads.py       writes figures/heads.json and prints its tables

On the target's own greedy text: how often each drafter is right over all places,
and what becomes of rounds that draft a chain. On what the documents themselves
say: how far each drafter's distribution is from the target's, by position.
"""
import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

import heads
import textgen
from chain_rounds import by_position, drafted, logits_of, right, rounds
from evaluate import greedy
from model import Llama, load

HERE = Path(__file__).resolve().parent
POSITIONS = 5


def add(total: dict, counts: dict):
    """Sums of numbers and of lists, by name."""
    for name, new in counts.items():
        old = total.get(name, [0] * len(new) if isinstance(new, list) else 0)
        total[name] = [a + b for a, b in zip(old, new)] if isinstance(new, list) else old + new


def acceptance(target: Llama, network, prompt: list[int], output: list[int]) -> dict:
    """Counts of one greedy text; those by position are lists."""
    right_at = right(drafted(network, logits_of(target, network, prompt, output, POSITIONS)), output)
    valid = [max(0, len(output) - i) for i in range(POSITIONS)]
    each = rounds(right_at)
    return {"places": valid, "right": [int(right_at[:n, i].sum()) for i, n in enumerate(valid)],
            "tested": by_position([tested for _, tested, _ in each], POSITIONS),
            "accepted": by_position([accepted for _, _, accepted in each], POSITIONS),
            "rounds": len(each), "emitted": len(output)}


@torch.no_grad()
def overlap(target: Llama, network, prompt: list[int], output: list[int]) -> dict:
    """Sums of sum min(p, q) by position, over places whose later tokens are in the text."""
    last = len(output) - POSITIONS
    logits = logits_of(target, network, prompt, output, POSITIONS)
    hidden = target.hidden(torch.tensor([prompt + output[:-1]]))[0, len(prompt) - 1:]
    p, sums = target.head(hidden).softmax(-1), []
    for i in range(POSITIONS):
        q, later = logits[:last, i].softmax(-1), p[i:last + i]
        later = later[:, network.kept()] if hasattr(network, "kept") else later
        sums.append(torch.minimum(q, later).sum().item())
    return {"overlap": sums, "overlap_places": last}


def measure(target: Llama, network, greedy_texts: list, documents: list) -> dict:
    total = {}
    for prompt, output in greedy_texts:
        add(total, acceptance(target, network, prompt, output))
    for prompt, output in documents:
        add(total, overlap(target, network, prompt, output))
    return total


def texts_of(target: Llama, tokenizer: Tokenizer, kind: str, n_prompts: int, max_new_tokens: int):
    """Prompts with the target's greedy text, and with what the document says."""
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    held_out = [(ids(d.prompt()), ids(d.text())) for d in textgen.held_out(kind, n_prompts)]
    fit = [(p, whole[len(p):][:max_new_tokens]) for p, whole in held_out if len(p) + max_new_tokens <= target.shape.max_seq_len]
    prompts = [p for p, _ in fit]
    return list(zip(prompts, greedy(target, prompts, max_new_tokens))), [t for t in fit if len(t[1]) > POSITIONS]


def row(name: str, kind: str, r: dict) -> str:
    alphas = [f"{a / t:.3f}" if t else "-" for a, t in zip(r["accepted"], r["tested"])]
    overlaps = [f"{s / r['overlap_places']:.3f}" for s in r["overlap"]]
    return f"| {name} | {kind} | " + " | ".join(alphas + [f"{r['emitted'] / r['rounds']:.2f}"] + overlaps) + " |"


def table(results: dict) -> str:
    """Each kind of text, and all together."""
    positions = [str(i) for i in range(1, POSITIONS + 1)]
    lines = ["| drafter | kind | " + " | ".join([f"alpha {i}" for i in positions] + ["tokens per round"]
                                                + [f"overlap {i}" for i in positions]) + " |",
             "|---|---|" + "---|" * (2 * POSITIONS + 1)]
    for name, kinds in results.items():
        total = {}
        for kind, r in kinds.items():
            lines.append(row(name, kind, r))
            add(total, r)
        lines.append(row(name, "all", total))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=Path, default=HERE / "heads", help="folder of the drafters")
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "heads.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load(HERE / "models" / "target")
    tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
    networks = heads.load_all(options.heads, target)
    results = {kind: {} for kind in networks}
    for kind in textgen.KINDS:
        texts = texts_of(target, tokenizer, kind, options.prompts, options.max_new_tokens)
        for name, network in networks.items():
            results[name][kind] = measure(target, network, *texts)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
