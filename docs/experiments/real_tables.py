"""The tables of docs/real-models.md that are made from real.json, and the real model's rows of README.md and of
docs/overview.md."""
import statistics

from table_text import machine, markdown, number, prose, smoke

TABLES = {}
NOTHING = "Not measured yet: `make bench-real` does it on a quiet machine.\n"
NAMES = {"lookup": "lookup", "ngram": "n-grams", "lookup, ngram": "lookup, else n-grams", "tree of 1": "lookup, stage 8",
         "tree of 2": "a tree of 2 lookups", "tree of 4": "a tree of 4 lookups"}
CHAINS = ["lookup", "ngram", "lookup, ngram"]
MODEL = "SmolLM2-135M"


def table(part):
    """Of a part of real.json; without it there is one line."""
    def register(make):
        name = "real-" + make.__name__.replace("_", "-")
        TABLES[name] = lambda data: make(data[part]) if data and part in data else NOTHING
        return make
    return register


# --- counts ---

def counted(part, drafter, way, T, prompts):
    """kind -> counts of a setting; empty where it was not run on so many prompts of a kind."""
    return next((entry["kinds"] for entry in part["settings"] if entry["drafter"] == drafter and entry["T"] == T and
                 entry["way"] == way and entry["prompts"] == prompts), {})


def fewest(part):
    return min(entry["prompts"] for entry in part["settings"])


def total(kinds, key):
    return sum(counts[key] for counts in kinds.values())


def tokens_per_pass(kinds):
    return number(total(kinds, "emitted") / total(kinds, "rounds")) if kinds else ""


def alpha(kinds):
    return number(total(kinds, "accepted") / total(kinds, "tested")) if kinds and total(kinds, "tested") else ""


def by_kind(part, T, prompts):
    columns = [(drafter, counted(part, drafter, "K = 5", T, prompts)) for drafter in CHAINS]
    tree = counted(part, "tree of 2", "", T, prompts)
    every = columns[0][1]
    rows = [[name, *(cell for _, found in columns for cell in (alpha(chosen(found)), tokens_per_pass(chosen(found)))),
             tokens_per_pass(chosen(tree))]
            for name, chosen in [(kind, lambda found, kind=kind: {kind: found[kind]} if found else {}) for kind in every] +
            [("all", lambda found: found)]]
    return markdown(["prompts", *(head for drafter, _ in columns for head in (f"{NAMES[drafter]}: alpha", "tokens per pass")),
                     f"{NAMES['tree of 2']}: tokens per pass"], rows)


@table("counts")
def kinds(part):
    """Greedy, on all prompts."""
    return by_kind(part, 0, max(entry["prompts"] for entry in part["settings"]))


@table("counts")
def kinds_sampled(part):
    return by_kind(part, 1, fewest(part))


@table("counts")
def lengths(part):
    """Tokens per pass by what chooses K, of all kinds together."""
    ways = [*(f"K = {K}" for K in range(1, 13)), "schedule"]
    rows = [[NAMES[drafter], str(T), *(tokens_per_pass(counted(part, drafter, way, T, fewest(part)) or
                                                       (counted(part, drafter, "", T, fewest(part)) if way == "K = 5" else {}))
                                       for way in ways)] for T in (0, 1) for drafter in NAMES if drafter != "tree of 1"]
    return markdown(["what drafts", "T", *ways], rows)


# --- the clock ---

def settings(part):
    """(drafter, way, T) -> entries of the kinds."""
    found = {}
    for entry in part["entries"]:
        found.setdefault((entry["draft"], entry["K"], entry["T"]), []).append(entry)
    return found


def rate(entries, name):
    """Tokens per second of equally long texts of all kinds."""
    return statistics.harmonic_mean(entry[name] for entry in entries)


def gain(entries):
    return rate(entries, "tokens_per_second") / rate(entries, "plain_tokens_per_second")


def name_of(setting):
    drafter, way, T = setting
    return f"{NAMES[drafter]}, {way or 'K = 5'}{', T = 1' if T else ''}"


@table("clock")
def clock(part):
    """Speedups by the clock, with the accounting's in brackets."""
    found = settings(part)
    kinds = list(dict.fromkeys(entry["text"] for entry in part["entries"]))
    plain = {entry["text"]: entry["plain_tokens_per_second"] for entry in part["entries"] if entry["T"] == 0}
    of = {setting: {entry["text"]: entry for entry in entries} for setting, entries in found.items()}

    def cell(entry):
        return f"{number(entry['gain'])} ({number(entry['predicted_accounting'])})"
    rows = [[kind, number(plain[kind], 0), *(cell(of[setting][kind]) for setting in found)] for kind in kinds]
    rows.append(["all, by time", number(statistics.harmonic_mean(plain.values()), 0),
                 *(f"**{number(gain(entries))}**" for entries in found.values())])
    return markdown(["prompts", "tokens/s, plain", *map(name_of, found)], rows)


@table("clock")
def where(part):
    reads = [entry["plain_tokens_per_second"] * part["weight_bytes"] / 1e9 for entry in part["entries"] if entry["T"] == 0]
    left_out = f" Left out, as their times were not steady: {', '.join(part['unsteady'])}." if part["unsteady"] else ""
    return prose(f"Measured at source {part['sources_sha256'][:8]}: {machine(part)} {part['prompts']} prompts, at most "
                 f"{part['tokens']} new tokens, medians of {part['rounds']} rounds, {part['thrown_away']} thrown away. By round, one thread read "
                 f"{min(part['bandwidths'])} to {max(part['bandwidths'])} GB/s; plain decoding read "
                 f"{number(statistics.median(reads), 1)} GB/s of weights with all threads.{left_out}{smoke(part)}")


def best(part):
    """(setting, entries) with the largest gain at temperature 0."""
    return max(((setting, entries) for setting, entries in settings(part).items() if setting[2] == 0),
               key=lambda item: gain(item[1]))


def row(data, range_of):
    """The README's: target, draft, tokens/s alone, with speculation, speedup, by kind, from."""
    if not data or "clock" not in data:
        return [MODEL, "lookup", "", "", "not measured yet", "", "`make bench-real` measures it"]
    part = data["clock"]
    setting, entries = best(part)
    return [MODEL, name_of(setting), number(rate(entries, "plain_tokens_per_second"), 0),
            number(rate(entries, "tokens_per_second"), 0),
            f"**{number(gain(entries), 1)}x**", range_of({entry["text"]: entry["gain"] for entry in entries}),
            f"measured {part['date']}, {part['machine']['cpu']}"]


def summary_row(data):
    """The overview's: target, draft, K, alpha, tokens/s plain, tokens/s, speedup."""
    if not data or "clock" not in data:
        return [MODEL, "lookup", "", "", "", "", "not measured yet"]
    (drafter, way, _), entries = best(data["clock"])
    known = [entry["alpha"] for entry in entries if entry["alpha"] is not None]
    return [MODEL, NAMES[drafter], way.removeprefix("K = ") or "5", number(statistics.mean(known)),
            number(rate(entries, "plain_tokens_per_second"), 0), number(rate(entries, "tokens_per_second"), 0),
            f"**{number(gain(entries), 1)}x**"]
