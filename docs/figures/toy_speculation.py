#!/usr/bin/env python3
"""Draws the figures of Before you start and of the chapter on stage 0: python3 docs/figures/toy_speculation.py

Writes SVG files beside itself: round 1 of build/bin/00_toy_speculation, whose numbers it prints; every path of a round
with K = 1 after "cat", computed from the same tables; and two sketches of why speculation helps.
"""
from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_RED, PALE_YELLOW, Picture, RED, SOFT)

OCHRE = "#b0851c"
WORDS = ["the", "cat", "saw", "."]
# context, draft, the rows p and q after the context, u
TESTS = [(".", "saw", (0.60, 0.30, 0.10, 0.00), (0.60, 0.30, 0.10, 0.00), 0.428),
         ("saw", "the", (0.70, 0.15, 0.05, 0.10), (0.40, 0.30, 0.00, 0.30), 0.095),
         ("the", "saw", (0.05, 0.70, 0.05, 0.20), (0.25, 0.45, 0.20, 0.10), 0.628)]
LEFT, STEP, WIDTH, BASE, HEIGHT = 40, 240, 200, 250, 220
# The two tables of stage 0: a row for each word of WORDS.
TARGET = [(0.05, 0.70, 0.05, 0.20), (0.00, 0.10, 0.60, 0.30), (0.70, 0.15, 0.05, 0.10), (0.60, 0.30, 0.10, 0.00)]
DRAFT = [(0.25, 0.45, 0.20, 0.10), (0.20, 0.00, 0.40, 0.40), (0.40, 0.30, 0.00, 0.30), (0.60, 0.30, 0.10, 0.00)]
# Of the sketches, in passes of the target over one row: a draft step, a pass over six rows.
DRAFT_STEP, SIX_ROWS = 0.1, 1.1


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


def options(probs):
    """The words that can be drawn, each with its probability."""
    return [(word, prob) for word, prob in zip(WORDS, probs) if prob > 0]


def residual(target_probs, draft_probs):
    rest = [max(0, target - draft) for target, draft in zip(target_probs, draft_probs)]
    return [prob / sum(rest) for prob in rest]


def tests_after(context):
    """Of a round with K = 1: (draft, its q, accepted, the test's probability, the options of the last token)."""
    target_probs, draft_probs = TARGET[WORDS.index(context)], DRAFT[WORDS.index(context)]
    for draft, guess in options(draft_probs):
        accept = min(1, target_probs[WORDS.index(draft)] / guess)
        if accept > 0:
            yield draft, guess, True, accept, options(TARGET[WORDS.index(draft)])
        if accept < 1:
            yield draft, guess, False, 1 - accept, options(residual(target_probs, draft_probs))


def every_path():
    """The tree that the enumeration walks, leaf by leaf."""
    p = Picture(760, 470, 'Every path of a round with K = 1 after "cat": eleven walks, whose probabilities sum to 1')
    row, top, draft_x, test_x, last_x, text_x, prob_x = 32, 78, 122, 250, 432, 560, 716
    for x, words in ((draft_x + 28, "draft, from q"), (test_x + 52, "test"), (last_x + 52, "last token"),
                     (text_x + 40, "emitted"), (prob_x - 24, "probability")):
        p.text(x, 40, words, 12, bold=True)
    leaf, first_words, blocks = 0, {}, {}
    for draft, guess, accepted, chance, last in tests_after("cat"):
        middle = top + (leaf + (len(last) - 1) / 2) * row
        p.box(test_x, middle - 12, 104, 24, PALE_GREEN if accepted else PALE_RED,
              f"{'accepted' if accepted else 'rejected'} {chance:.2f}", stroke=GREEN if accepted else RED, size=12)
        blocks.setdefault((draft, guess), []).append(middle)
        for word, prob in last:
            y = top + leaf * row
            text = [draft, word] if accepted else [word]
            p.line([(test_x + 104, middle), (last_x, y)], SOFT, 1.1)
            p.box(last_x, y - 11, 104, 22, PALE_BLUE, f"{word} {prob:.2f}", stroke=BLUE, size=12)
            p.text(text_x + 40, y + 4, " ".join(text), 13, bold=True)
            p.text(prob_x, y + 4, f"{guess * chance * prob:.4f}", 12, "end", mono=True)
            first_words[text[0]] = first_words.get(text[0], 0) + guess * chance * prob
            leaf += 1
    root = top + (leaf - 1) / 2 * row
    for (draft, guess), middles in blocks.items():
        y = sum(middles) / len(middles)
        p.line([(88, root), (draft_x, y)], SOFT, 1.1)
        p.box(draft_x, y - 13, 76, 26, PALE_YELLOW, f"{draft} {guess:.2f}", stroke=OCHRE)
        for middle in middles:
            p.line([(draft_x + 76, y), (test_x, middle)], SOFT, 1.1)
    p.box(24, root - 14, 64, 28, GROUND, "cat")
    sums = ", ".join(f"{word} {prob:.2f}" for word, prob in sorted(first_words.items(), key=lambda one: WORDS.index(one[0])))
    p.text(24, 442, f'First word of what is emitted: {sums}: the row p after "cat".', 13, "start", bold=True)
    p.text(24, 461, "Options of probability 0 have no branch. Along a path, probabilities multiply.", 12, "start", SOFT)
    p.write("00_paths.svg")


def bytes_and_rows():
    """A stream of weights past one row, and past six."""
    p = Picture(760, 380, "The weights stream past one row, and past six rows riding along, in about the same time")
    for top, words in ((20, ["sun"]), (190, ["sun", "shone", ".", "Sunita", "rode", "to"])):
        count = len(words)
        p.text(24, top + 18, f"{count} row{'s' * (count > 1)} in the pass", 13, "start", bold=True)
        p.box(24, top + 32, 104, 50, PALE_BLUE, stroke=BLUE)
        p.text(76, top + 54, "memory:", 12)
        p.text(76, top + 70, "6.4 GB of weights", 11)
        for i in range(14):
            p.box(146 + i * 22, top + 50, 14, 14, BLUE, stroke=BLUE)
        p.line([(132, top + 74), (462, top + 74)], BLUE, 1.5, tip=True)
        for i, word in enumerate(words):
            x = 146 + (i if count > 1 else 2.5) * 52
            p.box(x, top + 94, 48, 22, PALE_YELLOW if i else PALE_BLUE, word, stroke=OCHRE if i else BLUE, size=11)
        p.text(302, top + 136, "each weight is read once, and used once by every row", 12, colour=SOFT)
        p.text(500, top + 18, "time", 12, "start", bold=True)
        p.box(500, top + 32, 220, 20, PALE_BLUE, "reading: 6.4 GB / 50 GB/s = 0.13 s", stroke=BLUE, size=11)
        for i in range(count):
            p.box(500 + i * 22, top + 60, 22, 20, PALE_GREEN, stroke=GREEN)
        p.text(500, top + 98, f"arithmetic of {count} row{'s' * (count > 1)}, meanwhile", 11, "start", SOFT)
    p.text(24, 362, "A sketch: the green bars depend on the machine. While they are shorter than the blue one, they cost "
           "no time.", 12, "start", SOFT)
    p.write("00_bytes_and_rows.svg")


def timelines():
    """Four tokens by plain decoding, and by one round."""
    p = Picture(760, 340, "Four tokens by plain decoding take four passes; by one round, five draft steps and one pass")
    emitted, unit, left = ["shone", ".", "Sunita", "walked"], 150, 120
    p.text(16, 66, "plain", 13, "start", bold=True)
    p.text(16, 84, "decoding", 13, "start", bold=True)
    for i, word in enumerate(emitted):
        x = left + i * unit
        p.box(x, 50, unit, 40, PALE_BLUE, "target, 1 row", stroke=BLUE, size=12)
        p.line([(x + unit, 90), (x + unit, 108)], INK, 1.2, tip=True)
        p.text(x + unit, 123, word, 12, bold=True)
    p.text(16, 190, "one round,", 13, "start", bold=True)
    p.text(16, 208, "K = 5", 13, "start", bold=True)
    step = DRAFT_STEP * unit
    for i in range(5):
        p.box(left + i * step, 174, step, 40, PALE_YELLOW, stroke=OCHRE)
    p.text(left + 2.5 * step, 166, "5 draft steps", 11, colour=SOFT)
    begin, width = left + 5 * step, round(SIX_ROWS * unit, 1)
    p.box(begin, 174, width, 40, PALE_BLUE, "target, 6 rows", stroke=BLUE, size=12)
    end = begin + width
    p.line([(end, 214), (end, 232)], INK, 1.2, tip=True)
    p.text(end, 247, "shone  .  Sunita  walked", 12, bold=True)
    p.line([(left, 274), (left + 4.2 * unit, 274)], SOFT, 1.2, tip=True)
    for i in range(5):
        p.line([(left + i * unit, 270), (left + i * unit, 278)], SOFT, 1.2)
        p.text(left + i * unit, 294, str(i), 12, colour=SOFT)
    p.text(left + 2 * unit, 312, "time, in passes of the target over one row", 12, colour=SOFT)
    p.text(16, 331, f"A sketch with a draft step of {DRAFT_STEP} passes and a pass over six rows of {SIX_ROWS}: four tokens "
           f"after {5 * DRAFT_STEP + SIX_ROWS:.1f} passes, not 4.", 12, "start", SOFT)
    p.write("00_timelines.svg")


if __name__ == "__main__":
    one_round()
    every_path()
    bytes_and_rows()
    timelines()
