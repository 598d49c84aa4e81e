#!/usr/bin/env python3
"""What a budget of rows for the whole batch gains, beside no speculation and every fixed K, into rows.json.

    python3 docs/experiments/rows.py [pair] [real] [--build DIR] [--quick]

pair: the embedded pair in the shapes 134m and 14m. real: SmolLM2-135M-Instruct (`make real`) with its EAGLE-3 heads. Each
with 4, 8 and 16 requests at a time, greedily. Let nothing else run (15 minutes). A round visits every batch size, and
within it every way, and no speculation again before the budget, so what is divided was measured within seconds; the numbers are medians over the rounds that count
(turns.py), of the steps in which all requests had a round. rows_tables.py and docs/figures/curves.py show them.
"""
import json
import statistics
import tempfile

import batch
import real
import run
import programs
import turns

BATCHES, ROUNDS = [4, 8, 16], 4
TOKENS, MOST = 96, 5  # new ones of each request; the largest K of the budget
PLAIN, AUTO = "none", "auto"
WAYS = {PLAIN: ["--no-speculation"], **{f"K = {K}": ["--spec-length", K] for K in (1, 2, 3)},
        AUTO: ["--spec-length", MOST, "--rows", "auto"]}
SHORT_KINDS = ("chat", "translation", "question", "mathematics", "code", "rewriting")


def short_prompts():
    """The shortest prompts of those kinds that are not about a long text, a mixture of kinds at every place."""
    lines = [json.loads(line) for line in real.PROMPTS.read_text(encoding="utf-8").splitlines()]
    kinds = [sorted((line["chat"] for line in lines if real.kind_of(line) == kind), key=len) for kind in SHORT_KINDS]
    return [{"chat": chat} for group in zip(*kinds) for chat in group]


class RowsSweep(programs.Sweep):
    """Twice B requests, at most B at a time, by B and by the way to draft; no speculation first for each B."""

    def __init__(self, options, program, words, prompts, batches, folder):
        self.programs, self.program, self.words, self.folder = programs.Programs(options.build), program, words, folder
        self.prompts, self.batches = prompts, batches
        self.identities = [{"B": B, "way": way} for B in batches for way in WAYS]

    def served(self, B, way):
        costs = ["--cost-profile", f"{self.folder}/{B}.json"] if way == AUTO else []
        summary, tokens = self.programs.serve(self.program, [*self.words, *WAYS[way], *costs], self.prompts[:2 * B], TOKENS, B)
        self.device = summary["device"]
        return counted(summary, B), tokens

    def one_round(self, number):
        found = {}
        for B in programs.begun_later(self.batches, number, self.rounds):
            plain, texts = first = self.served(B, PLAIN)
            for way in WAYS:
                if way == AUTO:  # a moment ago counts
                    plain, _ = self.served(B, PLAIN)
                one, these = first if way == PLAIN else self.served(B, way)
                if these != texts:
                    raise SystemExit(f"B = {B}, {way}: these are not the texts of plain decoding")
                found[B, way] = {**one, "gain": one["tokens_per_second"] / plain["tokens_per_second"]}
                self.step()
        return [found[e["B"], e["way"]] for e in self.identities]


def counted(summary, B):
    full = programs.full_batch(summary, B)
    rows = summary.get("rows") or {"offered": None, "given": None, "steps": 1}
    return {"tokens_per_second": full["emitted"] / full["seconds"], "tokens_per_second_overall": summary["stats"]["tokens_per_second"],
            "emitted_per_step": full["emitted"] / full["steps"], "rows_per_step": full["rows"] / full["steps"],
            "draft_share": full["draft_seconds"] / full["seconds"], "alpha": summary["stats"]["alpha"],
            **{name: None if rows[name] is None else rows[name] / rows["steps"] for name in ("offered", "given")}}


def swept(options, program, words, prompts):
    batches = BATCHES[:1] if options.quick else BATCHES
    with tempfile.TemporaryDirectory() as folder:
        sweep = RowsSweep(options, program, words, prompts, batches, folder)
        rules = turns.Rules(rounds=1 if options.quick else ROUNDS, strict=not options.quick)
        measures, thrown_away = programs.by_turns(rules, "runs", sweep)
    entries = []
    for identity, found in measures:
        middle = {name: statistics.median(one[name] for one in found) for name in found[0] if found[0][name] is not None}
        gains = [one["gain"] for one in found]
        entries.append({**identity, **{name: float(f"{value:.4g}") for name, value in middle.items()},
                        "gain_least": round(min(gains), 3), "gain_most": round(max(gains), 3)})
    return {"device": sweep.device, "tokens": TOKENS, "rounds": len(measures[0][1]), "thrown_away": thrown_away, "entries": entries}


def pair(options):
    return swept(options, programs.STAGES[7], ["--inflate-target", "134m", "--inflate-draft", "14m"], batch.pair_prompts())


def smollm2(options):
    words = ["--target", str(real.model(options)), "--heads", "smollm2/eagle3", "--tree", "chains:1"]
    return swept(options, programs.STAGES[9], words, short_prompts())


if __name__ == "__main__":
    run.measured_parts(__doc__, "rows.json", {"pair": pair, "real": smollm2}, ("pair", "real"))
