#!/usr/bin/env python3
"""Draws the figures of docs/06_batched_verification/: python3 docs/figures/batch.py

From docs/experiments/batch.json and batch_trace.json, which docs/experiments/batch.py wrote. Writes SVG files beside
itself.
"""
import json
import math
import statistics

from experiments import Axes, COLOURS, EXPERIMENTS, draw_mark
from picture import (BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_YELLOW, Picture, RED, SOFT)

OCHRE, FAINT = "#b0851c", "#c3cad1"
DRAWN_K = {1: ("up", COLOURS[0]), 3: ("square", COLOURS[1]), 5: ("circle", COLOURS[2]), 8: ("down", COLOURS[3])}


# --- the rows of a pass ---

# (request, tokens that are cached, tokens that are fed, rows of logits): step 3 of the chapter's example
SEGMENTS = [("0 story", 19, 4, 4), ("1 plain", 5, 1, 1), ("2 sum", 20, 16, 0)]
SHADES = [(PALE_BLUE, BLUE), (PALE_GREEN, GREEN), (PALE_YELLOW, OCHRE)]


def ragged():
    """Three requests, their segments, and the rows of the pass that computes them."""
    p = Picture(800, 408, "Three requests of different lengths become a list of segments and one matrix of rows")
    for x, words in ((24, "each request's tokens"), (412, "segments"), (560, "rows"), (700, "logits")):
        p.text(x, 30, words, 14, "start", bold=True)
    p.text(24, 48, "grey: cached; coloured: fed in this step", 12, "start", SOFT)
    p.text(412, 48, "tokens, logits", 12, "start", SOFT)
    p.text(560, 48, "21, for all layers", 12, "start", SOFT)
    p.text(700, 48, "5, for the head", 12, "start", SOFT)
    row, top, height, cell, scale = 0, 64, 15, 9, 5
    for (name, cached, fed, logits), (pale, strong), y in zip(SEGMENTS, SHADES, (82, 162, 254)):
        p.text(24, y - 6, name, 13, "start")
        p.box(24, y, cached * scale, 24, "#e3e6ea", str(cached), stroke=SOFT, size=11)
        for i in range(fed):
            p.box(24 + cached * scale + 6 + i * cell, y, cell, 24, pale, stroke=strong)
        p.text(24 + cached * scale + 6, y + 40, fed_words(fed, logits), 12, "start", SOFT)
        p.line([(30 + cached * scale + fed * cell + 8, y + 12), (408, y + 12)], SOFT, 1, tip=True)
        p.box(412, y, 104, 24, pale, f"{fed}, {logits}", mono=True, stroke=strong)
        first, last = top + row * height, top + (row + fed) * height
        p.line([(516, y + 12), (534, y + 12), (546, (first + last) / 2), (556, (first + last) / 2)], strong, 1.5, tip=True)
        for i in range(fed):
            number, at = row + i, top + (row + i) * height
            p.box(560, at, 92, height - 2, pale, stroke=strong)
            p.text(606, at + 10.5, f"{number}: position {cached + i}", 10)
            if i >= fed - logits:
                p.line([(652, at + 6.5), (698, at + 6.5)], strong, 1.2, tip=True)
                p.box(700, at, 76, height - 2, pale, stroke=strong)
                p.text(738, at + 10.5, f"row {number}", 10)
        row += fed
    p.text(24, 390, "Step 3 of the run below. Rows of rounds come first, so the logits of rounds begin at row 0.", 12,
           "start", SOFT)
    p.write("06_ragged.svg")


def fed_words(fed, logits):
    if logits == 0:
        return f"{fed} tokens of the prompt"
    return "the pending token" if fed == 1 else f"the pending token, {fed - 1} drafts"


# --- the timeline ---

class Timeline:
    """A lane for each request, in the order of arrival; time goes to the right."""
    LEFT, RIGHT, TOP, LANE, CELL = 112, 784, 74, 44, 5

    def __init__(self, trace):
        self.trace, self.steps, self.requests = trace, trace["steps"], trace["requests"]
        self.end = max(r["finished"] for r in self.requests)
        self.lane_of = {r["request"]: i for i, r in enumerate(self.requests)}
        self.bottom = self.TOP + self.LANE * len(self.requests)
        self.p = Picture(800, self.bottom + 156, "A timeline of eight requests in one engine")

    def x(self, ms):
        return self.LEFT + (self.RIGHT - self.LEFT) * ms / self.end

    def floor(self, request):
        """The line that a lane's bars stand on."""
        return self.TOP + self.LANE * (self.lane_of[request] + 1) - 8

    def rect(self, x, y, width, height, fill, stroke, line=0.8):
        self.p.parts.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.8):.2f}" height="{height:.2f}" '
                            f'fill="{fill}" stroke="{stroke}" stroke-width="{line}"/>')

    def draw(self):
        self.legend()
        self.scale()
        for request in self.requests:
            self.lane(request)
        for step in self.steps:
            for request, tokens in step["prefills"]:
                self.prefill(step, request, tokens)
            for request, drafted, accepted, emitted in step["rounds"]:
                self.round(self.span(step), self.floor(request), drafted, accepted, emitted)
        for step in self.steps:
            for request in step["preempted"]:
                self.preemption(step, request)
        self.pages()
        self.p.write("06_timeline.svg")

    def span(self, step):
        """Left and right of a step's bars."""
        left, right = self.x(step["started"]), self.x(step["ended"])
        gap = min(0.8, (right - left) / 6)
        return left + gap, right - gap

    def admissions(self, request):
        """(admitted, until it was put out or finished) of a request, in time."""
        stays = []
        for step in self.steps:
            if any(a["request"] == request for a in step["admitted"]):
                stays.append([step["started"], None])
            if request in step["preempted"]:
                stays[-1][1] = step["started"]
            if request in step["finished"]:
                stays[-1][1] = step["ended"]
        return stays

    def lane(self, request):
        """Thin and dashed while it waits; a line to stand on while it is admitted; its arrival and its end."""
        number, y = request["request"], self.floor(request["request"])
        self.p.text(self.LEFT - 14, y - 10, request["id"], 12, "end")
        self.p.text(self.LEFT - 14, y + 4, f"{request['prompt_tokens']} + {request['tokens']} tokens", 10, "end", SOFT)
        since = request["arrived"]
        for admitted, until in self.admissions(number):
            self.p.line([(self.x(since), y), (self.x(admitted), y)], SOFT, 1, dashed=True)
            self.p.line([(self.x(admitted), y), (self.x(until), y)], FAINT, 1.5)
            since = until
        draw_mark(self.p, self.x(request["arrived"]), y + 3.5, "up", INK, filled=True, size=3.5)
        x = self.x(request["finished"])
        self.p.line([(x, y - 9), (x, y + 5)], INK, 2.5)

    def prefill(self, step, request, tokens):
        left, right = self.span(step)
        height = 3 * self.CELL
        self.rect(left, self.floor(request) - height, right - left, height, PALE_YELLOW, OCHRE)
        if right - left > 13:
            self.p.text((left + right) / 2, self.floor(request) - 4, str(tokens), 9, colour=OCHRE)

    def round(self, span, floor, drafted, accepted, emitted):
        """A column: accepted drafts from below, the target's own token on them, a rejected draft on top."""
        (left, right), cell = span, self.CELL
        height = cell * (drafted + 1)
        self.rect(left, floor - height, right - left, height, GROUND, FAINT, 0.5)
        parts = [(GREEN, GREEN)] * min(accepted, emitted) + [(BLUE, BLUE)] * (emitted > accepted)
        if emitted > accepted and accepted < drafted:
            parts.append((GROUND, RED))
        for i, (fill, stroke) in enumerate(parts):
            self.rect(left + 0.5, floor - cell * (i + 1) + 0.8, right - left - 1, cell - 1.6, fill, stroke)

    def preemption(self, step, request):
        x, y = self.x(step["started"]), self.floor(request)
        for dy in (-5, 5):
            self.p.line([(x - 5, y - 12 + dy), (x + 5, y - 12 - dy)], RED, 2.5)
        back = next(admitted for admitted, _ in self.admissions(request) if admitted > step["started"])
        self.p.line([(x, y), (self.x(back), y)], RED, 2)
        self.p.line([(self.x(back) - 1, y - 22), (self.x(back) - 1, y + 3)], RED, 1.5)
        self.p.text(x + 6, y + 12, "preempted", 11, "end", RED)
        self.p.text(self.x(back) + 4, y + 12, "back: computed anew", 11, "start", RED)

    def scale(self):
        unit = next(u for u in (5, 10, 20, 50, 100, 200, 500) if self.end / u <= 12)
        for i in range(int(self.end / unit) + 1):
            x = self.x(i * unit)
            self.p.line([(x, self.TOP - 4), (x, self.bottom + 84)], "#e9ecee", 1)
            self.p.text(x, self.bottom + 100, f"{i * unit} ms" if i == 0 else str(i * unit), 11, colour=SOFT)

    def pages(self):
        """How full the target's pool is, step by step."""
        top, bottom, most = self.bottom + 24, self.bottom + 78, self.trace["pages"]
        y = lambda pages: bottom - (bottom - top) * pages / most
        self.p.text(self.LEFT - 14, top + 4, f"{most} pages", 12, "end")
        self.p.text(self.LEFT - 14, top + 19, "in use", 10, "end", SOFT)
        self.p.line([(self.LEFT, top), (self.RIGHT, top)], RED, 1, dashed=True)
        points, before = [(self.x(0), y(0))], 0
        for step in self.steps:
            left, right, most_here = self.x(step["started"]), self.x(step["ended"]), step["most_pages"]
            points += [(left, y(before)), (left, y(most_here)), (right, y(most_here)), (right, y(step["pages"]))]
            before = step["pages"]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in [*points, (points[-1][0], bottom)])
        self.p.parts.append(f'<path d="M{path}Z" fill="{PALE_BLUE}" stroke="{BLUE}" stroke-width="1"/>')
        self.p.text(self.LEFT, self.bottom + 126, "A real run of the embedded pair, at most 4 requests at a time, "
                    f"K = {self.trace['spec_length']}. Bars above each", 12, "start", SOFT)
        self.p.text(self.LEFT, self.bottom + 142, "other are one step: one pass of the target for all of them.", 12,
                    "start", SOFT)

    def legend(self):
        p = self.p
        draw_mark(p, 24, 22, "up", INK, filled=True, size=3.5)
        p.text(34, 26, "arrives", 12, "start")
        p.line([(92, 22), (122, 22)], SOFT, 1, dashed=True)
        p.text(128, 26, "waits", 12, "start")
        self.rect(180, 15, 20, 3 * self.CELL, PALE_YELLOW, OCHRE)
        p.text(190, 26, "32", 9, colour=OCHRE)
        p.text(206, 26, "tokens of the prompt", 12, "start")
        p.line([(346, 14), (346, 29)], INK, 2.5)
        p.text(354, 26, "ends", 12, "start")
        self.round((404, 420), 40, 5, 3, 4)
        for x, y, fill, stroke, words in ((438, 18, GREEN, GREEN, "accepted draft"),
                                          (560, 18, BLUE, BLUE, "target's own token"),
                                          (438, 38, GROUND, RED, "rejected draft"),
                                          (560, 38, GROUND, FAINT, "draft that was not tested")):
            self.rect(x, y - 2, 14, self.CELL, fill, stroke)
            p.text(x + 20, y + 5, words, 12, "start")
        p.text(24, 48, "Each bar is a round. Its drafts are drawn from below.", 12, "start", SOFT)


# --- the sweep ---

def nice_marks(most):
    """From 0 to just above `most`, at most eight steps."""
    unit = next(u for u in (0.25, 0.5, 1, 2, 5) if most / u <= 7)
    return [i * unit for i in range(math.ceil(most / unit) + 1)]


def panel(p, left, part, title, predicted):
    """Speedup against B."""
    settings = [e for e in part["settings"] if e["spec_length"] in DRAWN_K]
    batches = sorted({e["batch"] for e in settings})
    most = max(max(e["measured"], e[predicted]) for e in settings)
    axes = Axes(p, left, 74, left + 300, 320, [math.log2(b) for b in batches], nice_marks(most),
                x_name=lambda x: str(round(2 ** x)))
    axes.titles(title, "B, requests in a batch")
    axes.curve([(axes.x0, 1), (axes.x1, 1)], INK, 1.5)
    for K, (shape, colour) in DRAWN_K.items():
        row = sorted((e for e in settings if e["spec_length"] == K), key=lambda e: e["batch"])
        axes.curve([(math.log2(e["batch"]), e[predicted]) for e in row], colour, 1, dashed=True)
        axes.curve([(math.log2(e["batch"]), e["measured"]) for e in row], colour, 2)
        for e in row:
            axes.mark(math.log2(e["batch"]), e["measured"], shape, colour)


def sweep(results):
    p = Picture(760, 420, "Speedup against the size of the batch")
    p.text(50, 30, "Speedup over a batch without speculation", 14, "start", bold=True)
    panel(p, 50, results["pair"], f"embedded pair, {size(results['pair'])}", "formula")
    panel(p, 430, results["memory"], f"random weights, {size(results['memory'])}, every draft right", "formula")
    legend(p, 390)
    p.write("06_sweep.svg")


def legend(p, y):
    for i, (K, (shape, colour)) in enumerate(DRAWN_K.items()):
        x = 50 + 88 * i
        p.line([(x, y), (x + 26, y)], colour, 2)
        draw_mark(p, x + 13, y, shape, colour)
        p.text(x + 32, y + 4, f"K = {K}", 12, "start")
    p.line([(430, y), (456, y)], INK, 1, dashed=True)
    p.text(462, y + 4, "by formula, with the measured alpha, c and v", 12, "start")


def size(part):
    return f"{part['target_weight_bytes'] / 1e6:.0f} MB"


def rows(results):
    """What a pass of the target costs, by its rows."""
    p = Picture(760, 430, "Time of a pass of the target against its rows")
    curves = {name: passes(results[name]) for name in ("pair", "memory")}
    most = math.ceil(math.log2(max(time for curve in curves.values() for _, time in curve)))
    axes = Axes(p, 60, 54, 560, 360, list(range(10)), list(range(most + 1)), lambda x: str(2 ** x),
                lambda y: str(2 ** y))
    axes.titles("a pass over r rows, in passes over one row", "r = B (K + 1), rows")
    corner = min(axes.x1, axes.y1)
    axes.curve([(0, 0), (corner, corner)], SOFT, 1, dashed=True)
    for name, shape, colour in (("pair", "circle", BLUE), ("memory", "square", RED)):
        points = [(math.log2(r), max(0, math.log2(time))) for r, time in curves[name]]
        axes.curve(points, colour, 1.5)
        for x, y in points:
            axes.mark(x, y, shape, colour)
    for y, name, shape, colour, words in ((110, "pair", "circle", BLUE, "embedded target"),
                                          (150, "memory", "square", RED, "random weights")):
        draw_mark(p, 586, y, shape, colour)
        p.text(600, y + 4, words, 12, "start")
        p.text(600, y + 19, size(results[name]), 11, "start", SOFT)
    p.text(60, 420, "Flat: rows are free, the weights are what is waited for. Along the dashes: each row costs a pass.",
           12, "start", SOFT)
    p.write("06_rows.svg")


def passes(part):
    """(rows, time over that of one row): means over the settings with as many rows, but for the ends of texts, where
    requests draft less."""
    groups = {}
    for e in part["settings"]:
        groups.setdefault(e["batch"] * (e["spec_length"] + 1), []).append((e["rows"], e["verify_ms"]))
    means = [tuple(statistics.mean(column) for column in zip(*groups[rows])) for rows in sorted(groups)]
    return [(rows, time / means[0][1]) for rows, time in means]


def main():
    read = lambda name: json.loads((EXPERIMENTS / name).read_text(encoding="utf-8"))
    ragged()
    Timeline(read("batch_trace.json")).draw()
    results = read("batch.json")
    sweep(results)
    rows(results)


if __name__ == "__main__":
    main()
