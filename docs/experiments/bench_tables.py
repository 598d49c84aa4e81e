"""The tables of docs/performance.md, docs/overview.md and README.md, made from what bench.py measured. tables.py puts
them there."""
import json
import pathlib
import statistics

import adaptive_tables
import real_tables
from table_text import machine, markdown, number, prose, speedup_by_time

HERE = pathlib.Path(__file__).resolve().parent
TABLES = {}
STALE = "**Measured before the last changes of the sources.** "
NOTHING = "Not measured.\n"
SHAPES = {"embedded": "embedded", "14m": "`14m`", "134m": "`134m`", "1b": "`1b`", "3b": "`3b`"}
DRAFTS = {**SHAPES, "14m_int8": "`14m`, int8 weights", "bigram": "bigram", "lookup": "lookup",
          "self": "the target itself", "self_int8": "the target itself, int8 weights"}


def table(make):
    TABLES["bench-" + make.__name__.replace("_", "-")] = make
    return make


class Benchmarks:
    """bench.json, with its entries by benchmark. stale: the sources have changed since."""

    def __init__(self, data, stale):
        self.data, self.stale = data, stale
        self.entries = [e for part in data["programs"].values() for e in part["benchmarks"]
                        if e.get("samples") != 0]  # where no sample was kept, the machine was too restless

    def of(self, benchmark, **wanted):
        return [e for e in self.entries if e["benchmark"] == benchmark and all(e.get(k) == v for k, v in wanted.items())]

    def names(self, prefix):
        """The benchmarks whose names begin so, in order."""
        return list(dict.fromkeys(e["benchmark"] for e in self.entries if e["benchmark"].startswith(prefix)))

    def hash(self):
        return self.data["sources_sha256"][:8]


def distinct(entries, name):
    return list(dict.fromkeys(e[name] for e in entries))


def mean(entries, name):
    """Over text kinds; None where nothing was measured."""
    values = [e[name] for e in entries if e.get(name) is not None]
    return statistics.mean(values) if values else None


def rate(entries, name):
    """Tokens per second over text kinds, which are equally long: all tokens over all seconds."""
    return statistics.harmonic_mean(e[name] for e in entries)


def total(entries, name):
    """Of a speedup, over text kinds, by time; None where nothing was measured."""
    return speedup_by_time([(1 / e["plain_tokens_per_second"], e[name]) for e in entries if e.get(name) is not None])


def over_accounting(entries):
    """The seconds that the accounting gives all text kinds together, over the measured ones."""
    seconds = [1 / e["plain_tokens_per_second"] / e["gain"] for e in entries]
    return sum(s * e["gain_over_accounting"] for s, e in zip(seconds, entries)) / sum(seconds)


def quotient(entry):
    """T(M)/T(1): the median of the samples' own quotients, with their number where few samples were kept."""
    samples = entry.get("samples", 3)
    few = f" ({samples:.0f} sample{'s' * (samples > 1)})" if samples < 3 else ""
    return number(entry["over_plain"]) + few


def settings(benchmarks, **wanted):
    """(target, draft, T, K) -> the entries of the text kinds."""
    found = {}
    for e in benchmarks.of("speculation", **wanted):
        found.setdefault((e["target"], e["draft"], e["T"], e["K"]), []).append(e)
    return found


def best_settings(benchmarks):
    """(target, draft, T) -> (the K with the largest gain over all text kinds, its entries)."""
    best = {}
    for (target, draft, T, K), entries in settings(benchmarks).items():
        pair = (target, draft, T)
        if K == "auto":
            continue
        if pair not in best or total(entries, "gain") > total(best[pair][1], "gain"):
            best[pair] = (K, entries)
    return best


def measured(make):
    """A table of what was not measured says so."""
    def made(benchmarks):
        heads, rows = make(benchmarks)
        return markdown(heads, rows) if rows else NOTHING
    made.__name__ = make.__name__
    return table(made)


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
    lines = []
    for name, part in parts.items():
        moved = [f"{value / 1e9:.1f}" for value in (min(part["bandwidths"]), max(part["bandwidths"]))] if part["bandwidths"] else []
        spreads = [e["spread"] for e in part["benchmarks"] if e.get("spread") is not None]
        lines.append([f"`{name}`", str(part["rounds"]), str(part["thrown_away"]), ", ".join(part["unsteady"]) or "none",
                      f"{max(spreads):.0%}" if spreads else "", " to ".join(moved)])
    return markdown(["program", "rounds kept", "thrown away", "settings left out", "largest spread", "bandwidth by round, GB/s"],
                    lines)


@measured
def kernels(benchmarks):
    rows = []
    for name in benchmarks.names("matmul/"):
        for e in benchmarks.of(name):
            rows.append([name.removeprefix("matmul/"), str(e["M"]), number(e["seconds"] * 1e3),
                         number(e["bytes_per_second"] / 1e9, 1), number(e["of_bandwidth"]),
                         number(e["flops_per_second"] / 1e9, 0), number(e["of_peak"]), quotient(e),
                         number(e["of_bound"])])
    return ["matmul", "M", "ms", "GB/s", "of the bandwidth", "Gflop/s", "of the peak", "median T(M)/T(1)",
            "over the bound"], rows


@measured
def ladder(benchmarks):
    """Each step from plain loops on, and what it gains over the one before."""
    steps = {name: {e["M"]: e for e in benchmarks.of(name)} for name in benchmarks.names("ladder/")}
    rows, before = [], {}
    for name, found in steps.items():
        cells = []
        for M in (1, 6):
            e = found.get(M)
            gain = f" ({before[M]['seconds'] / e['seconds']:.1f} times as fast)" if e and M in before else ""
            cells += [f"{number(e['seconds'] * 1e3, 1)} ms{gain}", number(e["of_bandwidth"])] if e else ["", ""]
        number_of, _, words = name.removeprefix("ladder/").partition("_")
        rows.append([f"{number_of}. {words.replace('_', ' ')}", *cells, quotient(found[6]) if 6 in found else ""])
        before = found
    return ["step", "one row", "of the bandwidth", "six rows", "of the bandwidth", "median T(6)/T(1)"], rows


@measured
def attention(benchmarks):
    rows = [[SHAPES[name.removeprefix("attention/4096/")], str(e["M"]), number(e["seconds"] * 1e3, 1),
             number(e["of_bandwidth"]), number(e["of_peak"]), number(e["of_bound"])]
            for name in benchmarks.names("attention/") for e in benchmarks.of(name)]
    return ["heads of", "M", "ms", "of the bandwidth", "of the peak", "over the bound"], rows


@measured
def prefill(benchmarks):
    rows = [[f"matrix products, {name.removeprefix('prefill/')}" if name.startswith("prefill/") else
             f"whole pass, {SHAPES[name.removeprefix('forward/')]}", str(e["M"]), number(e["seconds"] * 1e3, 0),
             number(e["flops_per_second"] / 1e9, 0), number(e["of_peak"])]
            for name in benchmarks.names("prefill/") + benchmarks.names("forward/")
            for e in benchmarks.of(name) if e["M"] >= 64]
    return ["", "tokens", "ms", "Gflop/s", "of the peak"], rows


@measured
def load(benchmarks):
    rows = [[SHAPES[name.removeprefix("load/")], number(e["seconds"]), number(e["seconds_per_gigabyte"])]
            for name in benchmarks.names("load/") for e in benchmarks.of(name)]
    return ["shape", "seconds", "seconds per gigabyte"], rows


@measured
def ceilings(benchmarks):
    """What the machine gave around the samples of the kernels."""
    entries = [e for prefix in ("matmul/", "forward/") for name in benchmarks.names(prefix) for e in benchmarks.of(name)]
    found = [[e[name] / 1e9 for e in entries if e.get(name)] for name in ("bandwidth", "peak")]
    if not all(found):
        return [], []
    return ["", "median", "least", "most"], [
        [what, number(statistics.median(values), 1), number(min(values), 1), number(max(values), 1)]
        for what, values in zip(("read bandwidth, GB/s", "float32 multiply-adds, Gflop/s"), found)]


@measured
def passes(benchmarks):
    names = benchmarks.names("forward/")
    by_rows = {}
    for name in names:
        for e in benchmarks.of(name):
            if e["M"] <= 16:  # more is prefill
                by_rows.setdefault(e["M"], {})[name] = e
    heads = ["M"]
    for name in names:
        shape = SHAPES.get(name.removeprefix("forward/"), name.removeprefix("forward/"))
        heads += [f"{shape}: ms", "of the bandwidth", "median T(M)/T(1)", "over the bound"]
    rows = [[str(M)] + [cell for name in names for cell in
                        ([number(found[name]["seconds"] * 1e3), number(found[name]["of_bandwidth"]),
                          quotient(found[name]), number(found[name].get("of_bound"))]
                         if name in found else [""] * 4)]
            for M, found in sorted(by_rows.items())]
    return heads, rows


@measured
def stages(benchmarks):
    entries = benchmarks.of("stages")
    pairs = list(dict.fromkeys((e["target"], e["draft"]) for e in entries))
    found = {(e["target"], e["draft"], e["stage"]): e for e in entries}
    heads, rows = ["stage"], []
    for target, draft in pairs:
        heads += [f"{SHAPES[target]} target, {DRAFTS[draft]} draft: tokens/s", "over the stage before"]
    for stage in sorted(distinct(entries, "stage")):
        cells = []
        for pair in pairs:
            e = found.get((*pair, stage))
            cells += [f"{e['tokens_per_second']:,.0f}", number(e.get("gain"))] if e else ["", ""]
        rows.append([str(stage), *cells])
    return heads, rows


@measured
def speculation(benchmarks):
    """The best K of each pair and draft, and what --spec-length auto made of it."""
    found, rows = settings(benchmarks), []
    for pair, (best, best_entries) in best_settings(benchmarks).items():
        target, draft, T = pair
        for K, entries in ((best, best_entries), ("auto", found.get((*pair, "auto"), []))):
            if entries:
                rows.append([SHAPES[target], DRAFTS[draft], f"{T}", str(K), number(mean(entries, "alpha")),
                             number(mean(entries, "c"), 3), number(mean(entries, "v")),
                             number(total(entries, "predicted_formula")),
                             number(total(entries, "predicted_accounting")),
                             f"**{number(total(entries, 'gain'))}**", number(over_accounting(entries))])
    return ["target", "draft", "T", "best K", "alpha", "c", "v", "by formula", "by accounting", "measured",
            "measured / accounting"], rows


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
    data = read_beside("adaptive.json")
    kinds = data["counts"]["totals"]["3b"]["gain"]
    gains = {kind: adaptive_tables.gain(entry) for kind, entry in kinds.items()}
    return ["3B", "1B", "", "", f"**{number(adaptive_tables.gain(adaptive_tables.all_texts(kinds)), 1)}x**", range_of(gains),
            "a cost model, not a run"]


def gain_of(pair, K, entries, known):
    plain, speculative = rate(entries, "plain_tokens_per_second"), rate(entries, "tokens_per_second")
    return [f"{SHAPES[pair[0]]}", f"{DRAFTS[pair[1]]}, K = {K}", number(plain, 0), number(speculative, 0),
            f"**{number(speculative / plain, 1)}x**", range_of({e["text"]: e["gain"] for e in entries}), known]


def beside_llama_cpp(data):
    """One line: the same pair in both programs, both with speculation."""
    for setting in data["settings"] if data else []:
        if setting["shape"] == "134m" and setting["type"] == "bf16" and "speculation" in setting:
            cell = setting["speculation"]
            ours, theirs = (1 / cell[name]["seconds"] for name in ("specdec", "llama.cpp"))
            return [["`134m`, beside llama.cpp", "`14m`", f"{theirs:.0f} there", f"{ours:.0f} here",
                     f"**{number(cell['llama.cpp']['ratio'], 1)}x** theirs", "", f"measured {data['date'][:10]}"]]
    return []


@table
def gains(benchmarks):
    """For the README: what speculation buys, with greedy decoding, and how that is known."""
    data = benchmarks.data
    known = f"measured {data['date'][:10]}, {data['machine']['cpu']}{', before the last changes' if benchmarks.stale else ''}"
    lines = [gain_of(pair, *best, known) for pair, best in best_settings(benchmarks).items()
             if pair in (("134m", "14m", 0), ("embedded", "embedded", 0))]
    if not lines:
        return NOTHING
    return markdown(["target", "draft", "tokens/s alone", "with speculation", "speedup, all texts together", "by kind of text", "from"],
                    [real_tables.row(read_beside("real.json"), range_of), expected_gain(), *lines, *beside_llama_cpp(read_beside("peers.json"))])


@measured
def summary(benchmarks):
    """For the overview: the real model, and the pairs with a draft model, greedy. The last column is the quotient of the
    two before it."""
    rows = [real_tables.summary_row(read_beside("real.json"))] if benchmarks.entries else []
    for (target, draft, T), (K, entries) in best_settings(benchmarks).items():
        if T == 0 and draft in SHAPES:
            plain, speculative = rate(entries, "plain_tokens_per_second"), rate(entries, "tokens_per_second")
            rows.append([SHAPES[target], DRAFTS[draft], str(K), number(mean(entries, "alpha")), number(plain, 0),
                         number(speculative, 0), f"**{number(speculative / plain, 1)}x**"])
    return ["target", "draft", "best K", "alpha", "tokens/s, plain", "tokens/s", "speedup, their quotient"], rows


@measured
def spec_length(benchmarks):
    """Gain by K, over all text kinds."""
    found = settings(benchmarks, T=0)
    lengths = sorted({K for *_, K in found if isinstance(K, int)}) + sorted({K for *_, K in found if isinstance(K, str)})
    pairs = list(dict.fromkeys(key[:2] for key in found))
    rows = []
    for target, draft in pairs:
        cells = [number(total(found.get((target, draft, 0, K), []), "gain")) for K in lengths]
        rows.append([SHAPES[target], DRAFTS[draft], *cells])
    return ["target", "draft", *(f"K = {K}" for K in lengths)], rows


@measured
def texts(benchmarks):
    """By text kind, at the K that is best for all together."""
    best = {pair: (K, entries) for pair, (K, entries) in best_settings(benchmarks).items() if pair[2] == 0}
    columns = [pair for pair in best if len(best[pair][1]) > 1]
    kinds = list(dict.fromkeys(e["text"] for pair in columns for e in best[pair][1]))
    rows = []
    for kind in kinds:
        cells = []
        for pair in columns:
            e = next((e for e in best[pair][1] if e["text"] == kind), None)
            cells.append(f"{number(e['gain'])} (alpha {number(e['alpha'])})" if e else "")
        rows.append([kind, *cells])
    return ["text", *(f"{SHAPES[t]} by {DRAFTS[d]}, K = {best[t, d, T][0]}" for t, d, T in columns)], rows


@measured
def synthetic(benchmarks):
    """Synthetic acceptance: the gain beside the formula's."""
    entries = benchmarks.of("synthetic")
    lengths = sorted(distinct(entries, "K"))
    found = {(e["target"], e["draft"], e["asked"], e["K"]): e for e in entries}
    rows = []
    for target, draft, asked in dict.fromkeys(key[:3] for key in found):
        cells = []
        for K in lengths:
            e = found.get((target, draft, asked, K))
            cells.append(f"{number(e['gain'])} ({number(e['predicted_formula'])})" if e else "")
        rows.append([SHAPES[target], DRAFTS[draft], f"{asked:g}", *cells])
    return ["target", "cost of", "synthetic alpha", *(f"K = {K}: measured (formula)" for K in lengths)], rows


@measured
def batch(benchmarks):
    entries = benchmarks.of("batch")
    lengths = sorted(distinct(entries, "K"))
    found = {(e["target"], e["draft"], e["B"], e["K"]): e for e in entries}
    rows = []
    for target, draft, B in dict.fromkeys(key[:3] for key in found):
        at = [found.get((target, draft, B, K)) for K in lengths]
        rows.append([SHAPES[target], DRAFTS[draft], str(B),
                     *((number(e["gain"]) if K else f"{e['tokens_per_second']:,.0f} tokens/s") if e else ""
                       for K, e in zip(lengths, at))])
    return ["target", "draft", "B", *(f"K = {K}" for K in lengths)], rows
