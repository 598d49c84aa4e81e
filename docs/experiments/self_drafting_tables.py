"""The tables of docs/09_self_drafting/ that are made from self_drafting.json."""
from table_text import TEXTS, Entries, Tables, number

TABLES = table = Tables()


def by_position(entries, name):
    """The sums of [position, count] pairs."""
    total = {}
    for e in entries:
        for position, count in e[name]:
            total[position] = total.get(position, 0) + count
    return total


@table
def self_positions(data):
    """Alpha of each drafter by position, in chains."""
    rows = []
    for name, entries in Entries(data["positions"]["entries"]).by("drafter").items():
        tested, accepted = by_position(entries, "tested"), by_position(entries, "accepted")
        alpha = [number(accepted.get(i, 0) / tested[i], 3) if tested.get(i) else "" for i in range(5)]
        rows.append([name, *alpha, f"**{number(entries.ratio('emitted', 'rounds'))}**"])
    return "drafter|first|second|third|fourth|fifth|tokens per round", rows


@table
def self_kinds(data):
    """Tokens per round by kind of text: a chain of five, and a tree of three levels."""
    trees = Entries(data["trees"]["entries"]).by("drafter")
    rows = []
    for name, entries in Entries(data["positions"]["entries"]).by("drafter").items():
        of_tree = trees.get(name)
        rows.append([name, *(number(entries.of(text=kind).ratio("emitted", "rounds")) for kind in TEXTS),
                     f"**{number(entries.ratio('emitted', 'rounds'))}**",
                     number(of_tree.ratio("emitted", "rounds")) if of_tree else ""])
    return "|".join(["drafter", *TEXTS, "all", "tree, all"]), rows


# What K drafts read of a drafter's own matrices, of the target's projection, and of the whole target: how often each.
READS = {"draft model": lambda K: (K, 0, 0), "lookup": lambda K: (0, 0, 0), "n-grams": lambda K: (0, 0, 0),
         "blockwise": lambda K: (1, 1, 0), "Medusa": lambda K: (1, 1, 0), "look-ahead": lambda K: (0, 0, 1),
         "EAGLE": lambda K: (K, K, 0), "EAGLE-3": lambda K: (K, 0, 0), "MTP": lambda K: (K, K, 0), "parallel": lambda K: (1, 0, 0)}


def bytes_of_drafts(weights, name, K):
    """Of a round, in passes of the target; nothing where a count of passes is missing."""
    if name not in READS:
        return ""
    [own] = [e["own"] for e in weights["entries"] if e["drafter"] == name]
    sizes = own, weights["projection"], weights["target"]
    return number(sum(times * size for times, size in zip(READS[name](K), sizes)) / weights["target"])


@table
def self_clock(data):
    """What chains gain over plain decoding in the shape 134m, the better of their two lengths."""
    rows, measured = [], Entries(data["clock"]["entries"])
    kinds = [kind for kind in TEXTS if measured.of(text=kind)]
    for name, entries in measured.by("drafter").items():
        K, best = max(entries.by("K").items(), key=lambda one: one[1].speedup())
        mean = lambda field: sum(e[field] for e in best) / len(best)
        rows.append([name, str(K), *(number(best.of(text=kind)[0]["gain"]) for kind in kinds), f"**{number(best.speedup())}**",
                     number(best.speedup("predicted_accounting")), number(mean("c"), 3), number(mean("v")),
                     bytes_of_drafts(data["weights"], name, K)])
    return "|".join(["drafter", "K", *kinds, "all", "accounting", "c", "v", "bytes"]), rows
