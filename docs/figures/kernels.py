#!/usr/bin/env python3
"""Draws the figures of the chapter on CUDA kernels: python3 docs/figures/kernels.py

Writes SVG files beside itself.
"""
from picture import (BLUE, GREEN, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_YELLOW, Picture, PURPLE, SOFT)

ROW = [(PALE_GREEN, GREEN), (PALE_PURPLE, PURPLE)]  # the colours of two rows


def queries(p, x, y, width, height=15):
    """Two rows with three query heads each, as bars; returns the middle of each."""
    middles = []
    for row in range(2):
        for head in range(3):
            top = y + (row * 3 + head) * (height + 3) + row * 4
            p.box(x, top, width, height, ROW[row][0], stroke=ROW[row][1])
            middles.append(top + height / 2)
    return middles


def attention_split():
    """Who reads what in the split attention."""
    p = Picture(860, 520, "Attention in pieces: each block reads its keys and values once, for all queries of a group")
    left, scale, length, piece, tile = 200, 2.0, 300, 128, 32
    x_of = lambda position: left + position * scale

    p.text(left - 14, 62, "keys and values of", 12, "end", SOFT)
    p.text(left - 14, 78, "one sequence and head", 12, "end", SOFT)
    for start in range(0, length, tile):
        count = min(tile, length - start)
        p.box(x_of(start), 50, count * scale, 30, PALE_BLUE, stroke=BLUE)
    for border in range(0, length, piece):
        p.line([(x_of(border), 34), (x_of(border), 88)], INK, 2)
        p.text(x_of(border) + 5, 42, f"position {border}", 11, "start", SOFT)
    p.text(x_of(length) + 6, 69, f"{length - 1}", 11, "start", SOFT)

    top, height = 150, 170
    p.text(100, top - 14, "queries", 13, bold=True)
    middles = queries(p, 60, top + 30, 80)
    for row in range(2):
        p.text(52, middles[row * 3 + 1] + 4, f"row {row}", 12, "end", ROW[row][1])
    p.text(100, top + height + 8, "3 query heads a row,", 11, colour=SOFT)
    p.text(100, top + height + 22, "one key and value head", 11, colour=SOFT)

    ends = []
    for i, begin in enumerate(range(0, length, piece)):
        end = min(begin + piece, length)
        x, width = x_of(begin) + 6, (end - begin) * scale - 12
        p.box(x, top, width, height, PALE_YELLOW, stroke="#b0851c")
        p.line([(x + width / 2, 82), (x + width / 2, top - 2)], BLUE, 2.5, tip=True)
        p.text(x + width / 2, top + 18, f"block of piece {i}" if width > 120 else f"piece {i}", 12, bold=True)
        bars = queries(p, x + 14, top + 30, width - 28)
        ends.append((x + width / 2, bars))
        if width > 120:
            p.text(x + width / 2 + 12, 122, "once for all 6 queries,", 11, "start", BLUE)
            p.text(x + width / 2 + 12, 136, "tile by tile (32)", 11, "start", BLUE)
    for middle in middles:
        p.line([(142, middle), (x_of(0) + 4, middle)], SOFT, 1)

    y = 372
    p.text(left - 14, y + 12, "scratch: maximum,", 12, "end", SOFT)
    p.text(left - 14, y + 28, "sum of weights, D sums", 12, "end", SOFT)
    for middle, bars in ends:
        p.line([(middle, bars[4]), (middle, y - 2)], PURPLE, 1.8, tip=True)
        p.box(middle - 26, y, 52, 34, ROW[1][0], "m s o", stroke=PURPLE, size=12, mono=True)
    p.box(x_of(0) + 6, 438, length * scale - 12, 32, PALE_YELLOW, stroke="#b0851c", size=12,
          words="combine, a warp a query: all to the largest m, added in the order of pieces, divided by the sum")
    for middle, _ in ends:
        p.line([(middle, y + 36), (middle, 436)], PURPLE, 1.8, tip=True)
    p.text(left + 6, 500, "Pieces begin at multiples of 128 positions, whatever the call: one order of sums, the same "
           "bits.", 12, "start", SOFT)
    p.write("kernels_attention_split.svg")


if __name__ == "__main__":
    attention_split()
