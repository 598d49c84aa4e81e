#!/usr/bin/env python3
"""Runs the benchmarks of build/bin/bench by turns, and puts what they gave into one file.

    python3 tests/benchmarks/bench.py [--build DIR] [--full] [--commit] [--only PROGRAM ...] [--rounds N] [--anyway]

Each round measures every setting once, so that all numbers of a table come from the same nine rounds. A round in which
other processes took more than 3% of the processors is thrown away and repeated. A setting whose times differ by more
than 10% is left out. Where more than one of a program's twenty are such, nothing of this program is written: turns.py
and rounds.py have the rules.

Writes build/bench/results.json, and build/bench/page.md: docs/performance.md with the numbers and figures of this
machine. `--commit` also writes docs/experiments/bench.json, from which `make docs` makes the tables and figures of the
project itself. Without `--full` a selection that takes ten minutes on two quiet cores, and more if rounds are repeated.
`--only` runs some programs and keeps what the file has of the others, if the sources are the same. Let nothing else
run.

--anyway lets every round count, prints the tables and writes nothing.
"""
import argparse
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "docs/experiments"
sys.path[:0] = [str(EXPERIMENTS), str(ROOT / "tests/course")]
import rounds  # noqa: E402
import run  # noqa: E402
import turns  # noqa: E402
from student import tool  # noqa: E402

SOURCES = ["kernels/**/*", "common/**/*", "stages/**/*", "tests/benchmarks/**/*",
           "tests/checkpoint_builder.cpp"]   # what decides how fast all is
LEFT_OUT = ("kernels/cuda", "kernels/emulation/", "tests/benchmarks/cuda", "tests/benchmarks/peers")  # but for what starts so
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".txt", ".cmake"}

# Program -> its words in a selection, and in full. Of a benchmark's name, the filter's part is searched for.
PROGRAMS = {
    "kernels_benchmark": (["--samples=1"], ["--samples=1"]),
    "forward_benchmark": (["--samples=1"], ["--samples=1"]),
    "ladder_benchmark": (["--samples=1"], ["--samples=1"]),
    "stages_benchmark": (["--tokens=8", "--repeats=1"], ["--tokens=128", "--repeats=1"]),
    "speculation_benchmark": (["--tokens=24", "--repeats=1"], ["--tokens=128", "--repeats=1"]),
    "batch_benchmark": (["--tokens=12", "--repeats=1"], ["--tokens=64", "--repeats=1"]),
}
# Each is one sweep: what a table compares takes turns within a round.
SWEEPS = (("kernels_benchmark", "forward_benchmark"), ("ladder_benchmark",), ("stages_benchmark",),
          ("speculation_benchmark",), ("batch_benchmark",))
QUICK_FILTERS = {
    "kernels_benchmark": "matmul/(bf16|int8)/M:(1|2|4|6|8|12|16)/|matmul/bf16/M:(3|5|7)/|matmul/f(16|32)/M:(1|4|8|16)/|"
                         "matmul/ideal/M:(1|4|8|12|16)/|prefill/bf16/M:(64|512)/|attention/4096/.*/M:(1|6)/",
    "ladder_benchmark": "ladder/[2-7].*/M:|M:1/",
    "forward_benchmark": "forward/134m/M:(1|2|3|4|5|6|7|8|12|16|64|512)/|forward/1b/M:(1|2|4|6|8|12|16|512)/|load/1b/",
    "speculation_benchmark": "|".join([
        "speculation/target:134m/draft:14m/T:0/K:(1|3|5|auto)/",
        "speculation/target:134m/draft:(embedded|lookup)/T:0/K:3/",
        "synthetic/target:134m/draft:14m/asked:0.8/",
        "speculation/target:embedded/draft:embedded/T:0/K:[135]/"]),
    "batch_benchmark": "B:(1|4|16)/K:[03]/",
}


# --- running a program ---

def listed(program, words):
    done = subprocess.run([program, *words, "--benchmark_list_tests"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program}\nended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def run_program(program, words, keep_failed=False):
    """Google Benchmark's JSON; a line on stderr counts its benchmarks. keep_failed: those that failed end nothing."""
    progress = run.Progress(program.name, len(listed(program, words)))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out, errors = folder / "out.json", folder / "errors"
        words = [*words, f"--benchmark_out={out}", "--benchmark_out_format=json"]
        with errors.open("w") as stderr, \
             subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
            for line in process.stdout:
                if "/manual_time" in line:
                    progress.step()
        output = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"benchmarks": []}
        failed = [entry for entry in entries_of(output) if "error" in entry and not keep_failed]
        if process.returncode != 0 or failed:
            raise SystemExit(f"{program} ended with {process.returncode}: "
                             f"{failed[0] if failed else errors.read_text().strip()[-300:]}")
        return output


# --- what it gave ---

OWN = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
       "threads", "iterations", "cpu_time", "real_time", "time_unit", "error_occurred", "error_message", "skipped"}


def value_of(text):
    """A number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def entries_of(output):
    """"speculation/target:134m/K:3/iterations:1/manual_time" and its counters -> a flat object. What has no colon is
    the benchmark's name."""
    entries = []
    for benchmark in output["benchmarks"]:
        parts = [part.split(":", 1) for part in benchmark["name"].split("/")]
        entry = {"benchmark": "/".join(p[0] for p in parts if len(p) == 1 and p[0] != "manual_time"),
                 **{p[0]: value_of(p[1]) for p in parts if len(p) == 2 and p[0] not in ("iterations", "repeats")}}
        if benchmark.get("error_occurred") or benchmark.get("skipped"):
            entry["error"] = benchmark.get("error_message", "")
        for name, value in benchmark.items():
            if name not in OWN:
                entry[name] = float(f"{value:.4g}") if isinstance(value, (int, float)) and value == value else None
        entries.append(entry)
    return entries


# --- where it was run ---

def sources_sha256(root=run.REPOSITORY, sources=SOURCES, left_out=LEFT_OUT):
    """Over name and content of the sources, without git."""
    digest = hashlib.sha256()
    for pattern in sources:
        for file in sorted(root.glob(pattern)):
            name = file.relative_to(root).as_posix()
            if file.is_file() and file.suffix in SUFFIXES and not name.startswith(left_out):
                digest.update(name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def is_stale(results):
    """Whether the sources have changed since, or what is made of the rounds."""
    return results.get("form") != rounds.FORM or results["sources_sha256"] != sources_sha256()


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {**run.machine(), "memory_gb": round(memory / 1e9, 1), "kernel": platform.release()}


# --- by turns ---

def in_order(names):
    """Settings of one text one after the other, as they share its plain decoding (decoding.h)."""
    def key(name):
        parts = dict(part.split(":", 1) for part in name.split("/") if ":" in part)
        return (parts.get("target", ""), parts["text"], parts.get("T", "0")) if "text" in parts else ("", "", "")
    return sorted(names, key=key)


def begun_later(settings, number, count):
    """The settings, beginning elsewhere in each of the rounds."""
    start = number % (count + 1) * len(settings) // (count + 1)
    return settings[start:] + settings[:start]


def words_of(name, options):
    return PROGRAMS[name][options.full]


def listed_of(name, options):
    chosen = [] if options.full or name not in QUICK_FILTERS else [f"--benchmark_filter={QUICK_FILTERS[name]}"]
    return listed(options.build / "bin/bench" / name, [*words_of(name, options), *chosen])


def sweep(programs, options):
    """Program -> a function that returns what its settings gave, all of them by turns, and ends the run where that
    cannot be trusted."""
    rules = turns.Rules(rounds=options.rounds, strict=not options.anyway)
    names = {program: listed_of(program, options) for program in programs}
    settings = [(program, name) for program in programs for name in in_order(names[program])]
    progress = run.Progress(" and ".join(programs), (rules.rounds + 1) * len(settings))
    with contextlib.ExitStack() as stack:
        peers = {program: stack.enter_context(turns.Peer([options.build / "bin/bench" / program, "--by-turns",
                                                          *words_of(program, options)])) for program in programs}

        def one_round(number):
            found = {}
            for program, name in begun_later(settings, number, rules.rounds):
                found[program, name] = peers[program].ask(f"^{re.escape(name)}$")
                progress.step()
            return found
        kept, thrown_away = turns.kept_rounds(one_round, rules, [peer.pid for peer in peers.values()])
        backends = {program: peer.first["backend"] for program, peer in peers.items()}
    about = {program: {"options": " ".join(words_of(program, options)), "backend": backends[program], "rounds": len(kept),
                       "thrown_away": thrown_away} for program in programs}
    return {program: lambda program=program: {**about[program], **part_of(program, names[program], kept, rules.strict)}
            for program in programs}


def part_of(program, names, kept, strict):
    """What the rounds say of a program's settings."""
    entries = [{**identity, **rounds.entry_of([{key: value for key, value in found[program, name].items() if key != "name"}
                                               for found in kept])}
               for name, identity in zip(names, entries_of({"benchmarks": [{"name": name} for name in names]}))]
    steady, left_out = rounds.steady_entries(entries) if strict else (entries, [])
    if strict:
        rounds.refuse_inversions(steady)
    bandwidths = [statistics.median(values) for found in kept if
                  (values := [found[program, name]["bandwidth"] for name in names if found[program, name].get("bandwidth")])]
    return {"unsteady": left_out, "benchmarks": steady,
            "bandwidths": [turns.rounded(value) for value in bandwidths]}


def measured(options, before, keep=lambda results: None):
    """The results of this run, with what `before` has of programs that were not asked for. keep(results): called after
    each sweep. A program whose times cannot be trusted ends the run when the others were measured."""
    for name in options.only:
        if not (options.build / "bin/bench" / name).is_file():
            raise SystemExit(f"{options.build / 'bin/bench' / name} is not there: make build")
    parts = {name: part for name, part in before.get("programs", {}).items() if name not in options.only}
    wrong = []
    for programs in SWEEPS:
        if not (chosen := [name for name in programs if name in options.only]):
            continue
        try:
            found = sweep(chosen, options)
        except turns.Disturbed as problem:
            wrong += [(name, str(problem)) for name in chosen]
            continue
        for name, part in found.items():
            try:
                parts[name] = part()
            except SystemExit as problem:
                wrong.append((name, str(problem)))
        keep(results := results_of(parts, options))
    if wrong:
        raise SystemExit(". ".join([f"{name}: {problem}" for name, problem in wrong] + [
            "Let nothing else run and measure them again, or see the figures with --anyway: python3 "
            f"tests/benchmarks/bench.py --only {' '.join(name for name, _ in wrong)}"]))
    return results


def results_of(parts, options):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"form": rounds.FORM, "date": now.strftime("%Y-%m-%d %H:%M UTC"), "quick": not options.full,
            "sources_sha256": sources_sha256(), "machine": machine(), "build": run.build_of(options.build),
            "device": next((part["backend"] for part in parts.values()), None),
            "programs": {name: parts[name] for name in PROGRAMS if name in parts}}


def kept_before(file):
    """What an earlier run of the same sources left in the file."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {} if not before or is_stale(before) else before


def options_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--full", action="store_true", help="everything: a few hours")
    parser.add_argument("--commit", action="store_true", help="also write docs/experiments/bench.json")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=turns.Rules().rounds, help="that are kept (default: %(default)s)")
    parser.add_argument("--anyway", action="store_true", help="print what a noisy machine gives, and write nothing")
    options = parser.parse_args(words)
    if options.anyway and options.commit:
        parser.error("--anyway writes nothing, so there is nothing to --commit")
    if options.rounds < rounds.FEWEST and not options.anyway:
        parser.error(f"fewer than {rounds.FEWEST} --rounds say too little; --anyway shows them")
    return options


def main():
    options = options_of()
    folder = options.build / "bench"
    file = folder / "results.json"
    if options.anyway:
        print(shown(measured(options, {})))
        return
    folder.mkdir(parents=True, exist_ok=True)
    results = measured(options, kept_before(file), lambda found: file.write_text(run.dump(found), encoding="utf-8"))
    print(file)
    print(write_page(results, folder))
    if options.commit:
        (EXPERIMENTS / "bench.json").write_text(run.dump(results), encoding="utf-8")
        print(EXPERIMENTS / "bench.json")


def shown(results):
    """All tables, for --anyway."""
    import bench_tables
    benchmarks = bench_tables.Benchmarks(results, stale=False)
    found = {name: make(benchmarks) for name, make in bench_tables.TABLES.items()}
    return "\n".join(["Measured anyway: every round counts, however noisy the machine was, and nothing is written.\n",
                      *(f"{name}\n\n{text}" for name, text in found.items() if text != bench_tables.NOTHING)])


def write_page(results, folder):
    """docs/performance.md with these results in its tables, and their figures beside it."""
    import bench_tables
    import tables  # which imports this file
    page = folder / "page.md"
    text = (tables.DOCS / "performance.md").read_text(encoding="utf-8")
    page.write_text(tables.filled("performance.md", text, bench_tables.Benchmarks(results, stale=False)),
                    encoding="utf-8")
    (folder / "figures").mkdir(exist_ok=True)
    for name, picture in tables.benchmark_figures.drawn(results, stale=False).items():
        (folder / "figures" / name).write_text(picture, encoding="utf-8")
    return page


if __name__ == "__main__":
    sys.exit(tool.run("bench", main))
