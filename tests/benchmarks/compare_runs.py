#!/usr/bin/env python3
"""Compares two runs of make bench: says in how many cells they agree within their spreads.

    python3 tests/benchmarks/compare_runs.py FIRST SECOND

FIRST and SECOND are the files results.json of two runs of the same sources on the same machine. A cell is a time, a
rate or a ratio of one setting and text. Two runs agree in a cell if value * (1 - spread) .. value * (1 + spread) of
one overlaps with that of the other. rounds.py defines the spreads. Yardsticks and counts are no cells. On a machine that
was not quiet, many spreads are wide, and wide spreads agree with almost anything. So the cells whose spread is at most
10% in both runs are also counted by themselves.

Lists the cells that do not agree, the worst first, and the settings that only one run has. Exit code 0 where at least
95% of the cells agree, and 95% of the steady ones; 1 where fewer do.
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "stages/programs"))
import rounds  # noqa: E402
import tool  # noqa: E402

WANTED = 0.95


def cells(results):
    """{setting, text and counter: (value, spread)}"""
    return {" ".join([rounds.name_of(rounds.setting_of(entry)), entry.get("text", ""), name]): (entry[name], spread)
            for part in results["programs"].values() for entry in part["benchmarks"]
            for name, spread in {**dict.fromkeys(rounds.TIMES + rounds.RATES, entry["spread"]), **entry["ratio_spreads"]}.items()
            if entry.get(name) is not None}


def disagreeing(first, second):
    """The cells of both in which they do not agree. The first is the worst: the largest part of its larger value is
    left unexplained by the spreads."""
    gaps = {cell: rounds.gap(first[cell], second[cell]) / max(first[cell][0], second[cell][0])
            for cell in first if cell in second and first[cell][0] != second[cell][0]}
    return sorted((cell for cell, gap in gaps.items() if gap > 0), key=gaps.get, reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=pathlib.Path, metavar="RESULTS")
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in parser.parse_args().files]
    for name in ("form", "sources_sha256", "build", "device"):
        if runs[0].get(name) != runs[1].get(name):
            raise SystemExit(f"the runs cannot be compared: {name} is {runs[0].get(name)} in the first, {runs[1].get(name)} in the second")
    first, second = map(cells, runs)
    common, wrong = first.keys() & second.keys(), disagreeing(first, second)
    if not common:
        raise SystemExit("the runs cannot be compared: they have no cell in common")
    steady = {cell for cell in common if max(first[cell][1], second[cell][1]) <= rounds.LARGEST_SPREAD}
    shares = [agreeing("cells", common, wrong)] + ([agreeing("of these are steady", steady, wrong)] if steady < common else [])
    for cell in wrong:
        print(f"  {cell}: {first[cell][0]:.4g} +- {first[cell][1]:.1%}, then {second[cell][0]:.4g} +- {second[cell][1]:.1%}")
    for name, one, other in (("first", first, second), ("second", second, first)):
        if only := sorted(one.keys() - other.keys()):
            print(f"cells that only the {name} run has: {len(only)}", *only, sep="\n  ")
    return 0 if min(shares) >= WANTED else 1


def agreeing(what, cells, wrong):
    """Prints what share of these cells agree, and returns it; 1 where there are none."""
    agree = len(cells - set(wrong))
    share = agree / len(cells) if cells else 1
    print(f"{len(cells)} {what}, of which {agree} agree: {share:.2%} (wanted: {WANTED:.0%})")
    return share


if __name__ == "__main__":
    sys.exit(tool.run("compare_runs", main))
