#!/usr/bin/env python3
"""What greedy trees accept on the embedded pair: the counts of docs/08_token_trees/, into trees.json.

    python3 docs/experiments/trees.py [--build DIR] [--nodes N]

It runs tree_counts, which builds with the benchmarks, on four prompts of each kind of text. Counts are the same on
every machine. trees_tables.py puts them into the pages, with what passes cost by adaptive.json, which adaptive.py
measured.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

from adaptive import HERE, NEW_TOKENS, PROMPTS_OF_A_KIND, chosen_prompts

FILE = HERE / "trees.json"


def counts(program, nodes):
    """What tree_counts prints."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        for prompt in chosen_prompts():
            file.write(" ".join([prompt["kind"], *map(str, prompt["prompt_ids"])]) + "\n")
        file.flush()
        done = subprocess.run([program, str(NEW_TOKENS), str(nodes), file.name], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def text_of(result):
    """As JSON, with a line for each list and for each kind of text."""
    text = json.dumps(result, indent=1)
    lists = re.sub(r"\[[^][]*\]", lambda found: " ".join(found[0].split()), text)
    return re.sub(r"\[\s*(\[[^][]*\](?:,\s*\[[^][]*\])*)\s*\]", lambda found: " ".join(found[0].split()), lists) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    parser.add_argument("--nodes", type=int, default=40, help="of the largest tree")
    arguments = parser.parse_args()
    result = {"tokens": NEW_TOKENS, "prompts_of_a_kind": PROMPTS_OF_A_KIND,
              **counts(arguments.build / "bin/bench/tree_counts", arguments.nodes)}
    FILE.write_text(text_of(result), encoding="utf-8")


if __name__ == "__main__":
    main()
