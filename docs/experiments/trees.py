#!/usr/bin/env python3
"""What trees accept on the embedded pair: the counts of docs/08_token_trees/, into trees.json.

    python3 docs/experiments/trees.py [--build DIR] [shapes] [rules] [clock]

shapes: greedy decoding with trees of many shapes. rules: sampling with each rule for siblings. For these it runs
tree_counts on some prompts of each kind of text; counts are the same on every machine. clock: what trees gain over a
chain in the shape 134m, by tree_benchmark; let nothing else run. Both programs build with the benchmarks. Each part
replaces its own part of the file. trees_tables.py puts them into the pages, with what passes cost by adaptive.json,
which adaptive.py measured.
"""
import argparse
import collections
import datetime
import json
import pathlib
import re
import subprocess
import tempfile

from adaptive import HERE, NEW_TOKENS, chosen_prompts
from run import machine, sources_sha256

FILE = HERE / "trees.json"
PROMPTS = {"shapes": 4, "rules": 2}  # of each kind of text
CLOCKED = {"tokens": 100, "repeats": 5}
COUNTERS = ["gain_over_chain", "tokens_per_second", "chain_tokens_per_second"]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def counts(program, part):
    """What tree_counts prints."""
    taken = collections.Counter()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        for prompt in chosen_prompts():
            taken[prompt["kind"]] += 1
            if taken[prompt["kind"]] <= PROMPTS[part]:
                file.write(" ".join([prompt["kind"], *map(str, prompt["prompt_ids"])]) + "\n")
        file.flush()
        return run(program, part, str(NEW_TOKENS), file.name)


def clock(program):
    """tree -> kind of text -> COUNTERS, as tree_benchmark measures them."""
    output = run(program, *(f"--{name}={number}" for name, number in CLOCKED.items()), "--benchmark_format=json")
    trees = collections.defaultdict(dict)
    for entry in output["benchmarks"]:
        if entry.get("error_occurred"):
            raise SystemExit(f"{entry['name']}: {entry['error_message']}")
        tree, kind = re.search(r"/tree:(.*)/text:(\w+)/", entry["name"]).groups()
        trees[tree][kind] = [round(entry[name], 3) for name in COUNTERS]
    return {"date": datetime.date.today().isoformat(), "sources": sources_sha256(), "machine": machine(), **CLOCKED,
            "trees": trees}


def text_of(result):
    """As JSON, with a line for each list and for each kind of text."""
    text = json.dumps(result, indent=1)
    lists = re.sub(r"\[[^][]*\]", lambda found: " ".join(found[0].split()), text)
    return re.sub(r"\[\s*(\[[^][]*\](?:,\s*\[[^][]*\])*)\s*\]", lambda found: " ".join(found[0].split()), lists) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    parser.add_argument("parts", nargs="*", metavar="PART", help="shapes, rules or clock; shapes and rules by default")
    arguments = parser.parse_args()
    result = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for part in arguments.parts or PROMPTS:
        if part == "clock":
            result["clock"] = clock(arguments.build / "bin/bench/tree_benchmark")
            continue
        if part not in PROMPTS:
            parser.error(f"there is no part {part}, only {', '.join(PROMPTS)} and clock")
        counted = counts(arguments.build / "bin/bench/tree_counts", part)
        result |= counted if part == "shapes" else {part: counted}
    FILE.write_text(text_of(result), encoding="utf-8")


if __name__ == "__main__":
    main()
