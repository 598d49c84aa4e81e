#!/usr/bin/env python3
"""Runs a benchmark program on its smallest benchmarks and looks at its JSON, never at times.

    smoke.py PROGRAM FILTER BENCHMARKS COUNTER[=VALUE][,COUNTER...] [OPTION ...]

BENCHMARKS: how many the filter must choose. VALUE: of a counter that is the same on every machine. A program that says
why it measured nothing is SKIPPED.
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def main():
    program, chosen, number, counters, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        done = subprocess.run([program, *options, f"--benchmark_filter={chosen}", f"--benchmark_out={out}"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program} ended with {done.returncode}: {done.stderr}{done.stdout}")
        results = json.loads(out.read_text(encoding="utf-8"))
    if "not_measured" in results:
        check_wrong_option(program)
        print(f"SKIPPED: {results['not_measured']}")
        return
    found = results["benchmarks"]
    if len(found) != int(number):
        raise SystemExit(f"{len(found)} benchmarks and not {number}: {[b['name'] for b in found]}")
    if not results["context"]["backend"].startswith(("CPU", "CUDA")):
        raise SystemExit(f"the context names no backend: {results['context']}")
    for benchmark in found:
        for counter in counters.split(","):
            name, _, value = counter.partition("=")
            found_value = benchmark.get(name)
            if not isinstance(found_value, (int, float)) or (value and abs(found_value - float(value)) > 1e-9):
                raise SystemExit(f"{benchmark['name']} has not {counter}: {benchmark}")
    check_wrong_option(program)


def check_wrong_option(program):
    wrong = subprocess.run([program, "--no-such-option"], capture_output=True, text=True)
    if wrong.returncode != 2 or "--no-such-option" not in wrong.stderr:
        raise SystemExit(f"{program} --no-such-option ended with {wrong.returncode}: {wrong.stderr}")


if __name__ == "__main__":
    main()
