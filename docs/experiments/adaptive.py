#!/usr/bin/env python3
"""What stage 7's ways to choose K and to draft gain: the experiments of docs/07_adaptive_drafting/, into adaptive.json.

    python3 docs/experiments/adaptive.py costs      measures the costs of the shapes (let nothing else run)
    python3 docs/experiments/adaptive.py counts     runs everything on the embedded pair with these costs
    python3 docs/experiments/adaptive.py clock      runs some of it in the larger shapes, by the clock
    python3 docs/experiments/adaptive.py guard      what the guard charges for rounds that a gate ended
    python3 docs/experiments/adaptive.py fill       n-grams that also learn the target's likely tokens
    python3 docs/experiments/adaptive.py survival   what came true of estimates, for the embedded pair
    python3 docs/experiments/adaptive.py survival-real   the same for SmolLM2 with its EAGLE-3 heads (`make real`)

A larger shape writes the same text in the same rounds, and only costs more. So counts come from the embedded pair,
with the cost profile of the shape, and the gain is the number of tokens over the sum of what the rounds cost. The
clock then checks that: plain decoding and the settings take turns. Counts are the same on every machine that is given
the same costs.
"""
import collections
import json
import pathlib
import sys
import tempfile

import run
import programs
import real

PROGRAM = programs.STAGES[7]
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
CLOCKED_TEXTS = {"134m": programs.TEXTS, "3b": ("code-3", "rewriting-2", "stories-0")}
CLOCKED_TOKENS = {"134m": 100, "3b": 40}


# --- costs ---

def profile(program, words, name):
    """The costs that the program measures with these options, in a file of this name."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / name
        run.timed(program, [*words, "--draft-length", "gain", "--cost-profile", file, "--max-new-tokens", 1])
        made = json.loads(file.read_text())
    return {"target_pass_seconds": made["target_pass_seconds"], "draft_step_seconds": made["draft_step_seconds"]}


def costs(options):
    """For each shape: passes of the target and a draft step; passes of the draft model over several rows, which verify
    the drafts below it; and what a draft of a table costs."""
    program, result = run.program(options.build, PROGRAM), {}
    for shape, words in SHAPES.items():
        pair = profile(program, words, shape)
        draft_alone = ["--target", run.REPOSITORY / "golden/models/draft", "--inflate-target", words[3],
                       "--draft-kind", "bigram"]
        below = profile(program, draft_alone, "below")
        result[shape] = {**pair, "draft_pass_seconds": below["target_pass_seconds"],
                         "table_step_seconds": below["draft_step_seconds"]}
        print(f"{shape}: c {pair['draft_step_seconds'] / pair['target_pass_seconds'][0]:.3f}", file=sys.stderr)
    return {"shapes": result}


# --- counts ---

def write_profile(folder, shape, measured):
    file = pathlib.Path(folder) / f"{shape}.json"
    file.write_text(json.dumps({"format": "specdec-cost-profile-1",
                                "target_pass_seconds": measured["target_pass_seconds"],
                                "draft_step_seconds": measured["draft_step_seconds"]}))
    return file


def measured_costs(options):
    """Shape -> its costs, from the file."""
    return json.loads(options.out.read_text(encoding="utf-8"))["costs"]["shapes"]


def chosen_prompts(options):
    chosen = run.by_kind((golden for golden in run.goldens() if len(golden["tokens"]) > 1), PROMPTS_OF_A_KIND)
    return [prompt for prompts in chosen.values() for prompt in prompts][::16 if options.quick else 1]


def seconds_of(stats, measured, way):
    """What the rounds of a run cost by count, with the draft model's own steps, those of thrown away drafts included; with
    drafts below it, what they cost instead."""
    passes = measured["target_pass_seconds"]
    verifying = sum(n * passes[K] for K, n in enumerate(stats["rounds_by_drafted"]))
    if "draft_levels" not in stats:
        return verifying + (way not in ("lookup", "ngram")) * stats["draft_forwards"] * measured["draft_step_seconds"]
    level = stats["draft_levels"][0]
    rows = 1 + level["drafted"] / level["passes"] if level["passes"] else 1
    below = measured["draft_pass_seconds"]
    low = int(rows)
    one_pass = below[low - 1] + (rows - low) * (below[min(low, len(below) - 1)] - below[low - 1])
    return verifying + level["passes"] * one_pass + level["drafted"] * measured["table_step_seconds"]


def stats_of(program, prompt, *words):
    return run.timed(program, [*run.prompt_words(prompt["prompt_ids"], NEW_TOKENS), *words, "--quiet"])["stats"]


def counted(stats, measured, way):
    """Of a run, or of an oracle for its text: counters, and its seconds by count."""
    plain, right = stats["emitted"] * measured["target_pass_seconds"][0], stats["alpha_all_places"] * stats["places"]
    if way == "oracle":
        return {"emitted": stats["emitted"], "rounds": stats["oracle"]["target_forwards"], "drafted": right, "plain_seconds": plain,
                "seconds": plain / stats["oracle"]["speedup"]}
    return {"emitted": stats["emitted"], "rounds": stats["target_forwards"],
            **{name: stats[name] for name in ("drafted", "tested", "accepted", "places")}, "accepted_places": right,
            "plain_seconds": plain, "seconds": seconds_of(stats, measured, way)}


def counts(options):
    program, prompts, entries = run.program(options.build, PROGRAM), chosen_prompts(options), []
    for shape, measured in measured_costs(options).items():
        with tempfile.TemporaryDirectory() as folder:
            words = ["--cost-profile", write_profile(folder, shape, measured), "--all-places"]
            for way, drafting in {**SETTINGS, "oracle": SETTINGS["gain"]}.items():
                entries += run.summed(prompts, lambda prompt: counted(stats_of(program, prompt, *words, *drafting), measured, way),
                                      shape=shape, way=way)
    return {"prompts_of_a_kind": PROMPTS_OF_A_KIND, "tokens": NEW_TOKENS, "entries": entries}


# --- the guard ---

def charges(rounds, largest, measured):
    """(what the guard of while_it_pays.h charged for a run's rounds with drafts, what they cost), in plain steps. It keeps
    sums of what recent rounds emitted and cost; the trace has their quotient after each round, from which the costs
    follow. A plain step leaves both as they are."""
    plain = measured["target_pass_seconds"][0]
    c = measured["draft_step_seconds"] / plain
    emitted, cost, ratio, charged, spent = 12, 8, 12 / 8, 0, 0
    for one in rounds:
        before, ratio = ratio, one["notes"]["emitted per cost"]
        if ratio == before:
            continue
        emitted, passed = 0.9 * emitted + len(one["emitted"]), 0.9 * cost
        cost = emitted / ratio
        charged += cost - passed
        K, drafted = largest if before >= 1 else min(2, largest), one["drafted"]
        spent += drafted * c + measured["target_pass_seconds"][drafted] / plain + (c if drafted < K else 0)
        if ratio < 1:  # a loss: the past weighs little from here on
            emitted, cost = 2 * ratio, 2
    return charged, spent


def guard(options):
    """What the guard charged for the rounds of `confidence`, and what they cost."""
    program, entries = run.program(options.build, PROGRAM), []
    for shape, measured in measured_costs(options).items():
        with tempfile.TemporaryDirectory() as folder:
            guarded = ["--cost-profile", write_profile(folder, shape, measured), *SETTINGS["confidence"]]
            largest = run.timed(program, [*guarded, "--max-new-tokens", 1])["largest_spec_length"]
            rounds_of = lambda prompt: run.traced(program, [*run.prompt_words(prompt["prompt_ids"], NEW_TOKENS), *guarded])["rounds"]
            entries += run.summed(chosen_prompts(options), lambda prompt: dict(zip(
                ("charged", "spent"), charges(rounds_of(prompt), largest, measured))), shape=shape)
    return {"entries": entries}


# --- n-grams and the target's likely tokens ---

FILLS = [0, 1, 3, 8]  # tokens that are learned for each place
SEEDS = {0: [0], 1: [0, 1, 2, 3]}  # by temperature


def fill(options):
    program, entries = run.program(options.build, PROGRAM), []
    for T, seeds in SEEDS.items():
        seeded = [{**prompt, "seed": seed} for seed in seeds for prompt in chosen_prompts(options)]
        for filled in FILLS:
            def counted_with_seed(prompt):
                stats = stats_of(program, prompt, "--temperature", T, "--seed", prompt["seed"], "--draft-kind", "ngram", "--ngram-fill", filled)
                return {"rounds": stats["target_forwards"], **{name: stats[name] for name in ("emitted", "drafted", "tested", "accepted")}}
            entries += run.summed(seeded, counted_with_seed, T=T, fill=filled)
    return {"tokens": NEW_TOKENS, "entries": entries}


# --- survival ---

ESTIMATED = {0: [0], 0.8: [1]}  # temperature -> seeds
FULL = ["--draft-length", "confidence", "--confidence", "0"]  # the gate is asked everywhere, and says yes
BY_SURVIVAL = ["--draft-length", "survival"]
DEPTH, REAL_PROMPTS, REAL_TOKENS = 5, 3, 64


def free_rounds(folder):
    """A profile whose rounds always pay, so that no policy pauses."""
    return write_profile(folder, "free", {"target_pass_seconds": [1.0] * (DEPTH + 1), "draft_step_seconds": 0.001})


def bins_of(estimates, names):
    """Counters by bin, of these estimators: places, those accepted, and the sum of the estimates."""
    found = {}
    for name in names:
        counts = zip(*(estimates[name][column] for column in ("places", "accepted", "mean_estimates")))
        for i, (places, accepted, mean) in enumerate(counts):
            for column, value in (("places", places), ("accepted", accepted), ("sum", round(places * (mean or 0), 4))):
                found.setdefault(f"{name}_{column}", collections.Counter())[i] += value
    return found


def estimated(program, prompts, words, T):
    """Entries of rounds that are verified in full, for what one draft's estimates are worth, and of rounds of the policy."""
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        usual = ["--cost-profile", free_rounds(folder), "--spec-length", DEPTH, "--temperature", T, "--quiet"]
        for way, choice, names in (("full", FULL, ("margin", "entropy", "confidence")), ("survival", BY_SURVIVAL, ("survival",))):
            entries += run.summed(prompts, lambda prompt: bins_of(run.timed(
                program, [*words, *prompt["words"], *usual, *choice, "--seed", prompt["seed"]])["survival"], names), way=way, T=T)
    return entries


def survival(options):
    program, entries = run.program(options.build, PROGRAM), []
    for T, seeds in ESTIMATED.items():
        prompts = [{**prompt, "seed": seed, "words": run.prompt_words(prompt["prompt_ids"], NEW_TOKENS)}
                   for seed in seeds for prompt in chosen_prompts(options)]
        entries += estimated(program, prompts, [], T)
    return {"tokens": NEW_TOKENS, "K": DEPTH, "entries": entries, "gains": gains_of_survival(options, program)}


def gains_of_survival(options, program):
    """Entries as those of counts."""
    entries = []
    for shape, measured in measured_costs(options).items():
        with tempfile.TemporaryDirectory() as folder:
            words = ["--cost-profile", write_profile(folder, shape, measured), "--all-places", *BY_SURVIVAL]
            entries += run.summed(chosen_prompts(options), lambda prompt: counted(stats_of(program, prompt, *words), measured, "survival"),
                                  shape=shape, way="survival")
    return entries


def survival_real(options):
    lines = map(json.loads, real.PROMPTS.read_text(encoding="utf-8").splitlines())
    prompts = [{"kind": real.kind_of(line), "seed": 1, "words": ["--chat", line["chat"], "--max-new-tokens", REAL_TOKENS]}
               for line in real.first(list(lines), 1 if options.quick else REAL_PROMPTS)]
    words = ["--target", real.model(options), "--heads", "smollm2/eagle3", "--tree", "chains:1"]
    entries = [entry for T in ESTIMATED for entry in estimated(run.program(options.build, real.SELF), prompts, words, T)]
    return {"tokens": REAL_TOKENS, "prompts": REAL_PROMPTS, "K": DEPTH, "entries": entries}


# --- the clock ---

KEPT = ("shape", "way", "text", "gain", "predicted_accounting", "c", "v", "alpha", "emitted_per_round", "plain_tokens_per_second")


def clocked_settings(shape, file, quick):
    plain = PROGRAM, (*SHAPES[shape][:2], "--no-speculation")

    def words(name):
        no_model = "--draft-kind" in SETTINGS[name]  # whose shape could be given
        return (*SHAPES[shape][:2 if no_model else None], *SETTINGS[name],
                *(("--cost-profile", str(file)) * ("--draft-length" in SETTINGS[name])))
    return [programs.Setting({"shape": shape, "way": name}, (PROGRAM, words(name)), plain, CLOCKED_TEXTS[shape][:1 if quick else None])
            for name in CLOCKED[shape][:2 if quick else None]]


def clock(options):
    """Medians over rounds."""
    measured, shapes, entries = measured_costs(options), {}, []
    for shape in ("134m",) if options.quick else SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            settings = clocked_settings(shape, write_profile(folder, shape, measured[shape]), options.quick)
            shapes[shape] = programs.clocked(options, shape, settings, CLOCKED_TOKENS[shape], KEPT)
        entries += sorted(shapes[shape].pop("entries"), key=lambda e: CLOCKED[shape].index(e["way"]))
    return {"shapes": shapes, "entries": entries}


if __name__ == "__main__":
    parts = {"costs": costs, "counts": counts, "guard": guard, "fill": fill, "survival": survival, "survival-real": survival_real,
             "clock": clock}
    run.measured_parts(__doc__, "adaptive.json", parts, ("costs", "clock"))
