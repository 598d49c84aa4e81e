#!/usr/bin/env python3
"""Runs the experiments of docs/theory/ on the embedded pair and writes what they gave.

    python3 docs/experiments/run.py [--build DIR] [--out FILE] [--quick] [--only counts|times]

Counts (alpha and all that follows from it) are the same on every run. They need no quiet machine. Times are of this
machine, now: let nothing else run. `--only` makes one half anew and keeps the other one from the file. `--quick` is a
smoke test on few prompts; its numbers mean nothing.
"""
import argparse
import concurrent.futures
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

import formulas

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "05_rejection_sampling"
K = 5                                       # of everything but the sweeps over K
MAX_NEW_TOKENS = 128
TIMED_K = [1, 2, 3, 5, 8]
TIMED_KINDS = ["llama", "bigram", "lookup"]
TIMED_PROMPTS = ["stories-0", "recipes-0", "code-3", "rewriting-2"]
DRAWN_PROMPT, DRAWN_SEED = "stories-4", 3   # the run of a figure
LENIENCE = [0.5, 0.3, 0.1]
# Draft kind -> temperature -> seeds. At temperature 0 a seed changes nothing for these kinds.
SEEDS = {kind: {0: [1], 0.5: [1], 1: [1, 2]} for kind in ("llama", "bigram", "unigram", "lookup")}
SEEDS["lookup"] = {0: [1], 0.5: [1, 2], 1: [1, 2, 3]}  # it drafts in few rounds, so that a run tests little
SEEDS["random"] = SEEDS["self"] = {0: [1], 1: [1]}
SHORT = {"random": 32, "self": 32}          # new tokens, where nothing is to be learnt from more


class Progress:
    """A line on stderr that counts, on a terminal only."""

    def __init__(self, name, total):
        self.name, self.total, self.done = name, total, 0
        self.shown = sys.stderr.isatty()

    def step(self):
        self.done += 1
        if self.shown:
            print(f"\r{self.name}: {self.done} of {self.total}   ", end="\n" if self.done == self.total else "",
                  file=sys.stderr, flush=True)


# --- running the program ---

def arguments(prompt, kind="llama", spec_length=K, temperature=0.0, seed=1, lenience=1.0, tokens=MAX_NEW_TOKENS):
    """What the program is asked for; kind None: plain decoding."""
    words = ["--prompt-ids", ",".join(map(str, prompt["prompt_ids"])), "--max-new-tokens", tokens,
             "--temperature", temperature, "--seed", seed]
    words += ["--no-speculation"] if kind is None else ["--draft-kind", kind, "--spec-length", spec_length]
    if lenience != 1:
        words += ["--lenience", lenience]
    return [str(word) for word in words]


def run(program, words):
    """The program's stdout; stops everything with the program's own message if it fails."""
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join([str(program), *words])}\nended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def traced(program, words):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        run(program, [*words, "--quiet", "--trace", str(file)])
        return json.loads(file.read_text(encoding="utf-8"))


def timed(program, words):
    return json.loads(run(program, [*words, "--output", "json"]))


# --- counts ---

def counts(trace):
    """The counts of one run. Whole rounds drafted all K and are not the last one, which a stop may have cut short."""
    spec_length, stats = trace["spec_length"], trace["stats"]
    whole = [r for r in trace["rounds"][:-1] if r["drafted"] == spec_length]
    return {"tested": stats["tested"], "accepted": stats["accepted"], "drafted": stats["drafted"],
            "emitted": stats["emitted"], "rounds": stats["rounds"],
            "rounds_that_drafted": sum(r["drafted"] > 0 for r in trace["rounds"]),
            "acceptance_prob": (stats["alpha_by_probability"] or 0) * stats["tested"],
            "whole_rounds": len(whole), "whole_emitted": sum(len(r["emitted"]) for r in whole),
            "whole_tested": sum(r["tested"] for r in whole), "whole_accepted": sum(r["accepted"] for r in whole),
            "accepted_at": [sum(r["accepted"] > i for r in whole) for i in range(spec_length)],
            "tested_at": [sum(r["tested"] > i for r in whole) for i in range(spec_length)]}


def add(all_counts):
    total = {}
    for one in all_counts:
        for name, value in one.items():
            if isinstance(value, list):
                total[name] = [a + b for a, b in zip(total.get(name, [0] * len(value)), value)]
            else:
                total[name] = total.get(name, 0) + value
    return total


def ratio(above, below):
    return round(above / below, 6) if below else None


def standard_error(by_prompt):
    """Of sum accepted / sum tested. by_prompt: (stratum, accepted, tested) of each prompt, its seeds together. The
    tests of one text are not independent, so the prompts are what was drawn, from the kinds of text as strata."""
    tested = sum(t for _, _, t in by_prompt)
    if tested == 0:
        return None
    alpha = sum(a for _, a, _ in by_prompt) / tested
    variance = stratified_variance([(s, a - alpha * t) for s, a, t in by_prompt])
    return None if variance is None else round(math.sqrt(variance) / tested, 6)


def stratified_variance(deviations):
    """Of the sum of the deviations of drawn prompts: (stratum, deviation) of each. None where a stratum has only one."""
    variance = 0
    for stratum in dict.fromkeys(s for s, _ in deviations):
        rest = [deviation for s, deviation in deviations if s == stratum]
        if len(rest) < 2:
            return None
        mean = sum(rest) / len(rest)
        variance += len(rest) / (len(rest) - 1) * sum((r - mean) ** 2 for r in rest)
    return variance


def summarise(runs):
    """runs: (prompt, counts) pairs -> sums and ratios."""
    total = add(c for _, c in runs)
    prompts = {}
    for prompt, c in runs:
        entry = prompts.setdefault(prompt["id"], [prompt["kind"], 0, 0])
        entry[1] += c["accepted"]
        entry[2] += c["tested"]
    acceptance_prob = total.pop("acceptance_prob")
    return {"runs": len(runs), "alpha": ratio(total["accepted"], total["tested"]),
            "alpha_se": standard_error(list(prompts.values())), "alpha_by_probability": ratio(acceptance_prob, total["tested"]),
            "acceptance_rate": ratio(total["accepted"], total["drafted"]),
            "emitted_per_round": ratio(total["emitted"], total["rounds"]),
            "whole_emitted_per_round": ratio(total["whole_emitted"], total["whole_rounds"]), **total}


def count_all(program, jobs):
    """jobs: (name, prompt, keywords of arguments()). name -> (prompt, counts, tokens) in the jobs' order."""
    progress = Progress("counts", len(jobs))

    def one(job):
        name, prompt, options = job
        trace = traced(program, [*arguments(prompt, **options), "--threads", "1"])
        progress.step()
        return name, prompt, counts(trace), trace["tokens"]

    found = {}
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        for name, prompt, numbers, tokens in pool.map(one, jobs):
            found.setdefault(name, []).append((prompt, numbers, tokens))
    finally:
        pool.shutdown(cancel_futures=True)  # where a job failed, the rest is not started
    return found


def count_experiments(program, prompts, quick):
    few = first_of_each_kind(prompts, 1 if quick else 4)
    jobs = []
    for kind, temperatures in SEEDS.items():
        for temperature, seeds in temperatures.items():
            for seed in seeds[:1] if quick else seeds:
                jobs += [(("alpha", kind, temperature), prompt,
                          {"kind": kind, "temperature": temperature, "seed": seed,
                           "tokens": SHORT.get(kind, MAX_NEW_TOKENS)})
                         for prompt in prompts if not quick or kind not in SHORT]
    for kind in ("llama", "bigram", "unigram"):
        for temperature in (0, 1):
            for lenience in [1, *LENIENCE]:
                if not quick or (kind == "llama" and lenience in (1, 0.1)):
                    jobs += [(("lenience", kind, temperature, lenience), prompt,
                              {"kind": kind, "temperature": temperature, "lenience": lenience}) for prompt in few]
    for temperature in (0, 1):
        for spec_length in (2, 8) if quick else (1, 2, 3, 8):
            jobs += [(("spec_length", temperature, spec_length), prompt,
                      {"temperature": temperature, "spec_length": spec_length}) for prompt in few]
    found = count_all(program, jobs)

    result = {"alpha": [], "lenience": [], "spec_length": []}
    for name, runs in found.items():
        experiment, *setting = name
        without_tokens = [(prompt, c) for prompt, c, _ in runs]
        if experiment == "alpha":
            for text in ["all", *dict.fromkeys(prompt["kind"] for prompt, _ in without_tokens)]:
                chosen = [(p, c) for p, c in without_tokens if text in ("all", p["kind"])]
                result["alpha"].append({"draft_kind": setting[0], "temperature": setting[1], "text": text,
                                        **summarise(chosen)})
        elif experiment == "lenience":
            kind, temperature, lenience = setting
            entry = {"draft_kind": kind, "temperature": temperature, "lenience": lenience, **summarise(without_tokens)}
            del entry["alpha_by_probability"]  # of the rule without lenience
            strict = [tokens for _, _, tokens in found["lenience", kind, temperature, 1]]
            if temperature == 0:
                entry["texts_unchanged"] = sum(a == tokens for a, (_, _, tokens) in zip(strict, runs))
            result["lenience"].append(entry)
        else:
            result["spec_length"].append({"temperature": setting[0], "spec_length": setting[1],
                                          **summarise(without_tokens)})
    result["rounds"] = rounds_to_draw(program, prompts)
    return result


def rounds_to_draw(program, prompts):
    """A run, round by round, for the figure."""
    prompt = next(p for p in prompts if p["id"] == DRAWN_PROMPT)
    trace = traced(program, [*arguments(prompt, temperature=1, seed=DRAWN_SEED, tokens=60), "--threads", "1"])
    piece = lambda token: trace["pieces"][str(token)]
    drawn = []
    for r in trace["rounds"]:
        drawn.append({"drafts": [[piece(d["token"]), d["verdict"]] for d in r["drafts"]],
                      "last": r["last"] and [piece(r["last"]["token"]), r["last"]["kind"]]})
    return {"prompt": prompt["id"], "spec_length": K, "temperature": 1, "seed": DRAWN_SEED,
            "tokens": len(trace["tokens"]), "rounds": drawn}


def first_of_each_kind(prompts, number):
    chosen, seen = [], {}
    for prompt in prompts:
        seen[prompt["kind"]] = seen.get(prompt["kind"], 0) + 1
        if seen[prompt["kind"]] <= number:
            chosen.append(prompt)
    return chosen


# --- times ---

def time_experiments(program, prompts, quick):
    """Sweeps in which every setting comes once for every prompt, and plain decoding between them. A machine's speed
    drifts; what is divided was measured within seconds, and the medians are over sweeps."""
    chosen = [p for p in prompts if p["id"] in TIMED_PROMPTS][:1 if quick else None]
    lengths, sweeps = (([2, 5], 1) if quick else (TIMED_K, 3))
    progress = Progress("times", sweeps * len(chosen) * 2 * (len(TIMED_KINDS) * (1 + len(lengths)) + 1))
    device = None
    measured = {}  # (kind, temperature, K) -> of each sweep, the prompts' numbers
    for sweep in range(sweeps):
        for prompt in chosen:
            for temperature in (0, 1):
                plain, settings = [], []

                def decode_plainly():
                    report = timed(program, arguments(prompt, None, temperature=temperature))
                    plain.append(report["stats"]["decode_seconds"] / report["stats"]["emitted"])
                    progress.step()
                    return report["device"]

                for kind in TIMED_KINDS:
                    device = decode_plainly()
                    for spec_length in lengths:
                        stats = timed(program, arguments(prompt, kind, spec_length, temperature))["stats"]
                        check_formula(stats, spec_length)
                        settings.append(((kind, temperature, spec_length), stats))
                        progress.step()
                decode_plainly()
                step = statistics.median(plain)
                for name, stats in settings:
                    sums = measured.setdefault(name, [[] for _ in range(sweeps)])
                    sums[sweep].append({**stats, "plain_seconds": step * stats["emitted"]})
    return {"device": device, "prompts": [p["id"] for p in chosen], "sweeps": sweeps,
            "settings": [time_summary(*name, sweeps_) for name, sweeps_ in measured.items()],
            "timeline": timeline(program, prompts, quick)}


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


def time_summary(kind, temperature, spec_length, sweeps):
    """sweeps: of each sweep, the stats of each prompt."""
    def over_sweeps(number):
        return statistics.median(number(runs) for runs in sweeps)

    def total(runs, name):
        return sum(r[name] for r in runs)

    def together(name):
        """A speedup over all prompts: tokens over the sum of their times, in plain steps."""
        return over_sweeps(lambda runs: total(runs, "emitted") / sum(r["emitted"] / r[name] for r in runs))

    first = sweeps[0]  # counts are the same in all of them
    clock = [total(runs, "plain_seconds") / total(runs, "decode_seconds") for runs in sweeps]
    numbers = {"alpha": ratio(total(first, "accepted"), total(first, "tested")),
               "acceptance_rate": ratio(total(first, "accepted"), total(first, "drafted")),
               "emitted_per_round": total(first, "emitted") / total(first, "rounds"),
               "drafted_per_round": total(first, "drafted") / total(first, "rounds"),
               "c": over_sweeps(lambda runs: statistics.median(r["c"] for r in runs)),
               "v": over_sweeps(lambda runs: statistics.median(r["v"] for r in runs)),
               "program_accounting": together("speedup_accounting"), "program_clock": together("speedup_clock"),
               "clock": statistics.median(clock), "clock_least": min(clock), "clock_most": max(clock)}
    return {"draft_kind": kind, "temperature": temperature, "spec_length": spec_length,
            **{name: value if value is None else round(value, 4) for name, value in numbers.items()}}


def timeline(program, prompts, quick):
    """Seconds of each round with K = 7, K = 3 and plain decoding of one text; medians over repeats."""
    prompt = next(p for p in prompts if p["id"] == "stories-0")
    rows = [("K = 7", "llama", 7), ("K = 3", "llama", 3), ("plain", None, K)]
    traces = {name: [] for name, _, _ in rows}
    for _ in range(1 if quick else 7):
        for name, kind, spec_length in rows:
            traces[name].append(traced(program, arguments(prompt, kind, spec_length, tokens=40)))
    result = {"prompt": prompt["id"], "temperature": 0, "rows": []}
    for name, kind, spec_length in rows:
        same_round = zip(*(trace["rounds"] for trace in traces[name]))
        result["rows"].append({
            "name": name,
            "rounds": [{"drafted": versions[0]["drafted"], "emitted": len(versions[0]["emitted"]),
                        **{part: round(statistics.median(r["seconds"][part] for r in versions) * 1e6, 1)
                           for part in ("draft", "verify", "other")}} for versions in same_round]})
    return result


# --- where it was run ---

def read_bandwidth():
    """GB/s of one thread that looks for a byte which is not there."""
    data = b"\2" * (1 << 28)
    best = 0
    for _ in range(5):
        start = time.perf_counter()
        data.find(b"\1")
        best = max(best, len(data) / (time.perf_counter() - start) / 1e9)
    return round(best, 1)


def machine():
    cpu = platform.machine()
    try:
        cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1]
    except (OSError, TypeError):
        pass
    caches = {}
    for folder in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (folder / "type").read_text().strip() != "Instruction":
                caches["L" + (folder / "level").read_text().strip()] = (folder / "size").read_text().strip()
        except OSError:
            pass
    return {"cpu": cpu, "cores": os.cpu_count(), "caches": caches, "read_bandwidth_one_thread_gb_per_s":
            read_bandwidth()}


def build_of(folder):
    """The flags that the programs were compiled with, without paths and warnings."""
    try:
        commands = json.loads((folder / "compile_commands.json").read_text())
        command = next(c["command"] for c in commands if c["file"].endswith("/common/llama.cpp")).split()
        compiler = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    except (OSError, StopIteration, ValueError):
        return None
    return {"compiler": compiler, "flags": " ".join(w for w in command if re.match(r"-(O|m|f|std|DNDEBUG)", w))}


def sources_sha256():
    """Over name and content of all that decides the numbers."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "common",
                             "kernels", "stages", "golden/models"], cwd=REPOSITORY, capture_output=True)
    if listed.returncode != 0:
        return None
    digest = hashlib.sha256()
    for name in sorted(set(listed.stdout.decode().split("\0")) - {""}):
        file = REPOSITORY / name
        if file.is_file():
            digest.update(name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).with_name("results.json"))
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--only", choices=["counts", "times"], help="keep the rest of the file")
    options = parser.parse_args()
    program = options.build / "bin" / PROGRAM
    if not program.is_file():
        raise SystemExit(f"{program} is not there: make build")
    lines = (REPOSITORY / "golden/goldens/target/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = [json.loads(line) for line in lines]
    used = [p for p in prompts if p["id"] in (*TIMED_PROMPTS, DRAWN_PROMPT)] if options.quick else prompts

    results = json.loads(options.out.read_text(encoding="utf-8")) if options.only else {}
    report = timed(program, arguments(prompts[0], tokens=1))
    results.update(spec_length=K, max_new_tokens=MAX_NEW_TOKENS,
                   model={name: value for name, value in report["model"].items() if name != "directory"})
    made = {"date": datetime.date.today().isoformat(), "quick": options.quick, "sources_sha256": sources_sha256()}
    if options.only != "times":
        results["counts"] = {**made, "prompts": len(used), **count_experiments(program, used, options.quick)}
    if options.only != "counts":
        results["times"] = {**made, "machine": machine(), "build": build_of(options.build),
                            **time_experiments(program, used, options.quick)}
    if len({results[half]["sources_sha256"] for half in ("counts", "times")}) > 1:
        print("warning: counts and times were made from different sources", file=sys.stderr)
    options.out.write_text(dump(results), encoding="utf-8")
    print(options.out)


def dump(value, depth=0):
    """JSON with a line for each entry of the long lists, so that a diff can be read."""
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and depth < 3 and any(isinstance(v, (dict, list)) for v in value.values()):
        entries = [f"{json.dumps(k)}: {dump(v, depth + 1)}" for k, v in value.items()]
        return "{" + inner + ("," + inner).join(entries) + "\n" + " " * depth + "}"
    if isinstance(value, list) and depth < 5 and value and isinstance(value[0], dict):
        entries = [dump(v, depth + 1) if isinstance(v.get("rounds"), list) else json.dumps(v, ensure_ascii=False)
                   for v in value]
        return "[" + inner + ("," + inner).join(entries) + "\n" + " " * depth + "]"
    return json.dumps(value, ensure_ascii=False) + ("\n" if depth == 0 else "")


if __name__ == "__main__":
    main()
