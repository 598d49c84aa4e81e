"""Draws the figures of single runs, for docs/theory/ and chapter 6, from docs/experiments/results.json and batch.json.
docs/experiments/tables.py writes them."""
import sys

from picture import (BLUE, BROWN, EXPERIMENTS, FAINT, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_PURPLE, PALE_RED,
                     PALE_YELLOW, PURPLE, Picture, RED, SOFT, read)

sys.path.insert(0, str(EXPERIMENTS))
import formulas  # noqa: E402

VERDICTS = {"accepted": (PALE_GREEN, GREEN), "rejected": (PALE_RED, RED), "not tested": (GROUND, "#aab4bd"),
            "correction": (PALE_BLUE, BLUE), "bonus": (PALE_PURPLE, PURPLE)}


# --- a run of speculative sampling ---

def token(p, x, y, words, verdict):
    """Returns where the next token begins."""
    shown = words.replace("\n", "⏎").replace(" ", "·")
    shown = shown if len(shown) <= 14 else shown[:13] + "…"
    width = 9 + 6.7 * len(shown)
    fill, stroke = VERDICTS[verdict]
    p.box(x, y, width, 20, fill, stroke, dashed=verdict == "not tested")
    if verdict in ("correction", "bonus"):  # a second frame says: the target's own token
        p.box(x + 2.5, y + 2.5, width - 5, 15, "none", stroke)
    p.text(x + width / 2, y + 14, shown, 11, mono=True, colour=SOFT if verdict == "not tested" else INK)
    if verdict == "rejected":
        p.line([(x + 3, y + 10), (x + width - 3, y + 10)], RED, 1.3)
    return x + width + 4


def rounds(drawn):
    """A line for each round."""
    height, top = 27, 74
    bottom = top + height * len(drawn["rounds"])
    p = Picture(720, bottom + 42, "A run of speculative sampling, round by round")
    x = 56
    for verdict in VERDICTS:
        x = token(p, x, 16, verdict, verdict) + 12
    p.note(18, 62, "round", 11)
    p.text(704, 62, "emitted", 11, "end", SOFT)
    for i, r in enumerate(drawn["rounds"]):
        x, y, number = 56, top + i * height, 0
        p.text(40, y + 14, str(i + 1), 11, "end", SOFT)
        tokens = sorted([*r["drafts"], *([r["last"]] if r["last"] else [])],
                        key=lambda one: ["accepted", "rejected", "correction", "bonus", "not tested"].index(one[1]))
        for words, verdict in tokens:
            x = token(p, x, y, words, verdict)
            number += verdict not in ("rejected", "not tested")
        p.text(696, y + 14, str(number), 11, "end", SOFT)
    p.note(18, bottom + 22, f"{drawn['tokens']} tokens in {len(drawn['rounds'])} passes of the target. Embedded pair, "
           f"prompt {drawn['prompt']}, K = {drawn['spec_length']}, temperature {drawn['temperature']}, seed {drawn['seed']}.")
    return p


# --- three ways to decode a text, on a time axis ---

def rect(p, x, y, width, height, fill, stroke, line):
    p.parts.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{fill}" stroke="{stroke}" '
                   f'stroke-width="{line}"/>')


def time_panel(p, data, top, title, unit, times_of):
    """times_of: of a round, drafting, verification and the rest."""
    p.note(20, top, title, 13, INK, bold=True)
    totals = [sum(sum(times_of(r)) for r in row["rounds"]) for row in data["rows"]]
    for i, (row, total) in enumerate(zip(data["rows"], totals)):
        y, x = top + 16 + i * 44, 74.0
        p.text(64, y + 19, row["name"], 12, "end")
        for r in row["rounds"]:
            pieces = (max(r["drafted"], 1), 1, 1)
            for time, count, style in zip(times_of(r), pieces, ((PALE_BLUE, BLUE), (PALE_PURPLE, PURPLE), (PALE_YELLOW, BROWN))):
                width = time * (570 / max(totals))
                for j in range(count if width > 0.05 else 0):
                    rect(p, x + j * width / count, y, width / count, 28, *style, 0.7)
                x += width
        p.note(x + 5, y + 19, unit(total), 11)


def timeline(data):
    """Rounds as blocks: on this machine, and with the costs of a real pair by bytes."""
    p = Picture(720, 400, "Rounds on a time axis")
    tokens, c = sum(r["emitted"] for r in data["rows"][0]["rounds"]), formulas.bytes_c("1B", "3B")
    time_panel(p, data, 28, f"Measured: {tokens} tokens of the embedded pair", lambda us: f"{us / 1000:.1f} ms",
               lambda r: (r["draft"], r["verify"], r["other"]))
    time_panel(p, data, 208, "The same rounds, if bytes decide: 1B drafts for 3B, in steps of the 3B", lambda s: f"{s:.1f}",
               lambda r: (r["drafted"] * c, 1.0, 0.0))
    p.boxes(374, [(74, PALE_BLUE, BLUE, "a draft step"), (190, PALE_PURPLE, PURPLE, "a pass of the target"),
                  (360, PALE_YELLOW, BROWN, "all else: choosing, rollback")])
    return p


# --- eight requests in one engine ---

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
        rect(self.p, x, f"{y:.2f}", max(width, 0.8), f"{height:.2f}", fill, stroke, line)

    def draw(self):
        self.legend()
        self.scale()
        for request in self.requests:
            self.lane(request)
        for step in self.steps:
            for request, tokens in step["prefills"]:
                self.prefill(step, request, tokens)
            for request, *counts in step["rounds"]:
                self.round(self.span(step), self.floor(request), *counts)
        for step in self.steps:
            for request in step["preempted"]:
                self.preemption(step, request)
        self.pages()
        return self.p

    def span(self, step):
        """Left and right of a step's bars."""
        left, right = self.x(step["started"]), self.x(step["ended"])
        gap = min(0.8, (right - left) / 6)
        return left + gap, right - gap

    def admissions(self, request):
        """(admitted, until it was preempted or finished) of a request, in time."""
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
        y, since = self.floor(request["request"]), request["arrived"]
        self.p.text(self.LEFT - 14, y - 10, request["id"], 12, "end")
        self.p.text(self.LEFT - 14, y + 4, f"{request['prompt_tokens']} + {request['tokens']} tokens", 10, "end", SOFT)
        for admitted, until in self.admissions(request["request"]):
            self.p.line([(self.x(since), y), (self.x(admitted), y)], SOFT, 1, dashed=True)
            self.p.line([(self.x(admitted), y), (self.x(until), y)], FAINT, 1.5)
            since = until
        self.p.mark(self.x(request["arrived"]), y + 3.5, "up", INK, filled=True, size=3.5)
        x = self.x(request["finished"])
        self.p.line([(x, y - 9), (x, y + 5)], INK, 2.5)

    def prefill(self, step, request, tokens):
        left, right = self.span(step)
        self.rect(left, self.floor(request) - 3 * self.CELL, right - left, 3 * self.CELL, PALE_YELLOW, BROWN)
        if right - left > 13:
            self.p.text((left + right) / 2, self.floor(request) - 4, str(tokens), 9, colour=BROWN)

    def round(self, span, floor, drafted, accepted, emitted):
        """A column: accepted drafts from below, the target's own token on them, a rejected draft on top."""
        (left, right), cell = span, self.CELL
        self.rect(left, floor - cell * (drafted + 1), right - left, cell * (drafted + 1), GROUND, FAINT, 0.5)
        parts = [(GREEN, GREEN)] * min(accepted, emitted) + [(BLUE, BLUE)] * (emitted > accepted)
        parts += [(GROUND, RED)] * (emitted > accepted and accepted < drafted)
        for i, style in enumerate(parts):
            self.rect(left + 0.5, floor - cell * (i + 1) + 0.8, right - left - 1, cell - 1.6, *style)

    def preemption(self, step, request):
        x, y = self.x(step["started"]), self.floor(request)
        for dy in (-5, 5):
            self.p.line([(x - 5, y - 12 + dy), (x + 5, y - 12 - dy)], RED, 2.5)
        back = self.x(next(admitted for admitted, _ in self.admissions(request) if admitted > step["started"]))
        self.p.line([(x, y), (back, y)], RED, 2)
        self.p.line([(back - 1, y - 22), (back - 1, y + 3)], RED, 1.5)
        self.p.text(x + 6, y + 12, "preempted", 11, "end", RED)
        self.p.note(back + 4, y + 12, "back: computed anew", 11, RED)

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
        self.p.note(self.LEFT, self.bottom + 126, "A real run of the embedded pair, at most 4 requests at a time, "
                    f"K = {self.trace['spec_length']}. Bars above each")
        self.p.note(self.LEFT, self.bottom + 142, "other are one step: one pass of the target for all of them.")

    def legend(self):
        p = self.p
        p.mark(24, 22, "up", INK, filled=True, size=3.5)
        p.note(34, 26, "arrives", colour=INK)
        p.line([(92, 22), (122, 22)], SOFT, 1, dashed=True)
        p.note(128, 26, "waits", colour=INK)
        self.rect(180, 15, 20, 3 * self.CELL, PALE_YELLOW, BROWN)
        p.text(190, 26, "32", 9, colour=BROWN)
        p.note(206, 26, "tokens of the prompt", colour=INK)
        p.line([(346, 14), (346, 29)], INK, 2.5)
        p.note(354, 26, "ends", colour=INK)
        self.round((404, 420), 40, 5, 3, 4)
        for x, y, fill, stroke, words in ((438, 18, GREEN, GREEN, "accepted draft"), (560, 18, BLUE, BLUE, "target's own token"),
                                          (438, 38, GROUND, RED, "rejected draft"),
                                          (560, 38, GROUND, FAINT, "draft that was not tested")):
            self.rect(x, y - 2, 14, self.CELL, fill, stroke)
            p.note(x + 20, y + 5, words, colour=INK)
        p.note(24, 48, "Each bar is a round. Its drafts are drawn from below.")


def drawn():
    """File name -> picture."""
    results = read("results.json")
    return {"theory_rounds": rounds(results["counts"]["rounds"]), "theory_timeline": timeline(results["times"]["timeline"]),
            "06_timeline": Timeline(read("batch.json")["trace"]).draw()}
