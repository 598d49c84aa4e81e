#!/usr/bin/env python3
"""Measures the kernels and the programs by turns, and puts what they gave into one file.

    python3 tests/benchmarks/bench.py [--build DIR] [--full] [--commit] [--only PART ...] [--rounds N]

Each round measures every setting once, so that all numbers of a table come from the same nine rounds. A round in which
other processes took more than 3% of the processors is thrown away and repeated. Where a setting's times differ by more
than 10%, the tables say by how much: 4.2 ±21%. turns.py and rounds.py have the rules.

Writes build/bench/results.json, and build/bench/page.md: docs/performance.md with the numbers and figures of this
machine. Without `--full` a selection that takes 11 to 18 minutes on two cores, and more if rounds are repeated. `--only`
measures some parts and keeps what the file has of the others, if the sources are the same. Let nothing else run.

`--commit` also writes docs/experiments/bench.json, from which `make docs` makes the tables and figures of the project
itself. It wants a quiet machine: it leaves out settings whose times differ by more than 10%, and where these are more
than one of a part's twenty, nothing of this part is written.
"""
import argparse
import contextlib
import json
import pathlib
import re
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs/experiments"), str(ROOT / "stages/programs")]
import programs  # noqa: E402
import rounds  # noqa: E402
import run  # noqa: E402
import tool  # noqa: E402
import turns  # noqa: E402
from programs import STAGES, begun_later  # noqa: E402

# Programs of Google Benchmark, and what a selection has of them: a regular expression is searched for in the names.
KERNELS = {
    "kernels_benchmark": "matmul/(bf16|int8)/M:(1|2|4|6|8|12|16)/|matmul/bf16/M:(3|5|7)/|matmul/f(16|32)/M:(1|4|8|16)/|"
                         "matmul/ideal/M:(1|4|8|12|16)/|prefill/bf16/M:(64|512)/|attention/4096/.*/M:(1|6)/",
    "forward_benchmark": "forward/134m/M:(1|2|3|4|5|6|7|8|12|16|64|512)/|forward/1b/M:(1|2|4|6|8|12|16|512)/|load/1b/",
    "ladder_benchmark": "ladder/[2-7].*/M:|M:1/"}
DECODING = ("stages", "speculation", "batch")
PARTS = [*KERNELS, *DECODING]
# Each is one sweep: what a table compares takes turns within a round.
SWEEPS = (("kernels_benchmark", "forward_benchmark"), ("ladder_benchmark",), *((part,) for part in DECODING))
TOKENS = {"stages": (8, 128), "speculation": (24, 128), "batch": (12, 64)}  # of a text, in a selection and in full
ALL_K, SOME_K = (1, 2, 3, 4, 5, 6, 8, "auto"), (1, 3, 5)
# In a selection and in full: a target, a draft, temperatures and K; a target, a draft, and asked probabilities.
SWEPT = ([("134m", "14m", (0,), (*SOME_K, "auto")), ("134m", "embedded", (0,), (3,)), ("134m", "lookup", (0,), (3,)),
          ("embedded", "embedded", (0,), SOME_K)],
         [("134m", "14m", (0, 0.5, 1), ALL_K), ("134m", "embedded", (0, 1), ALL_K), ("134m", "14m_int8", (0,), SOME_K),
          ("134m", "self_int8", (0,), SOME_K), ("134m", "bigram", (0, 1), SOME_K), ("134m", "lookup", (0, 1), SOME_K),
          ("134m", "self", (0,), SOME_K), ("embedded", "embedded", (0, 1), ALL_K), ("embedded", "bigram", (0,), SOME_K),
          ("embedded", "lookup", (0,), SOME_K)])
ASKED = ([("134m", "14m", (0.8,))],
         [(*pair, (0, 0.2, 0.4, 0.6, 0.8, 1)) for pair in (("134m", "14m"), ("embedded", "embedded"))])
BANDWIDTH = "bandwidth"


def listed(program, words):
    """The names of a program's benchmarks."""
    return run.run(program, [*words, "--benchmark_list_tests"]).splitlines()


def value_of(text):
    """A number where it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def identity_of(name):
    """"matmul/shape:1b/M:3/iterations:1/manual_time" -> a flat object. What has no colon is the benchmark's name."""
    parts = [part.split(":", 1) for part in name.split("/")]
    return {"benchmark": "/".join(p[0] for p in parts if len(p) == 1 and p[0] != "manual_time"),
            **{p[0]: value_of(p[1]) for p in parts if len(p) == 2 and p[0] != "iterations"}}


def ask(peer, name):
    """The counters of one of its benchmarks, or why there are none: "error"."""
    return peer.ask(f"^{re.escape(name)}$")


def is_stale(results):
    """Whether the sources have changed since, or what is made of the rounds."""
    return results.get("form") != rounds.FORM or run.is_stale("bench.json", results)


# --- what a part measures: identities of its entries, and one_round(number), which returns their counters ---

class KernelSweep:
    """Programs that run whichever benchmark a line of their standard input names (kernel_program.h)."""

    def __init__(self, name, options, stack):
        program, words = options.build / "bin/bench" / name, ["--samples=1"]
        chosen = [] if options.full else [f"--benchmark_filter={KERNELS[name]}"]
        self.names = listed(program, [*words, *chosen])
        self.identities = [identity_of(name) for name in self.names]
        self.rounds, self.peer = options.rounds, stack.enter_context(turns.Peer([program, "--by-turns", *words]))
        self.device, self.pids = self.peer.first["backend"], [self.peer.pid]

    def one_round(self, number):
        found = {name: ask(self.peer, name) for name in begun_later(self.names, number, self.rounds)}
        if failed := [f"{name}: {counters['error']}" for name, counters in found.items() if "error" in counters]:
            raise SystemExit(failed[0])
        return [found[name] for name in self.names]


def speculation_settings(full, profiles):
    """Of targets, drafts, temperatures and K; and drafts that are right as often as is asked. profiles: a folder, where
    the costs by which K adapts are kept during a run."""
    settings = []

    def add(target, draft, T, K, asked=None):
        words = [*programs.in_shape("target", target), *programs.draft_words(draft), "--spec-length", K]
        words += ["--cost-profile", profiles / f"{target}-{draft}.json"] if K == "auto" else []
        words += ["--temperature", T] if T else []
        plain = [*programs.in_shape("target", target), "--no-speculation", *(["--temperature", T] if T else [])]
        fields = {"target": target, "draft": draft, "T": T, "K": K}
        if asked is None:
            fields, program, texts = {"benchmark": "speculation", **fields}, STAGES[7 if K == "auto" else 5 if T else 4], programs.TEXTS
        else:
            fields, program, texts = {"benchmark": "synthetic", **fields, "asked": asked}, programs.SYNTHETIC, ("stories-0",)
            words = [asked, *words]
        settings.append(programs.Setting(fields, (program, tuple(map(str, words))),
                                         (STAGES[5 if T else 4], tuple(map(str, plain))), texts))
    for target, draft, temperatures, lengths in SWEPT[full]:
        for T in temperatures:
            for K in lengths:
                add(target, draft, T, K)
    for target, draft, probabilities in ASKED[full]:
        for asked in probabilities:
            for K in SOME_K:
                add(target, draft, 0, K, asked)
    return settings


def decoding_sweep(name, options, stack):
    """Of the programs of the stages."""
    tokens, built, full = TOKENS[name][options.full], programs.Programs(options.build), options.full
    pairs = [("embedded", "embedded"), ("134m", "14m")]
    if name == "stages":  # stage 1 takes minutes for what is no toy
        return programs.StageSweep(built, [(*pairs[0], 1), (*pairs[1], 2)], programs.TEXTS if full else programs.FEW_TEXTS, tokens)
    if name == "batch":
        batches, lengths = ((1, 2, 4, 8, 16), (0, 1, 3, 5)) if full else ((1, 4, 16), (0, 3))
        sweep = programs.batches_of(built, pairs, batches, lengths, tokens)
    else:
        profiles = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sweep = programs.TextSweep(built, speculation_settings(full, profiles), tokens)
    sweep.rounds = options.rounds
    return sweep


# --- by turns ---

def sweep(parts, options):
    """Part -> a function that returns what its settings gave, all of them by turns, and ends the run where that cannot
    be trusted."""
    rules = turns.Rules(rounds=options.rounds)
    progress = run.Progress(" and ".join(parts), rules.rounds + 1)
    with contextlib.ExitStack() as stack:
        sweeps = {part: (KernelSweep if part in KERNELS else decoding_sweep)(part, options, stack) for part in parts}

        def one_round(number):
            found = {part: sweep.one_round(number) for part, sweep in sweeps.items()}
            if not set(parts) <= set(KERNELS):  # the kernels look at the machine beside each sample
                bandwidth = 1e9 * run.read_bandwidth()
                found = {part: [{**counters, BANDWIDTH: bandwidth} for counters in of_part] for part, of_part in found.items()}
            progress.step()
            return found
        pids = [pid for sweep in sweeps.values() for pid in getattr(sweep, "pids", [])]
        kept, thrown_away = turns.kept_rounds(one_round, rules, pids)
    about = {part: {"options": "full" if options.full else "a selection", "backend": sweep.device, "rounds": len(kept),
                    "thrown_away": thrown_away, "strict": options.commit} for part, sweep in sweeps.items()}
    return {part: lambda part=part: {**about[part], **part_of(sweeps[part].identities, [found[part] for found in kept],
                                                              options.commit)} for part in parts}


def part_of(identities, kept, strict):
    """What the rounds say of a part's settings. kept: of each round, the counters of each setting. strict: without those
    that were not steady, and nothing at all where these are too many."""
    entries = [{**identity, **rounds.entry_of(counters)} for identity, counters in zip(identities, zip(*kept))]
    unsteady = [rounds.name_of(setting) for setting in rounds.unsteady(entries)]
    if strict:
        entries = rounds.steady_entries(entries)
        rounds.refuse_inversions(entries)
    else:
        wrong = [f"{name} {M}" for name, *rows, _, _ in rounds.inversions(entries) for M in rows]
        unsteady = list(dict.fromkeys(unsteady + wrong))
    bandwidths = [statistics.median(values) for found in kept if
                  (values := [counters[BANDWIDTH] for counters in found if counters.get(BANDWIDTH)])]
    return {"unsteady": unsteady, "benchmarks": entries, "bandwidths": [turns.rounded(value) for value in bandwidths]}


def measured(options, before, keep=lambda results: None):
    """The results of this run, with what `before` has of parts that were not asked for. keep(results): called after
    each sweep. A part whose times cannot be trusted ends the run when the others were measured."""
    parts = {name: part for name, part in before.get("programs", {}).items() if name not in options.only}
    wrong = []
    for chosen in ([name for name in parts_of_sweep if name in options.only] for parts_of_sweep in SWEEPS):
        found = {}
        try:
            found = sweep(chosen, options) if chosen else {}
        except turns.Disturbed as problem:
            wrong += [(name, str(problem)) for name in chosen]
        for name, part in found.items():
            try:
                parts[name] = part()
            except SystemExit as problem:
                wrong.append((name, str(problem)))
        if found:
            keep(results_of(parts, options))
    if wrong:
        raise SystemExit(". ".join([f"{name}: {problem}" for name, problem in wrong] + [
            f"Let nothing else run and measure them again: python3 tests/benchmarks/bench.py --only {' '.join(name for name, _ in wrong)}"]))
    return results_of(parts, options)


def results_of(parts, options):
    return {"form": rounds.FORM, "date": run.now(), "quick": not options.full, "sources_sha256": run.sources_sha256("bench.json"),
            "machine": run.machine(), "build": run.build_of(options.build),
            "device": next((part["backend"] for part in parts.values()), None),
            "programs": {name: parts[name] for name in PARTS if name in parts}}


def kept_before(file, strict):
    """What an earlier run of the same sources left in the file. strict: the parts without what was not steady."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not before or is_stale(before):
        return {}
    return {**before, "programs": {name: part for name, part in before["programs"].items() if part.get("strict", True) or not strict}}


def options_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--full", action="store_true", help="everything: a few hours")
    parser.add_argument("--commit", action="store_true", help="also write docs/experiments/bench.json")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=turns.Rules().rounds, help="that are kept (default: %(default)s)")
    options = parser.parse_args(words)
    if not 1 <= options.rounds:
        parser.error("--rounds must be at least 1")
    if options.rounds < rounds.FEWEST and options.commit:
        parser.error(f"fewer than {rounds.FEWEST} --rounds say too little for --commit")
    return options


def main():
    options = options_of()
    folder = options.build / "bench"
    file = folder / "results.json"
    folder.mkdir(parents=True, exist_ok=True)
    results = measured(options, kept_before(file, options.commit), lambda found: file.write_text(run.dump(found), encoding="utf-8"))
    print(file)
    print(write_page(results, folder))
    if options.commit:
        (run.HERE / "bench.json").write_text(run.dump(results), encoding="utf-8")
        print(run.HERE / "bench.json")


def write_page(results, folder):
    """docs/performance.md with these results in its tables, and their figures beside it."""
    import bench_tables
    import tables  # which imports this file
    page = folder / "page.md"
    text = (tables.DOCS / "performance.md").read_text(encoding="utf-8")
    given = {"bench.json": bench_tables.Benchmarks(results, stale=False)}
    page.write_text(tables.filled("performance.md", text, given), encoding="utf-8")
    (folder / "figures").mkdir(exist_ok=True)
    for name, picture in tables.benchmark_figures.drawn(results, stale=False).items():
        (folder / "figures" / name).write_text(picture, encoding="utf-8")
    return page


if __name__ == "__main__":
    sys.exit(tool.run("bench", main))
