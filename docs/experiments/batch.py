#!/usr/bin/env python3
"""Measures what speculation buys for a batch of requests, by the batch's size B and by K, and writes batch.json;
records a run for the timeline of chapter 6 in batch_trace.json.

    python3 docs/experiments/batch.py [--build DIR] [--sweeps N] [--quick] [--only pair|memory|trace]

Two models, because the answer depends on where the weights come from:
    pair     the embedded pair. The target lies in the processor's cache, so that further rows cost from the first on.
    memory   133 million random weights, which come from memory. A random model has no text to be right or wrong about;
             this one repeats its last token for ever, and a lookup drafts that. So drafts are free and always right:
             this measures v, and the most that speculation can give, not what it gives on a real text.
Let nothing else run. A sweep visits every B, and within it every K, one after the other, with K = 0 before and after
them: what is divided was measured within seconds. The numbers are medians over sweeps. `--only` makes one part anew
and keeps the others from the file. `--quick` is a smoke test; its numbers mean nothing.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import tempfile

import formulas
import random_checkpoint
import run

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = "06_batched_verification"
REQUESTS = 32
BATCHES = [1, 2, 4, 8, 16, 32]
PAIR_K, PAIR_TOKENS = list(range(9)), 64
MEMORY_K = [0, 1, 3, 5, 8]
SUPPOSED_ALPHA, SUPPOSED_C = 0.8, 0.1       # of a draft model for the random one, in a prediction


# --- running the program ---

def summary_of(program, words):
    """The summary of a run: the last line of its JSON."""
    return json.loads(run.run(program, [*words, "--output", "json"]).splitlines()[-1])["summary"]


def words_for(requests, batch, spec_length, tokens):
    """A run in which prompts are computed as soon as there is room, so that most steps are rounds of a full batch."""
    words = ["--requests", requests, "--max-batch", batch, "--max-new-tokens", tokens, "--ignore-eos",
             "--no-prefix-cache", "--token-budget", 4096, "--prefill-chunk", 4096]
    words += ["--spec-length", spec_length] if spec_length else ["--no-speculation"]
    return [str(word) for word in words]


def goldens():
    """Prompts with what the target answers."""
    lines = (run.REPOSITORY / "golden/goldens/target/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def write_requests(file, prompts):
    file.write_text("".join(json.dumps({"prompt_ids": ids}) + "\n" for ids in prompts), encoding="utf-8")
    return file


# --- what one run says ---

def full_batch(summary, batch):
    """The steps in which B requests had a round and no prompt was computed."""
    for entry in summary["decode_steps_by_batch_size"]:
        if entry["requests"] == batch:
            return entry
    raise SystemExit(f"no step had rounds of {batch} requests and nothing else")


def times_of(summary, batch):
    """Seconds per step in full batches, tokens per second there and overall, prompts and emptying batch included."""
    full = full_batch(summary, batch)
    step, draft, verify = (full[name] / full["steps"] for name in ("seconds", "draft_seconds", "verify_seconds"))
    return {"step": step, "draft": draft, "verify": verify, "overhead": step - draft - verify,
            "tokens_per_second": full["emitted"] / full["seconds"],
            "tokens_per_second_overall": summary["stats"]["tokens_per_second"]}


def counts_of(summary, batch):
    """What is the same in every sweep. In full batches a round emits more than in the whole text: requests with many
    accepted drafts end early, and what the others do alone is not in there."""
    full, stats = full_batch(summary, batch), summary["stats"]
    return {"full_steps": full["steps"], "rows": full["rows"] / full["steps"],
            "emitted": full["emitted"] / full["steps"] / batch,            # a round, in full batches
            "emitted_overall": stats["emitted"] / stats["rounds"],
            "alpha": stats["alpha"], "drafting": stats["drafted_rounds"] / stats["rounds"]}


def ratios(times, plain, K):
    """c, v and speedups from two runs of one sweep."""
    pass_ = plain["verify"]
    return {"c": times["draft"] / K / pass_ if K else None, "v": times["verify"] / pass_,
            "overhead_in_passes": times["overhead"] / pass_,
            "measured": times["tokens_per_second"] / plain["tokens_per_second"],
            "measured_overall": times["tokens_per_second_overall"] / plain["tokens_per_second_overall"]}


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

def measure(name, batches, lengths, sweeps, summary_at):
    """summary_at(B, K) runs the program. (B, K) -> (counts, times of each sweep, ratios of each sweep)."""
    progress = run.Progress(name, sweeps * len(batches) * (len(lengths) + 1))
    found = {}
    for _ in range(sweeps):
        for batch in batches:
            times = {K: [] for K in lengths}
            for K in [*lengths, 0]:            # 0 comes first and last, and what is in between is divided by both
                summary = summary_at(batch, K)
                counts = found.setdefault((batch, K), (counts_of(summary, batch), [], []))[0]
                if counts != counts_of(summary, batch):
                    raise SystemExit(f"{name}, B {batch}, K {K}: two runs counted differently")
                times[K].append(times_of(summary, batch))
                progress.step()
            plain = medians(times[0])
            for K, measured in times.items():
                _, all_times, all_ratios = found[batch, K]
                all_times.append(medians(measured))
                all_ratios.append(ratios(medians(measured), plain, K))
    return found


def medians(entries):
    """Name -> median over the sweeps; None stays None."""
    return {name: None if entries[0][name] is None else statistics.median(e[name] for e in entries)
            for name in entries[0]}


def entries_of(found):
    """A flat entry for each (B, K), with predictions."""
    entries, plain = [], {}
    for (batch, K), (counts, times, all_ratios) in found.items():
        middle, speeds = medians(times), [r["measured"] for r in all_ratios]
        entry = {"batch": batch, "spec_length": K, **counts,
                 **{f"{name}_ms": 1e3 * middle[name] for name in ("step", "draft", "verify")},
                 "tokens_per_second": middle["tokens_per_second"],
                 "tokens_per_second_overall": middle["tokens_per_second_overall"],
                 **medians(all_ratios), "measured_least": min(speeds), "measured_most": max(speeds)}
        if K == 0:
            plain[batch] = entry
        else:
            entry.update(formula=by_formula(entry), accounting=by_accounting(entry, plain[batch]))
        entries.append(entry)
    return entries


def break_even(entries):
    """K -> the largest B at which speculation was faster, and B -> the K that was fastest; 0: none."""
    largest, best = {}, {}
    for e in entries:
        if e["spec_length"]:
            K, batch = e["spec_length"], e["batch"]
            largest[K] = max(largest.get(K, 0), batch if e["measured"] > 1 else 0)
            if e["measured"] > max(1, best.get(batch, (0, 0))[1]):
                best[batch] = (K, e["measured"])
    return {"largest_batch_by_k": largest,
            "best_k_by_batch": {e["batch"]: best.get(e["batch"], (0, 1))[0] for e in entries}}


def rounded(entry):
    """Times and rates to 4 digits, ratios to 4 places."""
    def shorter(name, value):
        if not isinstance(value, float):
            return value
        return float(f"{value:.4g}") if name.endswith("_ms") or "per_second" in name else round(value, 4)
    return {name: shorter(name, value) for name, value in entry.items()}


def result_of(found, summary, **about):
    entries = entries_of(found)
    return {**about, "device": summary["device"], "target_weight_bytes": summary["memory"]["target_weights"],
            **break_even(entries), "settings": [rounded(e) for e in entries]}


# --- the two models ---

def pair_prompts():
    """32 prompts that the target continues for long enough, a mixture of kinds at every place."""
    number, placed = {}, []
    for place, golden in enumerate(goldens()):
        if len(golden["tokens"]) > PAIR_TOKENS:
            number[golden["kind"]] = number.get(golden["kind"], 0) + 1
            placed.append((number[golden["kind"]], place, golden["prompt_ids"]))
    return [ids for _, _, ids in sorted(placed)[:REQUESTS]]


def pair(program, sweeps, quick):
    """Every run has the same 32 requests, at most B at a time."""
    with tempfile.TemporaryDirectory() as folder:
        requests = write_requests(pathlib.Path(folder) / "requests.jsonl", pair_prompts())
        summary_at = lambda batch, K: summary_of(program, words_for(requests, batch, K, PAIR_TOKENS))
        batches, lengths = ([2, 32], [0, 3]) if quick else (BATCHES, PAIR_K)
        found = measure("pair", batches, lengths, sweeps, summary_at)
        return result_of(found, summary_at(batches[0], 0), requests=REQUESTS, max_new_tokens=PAIR_TOKENS)


def rounds_at(batch):
    """More where a round is short."""
    return 4 + 20 // batch


def memory(program, sweeps, quick):
    """B requests that stay together: all drafts are right, so that each round of each emits K + 1 tokens."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        random_checkpoint.write(folder, random_checkpoint.SHAPE_133M)
        prompts = [[100 + i] * 4 for i in range(REQUESTS)]

        def summary_at(batch, K):
            requests = write_requests(folder / "requests.jsonl", prompts[:batch])
            words = words_for(requests, batch, K, rounds_at(batch) * (K + 1))
            return summary_of(program, [*words, "--target", str(folder), "--draft-kind", "lookup"])

        batches, lengths = ([1, 4], [0, 3]) if quick else (BATCHES, MEMORY_K)
        found = measure("memory", batches, lengths, sweeps, summary_at)
        result = result_of(found, summary_at(1, 0), label="random weights, a text that repeats itself")
    for e in result["settings"]:
        if e["spec_length"]:
            e["supposed"] = round(formulas.walltime_factor(SUPPOSED_ALPHA, e["spec_length"], SUPPOSED_C, e["v"]), 4)
    return {**result, "supposed_alpha": SUPPOSED_ALPHA, "supposed_c": SUPPOSED_C}


# --- the timeline ---

TRACE_PROMPTS = ["stories-0", "rewriting-1", "recipes-0", "poems-1", "code-5", "arithmetic-0", "stories-4",
                 "recipes-7"]
TRACE_TOKENS = [40, 36, 56, 24, 28, 24, 28, 24]
TRACE_ARRIVALS = [0, 0, 0, 0.002, 0.004, 0.007, 0.011, 0.016]   # seconds
TRACE_WORDS = ["--max-batch", "4", "--pages", "18", "--draft-pages", "18", "--prefill-chunk", "32", "--token-budget",
               "64", "--no-prefix-cache", "--spec-length", "5"]


def trace_requests(file):
    ids = {golden["id"]: golden["prompt_ids"] for golden in goldens()}
    requests = [{"id": prompt, "prompt_ids": ids[prompt], "max_new_tokens": tokens,
                 "arrival": arrival}
                for prompt, tokens, arrival in zip(TRACE_PROMPTS, TRACE_TOKENS, TRACE_ARRIVALS)]
    file.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")


def trace(program):
    """What the figure needs of a run, which must show all that the figure is there for."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        trace_requests(folder / "requests.jsonl")
        for _ in range(20):                    # requests arrive by the clock, so runs differ
            run.run(program, ["--requests", str(folder / "requests.jsonl"), *TRACE_WORDS, "--quiet", "--trace",
                              str(folder / "trace.json")])
            full = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
            if shows_all(full):
                return shortened(full)
    raise SystemExit("no run had one preemption, a waiting request and a prompt in chunks")


def shows_all(full):
    engine = full["engine"]
    chunks = [p["request"] for step in full["steps"] for p in step["prefills"]]
    return (engine["preemptions"] == 1 and any(step["waiting"] for step in full["steps"]) and
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


# --- all ---

def dumped(value, depth=0):
    """JSON with a line for each entry of a list of objects, so that a diff can be read."""
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()) and depth < 2:
        entries = [f"{json.dumps(name)}: {dumped(v, depth + 1)}" for name, v in value.items()]
        return "{" + inner + ("," + inner).join(entries) + "\n" + " " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + inner + ("," + inner).join(map(json.dumps, value)) + "\n" + " " * depth + "]"
    return json.dumps(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "batch.json")
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--only", choices=["pair", "memory", "trace"], help="keep the rest")
    options = parser.parse_args()
    program = options.build / "bin" / PROGRAM
    if not program.is_file():
        raise SystemExit(f"{program} is not there: make build")
    sweeps = 1 if options.quick else options.sweeps
    made = {"date": datetime.date.today().isoformat(), "quick": options.quick, "sources_sha256": run.sources_sha256()}
    results = json.loads(options.out.read_text(encoding="utf-8")) if options.only in ("pair", "memory") else {}
    for name, part in (("pair", pair), ("memory", memory)):
        if options.only in (None, name):
            results[name] = {**made, "machine": run.machine(), "build": run.build_of(options.build), "sweeps": sweeps,
                             **part(program, sweeps, options.quick)}
    if options.only != "trace":
        options.out.write_text(dumped(results) + "\n", encoding="utf-8")
        print(options.out)
    if options.only in (None, "trace"):
        file = options.out.with_name("batch_trace.json")
        file.write_text(dumped({**made, **trace(program)}) + "\n", encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
