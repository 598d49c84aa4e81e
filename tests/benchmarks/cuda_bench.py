#!/usr/bin/env python3
"""Runs cuda_benchmark on this machine's GPU and writes docs/experiments/cuda.json, from which tables.py makes the
tables of docs/kernels/.

    python3 tests/benchmarks/cuda_bench.py [--build DIR] [--filter REGEX] [--samples N] [--minutes M]

What matters most is measured first, and written as soon as it is there. What has not begun after M minutes is left out.
Without a GPU it says NOT MEASURED and why, and writes nothing. Let nothing else run on the GPU.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import bench
import run
import tool

OUT = bench.EXPERIMENTS / "cuda.json"
# What decides how fast the kernels are.
SOURCES = ["kernels/*", "kernels/cuda/**/*", "common/**/*", "tests/benchmarks/cuda*"]
# The most worthwhile first: beginnings of benchmarks' names.
PARTS = [r"^forward/shape:3b/", r"^forward/", r"^matmul/shape:3b/", r"^attention/", r"^(argmax|choose|judge)/", r"^matmul/", r""]
WORDS, NUMBERS = ["gpu", "compute_capability", "cuda", "driver_cuda"], ["multiprocessors", "memory_bytes"]


def sources_sha256(root=run.REPOSITORY):
    return bench.sources_sha256(root, SOURCES, ())


def is_stale(results):
    """Whether the sources have changed since."""
    return results["sources_sha256"] != sources_sha256()


def problem_of(program):
    """Why nothing can be measured; empty where something can."""
    if not program.is_file():
        return f"NOT MEASURED: built without CUDA, or not at all: there is no {program.name}"
    first = bench.listed(program, [])[:1]
    return first[0] if first and first[0].startswith("NOT MEASURED") else ""


def driver():
    """Its version, as nvidia-smi says it."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip().split("\n")[0] or "unknown"


def nvcc_flags(build):
    """The flags of a kernel, without paths and warnings."""
    try:
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        command = next(c["command"] for c in commands if "specdec_cuda.dir/cuda/matmul/matmul_1_naive" in c["command"])
    except (OSError, StopIteration, ValueError):
        return "unknown"
    return " ".join(re.findall(r"-O\w|-DNDEBUG|-std=\S+|--generate-code=[^\s\"]+|-arch=\S+", command))


def results_of(output, build, options):
    """cuda.json from Google Benchmark's JSON."""
    context = output["context"]
    if not context.get("gpu"):
        raise SystemExit(f"{context.get('backend')} is no GPU: its times mean nothing")
    machine = {**{name: context[name] for name in WORDS}, **{name: int(context[name]) for name in NUMBERS}}
    return {"date": bench.now(), "sources_sha256": sources_sha256(),
            "machine": {**machine, "driver": driver(), "cpu": run.machine()["cpu"]},
            "build": {**(run.build_of(build) or {}), "nvcc_flags": nvcc_flags(build)},
            "options": options, "benchmarks": bench.entries_of(output)}


def measured_in_parts(program, samples, minutes):
    """Yields Google Benchmark's JSON of all parts so far, after each of them."""
    begin, names, output = time.monotonic(), listed(program), None
    for part in PARTS:
        mine = [name for name in names if re.search(part, name)]
        names = [name for name in names if name not in mine]
        if not mine:
            continue
        if time.monotonic() - begin > 60 * minutes:
            print(f"left out, as {minutes:g} minutes are over: {len(mine)} benchmarks like {mine[0]}", file=sys.stderr)
            continue
        done = bench.run_program(program, [f"--samples={samples}", f"--benchmark_filter=^({'|'.join(map(re.escape, mine))})$"])
        output = {**done, "benchmarks": [*(output or {"benchmarks": []})["benchmarks"], *done["benchmarks"]]}
        yield output


def listed(program):
    return [name for name in bench.listed(program, []) if "/" in name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--filter", help="benchmarks whose names match; the tables lack the others")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=8, help="begin no part after so many (default: 8)")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    options = parser.parse_args()
    program = options.build / "bin/bench/cuda_benchmark"
    if problem := problem_of(program):
        print(problem)
        return
    words = [f"--samples={options.samples}"] + ([f"--benchmark_filter={options.filter}"] if options.filter else [])
    runs = ([bench.run_program(program, words)] if options.filter else
            measured_in_parts(program, options.samples, options.minutes))
    for output in runs:
        options.out.write_text(run.dump(results_of(output, options.build, " ".join(words))), encoding="utf-8")
    print(options.out)


if __name__ == "__main__":
    sys.exit(tool.run("cuda_bench", main))
