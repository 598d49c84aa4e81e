#!/usr/bin/env python3
"""Draws the figures of the chapters on speculation: python3 docs/figures/speculation_rounds.py

Writes SVG files beside itself. The round and the counts of rounds are those of a run of stage 4:
build/bin/04_greedy_speculation --prompt "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat."
--max-new-tokens 64 --explain, with --spec-length 1 to 16 for the counts.
"""
import math

from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_RED, PALE_YELLOW, PURPLE,
                     Picture, RED, SOFT)

FAINT, OCHRE = "#c3cad1", "#b0851c"


def one_round():
    """Round 4 of the run: 25 tokens cached, K = 5, three drafts accepted."""
    p = Picture(760, 400, "One round: five draft steps, one target pass, three drafts accepted")
    drafts = ["shone", ".", "Sunita", "rode", "to"]
    choices = ["shone", ".", "Sunita", "walked", "?", "?"]
    left, step, cell = 170, 96, 86
    x_of = lambda i: left + i * step

    p.text(20, 34, "1. draft", 13, "start", bold=True)
    p.text(20, 52, "5 passes of a", 12, "start", SOFT)
    p.text(20, 67, "small model", 12, "start", SOFT)
    for i, word in enumerate(["sun"] + drafts[:4]):
        p.box(x_of(i), 70, cell, 24, PALE_YELLOW if i else PALE_BLUE, word, stroke=OCHRE if i else BLUE)
        p.box(x_of(i), 24, cell, 24, PALE_YELLOW, drafts[i], stroke=OCHRE)
        p.line([(x_of(i) + cell / 2, 70), (x_of(i) + cell / 2, 50)], tip=True)
        if i < 4:
            p.line([(x_of(i) + cell - 6, 48), (x_of(i + 1) + 8, 68)], SOFT, 1.2, tip=True)

    p.text(20, 150, "2. verify", 13, "start", bold=True)
    p.text(20, 168, "1 pass of the", 12, "start", SOFT)
    p.text(20, 183, "target, 6 rows", 12, "start", SOFT)
    p.box(left - 8, 134, step * 5 + cell + 16, 76, GROUND, stroke=INK)
    for i, word in enumerate(["sun"] + drafts):
        p.box(x_of(i), 178, cell, 24, PALE_YELLOW if i else PALE_BLUE, word, stroke=OCHRE if i else BLUE)
        dead = i > 3
        p.box(x_of(i), 142, cell, 22, GROUND if dead else PALE_BLUE, choices[i], stroke=FAINT if dead else BLUE)
        p.text(x_of(i) + cell / 2, 128, f"row {i}", 11, colour=SOFT)

    p.text(20, 248, "3. accept", 13, "start", bold=True)
    p.text(20, 266, "row i against", 12, "start", SOFT)
    p.text(20, 281, "draft i + 1", 12, "start", SOFT)
    verdicts = [("shone", "accepted", PALE_GREEN, GREEN), (".", "accepted", PALE_GREEN, GREEN),
                ("Sunita", "accepted", PALE_GREEN, GREEN), ("rode", "rejected", PALE_RED, RED),
                ("to", "not tested", GROUND, FAINT)]
    for i, (word, verdict, fill, stroke) in enumerate(verdicts):
        p.box(x_of(i), 236, cell, 24, fill, word, stroke=stroke, dashed=verdict == "not tested")
        p.text(x_of(i) + cell / 2, 276, verdict, 12, colour=stroke if verdict != "not tested" else SOFT)
    p.text(x_of(5), 246, "rows 4 and 5", 11, "start", SOFT)
    p.text(x_of(5), 261, "follow rode", 11, "start", SOFT)

    p.text(20, 318, "4. emit,", 13, "start", bold=True)
    p.text(20, 335, "roll back", 13, "start", bold=True)
    for i, word in enumerate(["shone", ".", "Sunita", "walked"]):
        fill, stroke = (PALE_BLUE, BLUE) if i == 3 else (PALE_GREEN, GREEN)
        p.box(x_of(i), 304, cell, 24, fill, word, stroke=stroke)
    p.text(x_of(3) + cell / 2, 344, "correction,", 12, colour=BLUE)
    p.text(x_of(3) + cell / 2, 359, "pending now", 12, colour=BLUE)
    p.text(x_of(4), 312, "4 tokens for one target pass.", 12, "start")
    p.text(x_of(4), 328, "Both caches: 25 + 3 + 1 = 29.", 12, "start")
    p.text(20, 388, "Blue: the target's own choices. Yellow: guesses. Green: guesses that were right.", 12, "start", SOFT)
    p.write("04_round.svg")


def caches():
    """Both caches through the rollback: round 4, which rejects a draft, and round 7, which accepts all."""
    p = Picture(760, 500, "What both caches hold before and after the rollback")
    left, cell, wide = 196, 70, 96

    def row(y, label, words, fed, kept, length):
        """words: the pending token and the drafts. fed: how many of them the model was fed; kept: how many stay."""
        p.text(left - 12, y + 18, label, 12, "end")
        p.box(left, y, wide - 4, 26, GROUND, "cached before", stroke=SOFT, size=11)
        for i, word in enumerate(words):
            x = left + wide + i * cell
            if i >= fed:
                p.box(x, y, cell - 4, 26, GROUND, stroke=FAINT)
            elif i >= kept:
                p.box(x, y, cell - 4, 26, PALE_RED, word, stroke=RED, dashed=True, size=12)
            else:
                p.box(x, y, cell - 4, 26, PALE_GREEN, word, stroke=GREEN, size=12)
        p.text(744, y + 18, f"{length}", 14, "end", bold=True)

    def both(y, start, words, drafted, accepted):
        """Four rows: each model before and after its rollback."""
        for i in range(len(words)):
            p.text(left + wide + i * cell + cell / 2 - 2, y - 6, str(start + i), 11, colour=SOFT)
        p.text(744, y - 6, "tokens", 11, "end", SOFT)
        for offset, who, fed, kept in ((0, "target", drafted + 1, accepted + 1),
                                       (76, "draft", drafted, min(drafted, accepted + 1))):
            p.text(20, y + offset + 18, who, 13, "start", bold=True)
            row(y + offset, "after the passes", words, fed, kept, start + fed)
            row(y + offset + 32, "after the rollback", words, kept, kept, start + kept)

    p.text(20, 28, "Round 4: 25 tokens cached, K = 5, three accepted, \"rode\" rejected", 13, "start", RED, bold=True)
    both(62, 25, ["sun", "shone", ".", "Sunita", "rode", "to"], 5, 3)
    p.text(left, 218, "Both keep 25 + 3 + 1 = 29. The correction \"walked\" is pending: it is in neither cache.", 12, "start")
    p.text(20, 256, "Round 7: 34 tokens cached, K = 5, all five accepted", 13, "start", GREEN, bold=True)
    both(290, 34, ["A", "dog", "stood", "in", "the", "way"], 5, 5)
    p.text(left, 446, "Nothing is cut. The draft chose \"way\" in its last step and was never fed it. The bonus is pending.", 12,
           "start")
    for x, fill, stroke, words, dashed in ((20, PALE_GREEN, GREEN, "fed in this round, and in the text", False),
                                           (270, PALE_RED, RED, "fed, not in the text: truncate forgets it", True),
                                           (560, GROUND, FAINT, "not in the cache", False)):
        p.box(x, 470, 14, 14, fill, stroke=stroke, dashed=dashed)
        p.text(x + 20, 482, words, 12, "start")
    p.write("04_caches.svg")


def spec_length():
    """Tokens per target pass against K: counted, by formula, and the ceiling."""
    counted = {1: 64 / 35, 2: 64 / 26, 3: 64 / 21, 4: 64 / 19, 5: 64 / 17, 6: 64 / 16, 8: 64 / 15, 12: 64 / 15,
               16: 64 / 14}
    alpha = 0.8
    p = Picture(720, 360, "Tokens per target pass against K")
    left, right, top, bottom = 70, 560, 50, 300
    x_of = lambda k: left + (right - left) * k / 16
    y_of = lambda n: bottom - (bottom - top) * (n - 1) / 5
    for n in range(1, 7):
        p.line([(left, y_of(n)), (right, y_of(n))], "#dde2e6", 1)
        p.text(left - 10, y_of(n) + 4, str(n), 11, "end", SOFT)
    for k in (0, 1, 2, 3, 4, 5, 6, 8, 12, 16):
        p.text(x_of(k), bottom + 18, str(k), 11, colour=SOFT)
    p.text((left + right) / 2, bottom + 40, "K, drafted tokens per round", 12)
    p.text(left, 30, "tokens per target pass", 13, "start", bold=True)
    p.line([(x_of(0), y_of(1)), (x_of(5), y_of(6))], FAINT, 1.5, dashed=True)
    p.text(x_of(4.3), y_of(5.75), "K + 1", 12, "end", SOFT)
    expected = lambda k: (1 - alpha ** (k + 1)) / (1 - alpha)
    p.line([(x_of(k / 4), y_of(expected(k / 4))) for k in range(65)], BLUE, 2)
    p.text(right + 10, y_of(expected(16)) + 4, "formula, alpha = 0.8", 12, "start", BLUE)
    p.line([(x_of(0), y_of(5)), (right, y_of(5))], BLUE, 1, dashed=True)
    p.text(right + 10, y_of(5) - 4, "1 / (1 - alpha) = 5", 12, "start", BLUE)
    for k, tokens in counted.items():
        p.circle(x_of(k), y_of(tokens), 4.5, PALE_RED, RED, 2)
    p.text(right + 10, y_of(counted[16]) + 18, "counted", 12, "start", RED)
    p.write("04_spec_length.svg")


def areas():
    """p and q after "the" in stage 0's tables: what is kept, what is owed, and their sum."""
    words, target, draft = ["the", "cat", "saw", "."], [0.05, 0.70, 0.05, 0.20], [0.25, 0.45, 0.20, 0.10]
    p = Picture(760, 400, "min(p, q), the residual, and their sum")
    bottom, height, bar = 300, 300, 34

    def axis(x, title, note):
        p.text(x, 34, title, 13, "start", bold=True)
        p.text(x, 52, note, 12, "start", SOFT)
        p.line([(x, bottom), (x + 206, bottom)], INK, 1.5)
        for i, word in enumerate(words):
            p.text(x + 26 + i * 50, bottom + 18, word, 12)

    def block(x, i, low, high, fill, stroke, words=""):
        if high - low > 1e-9:
            p.box(x + 26 + i * 50 - bar / 2, bottom - height * high, bar, height * (high - low), fill, stroke=stroke)
            if words:
                p.text(x + 26 + i * 50, bottom - height * (low + high) / 2 + 4, words, 11)

    x = 30
    axis(x, "1. draw from q", "accepted: min(p, q)")
    for i in range(4):
        kept = min(target[i], draft[i])
        block(x, i, 0, kept, PALE_GREEN, GREEN, f"{kept:.2f}")
        block(x, i, kept, draft[i], PALE_RED, RED, f"{draft[i] - kept:.2f}")
        y = bottom - height * target[i]
        p.line([(x + 26 + i * 50 - 22, y), (x + 26 + i * 50 + 22, y)], BLUE, 2.5)
    p.text(x, 346, "accepted 0.65, rejected 0.35", 12, "start")
    x = 280
    axis(x, "2. what p still lacks", "max(0, p - q)")
    for i in range(4):
        owed = max(0, target[i] - draft[i])
        kept = min(target[i], draft[i])
        block(x, i, kept, kept + owed, PALE_YELLOW, OCHRE, f"{owed:.2f}")
        y = bottom - height * target[i]
        p.line([(x + 26 + i * 50 - 22, y), (x + 26 + i * 50 + 22, y)], BLUE, 2.5)
    p.text(x, 346, "0.25 + 0.10 = 0.35, the same", 12, "start")
    x = 530
    axis(x, "3. both together", "min(p, q) + max(0, p - q) = p")
    for i in range(4):
        kept = min(target[i], draft[i])
        block(x, i, 0, kept, PALE_GREEN, GREEN)
        block(x, i, kept, target[i], PALE_YELLOW, OCHRE)
        p.line([(x + 26 + i * 50 - 22, bottom - height * target[i]), (x + 26 + i * 50 + 22, bottom - height * target[i])],
               BLUE, 2.5)
        p.text(x + 26 + i * 50, bottom - height * target[i] - 8, f"{target[i]:.2f}", 11, colour=BLUE)
    p.text(x, 346, "0.65 + 0.35 = 1", 12, "start")
    for x, fill, stroke, text in ((30, PALE_GREEN, GREEN, "drafted and accepted"),
                                  (190, PALE_RED, RED, "drafted and rejected"),
                                  (370, PALE_YELLOW, OCHRE, "drawn as a correction")):
        p.box(x, 372, 14, 14, fill, stroke=stroke)
        p.text(x + 20, 384, text, 12, "start")
    p.line([(555, 379), (585, 379)], BLUE, 2.5)
    p.text(592, 384, "p, the target", 12, "start")
    p.write("05_areas.svg")


def race():
    """Two exponential races with the same noise."""
    words = ["the", "cat", "saw", "."]
    noise = [0.90, 0.55, 0.30, 0.75]
    pairs = [("p and q are close: one winner", [0.05, 0.70, 0.05, 0.20], [0.10, 0.60, 0.10, 0.20]),
             ("p and q differ: two winners", [0.05, 0.70, 0.05, 0.20], [0.25, 0.10, 0.45, 0.20])]
    p = Picture(760, 410, "Exponential races with shared noise")
    left, right, scale = 150, 640, 6.2
    x_of = lambda t: left + (right - left) * min(t, scale) / scale
    for panel, (title, target, draft) in enumerate(pairs):
        top = 40 + panel * 180
        p.text(20, top - 10, title, 13, "start", bold=True)
        times = [[-math.log(u) / prob for u, prob in zip(noise, probs)] for probs in (target, draft)]
        for i, word in enumerate(words):
            y = top + 16 + i * 34
            p.text(20, y + 5, f"{word}", 13, "start", mono=True)
            p.text(140, y + 5, f"u = {noise[i]:.2f}", 11, "end", SOFT)
            for kind, (colour, pale, offset) in enumerate(((BLUE, PALE_BLUE, -6), (OCHRE, PALE_YELLOW, 6))):
                t = times[kind][i]
                first = t == min(times[kind])
                p.line([(left, y + offset), (x_of(t), y + offset)], colour, 4 if first else 1.5, dashed=t > scale)
                if t <= scale:
                    p.circle(x_of(t), y + offset, 6 if first else 3.5, colour if first else pale, colour)
                p.text(x_of(t) + 12, y + offset + 4, f"{t:.2f}" if t <= scale else f"{t:.2f}, later", 11, "start", colour)
        p.line([(left, top), (left, top + 140)], INK, 1.5)
    p.line([(150, 390), (190, 390)], BLUE, 4)
    p.text(198, 394, "target: -log(u) / p", 12, "start", BLUE)
    p.line([(350, 390), (390, 390)], OCHRE, 4)
    p.text(398, 394, "draft: -log(u) / q", 12, "start", OCHRE)
    p.text(540, 394, "thick: arrives first, and wins", 12, "start", SOFT)
    p.write("05_race.svg")


one_round()
caches()
spec_length()
areas()
race()
