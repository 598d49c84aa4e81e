#!/usr/bin/env python3
"""Compares two runs of make bench: says in how many cells they agree within their spreads.

    python3 tests/benchmarks/compare_runs.py FIRST SECOND

FIRST and SECOND are the files results.json of two runs of the same sources on the same machine. A cell is a time, a
rate or a ratio of one setting and text. Two runs agree in a cell if value * (1 - spread) .. value * (1 + spread) of
one overlaps with that of the other. rounds.py defines the spreads.

The machine's yardsticks are no cells, and neither are counts, such as alpha. The tool lists the counts that differ. Only
two kinds may: samples, the rounds that count, and those of K = auto, where measured costs decide what is drafted. It
also lists the settings that only one run has, as the other left them out.

Exit code 0 where at least 95% of the cells agree, 1 where fewer do, 2 where two files cannot be compared.
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "stages/programs"))
import rounds  # noqa: E402
import tool  # noqa: E402

WANTED = 0.95
SHOWN = 10                                       # lines of each list
MEASURED = "read_bandwidth_one_thread_gb_per_s"  # of what describes a machine


class Run:
    """The results in a file. entries: by setting, the text included; cells: {(setting, counter): (value, spread)}."""

    def __init__(self, file):
        try:
            self.results = json.loads(file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise SystemExit(f"{file} is no JSON: {error}") from None
        if not isinstance(self.results, dict) or self.results.get("form") != rounds.FORM:
            raise SystemExit(f"{file} has no rounds and spreads: it is no results.json of make bench, or an old one")
        self.entries = {(*rounds.setting_of(entry), str(entry.get("text"))): entry
                        for part in self.results["programs"].values() for entry in part["benchmarks"]}
        if any("ratio_spreads" not in entry for entry in self.entries.values()):
            raise SystemExit(f"{file} has no spreads of ratios: measure again with make bench")
        self.cells = {(setting, name): (entry[name], spread) for setting, entry in self.entries.items() for name, spread in {
            **dict.fromkeys(rounds.TIMES + rounds.RATES, entry["spread"]), **entry["ratio_spreads"]}.items()
            if entry.get(name) is not None}

    def conditions(self):
        """What two runs that are compared have in common, but for programs that only one has."""
        results = self.results
        return {"sources_sha256": results["sources_sha256"], **results["machine"], MEASURED: None, "build": results["build"],
                "device": results["device"],
                **{f"options of {program}": part["options"] for program, part in results["programs"].items()}}


def refuse_others(first, second):
    """Ends the tool where two runs do not belong together."""
    if first.results == second.results:
        raise SystemExit("both files are of one run: copy results.json before you run make bench again")
    here, there = first.conditions(), second.conditions()
    for name in here:
        if name in there and here[name] != there[name]:
            raise SystemExit(f"the runs cannot be compared: {name} is {here[name]} in the first, {there[name]} in the second")
    if not first.cells.keys() & second.cells.keys():
        raise SystemExit("the runs cannot be compared: they have no cell in common")


def disagreeing(first, second):
    """The cells of both in which they do not agree. The first is the worst: the largest part of its larger value is
    left unexplained by the spreads."""
    gaps = {cell: rounds.gap(first[cell], second[cell]) / max(first[cell][0], second[cell][0])
            for cell in first if cell in second and first[cell][0] != second[cell][0]}
    return sorted((cell for cell, gap in gaps.items() if gap > 0), key=gaps.get, reverse=True)


def table(cells, first, second):
    rows = [["setting", "counter", "first", "spread", "second", "spread", "second/first"]]
    for setting, counter in cells:
        (one, one_spread), (other, other_spread) = first[setting, counter], second[setting, counter]
        rows.append([rounds.name_of(setting), counter, f"{one:.4g}", f"{one_spread:.1%}", f"{other:.4g}",
                     f"{other_spread:.1%}", f"{other / one:.3f}" if one else ""])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(word.ljust(width) if i < 2 else word.rjust(width)
                      for i, (word, width) in enumerate(zip(row, widths))) for row in rows]


def show(title, found, lines):
    """Nothing where nothing was found. lines: of the first ones of it."""
    if found:
        shown = f"; {SHOWN} of them" if len(found) > SHOWN else ""
        print(f"\n{title}: {len(found)}{shown}", *lines, sep="\n  ")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("first", "second"):
        parser.add_argument(name, type=pathlib.Path, metavar=name.upper(), help=f"results.json of the {name} run")
    options = parser.parse_args(words)
    runs = {"first": Run(options.first), "second": Run(options.second)}
    first, second = runs.values()
    refuse_others(first, second)
    count, wrong = len(first.cells.keys() & second.cells.keys()), disagreeing(first.cells, second.cells)
    share = (count - len(wrong)) / count
    print(f"{count} cells, of which {count - len(wrong)} agree: {share:.2%} (wanted: {WANTED:.0%})")
    show("cells that do not agree, the worst first", wrong, table(wrong[:SHOWN], first.cells, second.cells))
    for name, one, other in (("first", first, second), ("second", second, first)):
        only = sorted({rounds.name_of(setting) for setting, counter in one.cells if (setting, counter) not in other.cells})
        show(f"settings with cells that only the {name} run has", only, only[:SHOWN])
    counts = [f"{rounds.name_of(setting)}: {name} {entry.get(name)}, then {second.entries[setting].get(name)}"
              for setting, entry in first.entries.items() if setting in second.entries for name in rounds.COUNTED
              if entry.get(name) != second.entries[setting].get(name)]
    show("counts that differ", counts, counts[:SHOWN])
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(tool.run("compare_runs", main))
