"""Draws the figures of docs/performance.md from bench.json; grey ones, that say so, where the sources have changed since.
docs/experiments/tables.py writes them."""
import math
import re
import statistics
import sys

from picture import Axes, BLUE, COLOURS, EXPERIMENTS, GREEN, INK, Picture, RED, SOFT

sys.path.insert(0, str(EXPERIMENTS))
from bench_tables import Benchmarks, DRAFTS, SHAPES, settings  # noqa: E402

SHAPE_MARKS = ["circle", "square", "diamond", "up", "down"]
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg); } }</style>"


def drawn(data, stale):
    """File name -> SVG of every figure whose benchmarks were run."""
    benchmarks = Benchmarks(data, stale)
    pictures = {draw.__name__: draw(benchmarks) for draw in (roofline, rows, stages, predicted, spec_length, batch)}
    return {f"bench_{name}.svg": finished(p, benchmarks) for name, p in pictures.items() if p is not None}


def finished(p, benchmarks):
    """With the line that says when it was measured, on a dark page dark, and grey where it is stale."""
    p.parts.insert(2, DARK)
    words = f"measured at source {benchmarks.hash()}"
    if benchmarks.stale:
        words = f"Measured before the last changes of the sources, at {benchmarks.hash()}"
    p.text(p.width - 14, p.height - 8, words, 11, "end", RED if benchmarks.stale else SOFT, bold=benchmarks.stale)
    text = p.svg()
    return re.sub("#[0-9a-f]{6}", lambda match: grey(match[0]), text) if benchmarks.stale else text


def grey(colour):
    """Of the same lightness, and pale."""
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    level = round(255 - (255 - (0.3 * red + 0.59 * green + 0.11 * blue)) * 0.7)
    return f"#{level:02x}{level:02x}{level:02x}"


def pair_name(target, draft):
    return f"{SHAPES[target]}, draft {DRAFTS[draft]}".replace("`", "")


def scale(values, most=8):
    """Marks from 0 to just above the values."""
    top = max(values)
    unit = next(u * 10 ** e for e in range(-2, 7) for u in (1, 2, 5) if top / (u * 10 ** e) <= most)
    return [i * unit for i in range(math.ceil(top / unit) + 1)]


def powers(values):
    """Exponents of 2 around the values."""
    return list(range(math.floor(math.log2(min(values))), math.ceil(math.log2(max(values))) + 1))


def styles(names):
    """A shape and a colour for each."""
    return [(SHAPE_MARKS[i % len(SHAPE_MARKS)], COLOURS[i % len(COLOURS)]) for i in range(len(names))]


def legend(p, x, names):
    p.legend(x, 80, [(name, *style) for name, style in zip(names, styles(names))], filled=True, step=(0, 20), gap=12)


def lines(p, axes, x, found):
    """found: name -> points. A curve and a line of the legend for each."""
    for points, style in zip(found.values(), styles(found)):
        axes.series(points, *style, filled=True)
    legend(p, x, found)


def roofline(benchmarks):
    """Arithmetic achieved against rows, below what bandwidth and peak allow."""
    found = {name: benchmarks.of(name) for name in benchmarks.names("matmul/") + benchmarks.names("forward/")}
    entries = [e for of_name in found.values() for e in of_name]
    if not entries:
        return None
    p = Picture(760, 450, "Roofline: operations per second against rows")
    giga = lambda e: e["flops_per_second"] / 1e9
    peak, bandwidth = max(e["peak"] for e in entries) / 1e9, statistics.median(e["bandwidth"] for e in entries)
    axes = Axes(p, 64, 54, 560, 370, powers([e["M"] for e in entries]), powers([giga(e) for e in entries] + [peak]),
                lambda x: str(2 ** x), lambda y: f"{2 ** y:g}")
    axes.titles("Gflop/s", "M, rows of a pass (1: decoding, K + 1: verification)")
    axes.level(math.log2(peak), INK, 2)
    p.note(axes.left + 8, axes.y(math.log2(peak)) - 7, "peak arithmetic", colour=INK)
    for of_name, (shape, colour) in zip(found.values(), styles(found)):
        bound = [min(bandwidth * e["flops_per_second"] / e["bytes_per_second"] / 1e9, peak) for e in of_name]
        axes.curve([(math.log2(e["M"]), math.log2(most)) for e, most in zip(of_name, bound)], colour, 1, dashed=True)
        for e in of_name:
            axes.mark(math.log2(e["M"]), math.log2(giga(e)), shape, colour, filled=True)
    legend(p, 586, found)
    p.note(64, 428, f"Dashes: what reading each weight once from memory allows, at {bandwidth / 1e9:.1f} GB/s.")
    return p


def rows(benchmarks):
    """T(M)/T(1)."""
    found = {name: [(e["M"], e["over_plain"]) for e in benchmarks.of(name) if e["M"] <= 16]
             for name in benchmarks.names("forward/") or benchmarks.names("matmul/")}
    if not any(found.values()):
        return None
    p = Picture(760, 430, "Time of a pass against its rows")
    most = scale([over for points in found.values() for _, over in points] + [2])
    axes = Axes(p, 60, 54, 560, 350, list(range(0, 17, 2)), most)
    axes.titles("a pass over M rows, in passes over one", "M")
    lines(p, axes, 586, found)
    return p


def stages(benchmarks):
    """Tokens a second, a bar for each stage."""
    entries = benchmarks.of("stages")
    if not entries:
        return None
    pairs = list(dict.fromkeys((e["target"], e["draft"]) for e in entries))
    p = Picture(760, 400, "Tokens a second of the stages")
    ys = powers([e["tokens_per_second"] for e in entries])
    axes = Axes(p, 64, 54, 540, 330, [0.5, 6.5], [ys[0] - 1, *ys, ys[-1] + 1], lambda x: "", lambda y: f"{2 ** y:g}")
    axes.titles("tokens per second, on the same prompts", "stage")
    width = 0.8 / len(pairs)
    for i, pair in enumerate(pairs):
        for e in (e for e in entries if (e["target"], e["draft"]) == pair):
            left, top = axes.x(e["stage"] - 0.4 + width * i), axes.y(math.log2(e["tokens_per_second"]))
            p.box(left, top, axes.x(e["stage"] + width) - axes.x(e["stage"]) - 3, axes.bottom - top, COLOURS[i])
            if e.get("gain") is not None:
                p.text(axes.x(e["stage"] - 0.4 + width * (i + 0.5)), top - 5, f"x {e['gain']:.2f}", 10, colour=COLOURS[i])
        p.box(562, 74 + 24 * i, 13, 13, COLOURS[i])
        p.note(582, 85 + 24 * i, pair_name(*pair), colour=INK)
    for stage in range(1, 7):
        p.text(axes.x(stage), axes.bottom + 18, str(stage), 12)
    p.note(562, 330, "x: over the stage before", 11)
    return p


def predicted(benchmarks):
    """Measured gain against the two predictions."""
    entries = [e for e in benchmarks.of("speculation") + benchmarks.of("synthetic")
               if None not in (e["gain"], e["predicted_formula"], e["predicted_accounting"])]
    if not entries:
        return None
    p = Picture(760, 500, "Speedup by speculation: predicted and measured")
    marks = scale([max(e["gain"], e["predicted_formula"], e["predicted_accounting"]) for e in entries])
    axes = Axes(p, 60, 54, 500, 440, marks, marks)
    axes.titles("measured gain over plain decoding", "predicted gain")
    axes.curve([(0, 0), (axes.x1, axes.x1)], INK, 1, dashed=True)
    for name, shape, colour in (("predicted_formula", "diamond", BLUE), ("predicted_accounting", "circle", GREEN)):
        for e in entries:
            axes.mark(e[name], e["gain"], shape, RED if e["benchmark"] == "synthetic" else colour)
    p.legend(530, 80, [("by formula (independent drafts)", "diamond", BLUE), ("by accounting", "circle", GREEN)], True, (0, 20), 12)
    p.legend(530, 130, [("synthetic acceptance", "circle", RED)], gap=12)
    return p


def spec_length(benchmarks):
    """Gain over all text kinds against K."""
    found = {}
    for (target, draft, _, K), entries in settings(benchmarks, T=0).items():
        if isinstance(K, int):
            found.setdefault(pair_name(target, draft), []).append((K, entries.speedup()))
    found = {pair: sorted(points) for pair, points in found.items() if len(points) > 2}
    if not found:
        return None
    p = Picture(760, 430, "Speedup by greedy speculation against K")
    axes = Axes(p, 60, 54, 520, 350, list(range(9)), scale([gain for points in found.values() for _, gain in points]))
    axes.titles("gain over plain decoding, all texts together", "K")
    axes.level(1)
    lines(p, axes, 546, found)
    return p


def batch(benchmarks):
    """Gain over K = 0 against B."""
    entries = [e for e in benchmarks.of("batch") if e["K"]]
    if not entries:
        return None
    target, draft = entries[-1]["target"], entries[-1]["draft"]
    p = Picture(760, 430, "Speedup by speculation against the size of the batch")
    entries = [e for e in entries if (e["target"], e["draft"]) == (target, draft)]
    axes = Axes(p, 60, 54, 520, 350, powers([e["B"] for e in entries]), scale([e["gain"] for e in entries] + [1]),
                lambda x: str(2 ** x))
    axes.titles(f"gain over the same batch without speculation ({pair_name(target, draft)})", "B, requests in a batch")
    axes.level(1)
    lines(p, axes, 546, {f"K = {K}": sorted((math.log2(e["B"]), e["gain"]) for e in entries if e["K"] == K)
                         for K in sorted({e["K"] for e in entries})})
    return p
