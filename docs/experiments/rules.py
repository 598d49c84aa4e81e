#!/usr/bin/env python3
"""Counts what rules of acceptance, kinds of drafts and drafts of fewer bits accept, in some 1,800 short runs, into
rules.json.

    python3 docs/experiments/rules.py [PART ...] [--build DIR]

All numbers are counts, so they do not depend on the machine. The prompts are those of
golden/goldens/target/greedy.jsonl.
"""
import collections

import run

GREEDY, SAMPLING = "04_greedy_speculation", "05_rejection_sampling"
NEW_TOKENS = 100
DRAFTS = ("llama", "bigram", "unigram", "lookup", "random")
DRAFTED_TEXTS = ("stories", "rewriting", "arithmetic", "code")
RULES = ("rejection", "at-least", "non-iterative", "sample-and-match", "one-hot", "coupled", "residual-skipped")
DRAFT_TEMPERATURES = (0, 0.5, 0.8, 1, 1.2, 2)
FORMATS, LENGTHS = ("stored", "int8", "q4"), (1, 2, 3, 4, 5, 6, 7, 8)  # of drafts of fewer bits
SEEDS = 4  # of each prompt, where standard errors are asked for


def counted(program, prompt, *words):
    stats = run.traced(program, [*run.prompt_words(prompt["prompt_ids"], NEW_TOKENS), "--threads", 1, *words])["stats"]
    return {"rounds": stats["target_forwards"], **{name: stats[name] for name in ("tested", "accepted", "drafted", "emitted")},
            "acceptance_prob": (stats["alpha_by_probability"] or 0) * stats["tested"]}


def of_prompts(program, prompts):
    """Counts of two rules for each prompt, with its first seed and with all of them."""
    for rule in ("rejection", "coupled"):
        for prompt in prompts:
            total = collections.Counter()
            for more in range(SEEDS):
                total.update(counted(program, prompt, "--temperature", 1, "--seed", prompt["seed"] + 100 * more, "--acceptance", rule))
                if more in (0, SEEDS - 1):
                    yield {"rule": rule, "seeds": more + 1, "prompt": prompt["id"], "text": prompt["kind"], **total}


def weights(options):
    """Greedy, by the bits of the draft's weights and by K; and the bytes that a pass of each model reads."""
    program = run.program(options.build, GREEDY)
    prompts, entries, read = run.first_of_each_kind(run.goldens(), 1 if options.quick else 2), [], {}
    for draft in ("llama", "self"):
        for bits in FORMATS[draft == "self":]:
            for K in LENGTHS:
                words = ("--draft-kind", draft, "--draft-weights", bits, "--spec-length", K, "--ignore-eos")
                entries += run.summed(prompts, lambda prompt: counted(program, prompt, *words), draft=draft, weights=bits, K=K)
            of_run = run.timed(program, [*run.prompt_words(prompts[0]["prompt_ids"], 1), *words])
            read[f"{draft} {bits}"] = of_run["draft"]["weight_bytes"]
    # Of the target, what one more token reads in plain decoding.
    one, two = (run.timed(program, [*run.prompt_words(prompts[0]["prompt_ids"], n), "--no-speculation"])["stats"] for n in (1, 2))
    return {"entries": entries, "draft_bytes": read, "target_bytes": two["target_weight_bytes"] - one["target_weight_bytes"]}


def counts(options):
    greedy, sampling = (run.program(options.build, name) for name in (GREEDY, SAMPLING))
    prompts = [golden for golden in run.goldens() if len(golden["tokens"]) > 1]  # two are whole texts: nothing follows
    if options.quick:
        prompts = run.first_of_each_kind(prompts, 1)
    # A seed for each prompt: with one for all, a position would have the same dice in all texts.
    prompts = [{**prompt, "seed": seed} for seed, prompt in enumerate(sum(run.by_kind(prompts, len(prompts)).values(), []))]
    some = [prompt for prompt in prompts if prompt["kind"] in DRAFTED_TEXTS]

    def sampled(*words, **named):
        return run.summed(prompts, lambda prompt: counted(sampling, prompt, "--temperature", 1, "--seed", prompt["seed"], *words), **named)
    return {"drafts": sum((run.summed(some, lambda prompt: counted(greedy, prompt, "--draft-kind", draft), draft=draft) for draft in DRAFTS), []),
            "rules": sum((sampled("--acceptance", rule, rule=rule) for rule in RULES), []),
            "draft_temperatures": sum((sampled("--draft-temperature", T, draft_temperature=T) for T in DRAFT_TEMPERATURES), []),
            "prompts": list(of_prompts(sampling, prompts))}


if __name__ == "__main__":
    run.measured_parts(__doc__, "rules.json", {"counts": counts, "weights": weights})
