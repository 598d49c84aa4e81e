#!/usr/bin/env python3
"""Draws the figures of docs/theory/: python3 docs/figures/experiments.py [RESULTS]

RESULTS: what docs/experiments/run.py wrote, docs/experiments/results.json by default. Writes SVG files beside itself.
"""
import json
import pathlib
import sys

from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_RED, PALE_YELLOW, PURPLE,
                     Picture, RED, SOFT)

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent / "experiments"
sys.path.insert(0, str(EXPERIMENTS))
import formulas  # noqa: E402

GRID, BROWN, PINK = "#dde2e6", "#b0851c", "#c2569b"
COLOURS = [BLUE, GREEN, BROWN, RED, PURPLE, PINK, SOFT, INK]
ALPHAS = [i / 100 for i in range(101)]


class Axes:
    """A frame with two linear scales in a picture. Names: of the marks on a scale, where a number will not do."""

    def __init__(self, picture, left, top, right, bottom, xs, ys, x_name="{:g}".format,
                 y_name="{:g}".format):
        self.p, self.left, self.top, self.right, self.bottom = picture, left, top, right, bottom
        (self.x0, self.x1), (self.y0, self.y1) = (xs[0], xs[-1]), (ys[0], ys[-1])
        for x in xs:
            picture.line([(self.x(x), top), (self.x(x), bottom)], GRID, 1)
            picture.text(self.x(x), bottom + 18, x_name(x), 11, colour=SOFT)
        for y in ys:
            picture.line([(left, self.y(y)), (right, self.y(y))], GRID, 1)
            picture.text(left - 8, self.y(y) + 4, y_name(y), 11, "end", SOFT)

    def x(self, x):
        return self.left + (self.right - self.left) * (x - self.x0) / (self.x1 - self.x0)

    def y(self, y):
        return self.bottom - (self.bottom - self.top) * (y - self.y0) / (self.y1 - self.y0)

    def titles(self, above, below):
        self.p.text(self.left, self.top - 16, above, 13, "start", bold=True)
        self.p.text((self.left + self.right) / 2, self.bottom + 38, below, 12)

    def curve(self, points, colour, width=2, dashed=False):
        """Cut where it leaves the frame."""
        inside = [(self.x(x), self.y(y)) for x, y in points if self.y0 <= y <= self.y1 and self.x0 <= x <= self.x1]
        if inside:
            self.p.line(inside, colour, width, dashed=dashed)

    def mark(self, x, y, shape, colour, filled=False):
        draw_mark(self.p, self.x(x), self.y(y), shape, colour, filled)


def draw_mark(p, x, y, shape, colour, filled=False, size=4.5):
    """A point of a measurement. Shapes, so that nothing hangs on colours alone."""
    fill = colour if filled else GROUND
    corners = {"square": [(-1, -1), (1, -1), (1, 1), (-1, 1)], "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
               "up": [(0, -1.2), (1.2, 1), (-1.2, 1)], "down": [(0, 1.2), (1.2, -1), (-1.2, -1)]}
    if shape == "circle":
        p.circle(x, y, size, fill, colour)
        return
    path = " L".join(f"{x + dx * size * 0.9:.1f} {y + dy * size * 0.9:.1f}" for dx, dy in corners[shape])
    p.parts.append(f'<path d="M{path}Z" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>')


def clip(text, most):
    return text if len(text) <= most else text[:most - 1] + "…"


def emitted(results):
    """Equation (1), and measured rounds beside it."""
    p = Picture(720, 470, "Tokens per round against alpha")
    axes = Axes(p, 60, 50, 520, 390, [0, 0.2, 0.4, 0.6, 0.8, 1], list(range(1, 12)))
    axes.titles("tokens per round, E[emitted]", "alpha = accepted / tested")
    shapes = {1: "up", 2: "diamond", 3: "square", 5: "circle", 8: "down"}
    for K, colour in zip((1, 2, 3, 5, 8), COLOURS):
        axes.curve([(a, formulas.emitted(a, K)) for a in ALPHAS], colour)
        y = axes.y(K + 1)
        p.text(556, y + 4, f"K = {K}", 12, "start", colour)
        draw_mark(p, 542, y, shapes[K], colour)
    axes.curve([(a, 1 / (1 - a)) for a in ALPHAS[:-1]], INK, 1.5, dashed=True)
    p.text(538, axes.y(10.5), "1 / (1 - alpha)", 12, "start", INK)
    points = [(5, e["draft_kind"], e) for e in results["counts"]["alpha"]
              if e["text"] != "all" and e["draft_kind"] in ("llama", "unigram", "bigram")]
    points += [(e["spec_length"], "llama", e) for e in results["counts"]["spec_length"]]
    for K, _, e in points:
        if e["whole_rounds"] >= 20:
            alpha = e["whole_accepted"] / e["whole_tested"]
            axes.mark(alpha, e["whole_emitted_per_round"], shapes[K], COLOURS[(1, 2, 3, 5, 8).index(K)])
    p.text(60, 446, "Curves: equation (1). Points: rounds of the embedded pair, but the last of each run. At K = 5 one",
           12, "start", SOFT)
    p.text(60, 462, "for each kind of text, draft and temperature; at other K, all texts together.", 12, "start", SOFT)
    p.write("theory_emitted.svg")


def best_k():
    """The best K against alpha."""
    p = Picture(720, 430, "The best K against alpha, for several c")
    axes = Axes(p, 60, 50, 560, 360, [0, 0.2, 0.4, 0.6, 0.8, 1], [0, 2, 4, 6, 8, 10, 12, 14, 16])
    axes.titles("best K, at v = 1", "alpha")
    pair = formulas.bytes_c("1B", "3B")
    for c, colour in zip((0.01, 0.02, 0.05, 0.1, 0.2, pair), COLOURS):
        points = [(0, 0)]  # the corners of a staircase
        for alpha in (i / 1000 for i in range(1, 1000)):
            K = min(formulas.best_K(alpha, c, most=17), 16)
            if K != points[-1][1]:
                points += [(alpha, points[-1][1]), (alpha, K)]
        axes.curve(points + [(1, points[-1][1])] * (points[-1][1] < 16), colour)
    for i, (c, colour) in enumerate(zip((0.01, 0.02, 0.05, 0.1, 0.2, pair), COLOURS)):
        y = 66 + i * 24
        p.line([(580, y - 4), (604, y - 4)], colour, 2.5)
        p.text(612, y, f"c = {c:.3g}", 12, "start")
    p.text(612, 66 + 6 * 24 - 6, "(1B for 3B)", 11, "start", SOFT)
    p.text(60, 420, "0: plain decoding is at least as fast. For each c that is where alpha is not above c (Corollary 3.9).", 12,
           "start", SOFT)
    p.write("theory_best_k.svg")


def tokens_and_costs():
    """What a round emits and what it costs, over K, and their ratio."""
    alpha, c = 0.7, formulas.bytes_c("1B", "8B")
    best = formulas.best_K(alpha, c)
    factor = formulas.walltime_factor(alpha, best, c)
    p = Picture(720, 420, "Tokens of a round and its cost against K")
    Ks = list(range(17))
    left = Axes(p, 50, 60, 400, 330, list(range(0, 17, 2)), [0, 1, 2, 3, 4])
    left.titles("tokens and cost of a round", "K")
    left.curve([(K, formulas.emitted(alpha, K)) for K in Ks], GREEN)
    left.curve([(K, K * c + 1) for K in Ks], BLUE)
    left.curve([(K, factor * (K * c + 1)) for K in (0, (4 / factor - 1) / c)], BLUE, 1.5, dashed=True)
    for K in Ks:
        left.mark(K, formulas.emitted(alpha, K), "circle", GREEN, filled=K == best)
        left.mark(K, K * c + 1, "square", BLUE, filled=K == best)
    right = Axes(p, 450, 60, 690, 330, list(range(0, 17, 4)), [0, 0.5, 1, 1.5, 2])
    right.titles("the ratio: how much faster", "K")
    right.curve([(0, 1), (16, 1)], SOFT, 1.5, dashed=True)
    right.curve([(K, formulas.walltime_factor(alpha, K, c)) for K in Ks], PURPLE)
    for K in Ks:
        right.mark(K, formulas.walltime_factor(alpha, K, c), "diamond", PURPLE, filled=K == best)
    p.text(right.x(best), right.y(factor) - 14, f"{factor:.2f} at K = {best}", 12)
    for x, y, shape, colour, words in ((56, 384, "circle", GREEN, "tokens, E[emitted]"), (206, 384, "square", BLUE, "cost, K c + v")):
        draw_mark(p, x, y, shape, colour)
        p.text(x + 12, y + 4, words, 12, "start")
    p.line([(320, 384), (350, 384)], BLUE, 1.5, dashed=True)
    p.text(358, 388, f"the cost, {factor:.2f} times: it touches the tokens at K = {best}", 12, "start")
    p.text(50, 408, f"alpha = {alpha}, c = {c:.3f} (a 1B model drafts for an 8B model, by bytes), v = 1", 12, "start", SOFT)
    p.write("theory_tokens_and_costs.svg")


def speed_operations():
    """Speedup and arithmetic against alpha, c = 0."""
    p = Picture(720, 400, "What K buys in time and costs in operations, for a draft that costs nothing")
    Ks = (2, 3, 5, 7, 10)
    speed = Axes(p, 50, 50, 330, 330, [0, 0.2, 0.4, 0.6, 0.8, 1], [0, 2, 4, 6, 8, 10])
    speed.titles("speedup", "alpha")
    work = Axes(p, 390, 50, 670, 330, [0, 0.2, 0.4, 0.6, 0.8, 1], [0, 2, 4, 6, 8, 10])
    work.titles("operations, times those of plain decoding", "alpha")
    for i, (K, colour) in enumerate(zip(Ks, COLOURS)):
        speed.curve([(a, formulas.walltime_factor(a, K, 0)) for a in ALPHAS], colour)
        work.curve([(a, formulas.operations_factor(a, K, 0)) for a in ALPHAS], colour)
        x = 70 + i * 76
        p.line([(x, 388), (x + 22, 388)], colour, 2.5)
        p.text(x + 28, 392, f"K = {K}", 12, "start")
    p.text(470, 392, "c = 0, v = 1", 12, "start", SOFT)
    p.write("theory_speed_operations.svg")


def rounds(results):
    """A real run, a line for each round."""
    drawn = results["counts"]["rounds"]
    height, top = 27, 74
    p = Picture(720, top + height * len(drawn["rounds"]) + 42, "A run of speculative sampling, round by round")
    styles = {"accepted": (PALE_GREEN, GREEN), "rejected": (PALE_RED, RED), "not tested": (GROUND, "#aab4bd"),
              "correction": (PALE_BLUE, BLUE), "bonus": (PALE_PURPLE, PURPLE)}

    def token(x, y, words, verdict):
        shown = clip(words.replace("\n", "⏎").replace(" ", "·"), 14)
        width = 9 + 6.7 * len(shown)
        fill, stroke = styles[verdict]
        p.box(x, y, width, 20, fill, stroke=stroke, dashed=verdict == "not tested")
        if verdict in ("correction", "bonus"):  # cut corners say: the target's own token
            p.box(x + 2.5, y + 2.5, width - 5, 15, "none", stroke=stroke)
        p.text(x + width / 2, y + 14, shown, 11, mono=True, colour=SOFT if verdict == "not tested" else INK)
        if verdict == "rejected":
            p.line([(x + 3, y + 10), (x + width - 3, y + 10)], RED, 1.3)
        return x + width + 4

    x = 56
    for verdict in styles:
        x = token(x, 16, verdict, verdict) + 12
    p.text(18, 62, "round", 11, "start", SOFT)
    p.text(704, 62, "emitted", 11, "end", SOFT)
    for i, r in enumerate(drawn["rounds"]):
        y = top + i * height
        p.text(40, y + 14, str(i + 1), 11, "end", SOFT)
        x = 56
        tokens = [(words, verdict) for words, verdict in r["drafts"] if verdict == "accepted"]
        tokens += [(words, verdict) for words, verdict in r["drafts"] if verdict == "rejected"]
        last = r["last"]
        if last:
            tokens.append(tuple(last))
        tokens += [(words, verdict) for words, verdict in r["drafts"] if verdict == "not tested"]
        for words, verdict in tokens:
            x = token(x, y, words, verdict)
        number = sum(verdict not in ("rejected", "not tested") for _, verdict in tokens)
        p.text(696, y + 14, str(number), 11, "end", SOFT)
    y = top + height * len(drawn["rounds"])
    p.text(18, y + 22, f"{drawn['tokens']} tokens in {len(drawn['rounds'])} passes of the target. Embedded pair, "
           f"prompt {drawn['prompt']}, K = {drawn['spec_length']}, temperature {drawn['temperature']}, "
           f"seed {drawn['seed']}.", 12, "start", SOFT)
    p.write("theory_rounds.svg")


def positions(results):
    """accepted_per_position against the powers of alpha, for some kinds of text."""
    p = Picture(720, 420, "How many rounds accept more than i drafts: measured, and by independence")
    entries = {(e["draft_kind"], e["temperature"], e["text"]): e for e in results["counts"]["alpha"]}
    left = Axes(p, 50, 60, 340, 340, [0, 1, 2, 3, 4, 5], [0, 0.2, 0.4, 0.6, 0.8, 1])
    left.titles("rounds that accept at least i drafts", "i")
    right = Axes(p, 400, 60, 690, 340, [0, 1, 2, 3, 4, 5], [0, 0.2, 0.4, 0.6, 0.8, 1])
    right.titles("of those where draft i is tested, accepted", "i")
    shown = [("all", "circle", INK), ("stories", "square", BLUE), ("poems", "up", RED), ("recipes", "diamond", GREEN)]
    for i, (text, shape, colour) in enumerate(shown):
        e = entries.get(("llama", 1, text))
        if e is None or not e["whole_rounds"]:
            continue
        alpha = e["whole_accepted"] / e["whole_tested"]
        left.curve([(n / 10, alpha ** (n / 10)) for n in range(51)], colour, 1.5, dashed=True)
        left.mark(0, 1, shape, colour)
        right.curve([(1, alpha), (5, alpha)], colour, 1.5, dashed=True)
        for n, (a, t) in enumerate(zip(e["accepted_at"], e["tested_at"])):
            left.mark(n + 1, a / e["whole_rounds"], shape, colour, filled=True)
            if t:
                right.mark(n + 1, a / t, shape, colour, filled=True)
        draw_mark(p, 66 + i * 110, 400, shape, colour, filled=True)
        p.text(78 + i * 110, 404, text, 12, "start")
    p.text(510, 404, "dashed: alpha to the i, and alpha", 12, "start", SOFT)
    p.write("theory_positions.svg")


def timeline(results):
    """Rounds as blocks: on this machine, and with the costs of a real pair by bytes."""
    data = results["times"]["timeline"]
    p = Picture(720, 400, "Rounds on a time axis")

    def panel(top, title, unit, seconds_of):
        p.text(20, top, title, 13, "start", bold=True)
        most = max(sum(sum(seconds_of(row, r).values()) for r in row["rounds"]) for row in data["rows"])
        scale = 570 / most
        for i, row in enumerate(data["rows"]):
            y, x = top + 16 + i * 44, 74.0
            p.text(64, y + 19, row["name"], 12, "end")
            for r in row["rounds"]:
                parts = seconds_of(row, r)
                for name, fill, stroke in (("draft", PALE_BLUE, BLUE), ("verify", PALE_PURPLE, PURPLE),
                                           ("other", PALE_YELLOW, BROWN)):
                    width = parts[name] * scale
                    pieces = max(r["drafted"], 1) if name == "draft" else 1
                    for j in range(pieces if width > 0.05 else 0):
                        p.parts.append(f'<rect x="{x + j * width / pieces:.2f}" y="{y}" width="{width / pieces:.2f}" '
                                       f'height="28" fill="{fill}" stroke="{stroke}" stroke-width="0.7"/>')
                    x += width
            p.text(x + 5, y + 19, unit(sum(sum(seconds_of(row, r).values()) for r in row["rounds"])), 11, "start", SOFT)
    tokens = sum(r["emitted"] for r in data["rows"][0]["rounds"])
    panel(28, f"Measured: {tokens} tokens of the embedded pair", lambda us: f"{us / 1000:.1f} ms",
          lambda row, r: {part: r[part] for part in ("draft", "verify", "other")})
    c = formulas.bytes_c("1B", "3B")
    panel(208, "The same rounds, if bytes decide: 1B drafts for 3B, in steps of the 3B", lambda s: f"{s:.1f}",
          lambda row, r: {"draft": r["drafted"] * c, "verify": 1.0, "other": 0.0})
    for x, fill, stroke, words in ((74, PALE_BLUE, BLUE, "a draft step"), (190, PALE_PURPLE, PURPLE,
                                   "a pass of the target"), (360, PALE_YELLOW, BROWN, "all else: choosing, rollback")):
        p.box(x, 374, 13, 13, fill, stroke=stroke)
        p.text(x + 19, 385, words, 12, "start")
    p.write("theory_timeline.svg")


def main():
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else EXPERIMENTS / "results.json"
    results = json.loads(file.read_text(encoding="utf-8"))
    emitted(results)
    best_k()
    tokens_and_costs()
    speed_operations()
    rounds(results)
    positions(results)
    timeline(results)


if __name__ == "__main__":
    main()
