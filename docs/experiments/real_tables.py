"""The tables of docs/real-models.md that are made from real.json, and the real model's rows of README.md and of
docs/overview.md."""
import statistics

from table_text import Entries, Tables, machine, number, prose, smoke

TABLES = Tables("real-")
NOTHING = "Not measured yet: `make bench-real` does it on a quiet machine.\n"
NAMES = {"lookup": "lookup", "ngram": "n-grams", "lookup, ngram": "lookup, else n-grams", "tree of 1": "lookup, stage 8",
         "tree of 2": "a tree of 2 lookups", "tree of 4": "a tree of 4 lookups"}
CHAINS = ["lookup", "ngram", "lookup, ngram"]
SUFFIXES = {("suffix", "K = 5"): "suffixes, K = 5", ("suffix tree", ""): "a tree of 8 nodes"}
HEADS = {"EAGLE-3": "EAGLE-3", "Medusa": "Medusa", "lookup, EAGLE-3": "lookup, else EAGLE-3"}  # K is in the drafters' names
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
    """Of a way to draft; empty where it was not run on this number of prompts of a kind."""
    return Entries(part["entries"]).of(drafter=drafter, length=length, T=T, prompts=prompts)


def prompts(part, of=min):
    return of(e["prompts"] for e in part["entries"])


def tokens_per_pass(entries):
    return number(entries.ratio("emitted", "rounds"))


def by_kind(part, T, number_of_prompts):
    columns = [counted(part, drafter, "K = 5", T, number_of_prompts) for drafter in CHAINS]
    tree = counted(part, "tree of 2", "", T, number_of_prompts)

    def row(name, **chosen):
        cells = [(number(e.ratio("accepted", "tested")), tokens_per_pass(e)) for e in (column.of(**chosen) for column in columns)]
        return [name, *(cell for pair in cells for cell in pair), tokens_per_pass(tree.of(**chosen))]
    heads = ["prompts", *(f"{NAMES[drafter]}: alpha|tokens per pass" for drafter in CHAINS), f"{NAMES['tree of 2']}: tokens per pass"]
    return "|".join(heads), [*(row(kind, text=kind) for kind in columns[0].by("text")), row("all")]


@table("counts")
def kinds(part):
    """Greedy, on all prompts."""
    return by_kind(part, 0, prompts(part, max))


@table("counts")
def kinds_sampled(part):
    return by_kind(part, 1, prompts(part))


@table("counts")
def lengths(part):
    """Tokens per pass by what chooses K, of all kinds together. A tree has one K."""
    chosen = [f"K = {K}" for K in range(1, 13)]

    def cell(drafter, T, length):
        same = "" if drafter.startswith("tree") and length == "K = 5" else length
        return tokens_per_pass(counted(part, drafter, same, T, prompts(part)))
    rows = [[NAMES[drafter], str(T), *(cell(drafter, T, length) for length in chosen)]
            for T in (0, 1) for drafter in NAMES if drafter != "tree of 1"]
    return "|".join(["what drafts", "T", *chosen]), rows


@table("heads")
def heads(part):
    """Greedy, on all prompts, of the model's own heads."""
    return of_each(part, {(f"{drafter}, K = 3", ""): name for drafter, name in HEADS.items()})


@table("suffixes")
def suffixes(part):
    """The same of the suffix drafter."""
    return of_each(part, SUFFIXES)


@table("repeated")
def repeated(part):
    """Tokens per pass of the same request, made again each time with a sentence more."""
    drafters = Entries(part["entries"]).by("drafter")
    times = list(Entries(part["entries"]).by("text"))
    rows = [[name.replace("ngram", "n-grams").replace("suffix", "suffixes", 1).replace("suffixes tree", "a suffix tree of 8 nodes"),
             *(tokens_per_pass(found.of(text=time)) for time in times), tokens_per_pass(found)] for name, found in drafters.items()]
    return "|".join(["what drafts", *(f"time {time}" for time in times), "all"]), rows


def of_each(part, names):
    columns = [counted(part, *way, 0, prompts(part, max)) for way in names]

    def row(name, **chosen):
        of_kind = [column.of(**chosen) for column in columns]
        return [name, *(cell for e in of_kind for cell in (number(e.ratio("accepted", "tested")), tokens_per_pass(e)))]
    heads = ["prompts", *(f"{name}: alpha|tokens per pass" for name in names.values())]
    return "|".join(heads), [*(row(kind, text=kind) for kind in columns[0].by("text")), row("all")]


@table("heads")
def heads_lengths(part):
    chosen = [f"K = {K}" for K in (1, 2, 3, 5)]
    rows = [[name, str(T), *(tokens_per_pass(counted(part, f"{drafter}, {length}", "", T, prompts(part))) for length in chosen)]
            for T in (0, 1) for drafter, name in HEADS.items()]
    return "|".join(["what drafts", "T", *chosen]), rows


# --- the clock ---

def ways(part):
    """(drafter, what chooses K, T) -> entries of the texts."""
    return Entries(part["entries"]).by("draft", "K", "T")


def name_of(way):
    drafter, length, T = way
    head, _, of_head = drafter.partition(", K = ")
    name = f"{HEADS[head]}, K = {of_head}" if of_head else f"{NAMES.get(drafter, 'suffixes')}, {length or 'K = 5'}"
    return f"{name}{', T = 1' if T else ''}"


@table("clock")
def clock(part):
    return clocked(part)


@table("heads-clock")
def heads_clock(part):
    return clocked(part)


@table("suffixes-clock")
def suffixes_clock(part):
    return clocked(part)


def clocked(part):
    """Speedups by the clock, with the accounting's in brackets."""
    entries = Entries(part["entries"])

    def row(name, **chosen):
        return [name, number(entries.of(T=0, **chosen).rate("plain_tokens_per_second"), 0), *(
            f"{number(e.speedup())} ({number(e.speedup('predicted_accounting'))})" for e in (way.of(**chosen) for way in ways(part).values()))]
    heads = ["prompts", "tokens/s, plain", *map(name_of, ways(part))]
    return "|".join(heads), [*(row(kind, text=kind) for kind in entries.by("text")), row("all")]


@table("clock")
def where(part):
    return measured(part)


@table("heads-clock")
def heads_where(part):
    return measured(part)


@table("suffixes-clock")
def suffixes_where(part):
    return measured(part)


def measured(part):
    reads = [entry["plain_tokens_per_second"] * part["weight_bytes"] / 1e9 for entry in part["entries"] if entry["T"] == 0]
    names = ", ".join(f"`{name}`" for name in part["unsteady"])
    left_out = f" Left out, because not steady: {names}." if names else ""
    return prose(f"Measured at source {part['sources_sha256'][:8]}: {machine(part)} {part['prompts']} prompts, at most "
                 f"{part['tokens']} new tokens, medians of {part['rounds']} rounds, {part['thrown_away']} thrown away. By round, one thread read "
                 f"{min(part['bandwidths'])} to {max(part['bandwidths'])} GB/s; plain decoding read "
                 f"{number(statistics.median(reads), 1)} GB/s of weights with all threads.{left_out}{smoke(part)}")


def best(data):
    """(part, way, entries) with the largest gain at temperature 0, or None."""
    found = [(data[part], way, entries) for part in ("clock", "heads-clock") if data and part in data
             for way, entries in ways(data[part]).items() if way[2] == 0]
    return max(found, key=lambda item: item[2].speedup(), default=None)


def row(data, range_of):
    """The README's: target, draft, tokens/s alone, with speculation, speedup, by kind, from."""
    if (found := best(data)) is None:
        return [MODEL, "lookup", "", "", "not measured yet", "", "`make bench-real` measures it"]
    part, way, entries = found
    by_kind = {kind: found.speedup() for kind, found in entries.by("text").items()}
    return [MODEL, name_of(way), *entries.rates(), range_of(by_kind), f"measured {part['date']}, {part['machine']['cpu']}"]


def summary_row(data):
    """The overview's: target, draft, K, alpha, tokens/s plain, tokens/s, speedup."""
    if (found := best(data)) is None:
        return [MODEL, "lookup", "", "", "", "", "not measured yet"]
    _, way, entries = found
    name, _, length = name_of(way).rpartition(", ")
    alpha_of_texts = statistics.mean(entry["alpha"] for entry in entries)
    return [MODEL, name, length.removeprefix("K = "), number(alpha_of_texts), *entries.rates()]
