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
import turns

OUT = run.HERE / "cuda.json"
# What is measured first: beginnings of benchmarks' names.
PARTS = [r"^forward/shape:3b/", r"^forward/", r"^matmul/shape:3b/", r"^attention/", r"^(argmax|choose|judge)/", r"^matmul/", r""]
WORDS, NUMBERS = ["gpu", "compute_capability", "cuda", "driver_cuda"], ["multiprocessors", "memory_bytes"]


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


def results_of(about, build, options):
    """cuda.json, without what is measured. about: what the program says of the GPU."""
    if not about.get("gpu"):
        raise SystemExit(f"{about.get('backend')} is no GPU: its times mean nothing")
    machine = {**{name: about[name] for name in WORDS}, **{name: int(about[name]) for name in NUMBERS}}
    return {"date": run.now(), "sources_sha256": run.sources_sha256("cuda.json"),
            "machine": {**machine, "driver": driver(), "cpu": run.machine()["cpu"]},
            "build": {**(run.build_of(build) or {}), "nvcc_flags": nvcc_flags(build)}, "options": options, "benchmarks": []}


def measured(peer, names, minutes):
    """Yields an entry for each benchmark."""
    end = time.monotonic() + 60 * minutes
    names = sorted(names, key=lambda name: next(i for i, part in enumerate(PARTS) if re.search(part, name)))
    for done, name in enumerate(names):
        if time.monotonic() > end:
            print(f"left out, as {minutes:g} minutes are over: {len(names) - done} benchmarks from {name} on", file=sys.stderr)
            return
        counters = bench.ask(peer, name)
        yield {**bench.identity_of(name), **{key: value if key == "error" else turns.rounded(value) for key, value in counters.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--filter", help="benchmarks whose names match; the tables lack the others")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=8, help="begin no benchmark later (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    options = parser.parse_args()
    program = options.build / "bin/bench/cuda_benchmark"
    if not program.is_file():
        print(f"NOT MEASURED: built without CUDA, or not at all: there is no {program.name}")
        return
    words, chosen = [f"--samples={options.samples}"], [f"--benchmark_filter={options.filter}"] * bool(options.filter)
    with turns.Peer([program, "--by-turns", *words]) as peer:
        if "not_measured" in peer.first:
            print(f"NOT MEASURED: {peer.first['not_measured']}")
            return
        results = results_of(peer.first, options.build, " ".join(words + chosen))
        for entry in measured(peer, bench.listed(program, chosen), options.minutes):
            results["benchmarks"].append(entry)
            options.out.write_text(run.dump(results), encoding="utf-8")
    print(options.out)


if __name__ == "__main__":
    sys.exit(tool.run("cuda_bench", main))
