#!/usr/bin/env python3
"""What each drafter accepts on the embedded pair, position by position, and what it gains: docs/09_self_drafting/, into
self_drafting.json.

    python3 docs/experiments/self_drafting.py [positions] [trees] [weights] [clock] [--build DIR]

positions: greedy decoding with chains of five. trees: with the tree top:3x2x1. weights: their bytes in the shapes of the
clock. All these are the same on every machine. clock: what chains gain over plain decoding in the shape 134m; let nothing
else run. self_drafting_tables.py puts them into the pages.
"""
import collections
import json

import run
import programs
from adaptive import NEW_TOKENS, chosen_prompts
from trees import traced

K, TREE = 5, "top:3x2x1"
PROMPTS = 4  # of each kind of text
CLOCKED_TOKENS, CLOCKED_LENGTHS = 100, (2, 5)
KEPT = ("drafter", "K", "text", "gain", "tokens_per_second", "plain_tokens_per_second", "c", "v", "predicted_accounting",
        "emitted_per_round", "alpha")


def of_kind(kind, *words):
    return ["--draft-kind", kind, *words]


def of_heads(kind, *words):
    return ["--self-draft", kind, *words]


# Name -> its words.
DRAFTERS = {
    "draft model": of_kind("llama"),
    "its draft": of_kind("llama", "--draft-of-draft", "lookup"),
    "lookup": of_kind("lookup"),
    "n-grams": of_kind("ngram"),
    "blockwise": of_heads("blockwise"),
    "Medusa": of_heads("medusa"),
    "look-ahead": of_heads("lookahead"),
    "EAGLE": of_heads("feature", "--heads", "eagle"),
    "EAGLE-3": of_heads("feature", "--heads", "eagle3"),
    "MTP": of_heads("feature", "--heads", "mtp"),
    "parallel": of_heads("parallel"),
    "parallel, corrected": of_heads("parallel", "--markov", "markov"),
}
# A Markov head is for the embedded vocabulary, which larger shapes do not have.
INFLATED = {name: words for name, words in DRAFTERS.items() if "--markov" not in words}
BRANCHING = [name for name in DRAFTERS if name not in ("its draft", "n-grams")]


def counts_of(trace):
    """Also, by position, how many rounds tested a draft there, and accepted it."""
    tested, accepted = collections.Counter(), collections.Counter()
    for one in trace["rounds"]:
        accepted.update(range(one["accepted"]))
        tested.update(range(one["accepted"] + (one["end"] == "rejected")))
    return {"emitted": trace["stats"]["emitted"], "rounds": len(trace["rounds"]), "tested": tested, "accepted": accepted}


def counted(options, drafters, tree, length):
    prompts, entries = run.first_of_each_kind(chosen_prompts(options), PROMPTS), []
    for name in drafters:
        entries += run.summed(prompts, lambda prompt: counts_of(traced(options, prompt, tree, length, *DRAFTERS[name], stage=9)),
                              drafter=name)
    return {"prompts": PROMPTS, "tokens": NEW_TOKENS, "entries": entries}


def positions(options):
    return counted(options, DRAFTERS, "chains:1", K)


def trees(options):
    return counted(options, BRANCHING, TREE, TREE.count("x") + 1)


def shape_of(words):
    """Draft models have the shape 14m; heads are inflated with the target."""
    return ["--inflate-target", "134m", *(["--inflate-draft", "14m"] if {"llama", "parallel"} & set(words) else [])]


def weights(options):
    """Bytes: of the matrices that a drafter has besides the target's, of the target's, and of its projection alone."""
    entries = []
    for name, words in INFLATED.items():
        printed = run.run(run.program(options.build, programs.STAGES[9]), [
            *shape_of(words), "--tree", "chains:1", "--workload", "poisson:rate=inf,n=1", "--max-new-tokens", 2, "--output", "json",
            *words])
        summary = json.loads(printed.splitlines()[-1])["summary"]
        entries.append({"drafter": name, "own": summary["memory"]["draft_weights"]})
    model = summary["model"]
    return {"target": summary["memory"]["target_weights"], "projection": 2 * model["vocab_size"] * model["d_model"],  # bf16
            "entries": entries}


def clock(options):
    """Held against plain decoding."""
    texts = programs.FEW_TEXTS[:1 if options.quick else None]
    settings = []
    for name, words in INFLATED.items():
        shape = shape_of(words)
        settings += [programs.Setting({"drafter": name, "K": length},
                                      (programs.STAGES[9], (*shape, "--tree", "chains:1", "--spec-length", str(length), *words)),
                                      (programs.STAGES[3], ("--inflate-target", "134m")), texts) for length in CLOCKED_LENGTHS]
    return programs.clocked(options, "drafters", settings, CLOCKED_TOKENS, KEPT)


if __name__ == "__main__":
    run.measured_parts(__doc__, "self_drafting.json", {"positions": positions, "trees": trees, "weights": weights, "clock": clock},
                       ("clock",))
