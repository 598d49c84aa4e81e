#!/usr/bin/env python3
"""Draws the figures of docs/08_token_trees/: python3 docs/figures/token_trees.py

The tree and the tails are sitting 8.1's example. The third figure is made of docs/experiments/trees.json, which
docs/experiments/trees.py wrote. Writes SVG files beside itself.
"""
import json
import math
import re
import sys

from experiments import Axes, EXPERIMENTS, draw_mark
from picture import BLUE, GREEN, INK, PALE_BLUE, PALE_GREEN, PALE_RED, PALE_YELLOW, Picture, RED, SOFT

sys.path.insert(0, str(EXPERIMENTS))
from trees_tables import emitted_per_round, nodes_per_round  # noqa: E402

# Number, token, parent, column and row of the picture; drafts that go through it; what became of it.
NODES = [(0, "to", -1, 1, 1.5, "1 2 3", "accepted"), (1, "out", -1, 1, 4, "4", "rejected"),
         (2, "York", 0, 2, 0.5, "1 3", "rejected"), (3, "the", 0, 2, 2.5, "2", "accepted"),
         (4, "to", 1, 2, 4, "4", "not reached"), (5, ".", 2, 3, 0, "1", "not reached"),
         (6, "and", 2, 3, 1, "3", "not reached"), (7, "barn", 3, 3, 2.5, "2", "rejected"),
         (8, "the", 4, 3, 4, "4", "not reached")]
FILLS = {"accepted": PALE_GREEN, "rejected": PALE_RED, "not reached": "#ffffff"}
WIDTH, HEIGHT = 84, 30


def place(column, row):
    return 60 + 165 * column, 96 + 56 * row


def tree():
    p = Picture(760, 440, "Four drafts as a tree of nine nodes: accepted, rejected and not reached")
    p.text(30, 30, "Four drafts after \"came\": 12 tokens, 9 nodes, 10 rows", 14, "start", bold=True)
    for column, words in enumerate(("pending", "level 1", "level 2", "level 3")):
        p.text(place(column, 0)[0] + WIDTH / 2, 62, words, 12, colour=SOFT)
    places = {-1: place(0, 2)}
    for number, _, parent, column, row, _, fate in NODES:
        places[number] = place(column, row)
        x0, y0 = places[parent]
        x1, y1 = places[number]
        accepted = fate == "accepted"
        p.line([(x0 + WIDTH, y0 + HEIGHT / 2), (x1, y1 + HEIGHT / 2)], GREEN if accepted else INK, 3 if accepted else 1.2,
               dashed=fate == "not reached")
    x, y = places[-1]
    p.box(x, y, WIDTH, HEIGHT, PALE_BLUE, "came")
    for number, token, _, _, _, drafts, fate in NODES:
        x, y = places[number]
        p.box(x, y, WIDTH, HEIGHT, FILLS[fate], token, dashed=fate == "not reached")
        p.text(x + 5, y - 4, f"{number}", 10, "start", SOFT)
        p.text(x + WIDTH, y + HEIGHT + 12, f"drafts {drafts}" if " " in drafts else f"draft {drafts}", 10, "end", SOFT)
    for i, (fate, words) in enumerate((("accepted", "accepted"), ("rejected", "rejected sibling or child"),
                                       ("not reached", "never reached"))):
        p.box(60 + 210 * i, 396, 22, 16, FILLS[fate], dashed=fate == "not reached")
        p.text(90 + 210 * i, 409, words, 12, "start")
    p.write("08_tree.svg")


def tails():
    p = Picture(760, 300, "Which cached places three nodes attend to")
    p.text(30, 30, "Places of the cache, and the tails of three nodes", 14, "start", bold=True)
    tokens = "came to out York the to . and barn the".split()
    cell, left = 46, 250
    p.box(left - 120, 60, 108, 30, PALE_BLUE, "text, 0 to 9")
    for i, token in enumerate(tokens):
        p.text(left + cell * (i + 0.5), 54, f"{10 + i}", 11, colour=SOFT)
        p.box(left + cell * i, 60, cell, 30, PALE_YELLOW if i else PALE_BLUE, token, size=12)
    for row, (words, tail) in enumerate((("\"York\", position 12", [0, 1, 3]), ("\"out to\", position 12", [0, 2, 5]),
                                         ("\"barn\", position 13", [0, 1, 4, 8]))):
        y = 130 + 50 * row
        p.text(20, y + 18, words, 12, "start")
        p.line([(left - 120, y + 14), (left - 12, y + 14)], BLUE, 5)
        for i in range(len(tokens)):
            p.box(left + cell * i, y, cell, 28, PALE_GREEN if i in tail else "#ffffff",
                  f"{10 + tail.index(i)}" if i in tail else "", stroke=INK if i in tail else "#d5dae0", size=12)
    p.text(left - 66, 282, "by the page table", 12, colour=BLUE)
    p.text(left + cell * 5, 282, "tail: own slots, with their positions", 12, colour=GREEN)
    p.write("08_tails.svg")


def emitted_against_nodes(counts):
    p = Picture(760, 420, "Tokens per round against nodes per round, for chains and trees")
    p.text(50, 30, "Tokens that a greedy round emits, all kinds of text of the embedded pair", 14, "start", bold=True)
    top = 7
    axes = Axes(p, 70, 60, 560, 340, list(range(7)), list(range(top + 1)), lambda power: f"{2 ** power}")
    axes.titles("", "nodes per round")

    def curve(names, mark, colour):
        some = [(math.log2(nodes_per_round(counts["shapes"][name])), emitted_per_round(counts["shapes"][name]))
                for name in names]
        axes.curve(some, colour)
        for x, y in some:
            axes.mark(x, y, mark, colour)
        return some[-1]

    def of(levels, family):
        names = [name for name in counts["shapes"] if re.fullmatch(rf"{family}:\d+ of {levels}", name)]
        return [f"chain of {levels}", *sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0]))]

    for levels in (3, 5, 10):
        curve(of(levels, "best"), "circle", BLUE)
        x, y = curve(of(levels, "grow"), "up", RED)
        p.text(axes.x(x) + 10, axes.y(y) + 4, f"{levels} levels", 11, "start", SOFT)
    curve([f"chain of {levels}" for levels in (1, 2, 3, 4, 5, 6, 8, 10)], "square", INK)
    for i, (words, mark, colour) in enumerate((("chains", "square", INK), ("best trees", "circle", BLUE),
                                               ("grown trees", "up", RED))):
        draw_mark(p, 640, 86 + 24 * i, mark, colour)
        p.text(654, 90 + 24 * i, words, 12, "start")
    p.write("08_tokens_per_round.svg")


def main():
    tree()
    tails()
    emitted_against_nodes(json.loads((EXPERIMENTS / "trees.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
