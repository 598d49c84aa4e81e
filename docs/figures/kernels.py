#!/usr/bin/env python3
"""Draws the figures of the chapter on CUDA kernels: python3 docs/figures/kernels.py

Writes SVG files beside itself.
"""
from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_RED, PALE_YELLOW, Picture,
                     PURPLE, RED, SOFT)

ROW = [(PALE_GREEN, GREEN), (PALE_PURPLE, PURPLE)]  # the colours of two rows


def rms_norm():
    """What the 32 lanes of a warp touch with one load, in steps 1 to 3."""
    p = Picture(720, 392, "What one load of a warp touches")
    left, cell = 150, 30
    p.text(left, 28, "one load of a warp; a box is a sector: 32 bytes, 8 numbers of a row", 13, "start", bold=True)

    def strip(y, name, touched, fill, stroke):
        p.text(left - 12, y + 15, name, 12, "end")
        for i in range(16):
            hit = i in touched
            p.box(left + i * cell, y, cell - 2, 20, fill if hit else GROUND, stroke=stroke if hit else "#c3cad1")

    p.text(24, 60, "naive: lane t has row t", 13, "start", RED, bold=True)
    for t, name in enumerate(["lane 0, row 0", "lane 1, row 1", "lane 2, row 2", "lane 3, row 3"]):
        strip(72 + 24 * t, name, {0}, PALE_RED, RED)
    p.text(left - 12, 184, "...", 14, "end")
    strip(190, "lane 31, row 31", {0}, PALE_RED, RED)
    p.text(left, 230, "32 sectors for 128 bytes that are asked for: one number in eight is used now", 12, "start", SOFT)
    p.text(24, 262, "block: lane l has number l", 13, "start", BLUE, bold=True)
    strip(272, "row 0", set(range(4)), PALE_BLUE, BLUE)
    p.text(left, 310, "4 sectors for 128 bytes", 12, "start", SOFT)
    p.text(24, 338, "vector: lane l has numbers 4 l .. 4 l + 3", 13, "start", GREEN, bold=True)
    strip(348, "row 0", set(range(16)), PALE_GREEN, GREEN)
    p.text(left, 386, "16 sectors for 512 bytes", 12, "start", SOFT)
    p.write("kernels_rms_norm.svg")


def matmul():
    """Which weights a warp's load touches, and what a block reads in all."""
    p = Picture(720, 372, "Who reads which weights")
    rows, columns, cell = 8, 16, 11
    panels = [("1. naive: a thread an output", 32, PALE_RED, RED),
              ("2. warp: a warp an output", 262, PALE_BLUE, BLUE),
              ("4. rows: a block 4 outputs", 492, PALE_GREEN, GREEN)]
    touched = [lambda n, k: k == 0, lambda n, k: n == 0 and k < 4, lambda n, k: n < 4]
    reads = [lambda n, k: True, lambda n, k: n == 0, lambda n, k: n < 4]
    row_counts, used = 6, [{0}, {0}, set(range(6))]
    for i, (name, left, fill, stroke) in enumerate(panels):
        p.text(left, 28, name, 13, "start", stroke, bold=True)
        p.text(left, 52, "W  [N, K]", 12, "start", mono=True)
        for n in range(rows):
            for k in range(columns):
                colour = stroke if touched[i](n, k) else fill if reads[i](n, k) else GROUND
                p.box(left + k * cell, 60 + n * (cell + 3), cell - 1, cell, colour,
                      stroke=stroke if reads[i](n, k) else "#c3cad1")
        p.text(left, 196, "x  [T, K]", 12, "start", mono=True)
        for t in range(row_counts):
            for k in range(columns):
                hit = t in used[i]
                p.box(left + k * cell, 204 + t * (cell + 3), cell - 1, cell, fill if hit else GROUND,
                      stroke=stroke if hit else "#c3cad1")
    notes = [["a load of a warp: 32 rows of W", "each block reads one row of x;", "W is read T times"],
             ["a load of a warp: 64 bytes side", "by side (bf16), 512 in step 3;", "W is read T times"],
             ["4 times 512 bytes a warp, kept in", "registers for all rows of x;", "W is read once"]]
    for (_, left, _, _), lines in zip(panels, notes):
        for j, line in enumerate(lines):
            p.text(left, 312 + 17 * j, line, 12, "start", SOFT)
    p.text(32, 366, "A cell is 16 bytes. Full colour: one load of a warp. Pale: all it reads.", 12,
           "start", INK)
    p.write("kernels_matmul.svg")


def attention():
    """Which keys and values a block reads, for 2 rows of 4 query heads that share a key and value head."""
    p = Picture(720, 292, "Who reads which keys and values")
    left, width = 196, 480
    p.text(left, 28, "keys and values of one head, position 0 to 511", 13, "start", bold=True)
    for i in range(4):
        p.text(left + i * width / 4, 46, str(128 * i), 11, "start", SOFT)

    def bar(y, name, fill, stroke, height=14):
        p.text(left - 12, y + 12, name, 12, "end")
        p.box(left, y, width, height, fill, stroke=stroke)

    p.text(24, 72, "1, 2. a thread or a warp for each row and query head: 8 readers", 13, "start", RED, bold=True)
    for i in range(8):
        bar(82 + 17 * i, f"row {i // 4}, head {i % 4}", PALE_RED, RED)
    p.text(24, 244, "3. grouped: one block for all 8", 13, "start", BLUE, bold=True)
    bar(254, "rows 0, 1; heads 0 .. 3", PALE_BLUE, BLUE, 18)
    p.write("kernels_attention.svg")


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
    rms_norm()
    matmul()
    attention()
    attention_split()
