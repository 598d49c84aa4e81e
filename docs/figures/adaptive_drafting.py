#!/usr/bin/env python3
"""Draws the figure of docs/07_adaptive_drafting/9_what_it_gains.md: python3 docs/figures/adaptive_drafting.py

From docs/experiments/adaptive.json, which docs/experiments/adaptive.py wrote. Writes an SVG file beside itself.
"""
import json
import math
import sys

from experiments import Axes, EXPERIMENTS, draw_mark
from picture import BLUE, GREEN, INK, PURPLE, Picture, RED, SOFT

sys.path.insert(0, str(EXPERIMENTS))
from adaptive_tables import KINDS, PAIRS, gain  # noqa: E402

DRAWN = [("fixed 3", "K = 3", "square", SOFT), ("gain", "gain", "circle", BLUE),
         ("confidence", "confidence", "up", PURPLE), ("lookup, else model", "lookup, else model", "diamond", GREEN),
         ("bigram below", "bigram below", "down", RED)]


def panel(p, left, shape, totals):
    """Gains on each kind of text, with the oracle's line above them."""
    chosen = [totals[name] for name, *_ in DRAWN] + [totals["oracle"]]
    top = math.ceil(2 * max(gain(kinds[kind]) for kinds in chosen for kind in KINDS)) / 2
    axes = Axes(p, left, 74, left + 310, 330, [-0.5, len(KINDS) - 0.5], [i / 2 for i in range(round(2 * top) + 1)],
                lambda x: "", lambda y: f"{y:g}")
    axes.titles(f"speedup over plain decoding, {PAIRS[shape]}", "")
    axes.curve([(axes.x0, 1), (axes.x1, 1)], INK, 1)
    for i, kind in enumerate(KINDS):
        best = gain(totals["oracle"][kind])
        axes.curve([(i - 0.45, best), (i + 0.45, best)], INK, 2.5)
        for n, (name, _, mark, colour) in enumerate(DRAWN):
            axes.mark(i + 0.15 * (n - 2), gain(totals[name][kind]), mark, colour)
        p.text(axes.x(i), axes.bottom + (16 if i % 2 == 0 else 31), kind, 11)


def what_it_gains(counts):
    p = Picture(760, 430, "Speedup of ways to draft on eight kinds of text, with the oracle's line")
    p.text(50, 30, "Each mark is a way to draft, each line the oracle of the draft model", 14, "start", bold=True)
    for left, shape in ((50, "134m"), (430, "3b")):
        panel(p, left, shape, counts["totals"][shape])
    x = 50
    for _, words, mark, colour in DRAWN:
        draw_mark(p, x + 5, 396, mark, colour)
        p.text(x + 16, 400, words, 12, "start")
        x += 44 + 7 * len(words)
    p.line([(x, 396), (x + 20, 396)], INK, 2.5)
    p.text(x + 26, 400, "oracle", 12, "start")
    p.write("07_what_it_gains.svg")


def main():
    what_it_gains(json.loads((EXPERIMENTS / "adaptive.json").read_text(encoding="utf-8"))["counts"])


if __name__ == "__main__":
    main()
