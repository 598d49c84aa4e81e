#!/usr/bin/env python3
"""Fills the tables of README.md and of all Markdown pages below docs/ with what was measured, and draws the figures
that are made from bench.json.

    python3 docs/experiments/tables.py            rewrites what differs
    python3 docs/experiments/tables.py --check    exit code 1 where something differs

A table is between <!-- table: NAME --> and <!-- end table -->, in a quotation with "> " before both. SOURCES has the
names: functions of this file (results.json and the formulas), of batch_tables.py, of bench_tables.py, of
cuda_tables.py, of peers_tables.py and of real_tables.py. All these of a page are made from one file. The tables of
rules.json and of real.json, and those that exact.py computes, may be on any page. What was measured before the sources
of bench.json, cuda.json or peers.json changed says so, and its figures are grey: that is made here too, and checked.
"""
import argparse
import difflib
import json
import pathlib
import re
import sys

import adaptive_tables
import batch_tables
import bench_tables
import cuda_tables
import exact
import formulas
import peers_tables
import real_tables
import trees_tables
from table_text import machine as machine_text, markdown, number, prose, smoke

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent
sys.path.insert(0, str(DOCS / "figures"))
import benchmarks as benchmark_figures  # noqa: E402
sys.path.insert(0, str(DOCS.parent / "tests/benchmarks"))
import bench  # noqa: E402
import cuda_bench  # noqa: E402
import peers_bench  # noqa: E402
BLOCK = re.compile(r"(?P<head>^(?P<quote>(?:> )?)<!-- table: (?P<name>[\w-]+) -->\n)(?P<body>.*?)"
                   r"(?P<tail>^(?P=quote)<!-- end table -->$)", re.DOTALL | re.MULTILINE)
TEXTS = ["arithmetic", "dialogue", "code", "rewriting", "recipes", "stories", "questions", "poems"]
NAMES = {"llama": "the draft model"}
TABLES = {}


def table(make):
    TABLES[make.__name__.replace("_", "-")] = make
    return make


class Results:
    def __init__(self, data):
        self.data = data
        self.alphas = {(e["draft_kind"], e["temperature"], e["text"]): e for e in data["counts"]["alpha"]}
        self.times = {(e["draft_kind"], e["temperature"], e["spec_length"]): e for e in data["times"]["settings"]}

    def alpha(self, kind, temperature, text="all"):
        return self.alphas[kind, temperature, text]


# --- from the formulas alone ---

@table
def operations(_):
    """Table 1 of the paper."""
    rows = [[f"{alpha}", str(K), number(formulas.operations_factor(alpha, K, 0)),
             number(formulas.walltime_factor(alpha, K, 0)), number(formulas.memory_access_factor(alpha, K))]
            for alpha, K in ((0.6, 2), (0.7, 3), (0.8, 2), (0.8, 5), (0.9, 2), (0.9, 10))]
    return markdown(["alpha", "K", "operations", "speedup", "target's bytes"], rows)


@table
def pairs(_):
    rows = []
    for draft, target in (("draft (embedded)", "target (embedded)"), ("1B", "3B"), ("1B", "8B"), ("1B", "70B"),
                          ("8B", "70B")):
        a, b = formulas.SHAPES[draft], formulas.SHAPES[target]
        giga = lambda n: f"{n / 1e9:.2f} GB" if n > 1e8 else f"{n / 1e6:.2f} MB"
        rows.append([draft.replace("draft (embedded)", "embedded draft"),
                     target.replace("target (embedded)", "embedded target"), giga(a.weight_bytes), giga(b.weight_bytes),
                     number(formulas.bytes_c(draft, target), 3),
                     number(formulas.bytes_c(draft, target, 32768), 3) if "embedded" not in draft else ""])
    return markdown(["draft", "target", "draft reads", "target reads", "c", "c at 32,768 tokens"], rows)


@table
def real_pair(_):
    c = formulas.bytes_c("1B", "3B")
    rows = []
    for alpha in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        best = formulas.best_K(alpha, c)
        factors = [number(formulas.walltime_factor(alpha, K, c)) for K in (1, 2, 3, 5, 8)]
        rows.append([f"{alpha}", *factors, str(best), number(formulas.walltime_factor(alpha, best, c)),
                     number(formulas.oracle_factor(alpha, c))])
    return markdown(["alpha", "K = 1", "K = 2", "K = 3", "K = 5", "K = 8", "best K", "its factor", "oracle"], rows)


def factors_by_K(c):
    rows = [[f"{alpha}", *(number(formulas.walltime_factor(alpha, K, c)) for K in range(1, 7)),
             str(formulas.best_K(alpha, c))] for alpha in (0.6, 0.7, 0.8, 0.9)]
    return markdown(["alpha", *(f"K = {K}" for K in range(1, 7)), "best K"], rows)


@table
def real_pair_bf16(_):
    return factors_by_K(formulas.bytes_c("1B", "3B"))


@table
def real_pair_int8_draft(_):
    """One byte a weight of the draft in place of two."""
    return factors_by_K(formulas.bytes_c("1B", "3B") / 2)


@table
def real_pair_360m(_):
    return factors_by_K(formulas.bytes_c("SmolLM2-135M", "SmolLM2-360M"))


@table
def real_pair_1_7b(_):
    return factors_by_K(formulas.bytes_c("SmolLM2-135M", "SmolLM2-1.7B"))


# --- counts ---

@table
def sample(results):
    counts, e = results.data["counts"], results.alpha("llama", 1)
    errors = [e["alpha_se"] for e in counts["alpha"] if e["text"] == "all" and e["alpha_se"]]
    smoke = " These numbers are a smoke test and mean nothing." if counts["quick"] else ""
    return prose(f"{counts['prompts']} prompts, up to {counts['max_new_tokens']} new tokens, "
            f"K = {counts['K']}. "
                 f"The draft model at temperature 1: {e['runs']} runs, {e['tested']:,} tested drafts. "
            f"Largest standard error of a total: {number(max(errors, default=0), 3)}.{smoke}")


@table
def alpha(results):
    rows = []
    for kind in ("random", "unigram", "bigram", "lookup", "llama", "self"):
        for temperature in (0, 0.5, 1):
            e = results.alphas.get((kind, temperature, "all"))
            if e:
                rows.append([NAMES.get(kind, kind), f"{temperature}",
                             f"{number(e['alpha'])} ± {number(e['alpha_se'], 3)}", number(e["alpha_by_probability"]),
                             number(e["acceptance_rate"]), number(e["rounds_that_drafted"] / e["rounds"]),
                             number(e["emitted_per_round"])])
    return markdown(["draft", "temperature", "alpha", "by probability", "acceptance_rate", "rounds that drafted",
                     "tokens per round"], rows)


@table
def alpha_by_text(results):
    columns = [("llama", 0), ("llama", 1), ("bigram", 0), ("bigram", 1), ("lookup", 0), ("lookup", 1)]
    rows = []
    for text in TEXTS:
        entries = [results.alphas.get((*column, text)) for column in columns]
        rows.append([text] + [f"{number(e['alpha'])} ± {number(e['alpha_se'])}" if e and e["alpha"] is not None
                              and e["alpha_se"] is not None else "" for e in entries])
    heads = ["text"] + [f"{NAMES.get(k, k)}, T = {t}" for k, t in columns]
    return markdown(heads, rows)


@table
def independence(results):
    """Whole rounds of the draft model: the share that accepts all K, and what follows from it."""
    K, rows = results.data["counts"]["K"], []
    for temperature in (0, 1):
        for text in ["all", *TEXTS]:
            e = results.alphas.get(("llama", temperature, text))
            if not e or e["whole_rounds"] < 40:
                continue
            a = e["whole_accepted"] / e["whole_tested"]
            rows.append([text, f"{temperature}", str(e["whole_rounds"]), number(a), number(a**K),
                         number(e["accepted_at"][K - 1] / e["whole_rounds"]), number(formulas.emitted(a, K)),
                         number(e["whole_emitted_per_round"]), number(e["emitted_per_round"])])
    return markdown(["text", "T", "whole rounds", "alpha", f"alpha^{K}", f"all {K} accepted", "formula",
                     "tokens per whole round", "with stops"], rows)


@table
def positions(results):
    rows = []
    for temperature in (0, 1):
        e = results.alpha("llama", temperature)
        a = e["whole_accepted"] / e["whole_tested"]
        rows.append([f"T = {temperature}, accepted_per_position"] +
                    [number(n / e["whole_rounds"], 3) for n in e["accepted_at"]])
        rows.append([f"alpha = {number(a, 3)}, its powers"] +
                    [number(a ** (i + 1), 3) for i in range(len(e["accepted_at"]))])
        rows.append(["accepted of those tested there"] +
                    [number(n / t, 3) for n, t in zip(e["accepted_at"], e["tested_at"])])
    return markdown(["", *(f"draft {i + 1}" for i in range(results.data["counts"]["K"]))], rows)


@table
def lenience(results):
    found = {(e["draft_kind"], e["temperature"], e["lenience"]): e for e in results.data["counts"]["lenience"]}
    levels = sorted({key[2] for key in found}, reverse=True)
    rows = []
    for temperature in (1, 0):
        for kind in ("unigram", "bigram", "llama"):
            entries = [found.get((kind, temperature, level)) for level in levels]
            if not all(entries):
                continue
            changed = ""
            if temperature == 0:
                changed = ", ".join(f"{e['runs'] - e['texts_unchanged']}" for e in entries[1:])
                changed += f" of {entries[0]['runs']}"
            rows.append([NAMES.get(kind, kind), f"{temperature}", *(number(e["alpha"]) for e in entries),
                         *(number(e["emitted_per_round"]) for e in entries), changed])
    return markdown(["draft", "T", *(f"alpha, l = {x:g}" for x in levels),
                     *(f"tokens per round, l = {x:g}" for x in levels), "texts changed"], rows)


@table
def alpha_by_k(results):
    """The same prompts with several K; those with K = 5 are among the experiments with lenience."""
    entries = list(results.data["counts"]["spec_length"])
    entries += [{**e, "spec_length": results.data["counts"]["K"]} for e in results.data["counts"]["lenience"]
                if e["draft_kind"] == "llama" and e["lenience"] == 1]
    rows = []
    for e in sorted(entries, key=lambda e: (e["temperature"], e["spec_length"])):
        alpha = e["whole_accepted"] / e["whole_tested"]
        formula = formulas.emitted(alpha, e["spec_length"])
        rows.append([f"{e['temperature']}", str(e["spec_length"]), f"{number(e['alpha'], 3)} ± {number(e['alpha_se'], 3)}",
                     number(e["acceptance_rate"], 3), number(formula), number(e["whole_emitted_per_round"]),
                     number(formula / e["whole_emitted_per_round"])])
    return markdown(["T", "K", "alpha", "acceptance_rate", "formula", "tokens per whole round", "formula / measured"],
                    rows)


@table
def by_bytes(results):
    """The measured alphas at the costs of other pairs, at v = 1."""
    rows = []
    for kind, temperature in (("llama", 0), ("llama", 1), ("bigram", 0), ("bigram", 1)):
        alpha = results.alpha(kind, temperature)["alpha"]
        costs = [("1B for 3B", formulas.bytes_c("1B", "3B")),
                 ("embedded pair", formulas.bytes_c("draft (embedded)", "target (embedded)")),
                 ("1B for 70B", formulas.bytes_c("1B", "70B"))]
        for name, c in costs if kind == "llama" else [("nothing", 0)]:
            best = formulas.best_K(alpha, c, most=16)
            rows.append([NAMES.get(kind, kind), f"{temperature}", number(alpha), name, number(c, 3), str(best),
                         number(formulas.walltime_factor(alpha, best, c)),
                         number(formulas.walltime_factor(alpha, 5, c))])
    return markdown(["draft", "T", "alpha", "costs of", "c", "best K up to 16", "its factor", "K = 5"], rows)


@table
def wrong_alpha(results):
    """Find the error: acceptance_rate for alpha."""
    K, rows = results.data["counts"]["K"], []
    for text in ("poems", "stories", "all"):
        e = results.alphas.get(("llama", 1, text))
        if e and e["alpha"] is not None:
            rows.append([text, number(e["alpha"]), number(formulas.emitted(e["alpha"], K)),
                         number(e["acceptance_rate"]), number(formulas.emitted(e["acceptance_rate"], K)),
                         number(e["emitted_per_round"])])
    return markdown(["text", "alpha", "formula with alpha", "acceptance_rate", "formula with that",
                     "measured tokens per round"], rows)


@table
def wrong_v(results):
    """Find the error: K + 1 passes for one."""
    rows = []
    c = formulas.bytes_c("1B", "3B")
    for alpha in (0.5, 0.7, 0.9):
        for K in (2, 5):
            rows.append([f"{alpha}", str(K), number(formulas.walltime_factor(alpha, K, c, 1)),
                         number(formulas.walltime_factor(alpha, K, c, K + 1))])
    return markdown(["alpha", "K", "factor at v = 1", "with K + 1 instead of v"], rows)


# --- times ---

def predicted(e):
    """The formula with the measured c and v. A lookup drafts in some rounds only, and the others are plain steps."""
    K = e["spec_length"]
    drafts = min(1, e["drafted_per_round"] / K) if e["draft_kind"] == "lookup" else 1
    if e["alpha"] is None:
        return None
    tokens = 1 + drafts * (formulas.emitted(e["alpha"], K) - 1)
    return tokens / (drafts * (K * e["c"] + e["v"]) + 1 - drafts)


@table
def machine(results):
    t = results.data["times"]
    return prose(f"{machine_text(t)} Prompts {', '.join(t['prompts'])}; {t['sweeps']} sweeps.{smoke(t)}")


@table
def times(results):
    return times_of(results, ["llama", "bigram", "lookup"])


@table
def times_of_the_draft_model(results):
    return times_of(results, ["llama"])


def times_of(results, kinds):
    rows = []
    for (kind, temperature, K), e in results.times.items():
        if kind in kinds:
            rows.append([NAMES.get(kind, kind), f"{temperature}", str(K), number(e["alpha"]), number(e["c"]),
                         number(e["v"]), number(e["emitted_per_round"]), number(predicted(e)),
                         number(e["program_accounting"]), number(e["clock"]),
                         f"{number(e['clock_least'])} to {number(e['clock_most'])}"])
    rows.sort(key=lambda row: ([NAMES.get(kind, kind) for kind in kinds].index(row[0]), float(row[1]), int(row[2])))
    return markdown(["draft", "T", "K", "alpha", "c", "v", "tokens per round", "formula", "accounting", "clock",
                     "sweeps"], rows)


@table
def v_and_rows(results):
    """What a row costs: v by K, all kinds together."""
    lengths = sorted({K for _, _, K in results.times})
    rows = []
    for kind in ("llama", "bigram", "lookup"):
        for temperature in (0, 1):
            entries = [results.times.get((kind, temperature, K)) for K in lengths]
            if all(entries):
                rows.append([NAMES.get(kind, kind), f"{temperature}", *(number(e["v"]) for e in entries)])
    return markdown(["draft", "T", *(f"v, {K + 1} rows" for K in lengths)], rows)


def committed_benchmarks(data):
    return bench_tables.Benchmarks(data, bench.is_stale(data))


def committed_cuda(data):
    return cuda_tables.Measured(data, data is not None and cuda_bench.is_stale(data))


def committed_peers(data):
    return peers_tables.Peers(data, data is not None and peers_bench.is_stale(data))


class Rules:
    """The tables of rules.json, which rules.py has made already."""

    def __init__(self, data):
        self.tables = data["tables"]


RULE_TABLES = {name: lambda rules, name=name: "\n".join(rules.tables[name]) + "\n"
               for name in ("draft-kinds", "rules", "rule-errors", "draft-temperatures")}

# What was measured -> the tables that are made from it, and what reads it.
SOURCES = {"rules.json": (RULE_TABLES, Rules),
           "exact.py": (exact.TABLES, None),
           "results.json": (TABLES, Results),
           "adaptive.json": (adaptive_tables.TABLES, dict),
           "trees.json": (trees_tables.TABLES, dict),
           "batch.json": (batch_tables.TABLES, batch_tables.Batches),
           "bench.json": (bench_tables.TABLES, committed_benchmarks),
           "cuda.json": (cuda_tables.TABLES, committed_cuda),
           "peers.json": (peers_tables.TABLES, committed_peers),
           "real.json": (real_tables.TABLES, lambda data: data)}
MAY_BE_ABSENT = ("cuda.json", "peers.json", "real.json")


ON_ANY_PAGE = ("rules.json", "exact.py", "real.json")


def pages():
    """The pages that have tables, as paths from docs/."""
    below = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return [page for page in [*below, "../README.md"] if "<!-- table:" in (DOCS / page).read_text(encoding="utf-8")]


def source_of(page, text=None):
    """The file that a page's tables are made from, but for those that may be on any page."""
    text = (DOCS / page).read_text(encoding="utf-8") if text is None else text
    names = {match["name"] for match in BLOCK.finditer(text)}
    anywhere = set().union(*(SOURCES[file][0] for file in ON_ANY_PAGE))
    for file, (tables, _) in SOURCES.items():
        if names <= set(tables) | anywhere:
            return file
    known = set().union(*(tables for tables, _ in SOURCES.values()))
    if unknown := sorted(names - known):
        sys.exit(f"{page}: no such table: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    sys.exit(f"{page}: its tables are made from several files: {', '.join(sorted(names))}")


def read(page):
    """What the page's tables are made from."""
    return read_file(source_of(page))


def read_file(file):
    path, reader = HERE / file, SOURCES[file][1]
    if reader is None:
        return None
    missing = file in MAY_BE_ABSENT and not path.is_file()
    return reader(None if missing else json.loads(path.read_text(encoding="utf-8")))


def filled(page, text, results):
    """The page's text with the tables of these results."""
    if len(BLOCK.findall(text)) != text.count("<!-- table:"):
        sys.exit(f"{page}: a table is not closed by <!-- end table -->")
    tables = SOURCES[source_of(page, text)][0]

    def made_table(name):
        if name in tables:
            return tables[name](results)
        file = next(file for file in ON_ANY_PAGE if name in SOURCES[file][0])
        return SOURCES[file][0][name](read_file(file))

    def fill(block):
        # Between a comment and a table Markdown wants an empty line; inside a quotation, its sign.
        lines = ["", *made_table(block["name"]).splitlines(), ""]
        return block["head"] + "".join((block["quote"] + line).rstrip() + "\n" for line in lines) + block["tail"]

    return BLOCK.sub(fill, text)


def made(some_pages):
    """(file, its text of today's results) of each page."""
    for page in some_pages:
        path = DOCS / page
        yield path, filled(page, path.read_text(encoding="utf-8"), read(page))


def made_from_benchmarks():
    """The same of the pages and of the figures that are made from bench.json."""
    yield from made(page for page in pages() if source_of(page) == "bench.json")
    results = read("performance.md")
    for name, picture in benchmark_figures.drawn(results.data, results.stale).items():
        yield DOCS / "figures" / name, picture


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check, differs = parser.parse_args().check, False
    others = [page for page in pages() if source_of(page) != "bench.json"]
    for path, new in [*made(others), *made_from_benchmarks()]:
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
