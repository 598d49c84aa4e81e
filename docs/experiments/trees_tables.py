"""The tables of docs/08_token_trees/ that are made from trees.json, and from the costs of adaptive.json."""
import json
import pathlib
import re

from table_text import TEXTS, Entries, Tables, number

TABLES = table = Tables()
HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = ["chain", "top", "best", "grow", "lookup"]


def shapes(data):
    """(name, entries) of the shapes: by family, then by the numbers in their names, levels first."""
    def order(entry):
        family = re.match(r"\w+", entry[0])[0]
        return FAMILIES.index(family), [int(digits) for digits in reversed(re.findall(r"\d+", entry[0]))]
    return sorted(Entries(data["shapes"]["entries"]).by("shape").items(), key=order)


def gain(entries, target_seconds, draft_seconds):
    """Plain decoding's seconds over those of the rounds; None where a pass has more rows than were timed.
    Both functions: rows -> seconds, None if unknown."""
    spent = [(n, seconds(rows)) for e in entries for of, seconds in (("target", target_seconds), ("draft", draft_seconds))
             for rows, n in e[f"{of}_passes"]]
    if any(seconds is None for _, seconds in spent):
        return None
    return entries.total("emitted") * target_seconds(1) / sum(n * seconds for n, seconds in spent)


def timed(costs):
    """The functions of gain() for a shape of adaptive.json."""
    def of(seconds):
        return lambda rows: seconds[rows - 1] if rows <= len(seconds) else None
    return of(costs["target_pass_seconds"]), of(costs["draft_pass_seconds"])


def free_rows(costs):
    """The same for a machine on which no row costs time: v = 1."""
    target, draft = costs["target_pass_seconds"][0], costs["draft_step_seconds"]
    return lambda rows: target, lambda rows: draft


def roofline(c, rows_at_once):
    """The same of a machine by its r*: passes of both models take longer in proportion from r* rows onwards."""
    return lambda rows: max(1, rows / rows_at_once), lambda rows: c * max(1, rows / rows_at_once)


def costs_of(shape):
    return json.loads((HERE / "adaptive.json").read_text(encoding="utf-8"))["costs"]["shapes"][shape]


@table
def trees_ranks(data):
    """How often the target goes on with each rank of the draft."""
    return "|".join(["", *(f"rank {rank}" for rank in range(1, 9))]), [
        [f"level {level + 1}", *(number(ranks[rank], 3) if rank < len(ranks) else "" for rank in range(8))]
        for level, ranks in enumerate(data["shapes"]["acceptance_by_rank"]) if len(ranks) > 1]


@table
def trees_shapes(data):
    """Shapes, what they emit, and what the sum over the nodes predicted."""
    expected = data["shapes"]["expected_accepted"]
    passes = lambda e: sum(n for one in e for _, n in one["draft_passes"]) / e.total("rounds")
    return "shape|nodes per round|draft passes per round|tokens per round|expected", [
        [name, number(e.ratio("nodes", "rounds"), 1), number(passes(e), 1), number(e.ratio("emitted", "rounds")),
         number(1 + expected[name]) if name in expected else ""] for name, e in shapes(data)]


@table
def trees_gain(data):
    """Gains by accounting, at the measured costs of 134m and where rows are free."""
    models = [of(costs_of(shape)) for shape in ("134m", "3b") for of in (timed, free_rows)]
    found = {name: [gain(shape, *model) for model in models] for name, shape in shapes(data)}
    best = [max(value for value in values if value is not None) for values in zip(*found.values())]

    def shown(value, of):
        return "not timed" if value is None else f"**{number(value)}**" if value == of else number(value)

    return "shape|134m, this CPU|134m, rows free|3B with 1B, this CPU|3B with 1B, rows free", [
        [name, *map(shown, values, best)] for name, values in found.items()]


def best_of(data, kind, model, of_family):
    """The largest gain of a family on a kind of text, and its shape."""
    found = [(gain(shape.of(text=kind), *model), name) for name, shape in shapes(data) if of_family(name)]
    value, name = max(entry for entry in found if entry[0] is not None)
    return f"{number(value)} ({name.replace('chain of ', 'K = ')})"


@table
def trees_kinds(data):
    """The best chain and the best tree of each kind of text."""
    families = (lambda name: name.startswith("chain"), lambda name: not name.startswith(("chain", "lookup")))
    models = (timed(costs_of("134m")), free_rows(costs_of("134m")))
    return "text|best chain, this CPU|best tree, this CPU|best chain, rows free|best tree, rows free", [
        [kind, *(best_of(data, kind, model, family) for model in models for family in families)] for kind in TEXTS]


@table
def trees_clock(data):
    """What trees gain over the chain of three by the clock, and what the accounting says of it."""
    accounting = {name: gain(shape, *timed(costs_of("134m"))) for name, shape in shapes(data)}
    rows = [[tree, *(number(found.of(text=kind)[0]["gain"]) for kind in TEXTS), f"**{number(found.speedup())}**",
             number(accounting[tree] / accounting["chain of 3"]) if tree in accounting else ""]
            for tree, found in Entries(data["clock"]["entries"]).by("tree").items()]
    return "|".join(["tree", *TEXTS, "all", "accounting"]), rows


def golden_figures(name):
    return json.loads((HERE.parents[1] / "golden" / "figures" / name).read_text(encoding="utf-8"))


@table
def trees_coverage(_data):
    """Of golden/compare_several.py: means over the kinds of text."""
    def mean(kinds, measure):
        return number(sum(kind[measure] for kind in kinds.values()) / len(kinds), 3)

    return "what drafts|greedy: a draft is right|temperature 1: a trial is accepted", [
        [way, mean(found["kinds"], "coverage"), mean(found["kinds"], "accepted")]
        for way, found in golden_figures("several.json")["ways"].items()]


TARGET_BYTES = 9_240_576  # of the embedded target's matrices, in bf16


@table
def trees_several(data):
    """Tokens per round of one and several draft models, and the gain by accounting: four levels, drafts that cost what they
    read, rows that cost nothing."""
    def cells(way, temperature):
        tokens = found[way, temperature].ratio("emitted", "rounds")
        return number(tokens), number(tokens / (1 + 4 * read[way]))

    found = Entries(data["several"]["entries"]).by("way", "temperature")
    read = {way: bytes_read / TARGET_BYTES for way, bytes_read in data["several"]["weight_bytes"].items()}
    return "what drafts|c by bytes|greedy: tokens per round|gain|temperature 1: tokens per round|gain", [
        [way, number(c, 3), *cells(way, 0), *cells(way, 1)] for way, c in read.items()]


@table
def trees_rules(data):
    """Tokens per round of each rule for siblings, with sampling at temperature 1."""
    ways = ["one chain", "three chains", "three, distinct", "three, likeliest"]
    names = ["rejection", "at-least", "non-iterative", "sample-and-match", "coupled", "k-sequential", "block"]
    found = Entries(data["rules"]["entries"]).by("rule", "way")
    return "|".join(["rule", *ways]), [
        [f"`{name}`", *(number(found[name, way].ratio("emitted", "rounds")) if (name, way) in found else "" for way in ways)]
        for name in names]
