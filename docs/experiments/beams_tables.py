"""The tables of docs/10_beam_search/ that are made from beams.json."""
import formulas
from table_text import TEXTS, Entries, Tables, number

NAMES = {"lookup": "lookup", "ngram": "n-grams", "smollm2/medusa": "Medusa heads", "smollm2/eagle3": "EAGLE-3"}
TABLES = table = Tables(otherwise="*Not measured yet.*")


def beta(entries):
    return entries.ratio("accepted", "tested")


def counted_row(entries, K):
    """Of one setting: beta, steps per pass, what the formula makes of beta, rows per pass."""
    return [number(beta(entries), 3), f"**{number(entries.ratio('emitted', 'rounds'))}**",
            number(formulas.emitted(beta(entries), K)), number(entries.ratio("rows", "rounds"), 1),
            number(entries.ratio("kept", "rounds"), 1)]


@table
def beams_widths(data):
    """Steps per pass by the widths."""
    rows = [[str(w), str(u), *counted_row(entries, K)]
            for (w, u, K), entries in Entries(data["counts"]["entries"]).by("w", "u", "K").items() if K == 3]
    return "w|u|beta|steps per pass|by the formula|rows per pass|nodes kept", rows


@table
def beams_lengths(data):
    """Steps per pass by K, for one pair of widths."""
    found = Entries(data["counts"]["entries"]).of(w=4, u=8).by("K")
    return "K|beta|steps per pass|by the formula|rows per pass|nodes kept", [[str(K), *counted_row(found[K], K)] for K in sorted(found)]


@table
def beams_kinds(data):
    """Steps per pass by kind of text."""
    rows = []
    for (w, u, K), entries in Entries(data["counts"]["entries"]).by("w", "u", "K").items():
        if K == 3 and u in (w, 2 * w):
            rows.append([str(w), str(u), *(number(entries.of(text=kind).ratio("emitted", "rounds")) for kind in TEXTS)])
    return "|".join(["w", "u", *TEXTS]), rows


@table
def beams_real(data):
    """Steps per pass of SmolLM2."""
    rows = []
    for (drafter, w, u), entries in Entries(data["real"]["entries"]).by("drafter", "w", "u").items():
        kinds = entries.by("text")
        rows.append([NAMES[drafter], str(w), str(u), *(number(kinds[kind].ratio("emitted", "rounds")) for kind in kinds),
                     number(beta(entries), 3), number(entries.ratio("rows", "rounds"), 1)])
    kinds = Entries(data["real"]["entries"]).by("text")
    return "|".join(["drafter", "w", "u", *kinds, "beta", "rows per pass"]), rows


@table
def beams_clock(data):
    """What drafts gain over plain beam search."""
    rows, measured = [], Entries(data.get("clock", {}).get("entries", []))
    for (w, u, K), entries in measured.by("w", "u", "K").items():
        mean = lambda field: sum(e[field] for e in entries) / len(entries)
        rows.append([str(w), str(u), str(K), *(number(e["gain"]) for e in entries), f"**{number(entries.speedup())}**",
                     number(entries.speedup("predicted_accounting")), number(mean("emitted_per_round")), number(mean("c"), 3),
                     number(mean("v"))])
    return "|".join(["w", "u", "K", *measured.by("text"), "all", "accounting", "steps per pass", "c", "v"]), rows


@table
def beams_real_clock(data):
    """The same of SmolLM2."""
    rows = []
    for (drafter, w, u), entries in Entries(data.get("real-clock", {}).get("entries", [])).by("drafter", "w", "u").items():
        mean = lambda field: sum(e[field] for e in entries) / len(entries)
        rows.append([NAMES[drafter], str(w), str(u), f"**{number(entries.speedup())}**", number(entries.speedup("predicted_accounting")),
                     number(mean("emitted_per_round")), number(mean("c"), 3), number(mean("v"))])
    return "drafter|w|u|speedup|accounting|steps per pass|c|v", rows
