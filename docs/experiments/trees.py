#!/usr/bin/env python3
"""What trees accept on the embedded pair, and what they gain: docs/08_token_trees/, into trees.json.

    python3 docs/experiments/trees.py [shapes] [rules] [clock] [--build DIR]

shapes: greedy decoding with trees of many shapes. rules: sampling with each rule for siblings. For these it runs
tree_counts on some prompts of each kind of text; counts are the same on every machine. clock: what trees gain over a
chain of three in the shape 134m; let nothing else run. trees_tables.py puts them into the pages, with what passes cost
by adaptive.json.
"""
import json
import sys
import tempfile

import run
from adaptive import NEW_TOKENS, chosen_prompts

sys.path.insert(0, str(run.REPOSITORY / "tests/benchmarks"))
import programs  # noqa: E402
import rounds  # noqa: E402

PROMPTS = {"shapes": 4, "rules": 2}  # of each kind of text
CLOCKED_TOKENS = 100
# Trees of the page, the best chain first: --tree and --spec-length.
CLOCKED = {"chain of 3": ("chains:1", 3), "chain of 5": ("chains:1", 5), "top:4": ("top:4", 1), "top:2x1x1": ("top:2x1x1", 3),
           "best:6 of 3": ("best:6", 3), "grow:4 of 3": ("grow:4", 3), "grow:6 of 3": ("grow:6", 3), "grow:10 of 5": ("grow:10", 5)}
SHAPE = ("--inflate-target", "134m", "--inflate-draft", "14m")
KEPT = ("tree", "text", "gain", "tokens_per_second", "plain_tokens_per_second")


def counts(part):
    """What tree_counts prints."""
    def counted(options):
        prompts = run.first_of_each_kind(chosen_prompts(options), PROMPTS[part])
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            json.dump(prompts, file)
            file.flush()
            return json.loads(run.run(run.program(options.build, "tree_counts"), [part, NEW_TOKENS, file.name]))
    return counted


def clock(options):
    """Held against the chain of three of stage 4."""
    texts = programs.TEXTS[:1 if options.quick else None]
    settings = [programs.Setting({"tree": name}, (programs.STAGES[8], (*SHAPE, "--tree", tree, "--spec-length", str(levels))),
                                 (programs.STAGES[4], (*SHAPE, "--spec-length", "3")), texts)
                for name, (tree, levels) in CLOCKED.items()]
    measures, _ = programs.measured(options, "trees", settings, CLOCKED_TOKENS)
    entries = [{**identity, **rounds.entry_of(found)} for identity, found in measures]
    return {"tokens": CLOCKED_TOKENS, "rounds": len(measures[0][1]), "entries": [{name: e[name] for name in KEPT} for e in entries]}


if __name__ == "__main__":
    run.measured_parts(__doc__, "trees.json", {"shapes": counts("shapes"), "rules": counts("rules"), "clock": clock}, ("clock",))
