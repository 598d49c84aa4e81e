#!/usr/bin/env python3
"""What drafts of fewer bits cost and gain by the clock, into formats.json.

    python3 docs/experiments/formats.py [PART ...] [--build DIR] [--quick]

passes: passes of each model by its format. counts: what SmolLM2 accepts of its own drafts in fewer bits (that of the
embedded pair is in rules.json). 134m, 3b and 1.7b: for a pair and each format, the K that these promise most of, beside
plain decoding. Large models are inflated ones, which are written once, into build/peers/models (12 GB), so that they
load in seconds. Needs `make real`; let nothing else run (40 minutes).
"""
import functools
import json
import os
import statistics
import sys
import time

import run
import programs
import real
import rules as accepted
import turns

sys.path.insert(0, str(run.REPOSITORY / "tests/benchmarks/peers"))
import engines  # noqa: E402

FORMATS, GREEDY = accepted.FORMATS, accepted.GREEDY
# Part -> the target, the draft, and whose drafts of rules.json or of `counts` are accepted as its.
PAIRS = {"134m": (("target", "134m"), ("draft", "14m"), "llama"),
         "3b": (("target", "3b"), ("draft", "1b"), "llama"),
         "1.7b": ((engines.REAL[0], "1.7b"), engines.REAL, "SmolLM2")}
LENGTHS = (1, 2, 3, 5, 8)
ROWS = (1, *(K + 1 for K in LENGTHS))  # of a pass
CACHED, THREADS = 64, os.cpu_count()
REPEATS = {"134m": 5, "14m": 20, "none": 5}  # of a pass in a turn, by the shape; of others 1
TEXTS = ("code-3", "rewriting-2", "stories-0")
REAL_TEXTS = ("code", "list", "free_answer")
TOKENS = {"134m": 100, "3b": 32, "1.7b": 32}  # new ones
ROUNDS = 3


class Files:
    """The folders of all models."""

    def __init__(self, build):
        write_model = run.program(build, "write_model")
        self.engines = engines.Engines(build, None, write_model, None, None)

    def folder(self, model):
        """Written, without a tokenizer: programs compare those of two models."""
        return self.engines.written(model, "bf16")


# --- passes ---

def passes(options):
    """Seconds of passes over ROWS rows, by turns of the formats, and the bytes that a pass reads of the weights."""
    files, entries, peer = Files(options.build), [], run.program(options.build, "specdec_peer")
    models = list(dict.fromkeys(model for pair in PAIRS.values() for model in pair[:2]))
    for model in models[:2 if options.quick else None]:
        folder = files.folder(model)
        peers = {kind: turns.Peer([peer, THREADS, CACHED + 64, engines.tokens_of(model), kind, folder]) for kind in FORMATS}
        try:
            found, _ = turns.kept_rounds(lambda _: timed(peers, REPEATS.get(model[1], 1)), programs.rules_of(options),
                                         [one.pid for one in peers.values()])
        finally:
            for one in peers.values():
                one.close()
        for kind in FORMATS:
            seconds = [turns.rounded(statistics.median(one[kind][i] for one in found)) for i in range(len(ROWS))]
            entries.append({"model": "/".join(model), "weights": kind, "bytes": bytes_of(options, folder, kind), "seconds": seconds})
            print(entries[-1], file=sys.stderr)
    return {"device": f"CPU, {THREADS} threads", "rows": ROWS, "rounds": len(found), "entries": entries}


def timed(peers, repeats):
    found = {kind: [] for kind in peers}
    for rows in ROWS:
        for kind, peer in peers.items():
            time.sleep(0.02)  # the threads of the one before go to sleep
            found[kind].append(min(peer.ask("pass", rows, rows, CACHED, repeats)["seconds"]))
    return found


def bytes_of(options, folder, kind):
    """What one more token of plain decoding reads of the weights."""
    words = ["--target", folder, "--no-speculation", "--target-weights", kind]
    one, two = (run.timed(run.program(options.build, GREEDY), [*words, *run.prompt_words([1, 2], n), "--ignore-eos"])["stats"] for n in (1, 2))
    return two["target_weight_bytes"] - one["target_weight_bytes"]


# --- counts ---

def counts(options):
    program, found = run.program(options.build, GREEDY), []
    prompts = [{"kind": "all", **golden} for golden in run.goldens(model="smollm2")][:2 if options.quick else None]
    for kind in FORMATS[1:]:
        for K in LENGTHS:
            words = ["--target", real.model(options), "--draft-kind", "self", "--draft-weights", kind, "--spec-length", K]
            found += run.summed(prompts, lambda prompt: accepted.counted(program, prompt, *words), draft="SmolLM2", weights=kind, K=K)
    return {"entries": found}


def emitted_per_round(options):
    """(whose drafts, format) -> K -> tokens per pass, and alpha; SmolLM2 accepts all of its own drafts in bf16."""
    of_pair = json.loads((run.HERE / "rules.json").read_text())["weights"]["entries"]
    of_smollm2 = json.loads(options.out.read_text())["counts"]["entries"]
    found = {("SmolLM2", "stored"): {K: (K + 1, 1) for K in LENGTHS}}
    for draft in ("llama", "SmolLM2"):
        for kind in FORMATS:
            for K in LENGTHS:
                some = [e for e in (*of_pair, *of_smollm2) if (e["draft"], e["weights"], e["K"]) == (draft, kind, K)]
                if some:
                    total = lambda name: sum(e[name] for e in some)
                    found.setdefault((draft, kind), {})[K] = total("emitted") / total("rounds"), total("accepted") / total("tested")
    return found


# --- the clock ---

def best_of(per_round, target, draft):
    """(K, what it promises) with the largest promise. target, draft: the entries of `passes`."""
    plain = target["seconds"][0]
    gains = {K: per_round[K][0] / (K * draft["seconds"][0] / plain + target["seconds"][ROWS.index(K + 1)] / plain)
             for K in LENGTHS}
    return max(gains.items(), key=lambda item: item[1])


KEPT = ("weights", "K", "text", "gain", "predicted_accounting", "gain_over_accounting", "c", "v", "alpha",
        "emitted_per_round", "plain_tokens_per_second")


class Sweep(programs.TextSweep):
    """Of the embedded pair's prompts, or of SmolLM2's."""

    def __init__(self, *given):
        super().__init__(*given)
        self.prompts |= {golden["id"]: golden["prompt_ids"] for golden in run.goldens(model="smollm2")}


def clock(options, pair):
    files, (target, draft, whose) = Files(options.build), PAIRS[pair]
    measured = {(e["model"], e["weights"]): e for e in json.loads(options.out.read_text())["passes"]["entries"]}
    accepting, models, settings = emitted_per_round(options), ["--target", files.folder(target)], []
    for kind in FORMATS:
        K, promise = best_of(accepting[whose, kind], measured["/".join(target), "stored"], measured["/".join(draft), kind])
        words = [*models, "--draft", files.folder(draft), "--draft-weights", kind, "--spec-length", K]
        settings.append(programs.Setting({"weights": kind, "K": K, "promise": turns.rounded(promise)}, (GREEDY, words),
                                         (GREEDY, [*models, "--no-speculation"]), REAL_TEXTS if whose == "SmolLM2" else TEXTS))
    sweep = Sweep(programs.Programs(options.build), settings, TOKENS[pair])
    rules = turns.Rules(rounds=1 if options.quick else ROUNDS, strict=not options.quick)
    found, thrown_away = programs.by_turns(rules, pair, sweep)
    entries = [{**identity, **programs.rounds.entry_of(some)} for identity, some in found]
    return {"device": sweep.device, "rounds": rules.rounds, "thrown_away": thrown_away, "tokens": TOKENS[pair],
            "entries": [{name: e.get(name) for name in (*KEPT, "promise")} for e in entries]}


if __name__ == "__main__":
    clocks = {pair: functools.partial(clock, pair=pair) for pair in PAIRS}
    run.measured_parts(__doc__, "formats.json", {"passes": passes, "counts": counts, **clocks}, ("passes", *clocks))
