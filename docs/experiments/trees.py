#!/usr/bin/env python3
"""What trees accept on the embedded pair, and what they gain: docs/08_token_trees/, into trees.json.

    python3 docs/experiments/trees.py [shapes] [rules] [several] [clock] [--build DIR]

shapes: greedy decoding with trees of many shapes. rules: sampling with each rule for siblings. several: one, two and three
draft models in one tree, of which golden/train_several.py trains what is not stored. All run stage 8 on some prompts of each
kind of text; counts are the same on every machine. clock: what trees gain over a chain of three in the
shape 134m; let nothing else run. trees_tables.py puts them into the pages, with what passes cost by adaptive.json.
"""
import collections
import json
import pathlib
import re
import tempfile

import run
import programs
from adaptive import NEW_TOKENS, chosen_prompts

PROMPTS = {"shapes": 4, "rules": 2, "several": 2}  # of each kind of text
CLOCKED_TOKENS = 100
# Trees of the page, the best chain first: --tree and --spec-length.
CLOCKED = {"chain of 3": ("chains:1", 3), "chain of 5": ("chains:1", 5), "top:4": ("top:4", 1), "top:2x1x1": ("top:2x1x1", 3),
           "best:6 of 3": ("best:6", 3), "grow:4 of 3": ("grow:4", 3), "grow:6 of 3": ("grow:6", 3), "grow:10 of 5": ("grow:10", 5)}
SHAPE = ("--inflate-target", "134m", "--inflate-draft", "14m")
KEPT = ("tree", "text", "gain", "tokens_per_second", "plain_tokens_per_second")
RANKED = "top:8x4x3x1"
# Name -> --tree, --spec-length.
SHAPES = {**{f"chain of {levels}": ("chains:1", levels) for levels in (1, 2, 3, 4, 5, 6, 8, 10)},
          "top:4": ("top:4", 1), "top:3x2x1": ("top:3x2x1", 3),
          **{f"{kind}:{nodes} of {levels}": (f"{kind}:{nodes}", levels) for levels, most in ((3, 24), (5, 40), (10, 40))
             for nodes in (2 * levels, 4 * levels, 8 * levels) if nodes <= most for kind in ("best", "grow")},
          **{f"lookup:{n}": (f"chains:{n}", 5) for n in (1, 3)}}
WAYS = {"one chain": "chains:1", "three chains": "chains:3", "three, distinct": "distinct:3x1x1x1", "three, likeliest": "top:3x1x1x1"}
RULES = ("rejection", "at-least", "non-iterative", "sample-and-match", "coupled", "k-sequential", "block")
ONLY = {"k-sequential": "three chains", "block": "one chain"}
# Several draft models: name -> the drafts, and the number of chains that they draw.
TINY = "draft_boosted_1"
SEVERAL = {"one draft, one chain": ([TINY], 1), "one draft, two chains": ([TINY], 2), "one draft, three chains": ([TINY], 3),
           "two drafts, boosted": ([TINY, "draft_boosted_2"], 2),
           "three drafts, boosted": ([TINY, "draft_boosted_2", "draft_boosted_3"], 3),
           "three, the last one first": (["draft_boosted_3", "draft_boosted_2", TINY], 3),
           "two drafts, independent": ([TINY, "independent_2"], 2),
           "three drafts, independent": ([TINY, "independent_2", "independent_3"], 3),
           "`draft_small`, one chain": (["draft_small"], 1), "`draft_small`, three chains": (["draft_small"], 3)}


# --- counts ---

def prompts_of(options, part):
    return run.first_of_each_kind(chosen_prompts(options), PROMPTS[part])


def traced(options, prompt, tree, levels, *words, stage=8):
    return run.traced(run.program(options.build, programs.STAGES[stage]), [
        *run.prompt_words(prompt["prompt_ids"], NEW_TOKENS), "--ignore-eos", "--tree", tree, "--spec-length", levels, "--threads", 1,
        *words])


def counts_of(trace):
    return {"emitted": trace["stats"]["emitted"], "rounds": len(trace["rounds"]), "accepted": trace["stats"]["accepted"],
            "nodes": trace["stats"]["nodes"]}


def passes(trace, name):
    """Of the target and of the draft model: rows -> how many passes wanted the logits of so many."""
    target, draft = collections.Counter(), collections.Counter()
    grown = re.match(r"grow:(\d+)", name)
    for nodes in (one["tree"]["nodes"] for one in trace["rounds"]):
        target[1 + len(nodes)] += 1
        rows = collections.Counter(nodes[parent]["depth"] + 1 if parent >= 0 else 0 for parent in {node["parent"] for node in nodes})
        if grown:  # which goes on from a quarter as many nodes as it keeps, also where it keeps none of what follows them
            rows = {level: (int(grown[1]) + 3) // 4 if level else 1 for level in range(trace["spec_length"])}
        if not name.startswith("lookup"):
            draft.update(rows.values())
    return {"target_passes": target, "draft_passes": draft}


def expected_accepted(trace, ranks):
    """Of the first tree, whose nodes are what a best shape has: the sum of how likely the target is to get to each."""
    children, likely = collections.Counter(), []
    for node in trace["rounds"][0]["tree"]["nodes"]:
        rank, parent = children[node["parent"]], node["parent"]
        children[parent] += 1
        level = ranks[min(node["depth"], len(ranks) - 1)]
        likely.append((level[rank] if rank < len(level) else 0) * (likely[parent] if parent >= 0 else 1))
    return sum(likely)


def acceptances(options, prompts, file):
    """How often the target went on with each rank at each level, which the file gets, too."""
    for prompt in prompts:
        traced(options, prompt, RANKED, 4, "--write-tree-profile", file, *(["--tree-profile", file] if file.exists() else []))
    levels = json.loads(file.read_text(encoding="utf-8"))["levels"]
    return [[accepted / level["places"] for accepted in level["accepted"]] for level in levels]


def shapes(options):
    prompts, entries, expected = prompts_of(options, "shapes"), [], {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "profile.json"
        ranks = acceptances(options, prompts, file)
        for name, (tree, levels) in SHAPES.items():
            words = ["--draft-kind", "lookup"] if name.startswith("lookup") else ["--tree-profile", file] if tree.startswith("best") else []
            traces = {prompt["id"]: traced(options, prompt, tree, levels, *words) for prompt in prompts}
            entries += run.summed(prompts, lambda prompt: {**counts_of(traces[prompt["id"]]), **passes(traces[prompt["id"]], name)},
                                  shape=name)
            if name.startswith("best"):
                expected[name] = expected_accepted(traces[prompts[0]["id"]], ranks)
    return {"acceptance_by_rank": ranks, "expected_accepted": expected, "entries": entries}


def rules(options):
    prompts, entries = prompts_of(options, "rules"), []
    for way, tree in WAYS.items():
        for rule in (rule for rule in RULES if ONLY.get(rule, way) == way):
            entries += run.summed(prompts, lambda prompt: counts_of(traced(
                options, prompt, tree, 4, "--temperature", 1, "--seed", 1, "--siblings", rule)), way=way, rule=rule)
    return {"entries": entries}


def folder_of(draft):
    """Of a stored draft, or of one that was trained for this."""
    stored, trained = (run.REPOSITORY / "golden" / folder / draft for folder in ("models", "work"))
    if not stored.exists() and not trained.exists():
        raise SystemExit(f"{draft}: not stored; python golden/train_several.py trains it")
    return stored if stored.exists() else trained


def weight_bytes(drafts):
    """What a step of each draft reads, in all."""
    shapes = json.loads((run.REPOSITORY / "golden" / "figures" / "drafts.json").read_text(encoding="utf-8"))["sizes"]
    tiny = json.loads((run.REPOSITORY / "golden" / "figures" / "several.json").read_text(encoding="utf-8"))
    return sum(shapes[draft]["weight_bytes_per_token"] if draft in shapes else tiny["weight_bytes_per_token"] for draft in drafts)


def several(options):
    """Sampling at temperature 1, and greedy decoding, where chains of one draft would be equal: its likeliest first tokens."""
    prompts, entries = prompts_of(options, "several"), []
    for way, (drafts, chains) in SEVERAL.items():
        models = [word for draft in drafts for word in ("--draft", folder_of(draft))]
        greedy = f"chains:{chains}" if len(drafts) == chains else f"top:{chains}x1x1x1"
        for temperature, tree in ((1, f"chains:{chains}"), (0, greedy)):
            entries += run.summed(prompts, lambda prompt: counts_of(traced(
                options, prompt, tree, 4, "--temperature", temperature, "--seed", 1, *models)), way=way, temperature=temperature)
    return {"weight_bytes": {way: weight_bytes(drafts) for way, (drafts, _) in SEVERAL.items()}, "entries": entries}


def clock(options):
    """Held against the chain of three of stage 4."""
    texts = programs.TEXTS[:1 if options.quick else None]
    settings = [programs.Setting({"tree": name}, (programs.STAGES[8], (*SHAPE, "--tree", tree, "--spec-length", str(levels))),
                                 (programs.STAGES[4], (*SHAPE, "--spec-length", "3")), texts)
                for name, (tree, levels) in CLOCKED.items()]
    return programs.clocked(options, "trees", settings, CLOCKED_TOKENS, KEPT)


if __name__ == "__main__":
    run.measured_parts(__doc__, "trees.json", {"shapes": shapes, "rules": rules, "several": several, "clock": clock}, ("clock",))
