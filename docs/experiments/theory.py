#!/usr/bin/env python3
"""Runs the experiments of docs/theory/ on the embedded pair, into results.json.

    python3 docs/experiments/theory.py [counts] [times] [--build DIR] [--out FILE] [--quick]

counts: alpha and all that follows from it. They are the same on every run, and need no quiet machine. times: of this
machine, now: let nothing else run.
"""
import concurrent.futures
import os
import statistics

import formulas
import run
import programs

PROGRAM = programs.STAGES[5]
K = 5                                       # of everything but the sweeps over K
MAX_NEW_TOKENS = 128
TIMED_K = [1, 2, 3, 5, 8]
TIMED_KINDS = ["llama", "bigram", "lookup"]
TIMED_PROMPTS = ("stories-0", "recipes-0", "code-3", "rewriting-2")
DRAWN_PROMPT, DRAWN_SEED = "stories-4", 3   # the run of a figure
LENIENCE = [0.5, 0.3, 0.1]
# Draft kind -> temperature -> seeds. At temperature 0 a seed changes nothing for these kinds.
SEEDS = {kind: {0: [1], 0.5: [1], 1: [1, 2]} for kind in ("llama", "bigram", "unigram", "lookup")}
SEEDS["lookup"] = {0: [1], 0.5: [1, 2], 1: [1, 2, 3]}  # it drafts in few rounds, so that a run tests little
SEEDS["random"] = SEEDS["self"] = {0: [1], 1: [1]}
SHORT = {"random": 32, "self": 32}          # new tokens, where nothing is to be learnt from more


def arguments(prompt, kind="llama", spec_length=K, temperature=0.0, seed=1, lenience=1.0, tokens=MAX_NEW_TOKENS):
    """What the program is asked for; kind None: plain decoding."""
    drafting = ["--no-speculation"] if kind is None else ["--draft-kind", kind, "--spec-length", spec_length]
    return [*run.prompt_words(prompt["prompt_ids"], tokens), "--temperature", temperature, "--seed", seed, *drafting,
            *(["--lenience", lenience] if lenience != 1 else [])]


# --- counts ---

def counts(trace):
    """The counts of one run. Whole rounds drafted all K and are not the last one, which a stop may have cut short."""
    spec_length, stats = trace["spec_length"], trace["stats"]
    whole = [r for r in trace["rounds"][:-1] if r["drafted"] == spec_length]
    return {**{name: stats[name] for name in ("tested", "accepted", "drafted", "emitted", "rounds")},
            "rounds_that_drafted": sum(r["drafted"] > 0 for r in trace["rounds"]),
            "acceptance_prob": (stats["alpha_by_probability"] or 0) * stats["tested"],
            "whole_rounds": len(whole), "whole_emitted": sum(len(r["emitted"]) for r in whole),
            "whole_tested": sum(r["tested"] for r in whole), "whole_accepted": sum(r["accepted"] for r in whole),
            "accepted_at": [sum(r["accepted"] > i for r in whole) for i in range(spec_length)],
            "tested_at": [sum(r["tested"] > i for r in whole) for i in range(spec_length)]}


def add(values):
    """Numbers, or lists of them."""
    return [sum(column) for column in zip(*values)] if isinstance(values[0], list) else sum(values)


def summarise(runs):
    """runs: (prompt, counts) pairs -> sums and ratios."""
    total = {name: add([c[name] for _, c in runs]) for name in runs[0][1]}
    prompts = {}
    for prompt, c in runs:
        kind, accepted, tested = prompts.get(prompt["id"], (prompt["kind"], 0, 0))
        prompts[prompt["id"]] = kind, accepted + c["accepted"], tested + c["tested"]
    ratios = {"alpha": ("accepted", "tested"), "alpha_by_probability": ("acceptance_prob", "tested"),
              "acceptance_rate": ("accepted", "drafted"), "emitted_per_round": ("emitted", "rounds"),
              "whole_emitted_per_round": ("whole_emitted", "whole_rounds")}
    return {"runs": len(runs), "alpha_se": run.standard_error(list(prompts.values())),
            **{name: run.ratio(*(total[part] for part in parts)) for name, parts in ratios.items()},
            **{name: value for name, value in total.items() if name != "acceptance_prob"}}


def count_all(program, jobs):
    """jobs: (name, prompt, keywords of arguments()). name -> (prompt, counts, tokens) in the jobs' order."""
    progress = run.Progress("counts", len(jobs))

    def one(job):
        trace = run.traced(program, [*arguments(job[1], **job[2]), "--threads", "1"])
        progress.step()
        return counts(trace), trace["tokens"]

    found, pool = {}, concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        for (name, prompt, _), result in zip(jobs, pool.map(one, jobs)):
            found.setdefault(name, []).append((prompt, *result))
    finally:
        pool.shutdown(cancel_futures=True)  # where a job failed, the rest is not started
    return found


def jobs_of(prompts, quick):
    few = run.first_of_each_kind(prompts, 1 if quick else 4)
    for kind, temperatures in SEEDS.items():
        for temperature, seeds in temperatures.items():
            for seed in seeds[:1] if quick else seeds:
                for prompt in prompts if not quick or kind not in SHORT else []:
                    yield ("alpha", kind, temperature), prompt, {"kind": kind, "temperature": temperature, "seed": seed,
                                                                 "tokens": SHORT.get(kind, MAX_NEW_TOKENS)}
    for kind in ("llama",) if quick else ("llama", "bigram", "unigram"):
        for temperature in (0, 1):
            for lenience in (1, 0.1) if quick else (1, *LENIENCE):
                for prompt in few:
                    yield (("lenience", kind, temperature, lenience), prompt,
                           {"kind": kind, "temperature": temperature, "lenience": lenience})
    for temperature in (0, 1):
        for spec_length in (2, 8) if quick else (1, 2, 3, 8):
            for prompt in few:
                yield (("spec_length", temperature, spec_length), prompt,
                       {"temperature": temperature, "spec_length": spec_length})


def count_experiments(options):
    program, prompts = run.program(options.build, PROGRAM), run.goldens()
    if options.quick:
        prompts = [prompt for prompt in prompts if prompt["id"] in (*TIMED_PROMPTS, DRAWN_PROMPT)]
    found = count_all(program, list(jobs_of(prompts, options.quick)))
    result = {"alpha": [], "lenience": [], "spec_length": []}
    for (experiment, *setting), runs in found.items():
        counted = [(prompt, c) for prompt, c, _ in runs]
        fields = {"alpha": ("draft", "T"), "lenience": ("draft", "T", "lenience"), "spec_length": ("T", "K")}[experiment]
        entry = dict(zip(fields, setting))
        if experiment == "alpha":
            for text in ["all", *dict.fromkeys(prompt["kind"] for prompt, _ in counted)]:
                result["alpha"].append({**entry, "text": text,
                                        **summarise([(p, c) for p, c in counted if text in ("all", p["kind"])])})
            continue
        entry.update(summarise(counted))
        if experiment == "lenience":
            del entry["alpha_by_probability"]  # of the rule without lenience
            strict = [tokens for *_, tokens in found["lenience", setting[0], setting[1], 1]]
            if entry["T"] == 0:
                entry["texts_unchanged"] = sum(a == tokens for a, (*_, tokens) in zip(strict, runs))
        result[experiment].append(entry)
    model = run.timed(program, arguments(prompts[0], tokens=1))["model"]
    return {"K": K, "max_new_tokens": MAX_NEW_TOKENS, "prompts": len(prompts),
            "model": {name: value for name, value in model.items() if name != "directory"}, **result,
            "rounds": rounds_to_draw(program)}


def rounds_to_draw(program):
    """A run, round by round, for the figure."""
    prompt, = run.goldens([DRAWN_PROMPT])
    trace = run.traced(program, [*arguments(prompt, temperature=1, seed=DRAWN_SEED, tokens=60), "--threads", "1"])
    piece = lambda token: trace["pieces"][str(token)]
    drawn = [{"drafts": [[piece(d["token"]), d["verdict"]] for d in r["drafts"]],
              "last": r["last"] and [piece(r["last"]["token"]), r["last"]["kind"]]} for r in trace["rounds"]]
    return {"prompt": prompt["id"], "spec_length": K, "temperature": 1, "seed": DRAWN_SEED, "tokens": len(trace["tokens"]),
            "rounds": drawn}


# --- times ---

def time_experiments(options):
    """By turns, with plain decoding before the settings of each prompt and temperature."""
    texts, lengths = (TIMED_PROMPTS[:1], TIMED_K[1:4:2]) if options.quick else (TIMED_PROMPTS, TIMED_K)
    settings = [programs.Setting({"draft": kind, "T": T, "K": length},
                                 (PROGRAM, ("--draft-kind", kind, "--spec-length", str(length), "--temperature", str(T))),
                                 (PROGRAM, ("--no-speculation", "--temperature", str(T))), texts)
                for kind in TIMED_KINDS for T in (0, 1) for length in lengths]
    measures, device = programs.measured(
        options, "times", settings, MAX_NEW_TOKENS,
        lambda stats, plain: {**stats, "plain_seconds": stats["emitted"] / programs.rate(plain)})
    found = {}
    for identity, kept in measures:
        found.setdefault((identity["draft"], identity["T"], identity["K"]), []).append(kept)
    return {"device": device, "prompts": list(texts), "rounds": len(kept),
            "entries": [time_summary(*setting, list(zip(*of_texts))) for setting, of_texts in found.items()],
            "timeline": timeline(run.program(options.build, PROGRAM), options.quick)}


def check_formula(stats, spec_length):
    """The program's functions and ours must agree: the tables use both."""
    alpha, c, v, theirs = (stats[name] for name in ("alpha", "c", "v", "speedup_formula"))
    if None in (alpha, c, v, theirs):
        return
    share = stats["drafted_rounds"] / stats["rounds"]        # the others were plain steps
    ours = ((1 + share * (formulas.emitted(alpha, spec_length) - 1)) / (share * (spec_length * c + v) + 1 - share))
    if not abs(ours - theirs) <= 1e-9 * ours:
        raise SystemExit(f"the walltime factor of alpha {alpha}, K {spec_length}, c {c}, v {v}: the program says "
                         f"{theirs}, formulas.py {ours}")


def time_summary(kind, T, K, rounds):
    """rounds: of each round, the stats of each prompt."""
    def total(stats, name):
        return sum(one[name] for one in stats)

    for stats in rounds:
        for one in stats:
            check_formula(one, K)
    first = rounds[0]  # counts are the same in all of them
    clock = [total(stats, "plain_seconds") / total(stats, "decode_seconds") for stats in rounds]
    over_rounds = lambda number: statistics.median(map(number, rounds))
    numbers = {"alpha": run.ratio(total(first, "accepted"), total(first, "tested")),
               "acceptance_rate": run.ratio(total(first, "accepted"), total(first, "drafted")),
               "emitted_per_round": total(first, "emitted") / total(first, "rounds"),
               "drafted_per_round": total(first, "drafted") / total(first, "rounds"),
               **{name: over_rounds(lambda stats: statistics.median(one[name] for one in stats)) for name in ("c", "v")},
               "program_accounting": over_rounds(lambda stats: total(stats, "emitted") / sum(
                   one["emitted"] / one["speedup_accounting"] for one in stats)),
               "clock": statistics.median(clock), "clock_least": min(clock), "clock_most": max(clock)}
    return {"draft": kind, "T": T, "K": K,
            **{name: value if value is None else round(value, 4) for name, value in numbers.items()}}


def timeline(program, quick):
    """Microseconds of each round with K = 7, K = 3 and plain decoding of one text; medians over repeats."""
    prompt, = run.goldens(["stories-0"])
    rows = {"K = 7": ("llama", 7), "K = 3": ("llama", 3), "plain": (None, K)}
    traces = [{name: run.traced(program, arguments(prompt, *row, tokens=40)) for name, row in rows.items()}
              for _ in range(1 if quick else 7)]
    return {"prompt": prompt["id"], "temperature": 0, "rows": [
        {"name": name, "rounds": [{"drafted": versions[0]["drafted"], "emitted": len(versions[0]["emitted"]), **{
            part: round(statistics.median(r["seconds"][part] for r in versions) * 1e6, 1)
            for part in ("draft", "verify", "other")}} for versions in zip(*(trace[name]["rounds"] for trace in traces))]}
        for name in rows]}


if __name__ == "__main__":
    run.measured_parts(__doc__, "results.json", {"counts": count_experiments, "times": time_experiments}, ("times",))
