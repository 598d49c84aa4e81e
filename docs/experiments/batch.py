#!/usr/bin/env python3
"""Measures what speculation buys for a batch of requests, by the batch's size B and by K, and records a run for the
timeline of chapter 6, into batch.json.

    python3 docs/experiments/batch.py [pair] [memory] [trace] [--build DIR] [--quick]

Two models, because the answer depends on where the weights come from:
    pair     the embedded pair. The target fits the processor's cache, so that further rows cost from the first on.
    memory   133 million random weights, which come from memory. A random model has no text to be right or wrong about;
             this one repeats its last token for ever, and a lookup drafts that. So drafts are free and always right:
             this measures v, and the most that speculation can give, not what it gives on a real text.
Let nothing else run. A round visits every B, and within it every K, K = 0 first: what is divided was measured within
seconds. The numbers are medians over the rounds that count (turns.py).
"""
import json
import pathlib
import statistics
import tempfile

import formulas
import random_checkpoint
import run
import programs

PROGRAM = programs.STAGES[6]
REQUESTS = 32
BATCHES = [1, 2, 4, 8, 16, 32]
PAIR_K, PAIR_TOKENS = list(range(9)), 64
MEMORY_K = [0, 1, 3, 5, 8]
SUPPOSED_ALPHA, SUPPOSED_C = 0.8, 0.1       # of a draft model for the random one, in a prediction
COUNTS = ("full_steps", "rows", "emitted_per_round", "emitted_overall", "alpha", "drafting")


# --- what is expected ---

def by_formula(e):
    """From alpha, as if drafts were independent and all else cost nothing. A round that drafted nothing is a plain
    step."""
    if e["alpha"] is None:
        return None
    drafting = e["drafting"]
    tokens = 1 + drafting * (formulas.emitted(e["alpha"], e["K"]) - 1)
    return tokens / (drafting * (e["K"] * e["c"] + e["v"]) + 1 - drafting)


def by_accounting(e, plain):
    """From the tokens that a round of the whole text emitted, and all that it cost."""
    cost = e["K"] * e["c"] + e["v"] + e["overhead_in_passes"]
    return e["emitted_overall"] * (1 + plain["overhead_in_passes"]) / cost


# --- the sweep ---

def swept(options, name, batches, lengths, summary_at):
    """What the file gets of a model. summary_at(B, K) runs the program."""
    sweep = programs.BatchSweep([{"B": B} for B in batches], lengths, lambda group, K: summary_at(group["B"], K))
    measures, _ = programs.by_turns(programs.rules_of(options), name, sweep)
    entries, plain = [], {}
    for identity, found in measures:
        if any(found[0][count] != other[count] for other in found for count in COUNTS):
            raise SystemExit(f"{name}, {identity}: two runs counted differently")
        gains = [counters["gain"] for counters in found]
        entry = {**identity, **medians(found), "gain_least": min(gains), "gain_most": max(gains)}
        if entry["K"] == 0:
            plain = entry
        else:
            entry.update(formula=by_formula(entry), accounting=by_accounting(entry, plain))
        entries.append({name: rounded(name, value) for name, value in entry.items()})
    summary = summary_at(batches[0], 0)
    return {"rounds": len(found), "device": summary["device"], "target_weight_bytes": summary["memory"]["target_weights"],
            "best_k_by_batch": best_k(entries), "entries": entries}


def medians(entries):
    """Name -> median; None stays None."""
    return {name: None if entries[0][name] is None else statistics.median(e[name] for e in entries) for name in entries[0]}


def rounded(name, value):
    """Times and rates to 4 digits, ratios to 4 places."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if name.endswith("_ms") or "per_second" in name else round(value, 4)


def best_k(entries):
    """B -> the K that was fastest; 0: none."""
    best = {}
    for e in entries:  # K = 0 has a gain of 1
        if e["gain"] > best.setdefault(e["B"], e)["gain"]:
            best[e["B"]] = e
    return {B: e["K"] for B, e in best.items()}


# --- the two models ---

def pair_prompts():
    """32 prompts that the target continues for long enough, a mixture of kinds at every place."""
    number, placed = {}, []
    for place, golden in enumerate(run.goldens()):
        if len(golden["tokens"]) > PAIR_TOKENS:
            number[golden["kind"]] = number.get(golden["kind"], 0) + 1
            placed.append((number[golden["kind"]], place, golden["prompt_ids"]))
    return [ids for _, _, ids in sorted(placed)[:REQUESTS]]


def pair(options):
    """Every run has the same 32 requests, at most B at a time."""
    serve, prompts = programs.Programs(options.build).serve, pair_prompts()
    batches, lengths = ([2, 32], [0, 3]) if options.quick else (BATCHES, PAIR_K)
    return {"requests": REQUESTS, "max_new_tokens": PAIR_TOKENS, **swept(
        options, "pair", batches, lengths, lambda B, K: serve(PROGRAM, programs.drafting(K), prompts, PAIR_TOKENS, B)[0])}


def memory(options):
    """B requests that stay together: all drafts are right, so that each round of each emits K + 1 tokens."""
    serve, prompts = programs.Programs(options.build).serve, [[100 + i] * 4 for i in range(REQUESTS)]
    with tempfile.TemporaryDirectory() as folder:
        random_checkpoint.write(pathlib.Path(folder), random_checkpoint.SHAPE_133M)

        def summary_at(B, K):
            rounds = 4 + 20 // B  # more where a round is short
            words = [*programs.drafting(K), "--target", folder, "--draft-kind", "lookup"]
            return serve(PROGRAM, words, prompts[:B], rounds * (K + 1), B)[0]
        result = swept(options, "memory", *(([1, 4], [0, 3]) if options.quick else (BATCHES, MEMORY_K)), summary_at)
    for e in result["entries"]:
        if e["K"]:
            e["supposed"] = round(formulas.walltime_factor(SUPPOSED_ALPHA, e["K"], SUPPOSED_C, e["v"]), 4)
    return {"label": "random weights, a text that repeats itself", **result, "supposed_alpha": SUPPOSED_ALPHA, "supposed_c": SUPPOSED_C}


# --- the timeline ---

# A prompt, its new tokens, and its arrival in seconds.
TRACED = [("stories-0", 40, 0), ("rewriting-1", 36, 0), ("recipes-0", 56, 0), ("poems-1", 24, 0.002), ("code-5", 28, 0.004),
          ("arithmetic-0", 24, 0.007), ("stories-4", 28, 0.011), ("recipes-7", 24, 0.016)]
TRACE_WORDS = ["--max-batch", "4", "--pages", "18", "--draft-pages", "18", "--prefill-chunk", "32", "--token-budget",
               "64", "--no-prefix-cache", "--spec-length", "5"]


def trace(options):
    """What the figure needs of a run, which must show all that the figure is there for."""
    ids = {golden["id"]: golden["prompt_ids"] for golden in run.goldens()}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": prompt, "prompt_ids": ids[prompt], "max_new_tokens": tokens, "arrival": arrival})
                        + "\n" for prompt, tokens, arrival in TRACED)
        file.flush()
        for _ in range(20):                    # requests arrive by the clock, so runs differ
            full = run.traced(run.program(options.build, PROGRAM), ["--requests", file.name, *TRACE_WORDS])
            if shows_all(full):
                return shortened(full)
    raise SystemExit("no run had one preemption, a waiting request and a prompt in chunks")


def shows_all(full):
    chunks = [p["request"] for step in full["steps"] for p in step["prefills"]]
    return (full["engine"]["preemptions"] == 1 and any(step["waiting"] for step in full["steps"]) and
            len(chunks) > len(set(chunks)) + 1)


def shortened(full):
    """Milliseconds, and of each step who did what."""
    ms = lambda seconds: round(1e3 * seconds, 3)
    requests = [{"request": r["request"], "id": r["id"], "prompt_tokens": r["prompt_tokens"],
                 "tokens": len(r["tokens"]), "arrived": ms(r["stats"]["arrived"]),
                 "finished": ms(r["stats"]["finished"])} for r in full["requests"]]
    steps = [{**{name: ms(step[name]) for name in ("started", "ended")},
              **{name: step[name] for name in ("admitted", "preempted", "finished", "pages", "most_pages")},
              "prefills": [[p["request"], p["tokens"]] for p in step["prefills"]],
              "rounds": [[r["request"], r["drafted"], r["accepted"], r["emitted"]] for r in step["rounds"]]}
             for step in full["steps"]]
    return {"options": " ".join(TRACE_WORDS), "spec_length": full["engine"]["spec_length"],
            "pages": full["engine"]["target_pool"]["pages"], "requests": requests, "steps": steps}


if __name__ == "__main__":
    run.measured_parts(__doc__, "batch.json", {"pair": pair, "memory": memory, "trace": trace}, ("pair", "memory"))
