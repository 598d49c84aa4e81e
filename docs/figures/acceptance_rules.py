#!/usr/bin/env python3
"""Draws what each acceptance rule of stage 5 accepts: python3 docs/figures/acceptance_rules.py

Writes an SVG file beside itself. p and q are the rows after "the" of stage 0's tables.
"""
from picture import BLUE, GREEN, INK, PALE_GREEN, PALE_YELLOW, Picture, SOFT

OCHRE = "#b0851c"
WORDS = ["the", "cat", "saw", "."]
TARGET, DRAFT = [0.05, 0.70, 0.05, 0.20], [0.25, 0.45, 0.20, 0.10]


def accepted():
    """Rule -> how often it accepts each word."""
    pairs = list(zip(TARGET, DRAFT))
    largest = max(p / q for p, q in pairs)
    both_win = [1 / sum(max(p / own, q / guess) for p, q in pairs) for own, guess in pairs]
    return {"rejection": [min(p, q) for p, q in pairs],
            "coupled": both_win,
            "at-least": [q if p >= q else 0 for p, q in pairs],
            "non-iterative": [p / largest for p, _ in pairs],
            "one-hot": [p * q for p, q in pairs]}


def rules():
    p = Picture(760, 330, "What five lossless rules accept of the same draft")
    bottom, height, bar = 240, 250, 20
    for panel, (rule, shares) in enumerate(accepted().items()):
        x = 20 + panel * 148
        p.text(x, 30, rule, 13, "start", bold=True, mono=True)
        p.text(x, 48, f"accepts {sum(shares):.2f}", 12, "start", SOFT)
        p.line([(x, bottom), (x + 128, bottom)], INK, 1.5)
        for i, word in enumerate(WORDS):
            middle = x + 18 + i * 31
            p.text(middle, bottom + 18, word, 11)
            for low, high, fill, stroke in ((0, shares[i], PALE_GREEN, GREEN), (shares[i], TARGET[i], PALE_YELLOW, OCHRE)):
                if high - low > 1e-9:
                    p.box(middle - bar / 2, bottom - height * high, bar, round(height * (high - low), 1), fill,
                          stroke=stroke)
            cap = bottom - height * min(TARGET[i], DRAFT[i])
            p.line([(middle - 14, cap), (middle + 14, cap)], BLUE, 2)
    for x, fill, stroke, text in ((20, PALE_GREEN, GREEN, "accepted"), (120, PALE_YELLOW, OCHRE, "owed: drawn as a correction")):
        p.box(x, 290, 14, 14, fill, stroke=stroke)
        p.text(x + 20, 302, text, 12, "start")
    p.line([(330, 297), (358, 297)], BLUE, 2)
    p.text(366, 302, "min(p, q): no green bar may rise above it", 12, "start")
    p.write("05_rules.svg")


rules()
