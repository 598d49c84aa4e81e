#!/usr/bin/env python3
"""Draws the figures of the chapters on the KV caches: python3 docs/figures/kv_caches.py

Writes SVG files beside itself.
"""
import math

from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_RED, PALE_YELLOW,
                     PURPLE, Picture, RED, SOFT)

OWNER = {"A": (PALE_BLUE, BLUE), "B": (PALE_GREEN, GREEN), "C": (PALE_YELLOW, "#b0851c"),
         "D": (PALE_PURPLE, PURPLE), "E": (PALE_RED, RED)}


def computed_rows():
    """The rows of each pass with a cache, for a prompt of 6 tokens and 8 new ones."""
    prompt, new, cell = 6, 8, 24
    p = Picture(720, 330, "What a decoder with a cache computes")
    left, top = 190, 48
    p.text(left, 28, "rows (tokens sent through all layers) of each pass", 13, "start", bold=True)
    for i in range(new + 1):
        y = top + i * (cell + 2)
        p.text(left - 12, y + 17, "prefill" if i == 0 else f"new token {i}", 12, "end")
        length = prompt - 1 if i == 0 else prompt + i - 1
        for t in range(length):
            fresh = i == 0 or t == length - 1
            p.box(left + t * (cell + 2), y, cell, cell, PALE_BLUE if fresh else PALE_YELLOW,
                  stroke=BLUE if fresh else "#b0851c")
        rows = prompt - 1 if i == 0 else 1
        p.text(left + length * (cell + 2) + 10, y + 17, str(rows), 12, "start", SOFT)
    x = 560
    p.text(x, 190, f"{prompt + new - 1} rows computed", 13, "start")
    p.box(x, 204, 14, 14, PALE_BLUE, stroke=BLUE)
    p.text(x + 20, 216, "computed", 12, "start")
    p.box(x, 226, 14, 14, PALE_YELLOW, stroke="#b0851c")
    p.text(x + 20, 238, "keys, values read", 12, "start")
    p.text(left, 310, "A prompt of 6 tokens, 8 new ones. Compare with the figure of stage 1: 76 rows.", 12,
           "start", SOFT)
    p.write("02_computed_rows.svg")


def causality():
    """What the row of a token depends on, and what a new token leaves alone."""
    p = Picture(720, 340, "Information flows upwards and to the right only")
    x_of = lambda t: 150 + 88 * t
    y_of = lambda level: 262 - 68 * level
    names = ["embedding", "after layer 0", "after layer 1", "after layer 2"]
    for level, name in enumerate(names):
        p.text(100, y_of(level) + 5, name, 12, "end", SOFT)
    for level in range(3):
        for to in range(6):
            for source in range(to + 1):
                inside = to <= 2
                new = to == 5
                p.line([(x_of(source), y_of(level) - 12), (x_of(to), y_of(level + 1) + 14)],
                       BLUE if inside else RED if new else "#c3cad1", 1.6 if inside or new else 1)
    for level in range(4):
        for t in range(6):
            fill, stroke = (PALE_BLUE, BLUE) if t <= 2 else (PALE_RED, RED) if t == 5 else (GROUND, SOFT)
            p.box(x_of(t) - 24, y_of(level) - 13, 48, 26, fill, f"row {t}", stroke=stroke)
    for t in range(6):
        p.text(x_of(t), 306, f"token {t}", 12, colour=RED if t == 5 else INK)
    p.text(26, 26, "Blue: all that row 2 can depend on.", 13, "start", BLUE)
    p.text(300, 26, "Red: what token 5 adds. No red line ends in an older row.", 13, "start", RED)
    p.text(26, 330, "A line is a look of attention: row t reads the keys and values of rows 0 to t.", 12,
           "start", SOFT)
    p.write("02_causality.svg")


def region():
    """The life of a sequence in its region of slots."""
    p = Picture(720, 356, "A region of ten slots, and what five calls do to it")
    left, cell, top, step = 300, 34, 52, 50
    states = [("forward: 5 prompt tokens", 5, 5, 0, ""),
              ("forward: 1 token", 6, 1, 0, "its own slot is the next one"),
              ("forward: 3 guessed tokens", 9, 3, 0, "all three at once"),
              ("truncate(7)", 7, 0, 2, "only the length changes"),
              ("forward: 1 token", 8, 1, 1, "writes over the first old one")]
    p.text(left, 32, "slots of one layer; slot = position", 13, "start", bold=True)
    for t in range(10):
        p.text(left + t * cell + 16, top - 4, str(t), 11, colour=SOFT)
    for i, (call, length, new, stale, note) in enumerate(states):
        y = top + 4 + i * step
        p.text(left - 14, y + 14, call, 13, "end", mono=True)
        p.text(left - 14, y + 30, note, 12, "end", SOFT)
        for t in range(10):
            x = left + t * cell
            if t < length - new:
                p.box(x, y, cell - 3, 26, PALE_YELLOW, "k v", "#b0851c")
            elif t < length:
                p.box(x, y, cell - 3, 26, PALE_BLUE, "k v", BLUE)
            elif t < length + stale:
                p.box(x, y, cell - 3, 26, PALE_RED, "old", RED, dashed=True)
            else:
                p.box(x, y, cell - 3, 26, GROUND, stroke="#c3cad1")
        x = left + length * cell - 1.5
        p.line([(x, y - 6), (x, y + 32)], INK, 2.5)
    y = 326
    for x, fill, stroke, words in ((40, PALE_BLUE, BLUE, "written by this call"),
                                   (200, PALE_YELLOW, "#b0851c", "kept"),
                                   (280, PALE_RED, RED, "still there, never read"),
                                   (455, GROUND, "#c3cad1", "garbage")):
        p.box(x, y, 14, 14, fill, stroke=stroke)
        p.text(x + 20, y + 12, words, 12, "start")
    p.line([(560, y - 2), (560, y + 18)], INK, 2.5)
    p.text(568, y + 12, "length", 12, "start")
    p.write("02_region.svg")


def cache_bytes():
    """Bytes of the cache against the context, beside the bytes of the weights; both axes logarithmic."""
    p = Picture(720, 414, "The cache's bytes grow with the context; the weights' do not")
    left, right, top, bottom = 86, 560, 44, 340
    x_of = lambda n: left + (right - left) * (math.log2(n) - 8) / 9          # 256 .. 131,072
    y_of = lambda b: bottom - (bottom - top) * (math.log10(b) - 6.5) / 4.2   # 3.2 MB .. 50 GB
    for n in (256, 1024, 4096, 16384, 65536, 131072):
        p.line([(x_of(n), top), (x_of(n), bottom)], "#dde2e6", 1)
        p.text(x_of(n), bottom + 18, f"{n:,}", 11, colour=SOFT)
    for b, name in ((1e7, "10 MB"), (1e8, "100 MB"), (1e9, "1 GB"), (1e10, "10 GB")):
        p.line([(left, y_of(b)), (right, y_of(b))], "#dde2e6", 1)
        p.text(left - 8, y_of(b) + 4, name, 11, "end", SOFT)
    p.text((left + right) / 2, bottom + 40, "tokens in the cache", 12)
    p.text(left, 26, "bytes that one decode step reads", 13, "start", bold=True)
    for name, colour, weights, per_token in (("1B", BLUE, 2471628800, 32768),
                                             ("3B", RED, 6425499648, 114688)):
        p.line([(left, y_of(weights)), (right, y_of(weights))], colour, 2)
        p.text(left + 8, y_of(weights) - 7, f"{name} weights, {weights / 1e9:.2f} GB", 12, "start", colour)
        for factor, dashed, kind in ((1, False, "bf16"), (2, True, "f32")):
            at = per_token * factor
            p.line([(x_of(256), y_of(256 * at)), (x_of(131072), y_of(131072 * at))], colour, 2, dashed=dashed)
            p.text(right + 8, y_of(131072 * at) + 4, f"{name} cache, {kind}", 12, "start", colour)
            cross = weights / at
            p.parts.append(f'<circle cx="{x_of(cross):.1f}" cy="{y_of(weights):.1f}" r="4.5" fill="{GROUND}" '
                           f'stroke="{colour}" stroke-width="2"/>')
    p.text(left, 400, "Circles: as many bytes of cache as of weights. Both axes are logarithmic.", 12, "start", SOFT)
    p.write("02_cache_bytes.svg")


LENGTHS = {"A": 5, "B": 14, "C": 3, "D": 9}


def waste():
    """The same sequences in regions of 16 slots and in pages of 4."""
    p = Picture(720, 380, "What a contiguous cache reserves, and what pages take")
    left, cell = 40, 10
    def slots(y, owners):
        for i, owner in enumerate(owners):
            fill, stroke = OWNER.get(owner, (GROUND, "#c3cad1"))
            if owner and owner.islower():
                fill, stroke = GROUND, OWNER[owner.upper()][1]
            p.box(left + i * cell, y, cell - 1, 24, fill, stroke=stroke, dashed=bool(owner) and owner.islower())
    p.text(left, 30, "64 slots in four regions of 16", 13, "start", bold=True)
    row = []
    for owner, length in LENGTHS.items():
        row += [owner] * length + [owner.lower()] * (16 - length)
    slots(62, row)
    for i, (owner, length) in enumerate(LENGTHS.items()):
        x = left + i * 160
        p.text(x, 54, f"{owner}: {length} tokens", 12, "start", OWNER[owner][1])
        p.line([(x - 0.5, 58), (x - 0.5, 92)], INK, 2)
    p.line([(left + 639.5, 58), (left + 639.5, 92)], INK, 2)
    p.text(left, 112, "31 slots hold tokens; 33 are reserved and no other sequence can have them. E, 6 tokens long, must wait.",
           12, "start")

    p.text(left, 160, "The same 64 slots in 16 pages of 4", 13, "start", bold=True)
    pages = [("A", 4), ("A", 1), ("B", 4), ("B", 4), ("B", 4), ("B", 2), ("C", 3), ("D", 4), ("D", 4), ("D", 1),
             ("E", 4), ("E", 2)] + [("", 0)] * 4
    row = []
    for owner, rows in pages:
        row += [owner] * rows + [owner.lower()] * (4 - rows) if owner else [""] * 4
    slots(192, row)
    for i in range(17):
        x = left + i * 40 - 0.5
        p.line([(x, 188), (x, 222)], INK, 1.6)
        if i < 16:
            p.text(x + 20, 184, str(i), 11, colour=SOFT)
    p.text(left, 242, "37 slots hold tokens, 11 are open at the ends of last pages, 16 are free: four more pages for other sequences.",
           12, "start")
    p.text(left, 290, "Page tables", 13, "start", bold=True)
    x = left
    for owner, table in (("A", "0 1"), ("B", "2 3 4 5"), ("C", "6"), ("D", "7 8 9"), ("E", "10 11")):
        p.box(x, 304, 16, 16, OWNER[owner][0], owner, OWNER[owner][1])
        p.text(x + 24, 317, table, 13, "start", mono=True)
        x += 60 + 10 * len(table)
    p.box(left, 346, 14, 14, PALE_BLUE, stroke=BLUE)
    p.text(left + 22, 358, "holds a token of A", 12, "start")
    p.box(left + 170, 346, 14, 14, GROUND, stroke=BLUE, dashed=True)
    p.text(left + 192, 358, "A's, but empty", 12, "start")
    p.box(left + 310, 346, 14, 14, GROUND, stroke="#c3cad1")
    p.text(left + 332, 358, "free", 12, "start")
    p.write("03_waste.svg")


def page(p, x, y, number, rows, fill, stroke, owners=None):
    """A page of four slots, its number above it."""
    p.text(x + 38, y - 6, f"page {number}", 11, colour=SOFT)
    for i in range(4):
        used = i < rows
        p.box(x + i * 19, y, 18, 24, fill if used else GROUND, stroke=stroke if used else "#c3cad1")
    if owners is not None:
        p.text(x + 38, y + 40, f"{owners} owner{'' if owners == 1 else 's'}" if owners else "free", 11,
               colour=RED if owners > 1 else SOFT)


def page_tables():
    """From position to slot, through a table; two sequences with the same beginning."""
    p = Picture(720, 330, "Two page tables over one pool")
    def table(x, y, owner, entries, tokens):
        words = f"sequence {owner}: {tokens} tokens"
        if owner == "A":
            p.text(x, y - 12, words, 13, "start", OWNER[owner][1], bold=True)
        else:
            p.text(x - 14, y + 18, words, 13, "end", OWNER[owner][1], bold=True)
        for i, entry in enumerate(entries):
            p.text(x + i * 112 + 47, y + 44, f"positions {4 * i}–{4 * i + 3}", 11, colour=SOFT)
            p.box(x + i * 112, y, 94, 26, OWNER[owner][0], str(entry), OWNER[owner][1], 14)
    table(40, 46, "A", [0, 3, 1], 10)
    table(300, 268, "B", [0, 3, 4], 9)
    pool_y, xs = 160, [40 + i * 112 for i in range(6)]
    styles = {0: (4, PALE_PURPLE, PURPLE, 2), 1: (2, *OWNER["A"], 1), 2: (0, GROUND, SOFT, 0),
              3: (4, PALE_PURPLE, PURPLE, 2), 4: (1, *OWNER["B"], 1), 5: (0, GROUND, SOFT, 0)}
    for number, (rows, fill, stroke, owners) in styles.items():
        page(p, xs[number], pool_y, number, rows, fill, stroke, owners)
    for i, entry in enumerate([0, 3, 1]):
        p.line([(40 + i * 112 + 47, 94), (xs[entry] + 38, pool_y - 20)], BLUE, 1.5, tip=True)
    for i, entry in enumerate([0, 3, 4]):
        p.line([(300 + i * 112 + 47, 264), (xs[entry] + 38, pool_y + 46)], GREEN, 1.5, tip=True)
    p.text(700, 30, "position 9 of A: table[9 / 4] = 1,", 12, "end")
    p.text(700, 48, "slot 1 x 4 + 9 % 4 = 5", 12, "end")
    p.write("03_page_tables.svg")


def copy_on_write():
    """fork, a write of each, truncate."""
    p = Picture(720, 470, "Fork, copy on write, truncate")
    shared = (PALE_PURPLE, PURPLE)
    panels = [
        ("A has 6 tokens", "tables: A 0 1", [(4, *OWNER["A"], 1), (2, *OWNER["A"], 1), (0, GROUND, SOFT, 0), (0, GROUND, SOFT, 0)]),
        ("B = fork(A)", "tables: A 0 1, B 0 1; nothing is copied", [(4, *shared, 2), (2, *shared, 2), (0, GROUND, SOFT, 0), (0, GROUND, SOFT, 0)]),
        ("B appends a token", "tables: A 0 1, B 0 2; page 1 is shared, so its 2 rows are copied first",
         [(4, *shared, 2), (2, *OWNER["A"], 1), (3, *OWNER["B"], 1), (0, GROUND, SOFT, 0)]),
        ("A appends a token", "tables: A 0 1, B 0 2; page 1 is A's alone by now: no copy",
         [(4, *shared, 2), (3, *OWNER["A"], 1), (3, *OWNER["B"], 1), (0, GROUND, SOFT, 0)]),
        ("truncate(B, 3)", "tables: A 0 1, B 0; page 2 is free, page 0 stays shared",
         [(4, *shared, 2), (3, *OWNER["A"], 1), (0, GROUND, SOFT, 0), (0, GROUND, SOFT, 0)]),
        ("B appends a token", "tables: A 0 1, B 2; B's last page was shared: its 3 rows are copied",
         [(4, *OWNER["A"], 1), (3, *OWNER["A"], 1), (4, *OWNER["B"], 1), (0, GROUND, SOFT, 0)])]
    for i, (call, note, pages) in enumerate(panels):
        y = 40 + i * 72
        p.text(20, y + 2, call, 13, "start", bold=True)
        p.text(20, y + 20, note.split("; ")[0], 12, "start", mono=True)
        if "; " in note:
            p.text(20, y + 37, note.split("; ")[1], 12, "start", SOFT)
        for number, (rows, fill, stroke, owners) in enumerate(pages):
            page(p, 352 + number * 92, y - 8, number, rows, fill, stroke, owners)
    p.write("03_copy_on_write.svg")


computed_rows()
causality()
region()
cache_bytes()
waste()
page_tables()
copy_on_write()
