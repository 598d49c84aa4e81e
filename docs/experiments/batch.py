#!/usr/bin/env python3
"""Measures what speculation buys for a batch of requests, by the batch's size B and by K, and records a run for the
timeline of chapter 6, into batch.json.

    python3 docs/experiments/batch.py [pair] [memory] [trace] [--build DIR] [--quick]

Two models, because the answer depends on where the weights come from:
    pair     the embedded pair. The target lies in the processor's cache, so that further rows cost from the first on.
    memory   133 million random weights, which come from memory. A random model has no text to be right or wrong about;
             this one repeats its last token for ever, and a lookup drafts that. So drafts are free and always right:
             this measures v, and the most that speculation can give, not what it gives on a real text.
Let nothing else run. A sweep visits every B, and within it every K, with K = 0 before and after them: what is divided
was measured within seconds. The numbers are medians over sweeps.
"""
import json
import pathlib
import statistics
import sys
import tempfile

import formulas
import random_checkpoint
import run

sys.path.insert(0, str(run.REPOSITORY / "tests/benchmarks"))
import programs  # noqa: E402

PROGRAM = programs.STAGES[6]
REQUESTS = 32
BATCHES = [1, 2, 4, 8, 16, 32]
PAIR_K, PAIR_TOKENS = list(range(9)), 64
MEMORY_K = [0, 1, 3, 5, 8]
SWEEPS = 5
SUPPOSED_ALPHA, SUPPOSED_C = 0.8, 0.1       # of a draft model for the random one, in a prediction
COUNTS = ("full_steps", "rows", "emitted", "emitted_overall", "alpha", "drafting")


# --- what is expected ---

def by_formula(e):
    """From alpha, as if drafts were independent and all else cost nothing. A round that drafted nothing is a plain
    step."""
    if e["alpha"] is None:
        return None
    drafting = e["drafting"]
    tokens = 1 + drafting * (formulas.emitted(e["alpha"], e["spec_length"]) - 1)
    return tokens / (drafting * (e["spec_length"] * e["c"] + e["v"]) + 1 - drafting)


def by_accounting(e, plain):
    """From the tokens that a round of the whole text emitted, and all that it cost."""
    cost = e["spec_length"] * e["c"] + e["v"] + e["overhead_in_passes"]
    return e["emitted_overall"] * (1 + plain["overhead_in_passes"]) / cost


# --- the sweep ---

def swept(name, batches, lengths, sweeps, summary_at):
    """(B, K) -> the counters of each sweep. summary_at(B, K) runs the program."""
    progress = run.Progress(name, sweeps * len(batches) * (len(lengths) + 1))
    found = {}
    for batch in batches * sweeps:
        summaries = []
        for K in [*lengths, 0]:
            summaries.append((K, summary_at(batch, K)))
            progress.step()
        before, after = summaries[0][1], summaries.pop()[1]
        for K, summary in summaries:
            both = [programs.batch_counters(summary, plain, batch, K) for plain in ((before, after) if K else (before,))]
            found.setdefault((batch, K), []).append(medians(both))
    for (batch, K), counters in found.items():
        if any(counters[0][count] != other[count] for other in counters for count in COUNTS):
            raise SystemExit(f"{name}, B {batch}, K {K}: two runs counted differently")
    return found


def medians(entries):
    """Name -> median; None stays None."""
    return {name: None if entries[0][name] is None else statistics.median(e[name] for e in entries) for name in entries[0]}


def entries_of(found):
    """A flat entry for each (B, K), with predictions."""
    entries, plain = [], {}
    for (batch, K), counters in found.items():
        speeds = [e["measured"] for e in counters]
        entry = {"batch": batch, "spec_length": K, **medians(counters), "measured_least": min(speeds),
                 "measured_most": max(speeds)}
        if K == 0:
            plain[batch] = entry
        else:
            entry.update(formula=by_formula(entry), accounting=by_accounting(entry, plain[batch]))
        entries.append({name: rounded(name, value) for name, value in entry.items()})
    return entries


def rounded(name, value):
    """Times and rates to 4 digits, ratios to 4 places."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if name.endswith("_ms") or "per_second" in name else round(value, 4)


def best_k(entries):
    """B -> the K that was fastest; 0: none."""
    best = {e["batch"]: (0, 1) for e in entries}
    for e in entries:
        if e["spec_length"] and e["measured"] > best[e["batch"]][1]:
            best[e["batch"]] = e["spec_length"], e["measured"]
    return {batch: K for batch, (K, _) in best.items()}


def result_of(found, summary, **about):
    entries = entries_of(found)
    return {**about, "device": summary["device"], "target_weight_bytes": summary["memory"]["target_weights"],
            "best_k_by_batch": best_k(entries), "settings": entries}


# --- the two models ---

def pair_prompts():
    """32 prompts that the target continues for long enough, a mixture of kinds at every place."""
    number, placed = {}, []
    for place, golden in enumerate(run.goldens()):
        if len(golden["tokens"]) > PAIR_TOKENS:
            number[golden["kind"]] = number.get(golden["kind"], 0) + 1
            placed.append((number[golden["kind"]], place, golden["prompt_ids"]))
    return [ids for _, _, ids in sorted(placed)[:REQUESTS]]


def drafting(K):
    return ["--spec-length", K] if K else ["--no-speculation"]


def pair(options):
    """Every run has the same 32 requests, at most B at a time."""
    served, prompts = programs.Programs(options.build).serve, pair_prompts()
    summary_at = lambda batch, K: served(PROGRAM, drafting(K), prompts, PAIR_TOKENS, batch)[0]
    batches, lengths, sweeps = ([2, 32], [0, 3], 1) if options.quick else (BATCHES, PAIR_K, SWEEPS)
    found = swept("pair", batches, lengths, sweeps, summary_at)
    return result_of(found, summary_at(batches[0], 0), requests=REQUESTS, max_new_tokens=PAIR_TOKENS, sweeps=sweeps)


def memory(options):
    """B requests that stay together: all drafts are right, so that each round of each emits K + 1 tokens."""
    served, prompts = programs.Programs(options.build).serve, [[100 + i] * 4 for i in range(REQUESTS)]
    with tempfile.TemporaryDirectory() as folder:
        random_checkpoint.write(pathlib.Path(folder), random_checkpoint.SHAPE_133M)

        def summary_at(batch, K):
            rounds = 4 + 20 // batch       # more where a round is short
            words = [*drafting(K), "--target", folder, "--draft-kind", "lookup"]
            return served(PROGRAM, words, prompts[:batch], rounds * (K + 1), batch)[0]

        batches, lengths, sweeps = ([1, 4], [0, 3], 1) if options.quick else (BATCHES, MEMORY_K, SWEEPS)
        found = swept("memory", batches, lengths, sweeps, summary_at)
        result = result_of(found, summary_at(1, 0), label="random weights, a text that repeats itself", sweeps=sweeps)
    for e in result["settings"]:
        if e["spec_length"]:
            e["supposed"] = round(formulas.walltime_factor(SUPPOSED_ALPHA, e["spec_length"], SUPPOSED_C, e["v"]), 4)
    return {**result, "supposed_alpha": SUPPOSED_ALPHA, "supposed_c": SUPPOSED_C}


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
            full = run.traced(run.program(options, PROGRAM), ["--requests", file.name, *TRACE_WORDS])
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
