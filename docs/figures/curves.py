"""Draws the figures of docs/theory/ and of chapters 6 to 8 that are curves or points, from the formulas and from the files
of results in docs/experiments/. docs/experiments/tables.py writes them."""
import math
import re
import statistics
import sys

from picture import (Axes, BLUE, COLOURS, EXPERIMENTS, GREEN, INK, Picture, PURPLE, RED, SOFT, read)

sys.path.insert(0, str(EXPERIMENTS))
import formulas  # noqa: E402
from adaptive_tables import ESTIMATORS, PAIRS, bins, counted, gain  # noqa: E402
from rules_tables import best_gain, drafts_of_fewer_bits  # noqa: E402
from self_drafting_tables import by_position  # noqa: E402
from table_text import TEXTS, Entries  # noqa: E402

ALPHAS = [i / 100 for i in range(101)]
FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]


# --- theory ---

def emitted(results):
    """Equation (1), and measured rounds beside it."""
    p = Picture(720, 470, "Tokens per round against alpha")
    axes = Axes(p, 60, 50, 520, 390, FIFTHS, list(range(1, 12)))
    axes.titles("tokens per round, E[emitted]", "alpha = accepted / tested")
    styles = dict(zip((1, 2, 3, 5, 8), zip(("up", "diamond", "square", "circle", "down"), COLOURS)))
    for K, (shape, colour) in styles.items():
        axes.curve([(a, formulas.emitted(a, K)) for a in ALPHAS], colour)
        p.note(556, axes.y(K + 1) + 4, f"K = {K}", colour=colour)
        p.mark(542, axes.y(K + 1), shape, colour)
    axes.curve([(a, 1 / (1 - a)) for a in ALPHAS[:-1]], INK, 1.5, dashed=True)
    p.note(538, axes.y(10.5), "1 / (1 - alpha)", colour=INK)
    points = [(5, e) for e in results["counts"]["alpha"]
              if e["text"] != "all" and e["draft"] in ("llama", "unigram", "bigram")]
    for K, e in points + [(e["K"], e) for e in results["counts"]["spec_length"]]:
        if e["whole_rounds"] >= 20:
            axes.mark(e["whole_accepted"] / e["whole_tested"], e["whole_emitted_per_round"], *styles[K])
    p.note(60, 446, "Curves: equation (1). Points: rounds of the embedded pair, but the last of each run. At K = 5 one")
    p.note(60, 462, "for each kind of text, draft and temperature; at other K, all texts together.")
    return p


def positions(results):
    """accepted_per_position against the powers of alpha, for some kinds of text."""
    p = Picture(720, 420, "How many rounds accept more than i drafts: measured, and by independence")
    entries = {(e["draft"], e["T"], e["text"]): e for e in results["counts"]["alpha"]}
    left = Axes(p, 50, 60, 340, 340, list(range(6)), FIFTHS)
    left.titles("rounds that accept at least i drafts", "i")
    right = Axes(p, 400, 60, 690, 340, list(range(6)), FIFTHS)
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
        p.legend(66 + i * 110, 400, [(text, shape, colour)], filled=True, gap=12)
    p.note(510, 404, "dashed: alpha to the i, and alpha")
    return p


# --- chapter 6 ---

DRAWN_K = {1: ("up", COLOURS[0]), 3: ("square", COLOURS[1]), 5: ("circle", COLOURS[2]), 8: ("down", COLOURS[3])}


def size(part):
    return f"{part['target_weight_bytes'] / 1e6:.0f} MB"


def against_batch(p, left, part, title):
    """Speedup against B."""
    settings = [e for e in part["entries"] if e["K"] in DRAWN_K]
    most = max(max(e["gain"], e["formula"]) for e in settings)
    unit = next(u for u in (0.25, 0.5, 1, 2, 5) if most / u <= 7)
    axes = Axes(p, left, 74, left + 300, 320, [math.log2(b) for b in sorted({e["B"] for e in settings})],
                [i * unit for i in range(math.ceil(most / unit) + 1)], x_name=lambda x: str(round(2 ** x)))
    axes.titles(title, "B, requests in a batch")
    axes.level(1, INK, 1.5)
    for K, style in DRAWN_K.items():
        row = sorted((e for e in settings if e["K"] == K), key=lambda e: e["B"])
        axes.curve([(math.log2(e["B"]), e["formula"]) for e in row], style[1], 1, dashed=True)
        axes.series([(math.log2(e["B"]), e["gain"]) for e in row], *style)


def sweep(results):
    p = Picture(760, 420, "Speedup against the size of the batch")
    p.note(50, 30, "Speedup over a batch without speculation", 14, INK, bold=True)
    against_batch(p, 50, results["pair"], f"embedded pair, {size(results['pair'])}")
    against_batch(p, 430, results["memory"], f"random weights, {size(results['memory'])}, every draft right")
    for i, (K, (shape, colour)) in enumerate(DRAWN_K.items()):
        x = 50 + 88 * i
        p.line([(x, 390), (x + 26, 390)], colour, 2)
        p.legend(x + 13, 390, [(f"K = {K}", shape, colour)], gap=19)
    p.line([(430, 390), (456, 390)], INK, 1, dashed=True)
    p.note(462, 394, "by formula, with the measured alpha, c and v", colour=INK)
    return p


def passes(part):
    """(rows, time over that of one row): means over the settings with as many rows, but for the ends of texts, where
    requests draft less."""
    groups = {}
    for e in part["entries"]:
        groups.setdefault(e["B"] * (e["K"] + 1), []).append((e["rows"], e["verify_ms"]))
    means = [tuple(statistics.mean(column) for column in zip(*groups[rows])) for rows in sorted(groups)]
    return [(rows, time / means[0][1]) for rows, time in means]


def rows(results):
    """What a pass of the target costs, by its rows."""
    p = Picture(760, 430, "Time of a pass of the target against its rows")
    curves = {name: passes(results[name]) for name in ("pair", "memory")}
    most = math.ceil(math.log2(max(time for curve in curves.values() for _, time in curve)))
    axes = Axes(p, 60, 54, 560, 360, list(range(10)), list(range(most + 1)), lambda x: str(2 ** x), lambda y: str(2 ** y))
    axes.titles("a pass over r rows, in passes over one row", "r = B (K + 1), rows")
    corner = min(axes.x1, axes.y1)
    axes.curve([(0, 0), (corner, corner)], SOFT, 1, dashed=True)
    styles = (("pair", "embedded target", "circle", BLUE), ("memory", "random weights", "square", RED))
    for name, _, *style in styles:
        axes.series([(math.log2(r), max(0, math.log2(time))) for r, time in curves[name]], *style, 1.5)
    for y, (name, *style) in zip((110, 150), styles):
        p.legend(586, y, [style])
        p.note(600, y + 19, size(results[name]), 11)
    p.note(60, 420, "Flat: rows are free, the pass waits for the weights. Along the dashes: each row costs a pass.")
    return p


# --- chapter 7 ---

DRAFTERS = [("fixed 3", "K = 3", "square", SOFT), ("gain", "gain", "circle", BLUE),
            ("confidence", "confidence", "up", PURPLE), ("lookup, else model", "lookup, else model", "diamond", GREEN),
            ("bigram below", "bigram below", "down", RED)]


def by_text(p, left, shape, ways):
    """Gains on each kind of text, with the oracle's line above them."""
    gains = {name: {kind: gain(ways[name].of(text=kind)) for kind in TEXTS} for name in [*(name for name, *_ in DRAFTERS), "oracle"]}
    top = math.ceil(2 * max(max(of_texts.values()) for of_texts in gains.values())) / 2
    axes = Axes(p, left, 74, left + 310, 330, [-0.5, len(TEXTS) - 0.5], [i / 2 for i in range(round(2 * top) + 1)],
                lambda x: "", lambda y: f"{y:g}")
    axes.titles(f"speedup over plain decoding, {PAIRS[shape]}", "")
    axes.level(1)
    for i, kind in enumerate(TEXTS):
        best = gains["oracle"][kind]
        axes.curve([(i - 0.45, best), (i + 0.45, best)], INK, 2.5)
        for n, (name, _, *style) in enumerate(DRAFTERS):
            axes.mark(i + 0.15 * (n - 2), gains[name][kind], *style)
        p.text(axes.x(i), axes.bottom + (16 if i % 2 == 0 else 31), kind, 11)


def what_it_gains(data):
    p = Picture(760, 430, "Speedup of ways to draft on eight kinds of text, with the oracle's line")
    p.note(50, 30, "Each mark is a way to draft, each line the oracle of the draft model", 14, INK, bold=True)
    for left, shape in ((50, "134m"), (430, "3b")):
        by_text(p, left, shape, counted(data, shape=shape).by("way"))
    x = 50
    for _, words, *style in DRAFTERS:
        p.legend(x + 5, 396, [(words, *style)], gap=11)
        x += 44 + 7 * len(words)
    p.line([(x, 396), (x + 20, 396)], INK, 2.5)
    p.note(x + 26, 400, "oracle", colour=INK)
    return p


ESTIMATE_STYLES = dict(zip(ESTIMATORS, (("circle", BLUE), ("up", PURPLE), ("square", SOFT))))


def reliability(p, left, part, T, title):
    """The share that was accepted, against the estimate."""
    axes = Axes(p, left, 74, left + 290, 364, FIFTHS, FIFTHS)
    axes.titles(title, "estimate")
    axes.curve([(0, 0), (1, 1)], SOFT, 1, dashed=True)
    entries = Entries(part["entries"]).of(way="full", T=T)
    for name, style in ESTIMATE_STYLES.items():
        axes.series([(total / places, accepted / places) for places, accepted, total in bins(entries, name) if places >= 30], *style)


def what_estimates_are_worth(data):
    p = Picture(760, 440, "Share of drafts that are accepted against the estimate, for three estimates")
    p.note(50, 30, "Accepted drafts against what was estimated before the draw, T = 0", 14, INK, bold=True)
    reliability(p, 50, data["survival"], 0, "accepted, embedded pair")
    reliability(p, 430, data["survival-real"], 0, "accepted, SmolLM2 with EAGLE-3 heads")
    for x, (name, style) in zip((60, 260, 440), ESTIMATE_STYLES.items()):
        p.legend(x, 422, [(ESTIMATORS[name], *style)])
    p.note(560, 426, "bins with 30 places or more")
    return p


# --- chapter 8 ---

def emitted_against_nodes(data):
    shapes = Entries(data["shapes"]["entries"]).by("shape")
    p = Picture(760, 420, "Tokens per round against nodes per round, for chains and trees")
    p.note(50, 30, "Tokens that a greedy round emits, all kinds of text of the embedded pair", 14, INK, bold=True)
    axes = Axes(p, 70, 60, 560, 340, list(range(7)), list(range(8)), lambda power: f"{2 ** power}")
    axes.titles("", "nodes per round")

    def points(names):
        return [(math.log2(shape.ratio("nodes", "rounds")), shape.ratio("emitted", "rounds")) for shape in map(shapes.get, names)]

    def of(levels, family):
        names = [name for name in shapes if re.fullmatch(rf"{family}:\d+ of {levels}", name)]
        return points([f"chain of {levels}", *sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0]))])

    for levels in (3, 5, 10):
        axes.series(of(levels, "best"), "circle", BLUE)
        axes.series(of(levels, "grow"), "up", RED)
        x, y = of(levels, "grow")[-1]
        p.note(axes.x(x) + 10, axes.y(y) + 4, f"{levels} levels", 11)
    axes.series(points([f"chain of {levels}" for levels in (1, 2, 3, 4, 5, 6, 8, 10)]), "square", INK)
    p.legend(640, 86, [("chains", "square", INK), ("best trees", "circle", BLUE), ("grown trees", "up", RED)])
    return p


# --- chapter 9 ---

def by_drafter(data):
    """Alpha by position, of drafters that are told their drafts, and of drafters that are not."""
    p = Picture(720, 424, "Alpha by position: drafts made one after another, and at once")
    sides = [(50, "one after another", ["draft model", "MTP", "EAGLE-3", "EAGLE"]),
             (400, "all at once", ["parallel, corrected", "parallel", "blockwise", "look-ahead"])]
    styles = [("circle", COLOURS[0]), ("square", COLOURS[1]), ("up", COLOURS[2]), ("diamond", COLOURS[3])]
    for left, words, names in sides:
        axes = Axes(p, left, 60, left + 290, 320, list(range(1, 6)), FIFTHS)
        axes.titles(f"alpha, {words}", "position of the draft")
        for name, style in zip(names, styles):
            entries = Entries(data["positions"]["entries"]).of(drafter=name)
            tested, accepted = (by_position(entries, counter) for counter in ("tested", "accepted"))
            points = [(i + 1, accepted.get(i, 0) / tested[i]) for i in sorted(tested)]
            axes.curve(points, style[1], 1.5)
            for point in points:
                axes.mark(*point, *style, filled=True)
        for i, (name, style) in enumerate(zip(names, styles)):
            p.legend(left + 6 + 150 * (i % 2), 380 + 18 * (i // 2), [(name, *style)], filled=True, gap=12)
    return p


def of_users(results):
    """Tokens per second and user against those of the batch."""
    p = Picture(760, 420, "Tokens per second and user against throughput")
    styles = {"none": ("circle", INK), "K = 1": ("square", GREEN), "K = 3": ("up", PURPLE), "auto": ("diamond", RED)}
    for left, (name, title) in zip((60, 440), (("pair", "134m with 14m"), ("real", "SmolLM2 with EAGLE-3"))):
        entries = results[name]["entries"]
        steps = lambda values: [i * next(u for u in (5, 10, 20, 50, 100, 200, 400) if max(values) / u <= 6) for i in range(8)]
        fits = lambda values: [v for i, v in enumerate(steps(values)) if i == 0 or steps(values)[i - 1] < max(values)]
        axes = Axes(p, left, 60, left + 290, 320, fits([e["tokens_per_second"] for e in entries]),
                    fits([e["tokens_per_second"] / e["B"] for e in entries]))
        axes.titles(f"tokens/s of each user, {title}", "tokens/s of the batch")
        for way, style in styles.items():
            axes.series([(e["tokens_per_second"], e["tokens_per_second"] / e["B"]) for e in entries if e["way"] == way], *style)
    p.legend(60, 390, [({"none": "no speculation", "auto": "budget"}.get(way, way), *style) for way, style in styles.items()], step=(150, 0))
    return p


def rounded(data):
    """Alpha against the bytes of drafts, over lines of equal speedup at the best K."""
    p = Picture(720, 420, "Drafts of fewer bits: what they read, and what is accepted")
    axes = Axes(p, 60, 60, 560, 350, FIFTHS[:4], [0.5, 0.6, 0.7, 0.8, 0.9, 1])
    axes.titles("alpha, K = 5", "bytes that a pass of the draft reads, of the target's")

    def alpha_of(speedup, c):
        return next((a / 500 for a in range(250, 500)
                     if max(formulas.walltime_factor(a / 500, K, c) for K in range(1, 40)) >= speedup), None)
    for speedup in (1.25, 1.5, 2, 3):
        points = [(c / 100, a) for c in range(1, 61) if (a := alpha_of(speedup, c / 100)) is not None and a > 0.5]
        axes.curve(points, SOFT, 1.5, dashed=True)
        p.note(axes.x(points[-1][0]) + 6, axes.y(points[-1][1]) + 4, f"{speedup:g}", 11)
    shapes = {"bf16": "square", "int8": "circle", "q4": "up"}
    drafts = drafts_of_fewer_bits(data)
    for name, c, by_K in drafts:
        bits = name.rpartition(" ")[2]
        axes.mark(c, by_K[5].ratio("accepted", "tested"), shapes[bits], BLUE if "embedded" in name else RED)
    speedup, c, alpha = max((best_gain(c, by_K)[1], c, by_K[5].ratio("accepted", "tested")) for _, c, by_K in drafts)
    p.note(axes.x(c), axes.y(alpha) + 20, f"best: {speedup:.2f}", 11, BLUE, bold=True)
    p.legend(588, 160, [*((bits, shape, INK) for bits, shape in shapes.items()), ("embedded draft", "square", BLUE), ("target itself", "circle", RED)])
    p.note(60, 410, "Dashed: equal speedups by the formula, at the best K, with v = 1 and c the share of bytes.")
    return p


def drawn():
    """File name -> picture."""
    results, batches = read("results.json"), read("batch.json")
    measured = {"07_rows": of_users(read("rows.json"))} if (EXPERIMENTS / "rows.json").is_file() else {}
    return {**measured, "theory_emitted": emitted(results), "theory_positions": positions(results), "06_sweep": sweep(batches), "06_rows": rows(batches),
            "07_what_it_gains": what_it_gains(read("adaptive.json")),
            "07_estimates": what_estimates_are_worth(read("adaptive.json")), "08_tokens_per_round": emitted_against_nodes(read("trees.json")),
            "09_alpha_by_position": by_drafter(read("self_drafting.json")),
            "kernels_rounded": rounded(read("rules.json"))}
