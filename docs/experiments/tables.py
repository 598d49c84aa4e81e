#!/usr/bin/env python3
"""Fills the tables of README.md and of all Markdown pages below docs/ with what was measured, and draws the figures that
docs/figures/ has a script for.

    python3 docs/experiments/tables.py            rewrites what differs
    python3 docs/experiments/tables.py --check    exit code 1 where something differs

A table is between <!-- table: NAME --> and <!-- end table -->, in a quotation with "> " before both. SOURCES has the
names: those of the modules *_tables.py, and of exact.py and predicted.py, which compute them. What was measured before the sources of
bench.json, cuda.json, gpu_check.json or peers.json changed says so, and its figures are grey: that is made here too, and
checked.
"""
import argparse
import difflib
import json
import pathlib
import re
import sys

import adaptive_tables
import batch_tables
import beams_tables
import bench_tables
import cuda_tables
import exact
import formats_tables
import gpu_tables
import peers_tables
import predicted
import real_tables
import rows_tables
import rules_tables
import run
import self_drafting_tables
import theory_tables
import trees_tables
from table_text import Results

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent
sys.path[:0] = [str(DOCS / "figures"), str(DOCS.parent / "tests/benchmarks")]
import bench  # noqa: E402
import benchmarks as benchmark_figures  # noqa: E402
import curves  # noqa: E402
import runs  # noqa: E402

BLOCK = re.compile(r"(?P<head>^(?P<quote>(?:> )?)<!-- table: (?P<name>[\w-]+) -->\n)(?P<body>.*?)"
                   r"(?P<tail>^(?P=quote)<!-- end table -->$)", re.DOTALL | re.MULTILINE)
# What was measured -> the tables that are made from it, and what reads it.
SOURCES = {"rules.json": (rules_tables.TABLES, dict),
           "exact.py": (exact.TABLES, None),
           "results.json": (theory_tables.TABLES, theory_tables.Theory),
           "adaptive.json": (adaptive_tables.TABLES, dict),
           "trees.json": (trees_tables.TABLES, dict),
           "self_drafting.json": (self_drafting_tables.TABLES, dict),
           "beams.json": (beams_tables.TABLES, dict),
           "rows.json": (rows_tables.TABLES, Results),
           "formats.json": (formats_tables.TABLES, Results),
           "batch.json": (batch_tables.TABLES, batch_tables.Batches),
           "bench.json": (bench_tables.TABLES, lambda data: bench_tables.Benchmarks(data, bench.is_stale(data))),
           "cuda.json": ({**cuda_tables.TABLES, **predicted.TABLES}, lambda data: cuda_tables.Measured(data, data and run.is_stale("cuda.json", data))),
           "gpu_check.json": (gpu_tables.TABLES, lambda data: Results(data, data and run.is_stale("cuda.json", data))),
           "peers.json": (peers_tables.TABLES, lambda data: Results(data, data and run.is_stale("peers.json", data))),
           "real.json": (real_tables.TABLES, lambda data: data)}
MAY_BE_ABSENT = ("cuda.json", "formats.json", "gpu_check.json", "peers.json", "real.json", "rows.json")
FILES = {name: file for file, (tables, _) in SOURCES.items() for name in tables}


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def tables_in(page):
    return [match["name"] for match in BLOCK.finditer(text_of(page))]


def pages():
    """The pages that have tables, as paths from docs/."""
    below = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return [page for page in [*below, "../README.md"] if "<!-- table:" in text_of(page)]


def read(file):
    """What tables are made from."""
    path, reader = HERE / file, SOURCES[file][1]
    if reader is None:
        return None
    missing = file in MAY_BE_ABSENT and not path.is_file()
    return reader(None if missing else json.loads(path.read_text(encoding="utf-8")))


def filled(page, text, given):
    """The page's text with its tables. given: file -> its results, where they are not those of the file; gets those that
    were read."""
    if len(BLOCK.findall(text)) != text.count("<!-- table:"):
        sys.exit(f"{page}: a table is not closed by <!-- end table -->")

    def fill(block):
        if block["name"] not in FILES:
            sys.exit(f"{page}: no such table: {block['name']}; there are {', '.join(sorted(FILES))}")
        file = FILES[block["name"]]
        if file not in given:
            given[file] = read(file)
        table = SOURCES[file][0][block["name"]](given[file])
        # Between a comment and a table Markdown wants an empty line; inside a quotation, its sign.
        lines = ["", *table.splitlines(), ""]
        return block["head"] + "".join((block["quote"] + line).rstrip() + "\n" for line in lines) + block["tail"]

    return BLOCK.sub(fill, text)


def made(some_pages):
    """(file, its text of today's results) of each page."""
    given = {}
    for page in some_pages:
        yield DOCS / page, filled(page, text_of(page), given)


def made_from_benchmarks():
    """The same of the pages and of the figures that are made from bench.json."""
    yield from made(page for page in pages() if any(FILES.get(name) == "bench.json" for name in tables_in(page)))
    results = read("bench.json")
    for name, picture in benchmark_figures.drawn(results.data, results.stale).items():
        yield DOCS / "figures" / name, picture


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check, differs = parser.parse_args().check, False
    drawn = {DOCS / f"figures/{name}.svg": picture.svg() for name, picture in {**curves.drawn(), **runs.drawn()}.items()}
    for path, new in {**dict(made(pages())), **dict(made_from_benchmarks()), **drawn}.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        differs |= old != new
        if check:
            name = path.resolve().relative_to(DOCS.parent).as_posix()
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "results"))
        elif old != new:
            path.write_text(new, encoding="utf-8")
    if check and differs:
        print("these files are not what the results give: make docs")
    sys.exit(check and differs)


if __name__ == "__main__":
    main()
