#!/usr/bin/env python3
"""What speculation without a draft model gains on SmolLM2-135M-Instruct, by kind of prompt, into real.json.

    python3 docs/experiments/real.py [counts] [clock] [--build DIR] [--model DIR] [--prompts FILE] [--quick]

counts: alpha and tokens per pass, with K = 5 and greedy decoding on all prompts of real_prompts.jsonl, otherwise on the
first FEW of each kind; they are the same on every machine. clock: plain decoding and the settings of CLOCKED by turns,
on the first TIMED prompts of each kind (25 minutes, let nothing else run); turns.py and rounds.py say which rounds and
settings count. Each part replaces its own part of the file, and ends where two settings write different greedy texts.
--quick: a smoke test on one prompt of two kinds, into build/bench/real.json. `make real` gets the model, and
real_tables.py makes the tables.
"""
import argparse
import collections
import datetime
import json
import pathlib
import sys
import tempfile
import typing

import run

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(run.REPOSITORY / "tests/benchmarks"))
import bench  # noqa: E402
import rounds  # noqa: E402
import turns  # noqa: E402

ADAPTIVE, TREES = "07_adaptive_drafting", "08_token_trees"
TOKENS = {"counts": 96, "clock": 64}  # new ones of each text, at most
K = 5        # of the tables by kind
ALL, FEW, TIMED = 12, 3, 2  # prompts of a kind
# Name -> the program and its options.
CHAINS = {"lookup": (ADAPTIVE, ["--draft-kind", "lookup"]), "ngram": (ADAPTIVE, ["--draft-kind", "ngram"]),
          "lookup, ngram": (ADAPTIVE, ["--fallback", "lookup,ngram"])}
BRANCHING = {f"tree of {n}": (TREES, ["--draft-kind", "lookup", "--tree", f"chains:{n}", "--spec-length", str(K)])
             for n in (1, 2, 4)}
DRAFTERS = {"plain": (ADAPTIVE, ["--no-speculation"]), **CHAINS, **BRANCHING}
LENGTHS = {"lookup": range(1, 13), "ngram": (1, 2, 3, 5, 8, 12), "lookup, ngram": (1, 2, 3, 5, 8, 12)}
COUNTED = ("emitted", "rounds", "drafted", "tested", "accepted")


class Setting(typing.NamedTuple):
    drafter: str  # of DRAFTERS
    way: str = ""  # what chooses K: "K = 3", schedule or gain
    T: int = 0

    def fields(self):
        """Of a request; the options' names with underscores."""
        fields = {"temperature": self.T, "seed": 1} if self.T else {}
        if self.way.startswith("K = "):
            fields["spec_length"] = int(self.way[4:])
        elif self.way:
            fields["draft_length"] = self.way
        return fields

    def words(self):
        options = [(f"--{name.replace('_', '-')}", str(value)) for name, value in self.fields().items()]
        return [*DRAFTERS[self.drafter][1], *(word for option in options for word in option)]


CLOCKED = [Setting("plain"), Setting("lookup", "K = 3"), Setting("lookup", "K = 8"), Setting("lookup", "gain"),
           Setting("ngram", "K = 3"), Setting("lookup, ngram", "gain"), Setting("tree of 2"),
           Setting("plain", T=1), Setting("lookup", "gain", 1)]


def kind_of(request):
    return request["id"].partition("-")[0]


def first(requests, number):
    """The first prompts of each kind: rewriting-01, ..."""
    return [request for request in requests if int(request["id"].partition("-")[2]) <= number]


def requests_of(options):
    requests = [json.loads(line) for line in options.prompts.read_text(encoding="utf-8").splitlines()]
    kinds = list(dict.fromkeys(map(kind_of, requests)))
    return first([r for r in requests if kind_of(r) in kinds[-2:]], 1) if options.quick else requests


def check_text(texts, request, T, tokens):
    """texts: what was written before."""
    if T == 0 and texts.setdefault(request["id"], tokens) != tokens:
        raise SystemExit(f"{request['id']}: two settings wrote different texts with greedy decoding")


# --- counts ---

def counted_settings(drafter, quick):
    """Each with how many prompts of a kind it gets."""
    if drafter in BRANCHING:
        chosen = [Setting(drafter), Setting(drafter, T=1)]
    else:
        chosen = [Setting(drafter, f"K = {length}") for length in LENGTHS[drafter]] + [
            Setting(drafter, f"K = {length}", 1) for length in (1, 3, K, 12)] + [Setting(drafter, "schedule", T) for T in (0, 1)]
    by_kind = (Setting("tree of 2"), *(Setting(chain, f"K = {K}") for chain in CHAINS))
    return {setting: ALL if setting in by_kind else FEW for setting in (chosen[::4] if quick else chosen)}


def decoded(options, drafter, requests):
    """Their results by id, and the summary."""
    program, words = DRAFTERS[drafter]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.writelines(json.dumps(request) + "\n" for request in requests)
        file.flush()
        lines = run.run(options.build / "bin" / program, [
            "--target", str(options.model), "--max-new-tokens", str(TOKENS["counts"]), "--max-batch", "32", *words,
            "--requests", file.name, "--output", "json"])
    *results, last = map(json.loads, lines.splitlines())
    return {result["id"]: result for result in results}, last["summary"]


def counts(options, requests):
    texts, entries, summary = {}, [], None
    progress = run.Progress("runs", len(CHAINS) + len(BRANCHING))
    for drafter in [*CHAINS, *BRANCHING]:
        settings = counted_settings(drafter, options.quick)
        # One prompt's requests follow each other, so that they share its cached keys and values.
        asked = {f"{request['id']} {setting.way} {setting.T}": (setting, request) for request in requests
                 for setting, number in settings.items() if first([request], number)}
        results, summary = decoded(options, drafter, [{**request, **setting.fields(), "id": name}
                                                      for name, (setting, request) in asked.items()])
        sums = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
        for name, (setting, request) in asked.items():
            check_text(texts, request, setting.T, results[name]["tokens"])
            for number in {settings[setting], FEW} if first([request], FEW) else {settings[setting]}:
                sums[setting, number][kind_of(request)].update({key: results[name]["stats"][key] for key in COUNTED})
        entries += [{**setting._asdict(), "prompts": number, "kinds": kinds} for (setting, number), kinds in sums.items()]
        progress.step()
    model = {name: value for name, value in summary["model"].items() if name != "directory"}
    return {"tokens": TOKENS["counts"], "prompts": len(requests), "texts": len(texts), "model": model, "settings": entries}


# --- the clock ---

def timed(options, setting, request, folder):
    program = DRAFTERS[setting.drafter][0]
    kept = ["--cost-profile", f"{folder}/{setting.drafter}.json"] if setting.way == "gain" else []
    prompt = next(key for key in ("chat", "prompt") if key in request)
    return run.timed(options.build / "bin" / program, [
        "--target", str(options.model), "--max-new-tokens", str(TOKENS["clock"]), *setting.words(), *kept,
        f"--{prompt}", request[prompt]])


def clock(options, requests):
    chosen = first(requests, TIMED)
    rules = turns.Rules(rounds=2 if options.quick else rounds.FEWEST, strict=not options.quick)
    texts, device = {}, None
    progress = run.Progress("runs", (rules.rounds + 1) * len(chosen) * len(CLOCKED))

    with tempfile.TemporaryDirectory() as folder:
        def one_round(number):
            nonlocal device
            found = {"bandwidth": run.read_bandwidth()}
            for request in chosen:
                for setting in bench.begun_later(CLOCKED, number, rules.rounds):
                    result = timed(options, setting, request, folder)
                    check_text(texts, request, setting.T, result["tokens"])
                    found.setdefault((setting, kind_of(request)), []).append(result["stats"])
                    device = result["device"]
                    progress.step()
            return found
        kept, thrown_away = turns.kept_rounds(one_round, rules)
    kinds = dict.fromkeys(map(kind_of, chosen))
    entries = [{"benchmark": "real", "draft": setting.drafter, "K": setting.way, "T": setting.T, "text": kind,
                **rounds.entry_of([counters(found, setting, kind) for found in kept])}
               for setting in CLOCKED if setting.drafter != "plain" for kind in kinds]
    unsteady = rounds.unsteady(entries) if rules.strict else {}
    if len(unsteady) > len(CLOCKED) / 2:
        raise SystemExit(f"the times of {len(unsteady)} settings were not steady: let nothing else run")
    return {"quick": options.quick, "machine": bench.machine(), "build": run.build_of(options.build), "device": device,
            "tokens": TOKENS["clock"], "prompts": len(chosen), "rounds": len(kept), "thrown_away": thrown_away,
            "unsteady": [rounds.name_of(setting) for setting in unsteady],
            "weight_bytes": (options.model / "model.safetensors").stat().st_size,
            "bandwidths": [found["bandwidth"] for found in kept],
            "entries": [entry for entry in entries if rounds.setting_of(entry) not in unsteady]}


def counters(found, setting, kind):
    """Of a round: all texts of the kind together, by time."""
    runs, plain_runs = found[setting, kind], found[Setting("plain", T=setting.T), kind]

    def total(stats, key):
        return sum(run[key] for run in stats)

    def mean(key):
        known = [run[key] for run in runs if run.get(key) is not None]
        return sum(known) / len(known) if known else None
    rate, plain_rate = (total(stats, "emitted") / total(stats, "decode_seconds") for stats in (runs, plain_runs))
    return {"tokens_per_second": rate, "plain_tokens_per_second": plain_rate, "gain": rate / plain_rate,
            "predicted_accounting": by_accounting(runs), "c": mean("c"), "v": mean("v"),
            "alpha": run.ratio(total(runs, "accepted"), total(runs, "tested")),
            "emitted_per_round": run.ratio(total(runs, "emitted"), total(runs, "rounds"))}


def by_accounting(runs):
    """The program's; of a tree it is a different entry. None where a run is too short to have one."""
    gains = [stats.get("speedup_accounting", stats.get("speedup")) for stats in runs]
    return None if None in gains else sum(stats["emitted"] for stats in runs) / sum(
        stats["emitted"] / gain for stats, gain in zip(runs, gains))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="counts, clock; both by default")
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--model", type=pathlib.Path, help="default: models/SmolLM2-135M-Instruct of the build")
    parser.add_argument("--prompts", type=pathlib.Path, default=HERE / "real_prompts.jsonl")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.model = options.model or options.build / "models/SmolLM2-135M-Instruct"
    if not options.model.is_dir():
        raise SystemExit(f"{options.model} is not there: make real")
    file = options.build / "bench/real.json" if options.quick else HERE / "real.json"
    file.parent.mkdir(exist_ok=True)
    for part in options.parts or ["counts", "clock"]:
        made = {"counts": counts, "clock": clock}[part](options, requests_of(options))
        before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        made = {"date": datetime.date.today().isoformat(), "sources_sha256": bench.sources_sha256(), **made}
        file.write_text(run.dump({**before, part: made}), encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main()
