#!/usr/bin/env python3
"""Draws the figures of docs/performance.md: python3 docs/figures/benchmarks.py

From docs/experiments/bench.json, which tests/benchmarks/bench.py wrote. Writes SVG files beside itself; grey ones,
that say so, where the sources have changed since.
"""
import json
import math
import re
import statistics
import sys

from experiments import Axes, COLOURS, EXPERIMENTS, draw_mark
from picture import BLUE, GREEN, INK, Picture, RED, SOFT

sys.path.insert(0, str(EXPERIMENTS))
sys.path.insert(0, str(EXPERIMENTS.parents[1] / "tests/benchmarks"))
import bench  # noqa: E402
from bench_tables import Benchmarks, DRAFTS, SHAPES, settings, total  # noqa: E402

SHAPE_MARKS = ["circle", "square", "diamond", "up", "down"]
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg); } }</style>"


def drawn(data, stale):
    """File name -> SVG of every figure whose benchmarks were run."""
    benchmarks = Benchmarks(data, stale)
    pictures = {}
    for draw in (roofline, rows, stages, predicted, spec_length, batch):
        p = draw(benchmarks)
        if p is not None:
            pictures[f"bench_{draw.__name__}.svg"] = finished(p, benchmarks)
    return pictures


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


def plain(name):
    return name.replace("`", "")


def scale(values, most=8):
    """Marks from 0 to just above the values."""
    top = max(values)
    unit = next(u * 10 ** e for e in range(-2, 7) for u in (1, 2, 5) if top / (u * 10 ** e) <= most)
    return [i * unit for i in range(math.ceil(top / unit) + 1)]


def powers(values):
    """Exponents of 2 around the values."""
    return list(range(math.floor(math.log2(min(values))), math.ceil(math.log2(max(values))) + 1))


def legend(p, x, y, entries):
    """entries: (words, shape, colour), below each other."""
    for i, (words, shape, colour) in enumerate(entries):
        draw_mark(p, x, y + 20 * i, shape, colour, filled=True)
        p.text(x + 12, y + 4 + 20 * i, words, 12, "start")


def series(names):
    """Name -> (shape, colour)."""
    return {name: (SHAPE_MARKS[i % len(SHAPE_MARKS)], COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)}


def roofline(benchmarks):
    """Arithmetic achieved against rows, below what bandwidth and peak allow."""
    names = benchmarks.names("matmul/") + benchmarks.names("forward/")
    entries = [e for name in names for e in benchmarks.of(name)]
    if not entries:
        return None
    p = Picture(760, 450, "Roofline: operations per second against rows")
    giga = lambda e: e["flops_per_second"] / 1e9
    peak = max(e["peak"] for e in entries) / 1e9
    ys = powers([giga(e) for e in entries] + [peak])
    axes = Axes(p, 64, 54, 560, 370, powers([e["M"] for e in entries]), ys, lambda x: str(2 ** x), lambda y: f"{2 ** y:g}")
    axes.titles("Gflop/s", "M, rows of a pass (1: decoding, K + 1: verification)")
    axes.curve([(axes.x0, math.log2(peak)), (axes.x1, math.log2(peak))], INK, 2)
    p.text(axes.left + 8, axes.y(math.log2(peak)) - 7, "peak arithmetic", 12, "start")
    bandwidth = statistics.median(e["bandwidth"] for e in entries)
    marks = series(names)
    for name in names:
        shape, colour = marks[name]
        found = benchmarks.of(name)
        bound = [min(bandwidth * e["flops_per_second"] / e["bytes_per_second"] / 1e9, peak) for e in found]
        axes.curve([(math.log2(e["M"]), math.log2(most)) for e, most in zip(found, bound)], colour, 1, dashed=True)
        for e in found:
            axes.mark(math.log2(e["M"]), math.log2(giga(e)), shape, colour, filled=True)
    legend(p, 586, 80, [(name, *marks[name]) for name in names])
    p.text(64, 428, f"Dashes: what reading each weight once from memory allows, at {bandwidth / 1e9:.1f} GB/s.", 12, "start",
           SOFT)
    return p


def rows(benchmarks):
    """T(M)/T(1)."""
    names = benchmarks.names("forward/") or benchmarks.names("matmul/")
    entries = [e for name in names for e in benchmarks.of(name) if e["M"] <= 16]
    if not entries:
        return None
    p = Picture(760, 430, "Time of a pass against its rows")
    axes = Axes(p, 60, 54, 560, 350, list(range(0, 17, 2)), scale([e["over_plain"] for e in entries] + [2]))
    axes.titles("a pass over M rows, in passes over one", "M")
    marks = series(names)
    for name in names:
        shape, colour = marks[name]
        points = [(e["M"], e["over_plain"]) for e in benchmarks.of(name) if e["M"] <= 16]
        axes.curve(points, colour)
        for point in points:
            axes.mark(*point, shape, colour, filled=True)
    legend(p, 586, 80, [(name, *marks[name]) for name in names])
    return p


def stages(benchmarks):
    """Tokens a second, a bar for each stage."""
    entries = benchmarks.of("stages")
    if not entries:
        return None
    pairs = list(dict.fromkeys((e["target"], e["draft"]) for e in entries))
    p = Picture(760, 400, "Tokens a second of the stages")
    ys = powers([e["tokens_per_second"] for e in entries])
    ys = [ys[0] - 1, *ys, ys[-1] + 1]
    axes = Axes(p, 64, 54, 540, 330, [0.5, 6.5], ys, lambda x: "", lambda y: f"{2 ** y:g}")
    axes.titles("tokens per second, on the same prompts", "stage")
    width = 0.8 / len(pairs)
    for i, pair in enumerate(pairs):
        colour = COLOURS[i]
        for e in (e for e in entries if (e["target"], e["draft"]) == pair):
            left = axes.x(e["stage"] - 0.4 + width * i)
            top = axes.y(math.log2(e["tokens_per_second"]))
            p.box(left, top, axes.x(e["stage"] + width) - axes.x(e["stage"]) - 3, axes.bottom - top, colour)
            if e.get("gain") is not None:
                p.text(axes.x(e["stage"] - 0.4 + width * (i + 0.5)), top - 5, f"x {e['gain']:.2f}", 10, colour=colour)
        p.box(562, 74 + 24 * i, 13, 13, colour)
        p.text(582, 85 + 24 * i, f"{plain(SHAPES[pair[0]])}, draft {plain(DRAFTS[pair[1]])}", 12, "start")
    for stage in range(1, 7):
        p.text(axes.x(stage), axes.bottom + 18, str(stage), 12)
    p.text(562, 330, "x: over the stage before", 11, "start", SOFT)
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
    kinds = [("predicted_formula", "by formula (independent drafts)", "diamond", BLUE),
             ("predicted_accounting", "by accounting", "circle", GREEN)]
    for name, _, shape, colour in kinds:
        for e in entries:
            axes.mark(e[name], e["gain"], shape, RED if e["benchmark"] == "synthetic" else colour)
    legend(p, 530, 80, [(words, shape, colour) for _, words, shape, colour in kinds])
    draw_mark(p, 530, 130, "circle", RED)
    p.text(542, 134, "synthetic acceptance", 12, "start")
    return p


def spec_length(benchmarks):
    """Gain over all text kinds against K."""
    found = {key: total(entries, "gain") for key, entries in settings(benchmarks, T=0).items() if isinstance(key[3], int)}
    lines = {}
    for (target, draft, _, K), gain in found.items():
        lines.setdefault((target, draft), []).append((K, gain))
    lines = {pair: sorted(points) for pair, points in lines.items() if len(points) > 2}
    if not lines:
        return None
    p = Picture(760, 430, "Speedup by greedy speculation against K")
    axes = Axes(p, 60, 54, 520, 350, list(range(9)), scale([gain for points in lines.values() for _, gain in points]))
    axes.titles("gain over plain decoding, all texts together", "K")
    axes.curve([(0, 1), (8, 1)], INK, 1)
    marks = series(lines)
    for pair, points in lines.items():
        shape, colour = marks[pair]
        axes.curve(points, colour)
        for point in points:
            axes.mark(*point, shape, colour, filled=True)
    legend(p, 546, 80, [(f"{plain(SHAPES[t])}, draft {plain(DRAFTS[d])}", *marks[t, d]) for t, d in lines])
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
    axes.titles(f"gain over the same batch without speculation ({plain(SHAPES[target])}, draft {plain(DRAFTS[draft])})",
                "B, requests in a batch")
    axes.curve([(axes.x0, 1), (axes.x1, 1)], INK, 1)
    marks = series(sorted({e["K"] for e in entries}))
    for K, (shape, colour) in marks.items():
        points = sorted((math.log2(e["B"]), e["gain"]) for e in entries if e["K"] == K)
        axes.curve(points, colour)
        for point in points:
            axes.mark(*point, shape, colour, filled=True)
    legend(p, 546, 80, [(f"K = {K}", *marks[K]) for K in marks])
    return p


def main():
    data = json.loads((EXPERIMENTS / "bench.json").read_text(encoding="utf-8"))
    for name, text in drawn(data, bench.is_stale(data)).items():
        path = EXPERIMENTS.parent / "figures" / name
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
