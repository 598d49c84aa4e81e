"""How much of the target's text one, two and three tiny drafts cover together, boosted and independent.

    python compare_several.py           writes figures/several.json and prints its tables; needs train_several.py

A place is covered greedily if the likeliest token of one of the drafts is the target's. At temperature 1, coverage is the
exact probability that the target accepts one of the drafts' tokens, tried one after another (Stratos, section 2).
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer

import textgen
from compare_drafts import MODELS, SAMPLE_SEED, Texts, logits_after, means_table, size_of
from evaluate import SPEC_LENGTH
from model import load
from train_several import PLAN, STUDENTS

HERE = Path(__file__).resolve().parent
FIRST = "draft_boosted_1"                       # of both groups
# What drafts: a draft for each trial.
WAYS = {"one draft, one trial": [FIRST], "one draft, two trials": [FIRST] * 2, "one draft, three trials": [FIRST] * 3,
        "two, boosted": [FIRST, "draft_boosted_2"], "three, boosted": [FIRST, "draft_boosted_2", "draft_boosted_3"],
        "three, boosted, in reverse": ["draft_boosted_3", "draft_boosted_2", FIRST],
        "two, independent": [FIRST, "independent_2"], "three, independent": [FIRST, "independent_2", "independent_3"],
        "`draft_small`, one trial": ["draft_small"], "`draft_small`, three trials": ["draft_small"] * 3}


def longest_run(right: list[bool], at: int) -> int:
    run = 0
    while run < SPEC_LENGTH and at + run < len(right) and right[at + run]:
        run += 1
    return run


def rounds(chains: list[list[bool]], first: list[bool] | None = None) -> int:
    """Of greedy speculation with one chain for each list, or with one chain after each of the likeliest first tokens.
    chains[k][i]: is draft k right at place i of the target's text? first: is one of the likeliest tokens right there?"""
    at = count = 0
    while at < len(chains[0]):
        kept = max(longest_run(chain, at) for chain in chains)
        if first is not None and kept == 0 and first[at]:
            kept = 1 + min(longest_run(chains[0], at + 1), SPEC_LENGTH - 1)
        count, at = count + 1, at + kept + 1
    return count


def accepted(p: torch.Tensor, qs: list[torch.Tensor]) -> torch.Tensor:
    """The probability that one of the trials is accepted, at each place. p, qs: [places, V]."""
    owed, missed = p, torch.ones(len(p))
    for q in qs:
        overlap = torch.minimum(owed, q).sum(-1)
        missed = missed * (1 - overlap)
        left = (owed - q).clamp(min=0)
        owed = torch.where(left.sum(-1, keepdim=True) > 0, left / left.sum(-1, keepdim=True).clamp(min=1e-30), owed)
    return 1 - missed


def measure(texts: Texts, drafts: dict) -> dict:
    """Of each way, its counts on the texts of one kind."""
    counts = {way: dict(places=0, covered=0, rounds=0, sampled_places=0, accepted=0.0) for way in WAYS}
    for prompt, output in texts.greedy:
        logits = {name: logits_after(draft, prompt, output) for name, draft in drafts.items()}
        said = torch.tensor(output)
        right = {name: rows.argmax(-1) == said for name, rows in logits.items()}
        for way, names in WAYS.items():
            likely = (logits[names[0]].topk(len(names)).indices == said[:, None]).any(-1)
            one = len(set(names)) == 1
            covered = likely if one else torch.stack([right[name] for name in names]).any(0)
            counts[way]["places"] += len(output)
            counts[way]["covered"] += covered.sum().item()
            counts[way]["rounds"] += rounds([right[name].tolist() for name in dict.fromkeys(names)],
                                            likely.tolist() if one else None)
    for prompt, output, p in texts.sampled:
        q = {name: logits_after(draft, prompt, output).softmax(-1) for name, draft in drafts.items()}
        for way, names in WAYS.items():
            counts[way]["sampled_places"] += len(output)
            counts[way]["accepted"] += accepted(p, [q[name] for name in names]).sum().item()
    return {way: {"places": n["places"], "coverage": n["covered"] / n["places"], "emitted_per_round": n["places"] / n["rounds"],
                  "sampled_places": n["sampled_places"], "accepted": n["accepted"] / n["sampled_places"]}
            for way, n in counts.items()}


@torch.no_grad()
def compare(work: Path, n_prompts: int, max_new_tokens: int) -> dict:
    names = sorted({name for names in WAYS.values() for name in names})
    folders = {name: MODELS / name if (MODELS / name).exists() else work / name for name in names}
    drafts = {name: load(folder) for name, folder in folders.items()}
    target, tokenizer = load(MODELS / "target"), Tokenizer.from_file(str(MODELS / "target" / "tokenizer.json"))
    kinds = {}
    for kind in textgen.KINDS:
        kinds[kind] = measure(Texts(target, tokenizer, kind, n_prompts, max_new_tokens), drafts)
        print(f"{kind} done", file=sys.stderr)
    tiny = size_of(FIRST, drafts[FIRST])
    return {"command": "python golden/compare_several.py", "prompts_per_kind": n_prompts, "max_new_tokens": max_new_tokens,
            "spec_length": SPEC_LENGTH, "sample_seed": SAMPLE_SEED, "steps": PLAN.steps, "tokens_per_step": PLAN.tokens_per_step,
            "seeds": {s.name(): s.seed for s in STUDENTS}, "parameters": tiny["parameters"],
            "weight_bytes_per_token": tiny["weight_bytes_per_token"],
            "ways": {way: {"drafts": names, "kinds": {kind: of[way] for kind, of in kinds.items()}} for way, names in WAYS.items()}}


def table(results: dict) -> str:
    return means_table("what drafts", [("greedy coverage", "coverage", 3, ""), ("greedy tokens per round", "emitted_per_round", 2, ""),
                                       ("accepted at temperature 1", "accepted", 3, ""),
                                       ("without poems: greedy coverage", "coverage", 3, "poems"),
                                       ("accepted at temperature 1", "accepted", 3, "poems")],
                       {way: found["kinds"] for way, found in results["ways"].items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of the weights that are not stored")
    parser.add_argument("--prompts", type=int, default=8, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "several.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = compare(options.work, options.prompts, options.max_new_tokens)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
