"""The tables of docs/performance.md, docs/overview.md and README.md, made from what bench.py measured. tables.py puts
them there."""
import json
import pathlib
import statistics

import adaptive_tables
import real_tables
import run  # noqa: F401  where turns.py is found
import turns
from table_text import STALE, Entries, Results, Tables, machine, number, numbers, prose

HERE = pathlib.Path(__file__).resolve().parent
NOTHING = "Not measured.\n"
LARGEST_SPREAD = turns.Rules().largest_spread
TABLES = table = Tables("bench-", NOTHING)
SHAPES = {"embedded": "embedded", "14m": "`14m`", "134m": "`134m`", "1b": "`1b`", "3b": "`3b`"}
DRAFTS = {**SHAPES, "14m_int8": "`14m`, int8 weights", "bigram": "bigram", "lookup": "lookup",
          "self": "the target itself", "self_int8": "the target itself, int8 weights"}


class Benchmarks(Results):
    """bench.json, with its entries by benchmark."""

    def __init__(self, data, stale):
        super().__init__(data, stale)
        self.entries = Entries(e for part in data["programs"].values() for e in part["benchmarks"]
                               if e.get("samples") != 0)  # where no sample was kept, the machine was too restless

    def of(self, benchmark, **wanted):
        return self.entries.of(benchmark=benchmark, **wanted)

    def names(self, prefix):
        """The benchmarks whose names begin so, in order."""
        return [name for name in self.entries.by("benchmark") if name.startswith(prefix)]

    def each(self, prefix):
        """(the rest of the name, entry) of those."""
        return [(name.removeprefix(prefix), e) for name in self.names(prefix) for e in self.of(name)]

    def hash(self):
        return self.data["sources_sha256"][:8]


def mean(entries, name):
    """Over text kinds; None where nothing was measured."""
    values = [e[name] for e in entries if e.get(name) is not None]
    return statistics.mean(values) if values else None


def over_accounting(entries):
    """The seconds that the accounting gives all text kinds together, over the measured ones."""
    seconds = [1 / e["plain_tokens_per_second"] / e["gain"] for e in entries]
    return sum(s * e["gain_over_accounting"] for s, e in zip(seconds, entries)) / sum(seconds)


def doubt(entries, ratio=None):
    """Behind a number whose setting was not steady: " ±12%", the spread of its time, or of a ratio; of several texts the
    median one, as in tests/benchmarks/rounds.py."""
    spreads = [e.get("ratio_spreads", {}).get(ratio, 0) if ratio else e.get("spread", 0) for e in entries]
    return f" ±{statistics.median(spreads):.0%}" if spreads and statistics.median(spreads) > LARGEST_SPREAD else ""


def over_bound(e):
    return number(e.get("of_bound")) + doubt([e], "of_bound")


def rate_of(e):
    return f"{e['tokens_per_second']:,.0f}" + doubt([e])


def gain_of(e):
    return number(e.get("gain")) + doubt([e], "gain")


def speedup_of(entries):
    return number(entries.speedup()) + doubt(entries, "gain")


def quotient(entry):
    """T(M)/T(1): the median of the samples' own quotients, with their number where few samples were kept."""
    samples = entry.get("samples", 3)
    few = f" ({samples:.0f} sample{'s' * (samples > 1)})" if samples < 3 else ""
    return number(entry["over_plain"]) + doubt([entry], "over_plain") + few


def millis(e, digits=2):
    return number(e["seconds"] * 1e3, digits) + doubt([e])


def gigaflops(e):
    return number(e["flops_per_second"] / 1e9, 0)


def settings(benchmarks, **wanted):
    """(target, draft, T, K) -> the entries of the text kinds."""
    return benchmarks.of("speculation", **wanted).by("target", "draft", "T", "K")


def best_settings(benchmarks):
    """(target, draft, T) -> (the K with the largest gain over all text kinds, its entries)."""
    best = {}
    for (*pair, K), entries in settings(benchmarks).items():
        before = best.get(tuple(pair))
        if K != "auto" and (before is None or entries.speedup() > before[1].speedup()):
            best[tuple(pair)] = K, entries
    return best


def across(entries, row, column, cell, name="{}"):
    """(the heads, the rows) of a table with a row for each value of the names `row`, and a column for each of `column`.
    The first two names are of models."""
    columns = sorted({e[column] for e in entries})
    found = {(*(e[name] for name in row), e[column]): e for e in entries}
    rows = []
    for target, draft, *rest in dict.fromkeys(key[:-1] for key in found):
        cells = [found.get((target, draft, *rest, value)) for value in columns]
        rows.append([SHAPES[target], DRAFTS[draft], *(f"{value:g}" for value in rest), *(cell(e) if e else "" for e in cells)])
    return [name.format(value) for value in columns], rows


@table
def where(benchmarks):
    data = benchmarks.data
    if not benchmarks.entries:
        return NOTHING
    selection = " A selection: `make bench-full` measures more." if data["quick"] else ""
    return prose(f"{STALE if benchmarks.stale else ''}Measured at source {benchmarks.hash()}: {machine(data)} Linux "
                 f"{data['machine']['kernel']}, {data['machine']['cores']} cores, {data['machine']['memory_gb']} GB."
                 f"{selection}")


@table
def rounds(benchmarks):
    """How many rounds each program's numbers come from, and how far the machine's yardstick moved from round to round."""
    parts = {name: part for name, part in benchmarks.data["programs"].items() if "rounds" in part}
    if not parts:
        return "These results have an older form, without rounds and spreads.\n"
    rows = []
    for name, part in parts.items():
        moved = [f"{value / 1e9:.1f}" for value in (min(part["bandwidths"]), max(part["bandwidths"]))] if part["bandwidths"] else []
        spreads = [e["spread"] for e in part["benchmarks"] if e.get("spread") is not None]
        unsteady = part["unsteady"]
        rows.append([f"`{name}`", str(part["rounds"]), str(part["thrown_away"]), str(len(unsteady)) if len(unsteady) > 2 else
                     ", ".join(unsteady) or "none",
                     f"{max(spreads):.0%}" if spreads else "", " to ".join(moved)])
    return "program|rounds kept|thrown away|settings not steady|largest spread|bandwidth by round, GB/s", rows


# --- kernels and passes ---

@table
def kernels(benchmarks):
    return "matmul|M|ms|GB/s|of the bandwidth|Gflop/s|of the peak|median T(M)/T(1)|over the bound", [
        [name, str(e["M"]), millis(e), number(e["bytes_per_second"] / 1e9, 1), number(e["of_bandwidth"]), gigaflops(e),
         number(e["of_peak"]), quotient(e), over_bound(e)] for name, e in benchmarks.each("matmul/")]


@table
def ladder(benchmarks):
    """Each step from plain loops on, and what it gains over the one before."""
    rows, before = [], {}
    for name in benchmarks.names("ladder/"):
        found, cells = {e["M"]: e for e in benchmarks.of(name)}, []
        for M in (1, 6):
            e = found.get(M)
            gain = f" ({before[M]['seconds'] / e['seconds']:.1f} times as fast)" if e and M in before else ""
            cells += [f"{millis(e, 1)} ms{gain}", number(e["of_bandwidth"])] if e else ["", ""]
        number_of, _, words = name.removeprefix("ladder/").partition("_")
        rows.append([f"{number_of}. {words.replace('_', ' ')}", *cells, quotient(found[6]) if 6 in found else ""])
        before = found
    return "step|one row|of the bandwidth|six rows|of the bandwidth|median T(6)/T(1)", rows


@table
def attention(benchmarks):
    return "heads of|M|ms|of the bandwidth|of the peak|over the bound", [
        [SHAPES[name], str(e["M"]), millis(e, 1), *numbers(e, "of_bandwidth of_peak"), over_bound(e)]
        for name, e in benchmarks.each("attention/4096/")]


@table
def prefill(benchmarks):
    found = [(f"matrix products, {name}", e) for name, e in benchmarks.each("prefill/")]
    found += [(f"whole pass, {SHAPES[name]}", e) for name, e in benchmarks.each("forward/")]
    return "|tokens|ms|Gflop/s|of the peak", [[name, str(e["M"]), millis(e, 0), gigaflops(e), number(e["of_peak"])]
                                              for name, e in found if e["M"] >= 64]


@table
def load(benchmarks):
    return "shape|seconds|seconds per gigabyte", [[SHAPES[name], number(e["seconds"]) + doubt([e]), number(1e9 / e["bytes_per_second"])]
                                                  for name, e in benchmarks.each("load/")]


@table
def ceilings(benchmarks):
    """What the machine gave around the samples of the kernels."""
    entries = [e for prefix in ("matmul/", "forward/") for _, e in benchmarks.each(prefix)]
    found = {what: [e[name] / 1e9 for e in entries if e.get(name)] for what, name in (
        ("read bandwidth, GB/s", "bandwidth"), ("float32 multiply-adds, Gflop/s", "peak"))}
    return "|median|least|most", [[what, *(number(of(values), 1) for of in (statistics.median, min, max))]
                                  for what, values in found.items()] if all(found.values()) else []


@table
def passes(benchmarks):
    names, by_rows = benchmarks.names("forward/"), {}
    for name in names:
        for e in benchmarks.of(name):
            if e["M"] <= 16:  # more is prefill
                by_rows.setdefault(e["M"], {})[name] = e
    heads = ["M"]
    for name in names:
        shape = name.removeprefix("forward/")
        heads += [f"{SHAPES.get(shape, shape)}: ms", "of the bandwidth", "median T(M)/T(1)", "over the bound"]
    cells = lambda e: [millis(e), number(e["of_bandwidth"]), quotient(e), over_bound(e)] if e else [""] * 4
    return "|".join(heads), [[str(M), *(cell for name in names for cell in cells(found.get(name)))]
                             for M, found in sorted(by_rows.items())]


# --- decoding ---

@table
def stages(benchmarks):
    entries = benchmarks.of("stages")
    pairs = list(dict.fromkeys((e["target"], e["draft"]) for e in entries))
    found = {(e["target"], e["draft"], e["stage"]): e for e in entries}
    heads = ["stage"]
    for target, draft in pairs:
        heads += [f"{SHAPES[target]} target, {DRAFTS[draft]} draft: tokens/s", "over the stage before"]
    cells = lambda e: [rate_of(e), gain_of(e)] if e else ["", ""]
    return "|".join(heads), [[str(stage), *(cell for pair in pairs for cell in cells(found.get((*pair, stage))))]
                             for stage in sorted({e["stage"] for e in entries})]


@table
def speculation(benchmarks):
    """The best K of each pair and draft, and what --spec-length auto made of it."""
    found, rows = settings(benchmarks), []
    for (target, draft, T), best in best_settings(benchmarks).items():
        for K, entries in (best, ("auto", found.get((target, draft, T, "auto"), []))):
            if entries:
                rows.append([SHAPES[target], DRAFTS[draft], f"{T}", str(K), number(mean(entries, "alpha")),
                             number(mean(entries, "c"), 3), number(mean(entries, "v")),
                             *(number(entries.speedup(name)) for name in ("predicted_formula", "predicted_accounting")),
                             f"**{number(entries.speedup())}**" + doubt(entries, "gain"), number(over_accounting(entries))])
    return "target|draft|T|best K|alpha|c|v|by formula|by accounting|measured|measured / accounting", rows


def read_beside(name):
    """Another file of results; None where there is none."""
    file = HERE / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def range_of(gains):
    """gains: of each kind of text."""
    low, high = min(gains, key=gains.get), max(gains, key=gains.get)
    return f"{number(gains[low], 1)}x on {low} to {number(gains[high], 1)}x on {high}"


def expected_gain():
    """Of a 3B with a 1B: counted rounds at measured costs of passes. No such pair was run."""
    counted = adaptive_tables.counted(read_beside("adaptive.json"), shape="3b", way="gain")
    gains = {kind: adaptive_tables.gain(found) for kind, found in counted.by("text").items()}
    return ["3B", "1B", "", "", f"**{number(adaptive_tables.gain(counted), 1)}x**", range_of(gains), "a cost model, not a run"]


def beside_llama_cpp(data):
    """One line: the same pair in both programs, both with speculation."""
    cell = Entries(data["entries"] if data else []).of(shape="134m", type="bf16", work="speculation").by("program")
    if not cell:
        return []
    ours, theirs = (1 / cell[name][0]["seconds"] for name in ("specdec", "llama.cpp"))
    return [["`134m`, beside llama.cpp", "`14m`", f"{theirs:.0f} there", f"{ours:.0f} here",
             f"**{number(cell['llama.cpp'][0]['ratio'], 1)}x** theirs", "", f"measured {data['date'][:10]}"]]


@table
def gains(benchmarks):
    """For the README: what speculation buys, with greedy decoding, and how that is known."""
    data = benchmarks.data
    known = f"measured {data['date'][:10]}, {data['machine']['cpu']}{', before the last changes' if benchmarks.stale else ''}"
    rows = [[SHAPES[target], f"{DRAFTS[draft]}, K = {K}", *entries.rates(), range_of({e["text"]: e["gain"] for e in entries}), known]
            for (target, draft, T), (K, entries) in best_settings(benchmarks).items()
            if (target, draft, T) in (("134m", "14m", 0), ("embedded", "embedded", 0))]
    return "target|draft|tokens/s alone|with speculation|speedup, all texts together|by kind of text|from", [
        real_tables.row(read_beside("real.json"), range_of), expected_gain(), *rows,
        *beside_llama_cpp(read_beside("peers.json"))] if rows else []


@table
def summary(benchmarks):
    """For the overview: the real model, and the pairs with a draft model, greedy. The last column is the quotient of the
    two before it."""
    rows = [real_tables.summary_row(read_beside("real.json"))] if benchmarks.entries else []
    rows += [[SHAPES[target], DRAFTS[draft], str(K), number(mean(entries, "alpha")), *entries.rates()]
             for (target, draft, T), (K, entries) in best_settings(benchmarks).items() if T == 0 and draft in SHAPES]
    return "target|draft|best K|alpha|tokens/s, plain|tokens/s|speedup, their quotient", rows


@table
def spec_length(benchmarks):
    """Gain by K, over all text kinds."""
    found = settings(benchmarks, T=0)
    lengths = sorted({K for *_, K in found if isinstance(K, int)}) + sorted({K for *_, K in found if isinstance(K, str)})
    return "|".join(["target", "draft", *(f"K = {K}" for K in lengths)]), [
        [SHAPES[target], DRAFTS[draft], *(speedup_of(found.get((target, draft, 0, K), Entries())) for K in lengths)]
        for target, draft in dict.fromkeys(key[:2] for key in found)]


@table
def texts(benchmarks):
    """By text kind, at the K that is best for all together."""
    best = {pair: {e["text"]: e for e in entries} for pair, (_, entries) in best_settings(benchmarks).items()
            if pair[2] == 0 and len(entries) > 1}
    heads = ["text", *(f"{SHAPES[t]} by {DRAFTS[d]}, K = {best_settings(benchmarks)[t, d, T][0]}" for t, d, T in best)]
    cell = lambda e: f"{gain_of(e)} (alpha {number(e['alpha'])})" if e else ""
    return "|".join(heads), [[kind, *(cell(found.get(kind)) for found in best.values())]
                             for kind in dict.fromkeys(kind for found in best.values() for kind in found)]


@table
def synthetic(benchmarks):
    """Synthetic acceptance: the gain beside the formula's."""
    heads, rows = across(benchmarks.of("synthetic"), ("target", "draft", "asked"), "K",
                         lambda e: f"{gain_of(e)} ({number(e['predicted_formula'])})", "K = {}: measured (formula)")
    return "|".join(["target", "cost of", "synthetic alpha", *heads]), rows


@table
def batch(benchmarks):
    heads, rows = across(benchmarks.of("batch"), ("target", "draft", "B"), "K",
                         lambda e: gain_of(e) if e["K"] else f"{rate_of(e)} tokens/s", "K = {}")
    return "|".join(["target", "draft", "B", *heads]), rows
