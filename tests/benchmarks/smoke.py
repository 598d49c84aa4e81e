#!/usr/bin/env python3
"""Runs the smallest benchmarks of a program by turns and looks at their counters, never at times.

    smoke.py PROGRAM FILTER BENCHMARKS COUNTER[=VALUE][,COUNTER...] [OPTION ...]

BENCHMARKS: how many the filter must choose. VALUE: of a counter that is the same on every machine. A program that says
why it measured nothing is SKIPPED.
"""
import subprocess
import sys

import bench
import turns


def main():
    program, chosen, number, counters, *options = sys.argv[1:]
    wrong = subprocess.run([program, "--no-such-option"], capture_output=True, text=True)
    if wrong.returncode != 2 or "--no-such-option" not in wrong.stderr:
        raise SystemExit(f"{program} takes an option that there is not: {wrong}")
    with turns.Peer([program, "--by-turns", *options]) as peer:
        if "not_measured" in peer.first:
            print(f"SKIPPED: {peer.first['not_measured']}")
            return
        if not peer.first["backend"].startswith(("CPU", "CUDA")):
            raise SystemExit(f"the program names no backend: {peer.first}")
        names = bench.listed(program, [f"--benchmark_filter={chosen}"])
        if len(names) != int(number):
            raise SystemExit(f"{len(names)} benchmarks and not {number}: {names}")
        for name in names:
            found = bench.ask(peer, name)
            for counter, _, value in (counter.partition("=") for counter in counters.split(",")):
                if not isinstance(found.get(counter), (int, float)) or (value and found[counter] != float(value)):
                    raise SystemExit(f"{name} has not {counter} {value}: {found}")
        try:
            answer = bench.ask(peer, "no such name")
        except SystemExit as problem:
            answer = str(problem)
        if "no benchmark has this name" not in answer:
            raise SystemExit(f"a name that there is not: {answer}")


if __name__ == "__main__":
    main()
