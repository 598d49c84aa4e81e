"""The tables of docs/07_adaptive_drafting/12_rows_for_the_batch.md that are made from rows.json."""
from table_text import Entries, Tables, machine, number, prose, smoke

TABLES = table = Tables(unmeasured="*Not measured yet.*\n")
NAMES = {"pair": "134m with 14m", "real": "SmolLM2 with EAGLE-3 heads"}


def parts(results):
    return {NAMES[name]: part for name, part in results.data.items()}


@table
def rows_where(results):
    return "\n".join(prose(f"{name}: {machine(part)} {part['tokens']} new tokens of each request, medians of {part['rounds']} rounds."
                         f"{smoke(part)}") for name, part in parts(results).items())


@table
def rows_figure(results):
    return ("![Tokens per second and user against the tokens per second of the batch, for no speculation, two fixed K and the\n"
            "budget.](../figures/07_rows.svg)\n")


@table
def rows_throughput(results):
    """Tokens per second of the whole batch, the largest bold."""
    rows, ways = [], []
    for name, part in parts(results).items():
        for B, entries in Entries(part["entries"]).by("B").items():
            ways = [e["way"] for e in entries]
            best = max(entries, key=lambda e: e["gain"])
            rows.append([name, str(B), *(f"**{cell(e)}**" if e is best else cell(e) for e in entries)])
    return "|".join(["models", "requests", *ways]), rows


def cell(e):
    return f"{e['tokens_per_second']:.0f}" + (f" ({number(e['gain'])})" if e["way"] != "none" else "")


@table
def rows_given(results):
    """What the budget does per step."""
    rows = []
    for name, part in parts(results).items():
        for e in Entries(part["entries"]).of(way="auto"):
            rows.append([name, str(e["B"]), number(e["offered"], 1), number(e["given"], 1), number(e["rows_per_step"], 1),
                         number(e["emitted_per_step"], 1), f"{e['draft_share']:.0%}", f"{number(e['gain_least'])} to {number(e['gain_most'])}"])
    return "models|requests|drafts offered|rows given|rows of a pass|tokens per step|time for drafting|speedup, by round", rows
