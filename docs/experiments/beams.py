#!/usr/bin/env python3
"""How many steps of beam search a pass is good for, and what drafts gain: docs/10_beam_search/, into beams.json.

    python3 docs/experiments/beams.py [counts] [real] [clock] [real-clock] [--build DIR] [--quick]

counts: the embedded pair, by the widths w and u and by K. real: SmolLM2-135M-Instruct (`make real`) on its prompts for
translation and summary, with drafters that need no second model. Counts are the same on every machine. clock: what
drafts gain over plain beam search of the same width, the pair in the shapes 134m and 14m. real-clock: the same of
SmolLM2, on two prompts of each kind; let nothing else run. beams_tables.py puts them into the pages.
"""
import json
import sys

import real
import run

sys.path.insert(0, str(run.REPOSITORY / "tests/benchmarks"))
import programs  # noqa: E402
import rounds  # noqa: E402

PROGRAM = programs.STAGES[10]
PROMPTS, NEW_TOKENS = 2, 60      # of each kind of text
REAL_PROMPTS, REAL_TOKENS, REAL_KINDS = 4, 48, ("translation", "summary")
WIDTHS = [(1, 1)] + [(w, u) for w in (2, 4) for u in (w, w + w // 2, 2 * w, 4 * w)]
LENGTHS, USUAL = (1, 2, 3, 5, 8), 3  # K
COPYING, HEADS = ("lookup", "ngram"), ("smollm2/medusa", "smollm2/eagle3")
CLOCKED_TOKENS, CLOCKED = 60, [(1, 1, 3), (2, 2, 2), (2, 3, 2), (2, 4, 3), (4, 4, 1), (4, 4, 2), (4, 6, 2), (4, 8, 3)]
REAL_WIDTHS = [(w, u) for w in (1, 2, 4) for u in (w, 2 * w)]
REAL_CLOCKED = [*(("lookup", w, u) for w, u in ((1, 1), (2, 2), (2, 4), (4, 8))), ("ngram", 1, 2), ("ngram", 4, 8),
                *(("smollm2/eagle3", w, u) for w, u in ((1, 1), (2, 2), (2, 4), (4, 4)))]
COUNTED = ("emitted", "rounds", "tested", "accepted")
KEPT = ("text", "gain", "c", "v", "predicted_accounting", "emitted_per_round", "tokens_per_second", "plain_tokens_per_second")


def widths(w, u, K):
    return ["--beams", str(w), "--draft-beams", str(u), "--spec-length", str(K)]


def counters(result):
    """rows: of beams and drafts. kept: nodes that were cached when a round began, all rounds together."""
    stats = result["stats"]
    return {name: stats[name] for name in COUNTED} | {"rows": stats["target_rows"] - (result["prompt_tokens"] - 1),
                                                      "kept": round(stats["mean_kept"] * stats["rounds"])}


def settings(quick):
    """(w, u, K): all widths with the usual K, and all K with one pair of widths."""
    found = [(w, u, USUAL) for w, u in WIDTHS] + [(4, 8, K) for K in LENGTHS if K != USUAL]
    return found[::4] if quick else found


def counts(options):
    prompts = run.first_of_each_kind([p for p in run.goldens() if len(p["tokens"]) > 1], 1 if options.quick else PROMPTS)
    decode, entries = programs.Programs(options.build).decode, []
    for w, u, K in settings(options.quick):
        words = [*widths(w, u, K), "--threads", "1"]
        entries += run.summed(prompts, lambda p: counters(decode(PROGRAM, words, p["prompt_ids"], NEW_TOKENS)), w=w, u=u, K=K)
    return {"prompts": PROMPTS, "tokens": NEW_TOKENS, "entries": entries}


def real_prompts(options, most):
    lines = map(json.loads, real.PROMPTS.read_text(encoding="utf-8").splitlines())
    return real.first([line for line in lines if real.kind_of(line) in REAL_KINDS], 1 if options.quick else most)


def real_words(options, drafter, w, u, K):
    kind = ["--no-speculation"] if drafter == "plain" else ["--draft-beams", str(u)]
    kind += ["--heads", drafter] if drafter in HEADS else ["--draft-kind", drafter] if drafter in COPYING else []
    return ["--target", str(real.model(options)), "--beams", str(w), "--spec-length", str(K), *kind]


def real_counts(options):
    prompts = [{**prompt, "kind": real.kind_of(prompt)} for prompt in real_prompts(options, REAL_PROMPTS)]
    program, entries = run.program(options.build, PROGRAM), []
    for drafter in COPYING + HEADS:
        for w, u in REAL_WIDTHS:
            entries += run.summed(prompts, lambda p: counters(run.timed(program, [
                *real_words(options, drafter, w, u, USUAL), "--chat", p["chat"], "--max-new-tokens", REAL_TOKENS])),
                drafter=drafter, w=w, u=u, K=USUAL)
    return {"prompts": REAL_PROMPTS, "tokens": REAL_TOKENS, "entries": entries}


def clock(options):
    """Each setting is held against plain beam search of the same width."""
    texts = programs.FEW_TEXTS[:1 if options.quick else None]
    shapes = ["--inflate-target", "134m"]
    found = [programs.Setting({"w": w, "u": u, "K": K}, (PROGRAM, (*shapes, "--inflate-draft", "14m", *widths(w, u, K))),
                              (PROGRAM, (*shapes, "--beams", str(w), "--no-speculation")), texts) for w, u, K in CLOCKED]
    measures, _ = programs.measured(options, "beams", found, CLOCKED_TOKENS)
    entries = [{**identity, **rounds.entry_of(one)} for identity, one in measures]
    names = ("w", "u", "K", *KEPT)
    return {"tokens": CLOCKED_TOKENS, "rounds": len(measures[0][1]), "entries": [{name: e[name] for name in names} for e in entries]}


def real_clock(options):
    prompts = real_prompts(options, real.TIMED)
    sweep = real.Sweep(options, prompts, [programs.Setting(
        {"drafter": drafter, "w": w, "u": u}, (PROGRAM, tuple(real_words(options, drafter, w, u, USUAL))),
        (PROGRAM, tuple(real_words(options, "plain", w, u, USUAL))), [prompt["id"] for prompt in prompts])
        for drafter, w, u in REAL_CLOCKED])
    measures, _ = programs.by_turns(programs.rules_of(options), "runs", sweep)
    entries = [{**identity, **rounds.entry_of(list(one))} for identity, one in measures]
    return {"tokens": real.TOKENS["clock"], "entries": [{name: e[name] for name in ("drafter", "w", "u", *KEPT)} for e in entries]}


if __name__ == "__main__":
    run.measured_parts(__doc__, "beams.json", {"counts": counts, "real": real_counts, "clock": clock, "real-clock": real_clock},
                       ("clock", "real-clock"))
