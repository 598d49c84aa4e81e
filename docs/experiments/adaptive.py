#!/usr/bin/env python3
"""What stage 7's ways to choose K and to draft gain: the experiments of docs/07_adaptive_drafting/, into adaptive.json.

    python3 docs/experiments/adaptive.py --costs      measures the costs of the shapes (let nothing else run)
    python3 docs/experiments/adaptive.py --counts     runs everything on the embedded pair with these costs
    python3 docs/experiments/adaptive.py --clock      runs some of it in the larger shapes, by the clock

A larger shape writes the same text in the same rounds, and only costs more. So counts come from the embedded pair,
with the cost profile of the shape, and the gain is the number of tokens over the sum of what the rounds cost. The
clock then checks that: plain decoding and a setting take turns of a few tokens. Each part replaces its own part of the file; counts are the same on
every machine that is given the same costs.
"""
import argparse
import collections
import datetime
import json
import pathlib
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
CLOCKED = {"134m": ["fixed 3", "gain", "entropy", "confidence", "schedule", "lookup", "ngram", "lookup, else model",
                    "bigram below"],
           "3b": ["fixed 3", "gain", "lookup below", "fixed 3, bigram below", "lookup, else model",
                  "lookup, else model with bigram below"]}
CLOCKED_TEXTS = {"134m": ["arithmetic", "dialogue", "code", "rewriting", "recipes", "stories", "questions", "poems"],
                 "3b": ["code", "rewriting", "stories"]}
CLOCKED_TOKENS = {"134m": 100, "3b": 40}


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

def clocked(program, measured, shape):
    """{"tokens": ..., "gains": setting -> text -> counters}, as adaptive_benchmark measures them."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_profile(folder, shape, measured[shape])
        names, texts = "|".join(CLOCKED[shape]), "|".join(CLOCKED_TEXTS[shape])
        output = run(program, f"--cost-profile={file}", f"--tokens={CLOCKED_TOKENS[shape]}", "--repeats=3",
                     "--benchmark_format=json",
                     f"--benchmark_filter=target:{shape}/way:({names})/text:({texts})/")
    result = {}
    for entry in output["benchmarks"]:
        if entry.get("error_occurred"):
            raise SystemExit(f"{entry['name']}: {entry['error_message']}")
        parts = dict(part.split(":", 1) for part in entry["name"].split("/") if ":" in part)
        kept = ("gain", "predicted_accounting", "c", "v", "alpha", "emitted_per_round", "bandwidth",
                "plain_tokens_per_second")
        result.setdefault(parts["way"], {})[parts["text"]] = {name: entry[name] for name in kept}
    return {"tokens": CLOCKED_TOKENS[shape], "gains": result}


def save(results):
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


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
        results["clock"] = {**made, "machine": machine(), "shapes": results.get("clock", {}).get("shapes", {})}
        for shape in options.clock or list(SHAPES):
            results["clock"]["shapes"][shape] = clocked(options.build / "bin/bench/adaptive_benchmark", measured, shape)
            save(results)
    save(results)


if __name__ == "__main__":
    main()
