"""The tables of docs/kernels/8_rounded_weights.md that are made from formats.json."""
from table_text import Entries, Tables, machine, number, prose, smoke

TABLES = table = Tables("formats-", unmeasured="*Not measured yet.*\n")
NAMES = {"target/134m": "134m", "draft/14m": "14m", "target/3b": "3B", "draft/1b": "1B", "SmolLM2-135M-Instruct/1.7b": "1.7B",
         "SmolLM2-135M-Instruct/none": "SmolLM2-135M"}
PAIRS = {"134m": "134m with 14m", "3b": "3B with 1B", "1.7b": "1.7B with SmolLM2-135M"}
FORMATS = {"stored": "bf16", "int8": "int8", "q4": "q4"}


def measured(results):
    return [pair for pair in PAIRS if pair in results.data]


@table
def where(results):
    part = results.data["passes"]
    return prose(f"{machine(part)} Passes are medians of {part['rounds']} rounds, and the gains by the clock of "
                 f"{min(results.data[pair]['rounds'] for pair in measured(results))}.{smoke(part)}")


@table
def passes(results):
    rows, found = results.data["passes"]["rows"], []
    for model, entries in Entries(results.data["passes"]["entries"]).by("model").items():
        for e in entries:
            one, six = (e["seconds"][rows.index(M)] for M in (1, 6))
            found.append([NAMES[model], FORMATS[e["weights"]], f"{e['bytes'] / 1e6:,.0f} MB", f"{1e3 * one:.1f} ms", f"{1e3 * six:.1f} ms",
                          number(six / one), number(entries[0]["seconds"][0] / one)])
    return "model|weights|a pass reads|T(1)|T(6)|T(6) / T(1)|T(1) of bf16 / T(1)", found


@table
def gains(results):
    """By the clock, at the K that promised most."""
    rows = []
    for pair, weights, e in ((pair, *found) for pair in measured(results)
                             for found in Entries(results.data[pair]["entries"]).by("weights").items()):
        mean = lambda name: sum(one[name] for one in e) / len(e)
        rows.append([PAIRS[pair], FORMATS[weights], number(mean("c")), number(mean("v")), number(mean("alpha")), str(e[0]["K"]),
                     number(mean("emitted_per_round")), number(e[0]["promise"]), f"**{number(e.speedup())}**",
                     number(mean("gain_over_accounting")), ", ".join(f"{one['text']} {number(one['gain'])}" for one in e)])
    return "target with draft|draft's weights|c|v|alpha|best K|tokens per round|promised|clock|clock / accounting|by text", rows
