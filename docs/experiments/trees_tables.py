"""The tables of docs/08_token_trees/ that are made from trees.json, and from the costs of adaptive.json."""
import json
import pathlib
import re

from table_text import markdown, number, speedup_by_time

TABLES = {}
HERE = pathlib.Path(__file__).resolve().parent
KINDS = ["arithmetic", "dialogue", "code", "rewriting", "recipes", "stories", "questions", "poems"]


def table(make):
    TABLES[make.__name__.replace("_", "-")] = make
    return make


FAMILIES = ["chain", "top", "best", "grow", "lookup"]


def shapes(data):
    """(name, counts) of the shapes: by family, then by the numbers in their names, levels first."""
    def order(entry):
        family = re.match(r"\w+", entry[0])[0]
        return FAMILIES.index(family), [int(digits) for digits in reversed(re.findall(r"\d+", entry[0]))]
    return sorted(data["shapes"].items(), key=order)


def total(shape, key):
    return sum(kind[key] for kind in shape["kinds"].values())


def emitted_per_round(shape):
    return total(shape, "emitted") / total(shape, "rounds")


def nodes_per_round(shape):
    return total(shape, "nodes") / total(shape, "rounds")


def passes(kind, of):
    """(rows, how many passes) of the target or the draft model."""
    return kind[f"{of}_passes"]


def draft_passes_per_round(shape):
    return sum(n for kind in shape["kinds"].values() for _, n in passes(kind, "draft")) / total(shape, "rounds")


def gain(kinds, target_seconds, draft_seconds):
    """Plain decoding's seconds over those of the rounds; None where a pass has more rows than were timed.
    Both functions: rows -> seconds, None if unknown."""
    spent = [(n, seconds(rows)) for kind in kinds for of, seconds in (("target", target_seconds), ("draft", draft_seconds))
             for rows, n in passes(kind, of)]
    if any(seconds is None for _, seconds in spent):
        return None
    return sum(kind["emitted"] for kind in kinds) * target_seconds(1) / sum(n * seconds for n, seconds in spent)


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
    rows = [[f"level {level + 1}", *(number(ranks[rank], 3) if rank < len(ranks) else "" for rank in range(8))]
            for level, ranks in enumerate(data["acceptance_by_rank"]) if len(ranks) > 1]
    return markdown(["", *(f"rank {rank}" for rank in range(1, 9))], rows)


@table
def trees_shapes(data):
    """Shapes, what they emit, and what the sum over the nodes predicted."""
    rows = []
    for name, shape in shapes(data):
        expected = shape.get("expected_accepted")
        rows.append([name, number(nodes_per_round(shape), 1), number(draft_passes_per_round(shape), 1),
                     number(emitted_per_round(shape)), number(1 + expected) if expected is not None else ""])
    return markdown(["shape", "nodes per round", "draft passes per round", "tokens per round", "expected"], rows)


def gains(data, models):
    every = {name: list(shape["kinds"].values()) for name, shape in shapes(data)}
    return {name: [gain(kinds, *model) for model in models] for name, kinds in every.items()}


@table
def trees_gain(data):
    """Gains by accounting, at the measured costs of 134m and where rows are free."""
    models = [timed(costs_of("134m")), free_rows(costs_of("134m")), timed(costs_of("3b")), free_rows(costs_of("3b"))]
    found = gains(data, models)
    best = [max(values[i] for values in found.values() if values[i] is not None) for i in range(len(models))]

    def shown(value, of):
        return "not timed" if value is None else f"**{number(value)}**" if value == of else number(value)

    rows = [[name, *(shown(value, of) for value, of in zip(values, best))] for name, values in found.items()]
    return markdown(["shape", "134m, this CPU", "134m, rows free", "3B with 1B, this CPU", "3B with 1B, rows free"], rows)


def best_of(data, kind, model, of_family):
    """The largest gain of a family on a kind of text: (gain, name)."""
    found = [(gain([shape["kinds"][kind]], *model), name) for name, shape in shapes(data) if of_family(name)]
    return max(entry for entry in found if entry[0] is not None)


@table
def trees_kinds(data):
    """The best chain and the best tree of each kind of text."""
    rows = []
    for kind in KINDS:
        row = [kind]
        for model in (timed(costs_of("134m")), free_rows(costs_of("134m"))):
            for family in (lambda name: name.startswith("chain"),
                           lambda name: not name.startswith(("chain", "lookup"))):
                value, name = best_of(data, kind, model, family)
                row.append(f"{number(value)} ({name.replace('chain of ', 'K = ')})")
        rows.append(row)
    return markdown(["text", "best chain, this CPU", "best tree, this CPU", "best chain, rows free",
                     "best tree, rows free"], rows)


@table
def trees_clock(data):
    """What trees gain over the chain of three by the clock, and what the accounting says of it."""
    every, chain = data["clock"]["trees"], list(data["shapes"]["chain of 3"]["kinds"].values())
    model = timed(costs_of("134m"))
    rows = []
    for name, kinds in every.items():
        measured = [kinds[kind][0] for kind in KINDS]
        together = speedup_by_time([(1 / kinds[kind][2], kinds[kind][0]) for kind in KINDS])
        shape = data["shapes"].get(name)
        expected = gain(list(shape["kinds"].values()), *model) / gain(chain, *model) if shape else None
        rows.append([name, *(number(value) for value in measured), f"**{number(together)}**",
                     number(expected) if expected else ""])
    return markdown(["tree", *KINDS, "all", "accounting"], rows)


@table
def trees_rules(data):
    """Tokens per round of each rule for siblings, with sampling at temperature 1."""
    ways = ["one chain", "three chains", "three, distinct", "three, likeliest"]
    names = ["rejection", "at-least", "non-iterative", "sample-and-match", "coupled", "k-sequential", "block"]
    rows = [[f"`{name}`", *(number(emitted_per_round(data["rules"][way][name])) if name in data["rules"][way] else ""
                            for way in ways)] for name in names]
    return markdown(["rule", *ways], rows)
