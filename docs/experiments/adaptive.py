#!/usr/bin/env python3
"""What stage 7's ways to choose K and to draft gain: the experiments of docs/07_adaptive_drafting/, into adaptive.json.

    python3 docs/experiments/adaptive.py --costs      measures the costs of the shapes (let nothing else run)
    python3 docs/experiments/adaptive.py --counts     runs everything on the embedded pair with these costs
    python3 docs/experiments/adaptive.py --clock      runs some of it in the larger shapes, by the clock

A larger shape writes the same text in the same rounds, and only costs more. So counts come from the embedded pair,
with the cost profile of the shape, and the gain is the number of tokens over the sum of what the rounds cost. The
clock then checks that. Each part replaces its own half of the file; counts are the same on every machine that is given
the same costs.
"""
import argparse
import collections
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from run import REPOSITORY, Progress, machine, sources_sha256

HERE = pathlib.Path(__file__).resolve().parent
PROMPTS = REPOSITORY / "golden/goldens/target/greedy.jsonl"
FILE = HERE / "adaptive.json"
PROGRAM = "07_adaptive_drafting"
NEW_TOKENS = 100
PROMPTS_OF_A_KIND = 4
# The target's and the draft's shape.
SHAPES = {"134m": ["--inflate-target", "134m", "--inflate-draft", "14m"],
          "3b": ["--inflate-target", "3b", "--inflate-draft", "1b"]}
FIXED = [1, 2, 3, 5, 8]
# A name of the book, and its options.
SETTINGS = {f"fixed {K}": ["--spec-length", str(K)] for K in FIXED} | {
    "gain": ["--draft-length", "gain"],
    "entropy": ["--draft-length", "entropy"],
    "confidence": ["--draft-length", "confidence"],
    "schedule": ["--draft-length", "schedule"],
    "lookup": ["--draft-kind", "lookup", "--draft-length", "gain"],
    "ngram": ["--draft-kind", "ngram", "--draft-length", "gain"],
    "lookup, else model": ["--fallback", "lookup,llama", "--draft-length", "gain"],
    "lookup below": ["--draft-of-draft", "lookup", "--draft-length", "gain"],
    "bigram below": ["--draft-of-draft", "bigram", "--draft-length", "gain"],
    "fixed 3, bigram below": ["--draft-of-draft", "bigram", "--spec-length", "3"],
    "fixed 5, bigram below": ["--draft-of-draft", "bigram", "--spec-length", "5"],
    "ngram below": ["--draft-of-draft", "ngram", "--draft-length", "gain"],
    "lookup, else model with bigram below": ["--fallback", "lookup,llama", "--draft-of-draft", "bigram",
                                             "--draft-length", "gain"]}
CLOCKED = {"134m": ["plain", "fixed 3", "gain", "entropy", "confidence", "schedule", "ngram", "lookup, else model",
                    "bigram below"],
           "3b": ["plain", "fixed 3", "fixed 3, bigram below", "lookup, else model", "lookup, else model with bigram below"]}
CLOCKED_PROMPTS = {"134m": ["arithmetic-0", "dialogue-3", "code-3", "rewriting-2", "recipes-0", "stories-0", "questions-1",
                            "poems-0"],
                   "3b": ["code-3", "rewriting-2", "stories-0"]}
CLOCKED_TOKENS = {"134m": 100, "3b": 40}
SWEEPS = {"134m": 3, "3b": 2}


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, [program, *words]))}\nended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def options_of(name):
    return ["--no-speculation"] if name == "plain" else SETTINGS[name]


# --- costs ---

def profile(program, words, name):
    """The costs that the program measures with these options, in a file of this name."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / name
        run(program, *words, "--draft-length", "gain", "--cost-profile", file, "--max-new-tokens", 1, "--output", "json")
        made = json.loads(file.read_text())
    return {"target_pass_seconds": made["target_pass_seconds"], "draft_step_seconds": made["draft_step_seconds"]}


def costs(program):
    """For each shape: passes of the target and a draft step; passes of the draft model over several rows, which verify
    the drafts below it; and what a draft of a table costs."""
    result = {}
    for shape, words in SHAPES.items():
        pair = profile(program, words, shape)
        draft_alone = ["--target", REPOSITORY / "golden/models/draft", "--inflate-target", words[3],
                       "--draft-kind", "bigram"]
        below = profile(program, draft_alone, "below")
        result[shape] = {**pair, "draft_pass_seconds": below["target_pass_seconds"],
                         "table_step_seconds": below["draft_step_seconds"]}
        print(f"{shape}: c {pair['draft_step_seconds'] / pair['target_pass_seconds'][0]:.3f}", file=sys.stderr)
    return result


# --- counts ---

def write_profile(folder, shape, measured):
    file = pathlib.Path(folder) / f"{shape}.json"
    file.write_text(json.dumps({"format": "specdec-cost-profile-1",
                                "target_pass_seconds": measured["target_pass_seconds"],
                                "draft_step_seconds": measured["draft_step_seconds"]}))
    return file


def chosen_prompts():
    by_kind = collections.defaultdict(list)
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        if len(prompt["tokens"]) > 1 and len(by_kind[prompt["kind"]]) < PROMPTS_OF_A_KIND:
            by_kind[prompt["kind"]].append(prompt)
    return [prompt for prompts in by_kind.values() for prompt in prompts]


def seconds_of(stats, measured, own_drafts):
    """What the rounds of a run cost by count. own_drafts: the draft model's own steps, those of thrown away drafts
    included; with drafts below it, what they cost instead."""
    passes = measured["target_pass_seconds"]
    verifying = sum(n * passes[K] for K, n in enumerate(stats["rounds_by_drafted"]))
    if "draft_levels" not in stats:
        return verifying + own_drafts * measured["draft_step_seconds"]
    level = stats["draft_levels"][0]
    rows = 1 + level["drafted"] / level["passes"] if level["passes"] else 1
    below = measured["draft_pass_seconds"]
    low = int(rows)
    one_pass = below[low - 1] + (rows - low) * (below[min(low, len(below) - 1)] - below[low - 1])
    return verifying + level["passes"] * one_pass + level["drafted"] * measured["table_step_seconds"]


def counted(program, prompt, name, file, measured):
    result = run(program, "--prompt-ids", ",".join(map(str, prompt["prompt_ids"])), "--max-new-tokens", NEW_TOKENS,
                 "--cost-profile", file, "--all-places", "--quiet", "--output", "json", *options_of(name))
    stats = result["stats"]
    no_model = name in ("lookup", "ngram")
    return {"emitted": stats["emitted"], "rounds": stats["target_forwards"], "drafted": stats["drafted"],
            "tested": stats["tested"], "accepted": stats["accepted"], "places": stats["places"],
            "accepted_places": stats["alpha_all_places"] * stats["places"], "oracle_rounds": stats["oracle"]["target_forwards"],
            "oracle_speedup": stats["oracle"]["speedup"],
            "plain_seconds": stats["emitted"] * measured["target_pass_seconds"][0],
            "seconds": seconds_of(stats, measured, 0 if no_model else stats["draft_forwards"])}


def oracle_seconds(run_of_gain):
    return run_of_gain["plain_seconds"] / run_of_gain["oracle_speedup"]


def counts(program, measured, names, result):
    """result: what is known of other settings."""
    prompts = chosen_prompts()
    progress = Progress("counts", len(SHAPES) * len(names) * len(prompts))
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            file = write_profile(folder, shape, measured[shape])
            for name in names:
                kinds = collections.defaultdict(lambda: collections.Counter())
                for prompt in prompts:
                    one = counted(program, prompt, name, file, measured[shape])
                    if name == "gain":
                        kinds["oracle", prompt["kind"]].update({
                            "emitted": one["emitted"], "rounds": one["oracle_rounds"],
                            "drafted": one["accepted_places"], "plain_seconds": one["plain_seconds"],
                            "seconds": oracle_seconds(one)})
                    one = {key: value for key, value in one.items() if not key.startswith("oracle")}
                    kinds[name, prompt["kind"]].update(one)
                    progress.step()
                for (setting, kind), total in kinds.items():
                    result.setdefault(shape, {}).setdefault(setting, {})[kind] = dict(total)
    return {"prompts_of_a_kind": PROMPTS_OF_A_KIND, "tokens": NEW_TOKENS, "totals": result}


# --- the clock ---

def accounting(stats, measured):
    """The gain by count: counts of this run and costs of the profile, with what choosing tokens took as a share of the
    run, which is not in them."""
    beside = 1 - (stats["draft_seconds"] + stats["verify_seconds"]) / stats["decode_seconds"]
    plain = stats["emitted"] * measured["target_pass_seconds"][0]
    return plain / seconds_of(stats, measured, stats["draft_forwards"]) * (1 - beside)


def clocked(program, measured, shapes):
    prompts = {p["id"]: p for p in map(json.loads, PROMPTS.read_text(encoding="utf-8").splitlines())}
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            file = write_profile(folder, shape, measured[shape])
            names, ids = CLOCKED[shape], CLOCKED_PROMPTS[shape]
            progress = Progress(f"the clock, {shape}", SWEEPS[shape] * len(names) * len(ids))
            for prompt_id in ids:
                seconds = collections.defaultdict(list)
                last = {}
                for _ in range(SWEEPS[shape]):      # all settings in turn, so that a slow minute slows all of them
                    for name in names:
                        words = ["--prompt-ids", ",".join(map(str, prompts[prompt_id]["prompt_ids"])),
                                 "--max-new-tokens", CLOCKED_TOKENS[shape], "--output", "json",
                                 *SHAPES[shape], *options_of(name)]
                        if name != "plain":
                            words += ["--cost-profile", file]
                        last[name] = run(program, *words)["stats"]
                        seconds[name].append(last[name]["decode_seconds"])
                        progress.step()
                for name in names:
                    stats = last[name]
                    result.setdefault(shape, {}).setdefault(name, {})[prompt_id] = {
                        "gain": statistics.median(p / s for p, s in zip(seconds["plain"], seconds[name])),
                        "accounting": accounting(stats, measured[shape]) if name != "plain" else 1,
                        "emitted": stats["emitted"],
                        "seconds": [round(s, 4) for s in seconds[name]]}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--counts", nargs="*", metavar="SETTING", choices=list(SETTINGS),
                        help=f"all of {', '.join(SETTINGS)}")
    parser.add_argument("--clock", nargs="*", metavar="SHAPE", choices=list(SHAPES), help=f"all of {', '.join(SHAPES)}")
    options = parser.parse_args()
    program = options.build / "bin" / PROGRAM
    results = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    made = {"date": datetime.date.today().isoformat(), "sources": sources_sha256()}
    if options.costs:
        results["costs"] = {**made, "machine": machine(), "shapes": costs(program)}
    measured = results["costs"]["shapes"]
    if options.counts is not None:
        before = results.get("counts", {}).get("totals", {}) if options.counts else {}
        results["counts"] = {**made, **counts(program, measured, options.counts or list(SETTINGS), before)}
    if options.clock is not None:
        shapes = options.clock or list(SHAPES)
        before = results.get("clock", {}).get("shapes", {})
        results["clock"] = {**made, "machine": machine(), "shapes": before | clocked(program, measured, shapes)}
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
