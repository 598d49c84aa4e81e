"""Measures the heads of the embedded target on its own greedy text after held-out prompts.

    python measure_heads.py       writes figures/heads.json and prints its table

For each kind of heads: how often each head is right over all places of the text,
and what becomes of rounds that draft one token with every head.
"""
import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

import heads
import textgen
from evaluate import greedy
from model import Llama, load

HERE = Path(__file__).resolve().parent


@torch.no_grad()
def right(target: Llama, network: torch.nn.Module, prompt: list[int], output: list[int]) -> torch.Tensor:
    """[places, n_heads]: whether head i says output[place + i], at the row two tokens before output[place].

    The token between them is pending when a round drafts output[place] first.
    """
    hidden = target.hidden(torch.tensor([prompt + output[:-1]]))[0, len(prompt) - 2:-1]
    says = target.head(network(hidden)).argmax(-1)                              # [n_heads, places]
    later = torch.tensor(output + [-1] * heads.N_HEADS)
    places = torch.arange(len(output))
    return torch.stack([says[i] == later[places + i] for i in range(heads.N_HEADS)], dim=1)


def rounds(right_at: torch.Tensor) -> tuple[list[int], list[int], int]:
    """By position, drafts that were tested and accepted, and the number of rounds; drafts past the end do not count."""
    tested, accepted = [0] * heads.N_HEADS, [0] * heads.N_HEADS
    at = n_rounds = 0
    while at < len(right_at):
        n_rounds += 1
        kept = 0
        while kept < heads.N_HEADS and at + kept < len(right_at):
            tested[kept] += 1
            if not right_at[at, kept]:
                break
            accepted[kept] += 1
            kept += 1
        at += kept + 1
    return tested, accepted, n_rounds


def measure(target: Llama, network: torch.nn.Module, texts: list) -> dict:
    n = heads.N_HEADS
    hits, places, tested, accepted, n_rounds, emitted = [0] * n, [0] * n, [0] * n, [0] * n, 0, 0
    for prompt, output in texts:
        right_at = right(target, network, prompt, output)
        for i in range(n):
            valid = max(0, len(output) - i)
            hits[i] += int(right_at[:valid, i].sum())
            places[i] += valid
        t, a, r = rounds(right_at)
        tested, accepted = [x + y for x, y in zip(tested, t)], [x + y for x, y in zip(accepted, a)]
        n_rounds, emitted = n_rounds + r, emitted + len(output)
    return {"places": places, "right": hits, "tested": tested, "accepted": accepted, "rounds": n_rounds,
            "emitted": emitted}


def table(results: dict) -> str:
    lines = ["| heads | kind | " + " | ".join(f"head {i}" for i in range(heads.N_HEADS)) + " | tokens per round |",
             "|---|---|" + "---|" * (heads.N_HEADS + 1)]
    for name, kinds in results.items():
        for kind, r in kinds.items():
            alphas = [f"{a / t:.3f}" if t else "-" for a, t in zip(r["accepted"], r["tested"])]
            lines.append(f"| {name} | {kind} | " + " | ".join(alphas) + f" | {r['emitted'] / r['rounds']:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=Path, default=HERE / "heads", help="folder of the heads")
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "heads.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load(HERE / "models" / "target")
    tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
    networks = {kind: heads.load(options.heads / kind) for kind in heads.KINDS}
    results = {kind: {} for kind in networks}
    for kind in textgen.KINDS:
        prompts = [tokenizer.encode(d.prompt(), add_special_tokens=False).ids for d in textgen.held_out(kind, options.prompts)]
        prompts = [p for p in prompts if len(p) + options.max_new_tokens <= target.shape.max_seq_len]
        texts = list(zip(prompts, greedy(target, prompts, options.max_new_tokens)))
        for name, network in networks.items():
            results[name][kind] = measure(target, network, texts)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
