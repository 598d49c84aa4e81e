"""Measures the drafters of the embedded target that read its rows, on text after held-out prompts.

    python measure_heads.py       writes figures/heads.json and prints its tables

On the target's own greedy text: how often each drafter is right over all places,
and what becomes of rounds that draft a chain. On what the documents themselves
say: how far each drafter's distribution is from the target's, by position.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer

import heads
import textgen
from chain_rounds import by_position, drafted, logits_of, right, rounds, starts
from drafting import at
from evaluate import greedy
from model import Llama, load

HERE = Path(__file__).resolve().parent
POSITIONS = 5
DOCUMENTS = 8                               # of each kind, on which distributions are compared


def add(total: dict, counts: dict):
    """Sums of numbers and of lists, by name."""
    for name, new in counts.items():
        old = total.get(name, [0] * len(new) if isinstance(new, list) else 0)
        total[name] = [a + b for a, b in zip(old, new)] if isinstance(new, list) else old + new


def acceptance(logits: torch.Tensor, network, output: list[int]) -> dict:
    """Counts of one greedy text; those by position are lists."""
    right_at = right(drafted(network, logits), output)
    valid = [max(0, len(output) - i) for i in range(POSITIONS)]
    each = rounds(right_at)
    return {"places": valid, "right": [int(right_at[:n, i].sum()) for i, n in enumerate(valid)],
            "tested": by_position([tested for _, tested, _ in each], POSITIONS),
            "accepted": by_position([accepted for _, _, accepted in each], POSITIONS),
            "rounds": len(each), "emitted": len(output)}


def overlap(logits: torch.Tensor, network, p: torch.Tensor) -> dict:
    """Sums of sum min(p, q) by position, over places whose later tokens are in the text. p: [places, V]."""
    last, sums = len(p) - POSITIONS, []
    p = p[:, network.kept()] if hasattr(network, "kept") else p
    for i in range(POSITIONS):
        sums.append(torch.minimum(logits[:last, i].softmax(-1), p[i:last + i]).sum().item())
    return {"overlap": sums, "overlap_places": last}


def measure(target: Llama, networks: dict, greedy_texts: list, documents: list) -> dict:
    """Sums over the texts of one kind, by drafter."""
    totals = {name: {} for name in networks}
    for texts, on_document in ((greedy_texts, False), (documents, True)):
        for prompt, output in texts:
            seen, places = starts(target, prompt, output, POSITIONS)
            p = target.head(at(seen.hidden, places))[0].softmax(-1)
            for name, network in networks.items():
                logits = logits_of(target, network, seen, places, POSITIONS)
                add(totals[name], overlap(logits, network, p) if on_document else acceptance(logits, network, output))
    return totals


def texts_of(target: Llama, tokenizer: Tokenizer, kind: str, n_prompts: int, max_new_tokens: int):
    """Prompts with the target's greedy text, and some with what the document says."""
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    held_out = [(ids(d.prompt()), ids(d.text())) for d in textgen.held_out(kind, n_prompts)]
    held_out = [pair for pair in held_out if len(pair[0]) + max_new_tokens <= target.shape.max_seq_len]
    documents = [(prompt, whole[len(prompt):][:max_new_tokens]) for prompt, whole in held_out]
    prompts = [prompt for prompt, _ in held_out]
    long_enough = [(prompt, output) for prompt, output in documents if len(output) > POSITIONS]
    return list(zip(prompts, greedy(target, prompts, max_new_tokens))), long_enough[:DOCUMENTS]


def together(kinds: dict) -> dict:
    """The sums over all kinds of text."""
    total = {}
    for counts in kinds.values():
        add(total, counts)
    return total


def ratios(above: list, below: list) -> list[str]:
    return [f"{a / b:.3f}" if b else "–" for a, b in zip(above, below)]


def markdown(head: list, rows: list) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def position_table(results: dict) -> str:
    """Each drafter by position, all texts together."""
    rows = []
    for name, kinds in results.items():
        r = together(kinds)
        rows.append([f"`{name}` alpha", *ratios(r["accepted"], r["tested"]), f"**{r['emitted'] / r['rounds']:.2f}**"])
        rows.append(["right at any place", *ratios(r["right"], r["places"]), ""])
        rows.append(["overlap", *ratios(r["overlap"], [r["overlap_places"]] * POSITIONS), ""])
    return markdown(["", *map(str, range(1, POSITIONS + 1)), "tokens per round"], rows)


def kind_table(results: dict) -> str:
    """Alpha of the first draft and tokens per round, kind by kind."""
    cell = lambda r: f"{r['accepted'][0] / r['tested'][0]:.2f} {r['emitted'] / r['rounds']:.2f}"
    rows = [[f"`{name}`", *(cell(r) for r in kinds.values()), cell(together(kinds))] for name, kinds in results.items()]
    return markdown(["", *textgen.KINDS, "all"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=Path, default=HERE / "heads", help="folder of the drafters")
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "heads.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    target = load(HERE / "models" / "target")
    tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
    networks = heads.load_all(options.heads, target)
    results = {kind: {} for kind in networks}
    for kind in textgen.KINDS:
        texts = texts_of(target, tokenizer, kind, options.prompts, options.max_new_tokens)
        for name, counts in measure(target, networks, *texts).items():
            results[name][kind] = counts
        print(f"{kind} done", file=sys.stderr, flush=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(position_table(results), kind_table(results), sep="\n\n")


if __name__ == "__main__":
    main()
