"""The tables of docs/real-models.md that are made from real.json, and the real model's rows of README.md and of
docs/overview.md."""
import statistics

from table_text import Tables, machine, number, prose, smoke, speedup_by_time

TABLES = Tables("real-")
NOTHING = "Not measured yet: `make bench-real` does it on a quiet machine.\n"
NAMES = {"lookup": "lookup", "ngram": "n-grams", "lookup, ngram": "lookup, else n-grams", "tree of 1": "lookup, stage 8",
         "tree of 2": "a tree of 2 lookups", "tree of 4": "a tree of 4 lookups"}
CHAINS = ["lookup", "ngram", "lookup, ngram"]
MODEL = "SmolLM2-135M"


def table(part):
    """Of a part of real.json; without it there is one line."""
    def register(make):
        def made(data):
            return make(data[part]) if data and part in data else NOTHING
        made.__name__ = make.__name__
        TABLES(made)
        return make
    return register


# --- counts ---

def counted(part, drafter, length, T, prompts):
    """kind -> counts of a way to draft; empty where it was not run on so many prompts of a kind."""
    return next((entry["kinds"] for entry in part["ways"] if entry["drafter"] == drafter and entry["T"] == T and
                 entry["length"] == length and entry["prompts"] == prompts), {})


def fewest(part):
    return min(entry["prompts"] for entry in part["ways"])


def summed(kinds, key):
    return sum(counts[key] for counts in kinds.values())


def tokens_per_pass(kinds):
    return number(summed(kinds, "emitted") / summed(kinds, "rounds")) if kinds else ""


def alpha(kinds):
    return number(summed(kinds, "accepted") / summed(kinds, "tested")) if kinds and summed(kinds, "tested") else ""


def by_kind(part, T, prompts):
    columns = [(drafter, counted(part, drafter, "K = 5", T, prompts)) for drafter in CHAINS]
    tree = counted(part, "tree of 2", "", T, prompts)
    every = columns[0][1]
    rows = [[name, *(cell for _, found in columns for cell in (alpha(chosen(found)), tokens_per_pass(chosen(found)))),
             tokens_per_pass(chosen(tree))]
            for name, chosen in [(kind, lambda found, kind=kind: {kind: found[kind]} if found else {}) for kind in every] +
            [("all", lambda found: found)]]
    heads = ["prompts", *(f"{NAMES[drafter]}: alpha|tokens per pass" for drafter in CHAINS), f"{NAMES['tree of 2']}: tokens per pass"]
    return "|".join(heads), rows


@table("counts")
def kinds(part):
    """Greedy, on all prompts."""
    return by_kind(part, 0, max(entry["prompts"] for entry in part["ways"]))


@table("counts")
def kinds_sampled(part):
    return by_kind(part, 1, fewest(part))


@table("counts")
def lengths(part):
    """Tokens per pass by what chooses K, of all kinds together. A tree has one K."""
    chosen = [f"K = {K}" for K in range(1, 13)]

    def cell(drafter, T, length):
        same = "" if drafter.startswith("tree") and length == "K = 5" else length
        return tokens_per_pass(counted(part, drafter, same, T, fewest(part)))
    rows = [[NAMES[drafter], str(T), *(cell(drafter, T, length) for length in chosen)]
            for T in (0, 1) for drafter in NAMES if drafter != "tree of 1"]
    return "|".join(["what drafts", "T", *chosen]), rows


# --- the clock ---

def ways(part):
    """(drafter, what chooses K, T) -> entries of the texts."""
    found = {}
    for entry in part["entries"]:
        found.setdefault((entry["draft"], entry["K"], entry["T"]), []).append(entry)
    return found


def rate(entries, name):
    """Tokens per second, as if all texts were equally long."""
    return statistics.harmonic_mean(entry[name] for entry in entries)


def total(entries, name):
    """Of a speedup, by time; None where nothing was measured."""
    return speedup_by_time([(1 / entry["plain_tokens_per_second"], entry[name]) for entry in entries if entry[name] is not None])


def name_of(way):
    drafter, length, T = way
    return f"{NAMES[drafter]}, {length or 'K = 5'}{', T = 1' if T else ''}"


@table("clock")
def clock(part):
    """Speedups by the clock, with the accounting's in brackets."""
    found, kinds = ways(part), list(dict.fromkeys(entry["text"] for entry in part["entries"]))

    def row(name, chosen):
        plain = [entry for entry in part["entries"] if entry["T"] == 0 and entry["text"] in chosen]
        of_ways = [[entry for entry in entries if entry["text"] in chosen] for entries in found.values()]
        return [name, number(rate(plain, "plain_tokens_per_second"), 0), *(
            f"{number(total(entries, 'gain'))} ({number(total(entries, 'predicted_accounting'))})" for entries in of_ways)]
    heads = ["prompts", "tokens/s, plain", *map(name_of, found)]
    return "|".join(heads), [*(row(kind, [kind]) for kind in kinds), row("all", kinds)]


@table("clock")
def where(part):
    reads = [entry["plain_tokens_per_second"] * part["weight_bytes"] / 1e9 for entry in part["entries"] if entry["T"] == 0]
    names = ", ".join(f"`{name}`" for name in part["unsteady"])
    left_out = f" Left out, because the times were not steady: {names}." if names else ""
    return prose(f"Measured at source {part['sources_sha256'][:8]}: {machine(part)} {part['prompts']} prompts, at most "
                 f"{part['tokens']} new tokens, medians of {part['rounds']} rounds, {part['thrown_away']} thrown away. By round, one thread read "
                 f"{min(part['bandwidths'])} to {max(part['bandwidths'])} GB/s; plain decoding read "
                 f"{number(statistics.median(reads), 1)} GB/s of weights with all threads.{left_out}{smoke(part)}")


def best(part):
    """(way, entries) with the largest gain at temperature 0."""
    return max(((way, entries) for way, entries in ways(part).items() if way[2] == 0), key=lambda item: total(item[1], "gain"))


def row(data, range_of):
    """The README's: target, draft, tokens/s alone, with speculation, speedup, by kind, from."""
    if not data or "clock" not in data:
        return [MODEL, "lookup", "", "", "not measured yet", "", "`make bench-real` measures it"]
    part = data["clock"]
    way, entries = best(part)
    by_kind = {kind: total([entry for entry in entries if entry["text"] == kind], "gain") for kind in
               dict.fromkeys(entry["text"] for entry in entries)}
    return [MODEL, name_of(way), *speeds(entries), range_of(by_kind), f"measured {part['date']}, {part['machine']['cpu']}"]


def speeds(entries):
    """Tokens per second, plain and with speculation, and their quotient."""
    plain, fast = rate(entries, "plain_tokens_per_second"), rate(entries, "tokens_per_second")
    return [number(plain, 0), number(fast, 0), f"**{number(fast / plain, 1)}x**"]


def summary_row(data):
    """The overview's: target, draft, K, alpha, tokens/s plain, tokens/s, speedup."""
    if not data or "clock" not in data:
        return [MODEL, "lookup", "", "", "", "", "not measured yet"]
    (drafter, length, _), entries = best(data["clock"])
    alpha_of_texts = statistics.mean(entry["alpha"] for entry in entries)
    return [MODEL, NAMES[drafter], length.removeprefix("K = ") or "5", number(alpha_of_texts), *speeds(entries)]
