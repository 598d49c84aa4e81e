#!/usr/bin/env python3
"""Runs the benchmarks of build/bin/bench one after the other and puts what they gave into one file.

    python3 tests/benchmarks/bench.py [--build DIR] [--full] [--commit] [--only PROGRAM ...]

Writes build/bench/results.json, and build/bench/page.md: docs/performance.md with the numbers and figures of this
machine. `--commit` also writes docs/experiments/bench.json, from which `make docs` makes the tables and figures of the
project itself. Without `--full` a selection that takes ten minutes at most on two cores. `--only` runs some programs
and keeps what the file has of the others. Let nothing else run.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "docs/experiments"
sys.path[:0] = [str(EXPERIMENTS), str(ROOT / "tests/course")]
import run  # noqa: E402
from student import tool  # noqa: E402

SOURCES = ["kernels/**/*", "common/**/*", "stages/**/*", "tests/benchmarks/**/*"]   # what decides how fast all is
LEFT_OUT = ("kernels/cuda", "kernels/emulation/", "tests/benchmarks/cuda", "tests/benchmarks/peers")  # but for what starts so
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".txt", ".cmake"}

# Program -> its words in a selection, and in full. Of a benchmark's name, the filter's part is searched for.
PROGRAMS = {
    "kernels_benchmark": (["--samples=9"], ["--samples=21"]),
    "ladder_benchmark": (["--samples=9"], ["--samples=15"]),
    "forward_benchmark": (["--samples=11"], ["--samples=15"]),
    "stages_benchmark": (["--tokens=32", "--repeats=1"], ["--tokens=128", "--repeats=5"]),
    "speculation_benchmark": (["--tokens=48", "--repeats=1"], ["--tokens=128", "--repeats=3"]),
    "batch_benchmark": (["--tokens=24", "--repeats=1"], ["--tokens=64", "--repeats=3"]),
}
QUICK_FILTERS = {
    "kernels_benchmark": "matmul/bf16|matmul/.*/M:(1|2|4|6|8|12|16)/|prefill/|head/|attention/4096/.*/M:(1|6)/",
    "forward_benchmark": "forward/134m/|forward/1b/M:(1|2|3|4|5|6|7|8|12|16)/|load/",
    "speculation_benchmark": "|".join([
        "speculation/target:134m/draft:14m/T:0/",
        "speculation/target:134m/draft:embedded/T:0/",
        "speculation/target:134m/draft:(14m_int8|self_int8|bigram|lookup)/T:0/K:[35]/",
        "speculation/target:134m/draft:14m/T:1/K:3/",
        "synthetic/target:134m/draft:14m/asked:(0.4|0.8|1)/",
        "speculation/target:embedded/draft:embedded/T:0/K:[135]/"]),
    "batch_benchmark": "target:embedded|B:(1|4|16)/",
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
    """Whether the sources have changed since."""
    return results["sources_sha256"] != sources_sha256()


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {**run.machine(), "memory_gb": round(memory / 1e9, 1), "kernel": platform.release()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--full", action="store_true", help="everything: an hour or two")
    parser.add_argument("--commit", action="store_true", help="also write docs/experiments/bench.json")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="PROGRAM")
    options = parser.parse_args()
    folder = options.build / "bench"
    file = folder / "results.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() and len(options.only) < len(PROGRAMS) else {}
    parts = before.get("programs", {})
    for name in options.only:
        program = options.build / "bin/bench" / name
        if not program.is_file():
            raise SystemExit(f"{program} is not there: make build")
        words = list(PROGRAMS[name][options.full])
        if not options.full and name in QUICK_FILTERS:
            words.append(f"--benchmark_filter={QUICK_FILTERS[name]}")
        output = run_program(program, words)
        parts[name] = {"options": " ".join(PROGRAMS[name][options.full]),
                       "backend": output["context"].get("backend"), "benchmarks": entries_of(output)}
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {"date": now.strftime("%Y-%m-%d %H:%M UTC"), "quick": not options.full,
               "sources_sha256": sources_sha256(), "machine": machine(), "build": run.build_of(options.build),
               "device": next(iter(parts.values()))["backend"], "programs": {name: parts[name] for name in PROGRAMS if name in parts}}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(run.dump(results), encoding="utf-8")
    print(file)
    print(write_page(results, folder))
    if options.commit:
        (EXPERIMENTS / "bench.json").write_text(run.dump(results), encoding="utf-8")
        print(EXPERIMENTS / "bench.json")


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
