#!/usr/bin/env python3
"""Draws the figure of the chapter on stage 0: python3 docs/figures/toy_speculation.py

Writes an SVG file beside itself: round 1 of build/bin/00_toy_speculation, whose numbers it prints.
"""
from picture import (BLUE, GREEN, INK, PALE_BLUE, PALE_GREEN, PALE_RED, PALE_YELLOW, Picture, RED, SOFT)

OCHRE = "#b0851c"
WORDS = ["the", "cat", "saw", "."]
# context, draft, the rows p and q after the context, u
TESTS = [(".", "saw", (0.60, 0.30, 0.10, 0.00), (0.60, 0.30, 0.10, 0.00), 0.428),
         ("saw", "the", (0.70, 0.15, 0.05, 0.10), (0.40, 0.30, 0.00, 0.30), 0.095),
         ("the", "saw", (0.05, 0.70, 0.05, 0.20), (0.25, 0.45, 0.20, 0.10), 0.628)]
LEFT, STEP, WIDTH, BASE, HEIGHT = 40, 240, 200, 250, 220


def bars(p, x, draft, target_probs, draft_probs):
    """The two rows side by side; the pair of the drafted word stands out."""
    for i, (word, target, guess) in enumerate(zip(WORDS, target_probs, draft_probs)):
        at = x + 10 + i * 48
        for offset, prob, pale, colour in ((0, target, PALE_BLUE, BLUE), (17, guess, PALE_YELLOW, OCHRE)):
            fill = colour if word == draft else pale
            if prob > 0:
                p.box(at + offset, BASE - prob * HEIGHT, 15, round(prob * HEIGHT, 1), fill, stroke=colour)
        p.text(at + 16, BASE + 17, word, 12, bold=word == draft)
    p.line([(x, BASE), (x + WIDTH, BASE)], INK, 1)


def one_round():
    p = Picture(760, 430, "One round of stage 0: two drafts are kept, the third is rejected and corrected")
    for i, (context, draft, target_probs, draft_probs, u) in enumerate(TESTS):
        x = LEFT + i * STEP
        target, guess = target_probs[WORDS.index(draft)], draft_probs[WORDS.index(draft)]
        ratio, kept = min(1, target / guess), u < min(1, target / guess)
        p.text(x + WIDTH / 2, 28, f'after "{context}" the draft says', 12, colour=SOFT)
        p.box(x + 70, 38, 60, 26, PALE_YELLOW, draft, stroke=OCHRE)
        bars(p, x, draft, target_probs, draft_probs)
        p.text(x + WIDTH / 2, 296, f"p {target:.2f}, q {guess:.2f}: keep with {ratio:.2f}", 12)
        p.text(x + WIDTH / 2, 316, f"u = {u:.3f} is {'below' if kept else 'not below'}", 12, colour=SOFT)
        p.box(x + 50, 330, 100, 26, PALE_GREEN if kept else PALE_RED, "accepted" if kept else "rejected",
              stroke=GREEN if kept else RED)
        if i < 2:
            p.line([(x + WIDTH + 2, 51), (x + STEP - 2, 51)], SOFT, 1.2, tip=True)
    x = LEFT + 2 * STEP
    p.line([(x + 100, 358), (x + 100, 376)], tip=True)
    p.box(x, 378, WIDTH, 26, PALE_BLUE, 'correction: cat 0.71, "." 0.29; it is "."', stroke=BLUE, size=10)
    p.text(LEFT, 388, 'emitted: saw the .  (three tokens for one pass of the target)', 12, "start", bold=True)
    p.text(LEFT, 410, "Blue: p, the target. Yellow: q, the draft.", 12, "start", SOFT)
    p.write("00_round.svg")


if __name__ == "__main__":
    one_round()
