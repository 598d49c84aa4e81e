"""The tables of docs/beside_llama_cpp.md, made from what peers_bench.py measured. tables.py puts them there."""
from table_text import STALE, Entries, Tables, machine, number, prose, smoke

NOT_MEASURED = "NOT MEASURED: no results are committed; `make bench-peers` measures on a quiet machine.\n"
TABLES = table = Tables("peers-", unmeasured=NOT_MEASURED)
OURS, THEIRS, COPIED, COPY = "specdec", "llama.cpp", "llama.cpp, copied", "a plain copy"
SHAPES = {"embedded": "embedded", "134m": "`134m`", "1b": "`1b`", "3b": "`3b`", "smollm2": "SmolLM2"}


def name_of(setting):
    return f"{SHAPES[setting['shape']]}, {setting['type']}"


def millis(seconds):
    return number(seconds * 1e3, 2 if seconds < 0.1 else 0)


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def cells(results, setting):
    """Work -> program -> entry."""
    of_setting = Entries(results.data["entries"]).of(shape=setting["shape"], type=setting["type"])
    return {work: {e["program"]: e for e in found} for work, found in of_setting.by("work").items()}


def times_as_fast(cell, other=THEIRS):
    return f"**{number(cell[other]['ratio'])}**"


def in_words(work):
    """M = 1 -> a pass of 1 row."""
    if work.startswith("M = "):
        return f"a pass of {work[4:]} {'row' if work == 'M = 1' else 'rows'}"
    return {"start": "start to first token", "plain": "plain decoding"}.get(work, work)


@table
def where(results):
    data = results.data
    llama_cpp, verified = data["llama_cpp"], data["verified"]
    of_all = lambda name: [e[name] for e in data["entries"]]
    return prose(f"{STALE if results.stale else ''}Measured at source {data['sources_sha256'][:8]}: {machine(data)} "
                 f"llama.cpp `{llama_cpp['version']}` comes from `{llama_cpp['package']}`, and uses "
                 f"{', '.join(llama_cpp['features'])}. In float32, both wrote the same texts "
                 f"({verified['prompts']} prompts, {verified['tokens']} tokens each by the target and the draft, "
                 f"{verified['near_ties']} near-ties). Each time comes from {min(of_all('samples'))} rounds; of the rounds of "
                 f"a sweep, at most {max(of_all('thrown_away'))} were thrown away. Largest spread of a time: "
                 f"{max(of_all('spread')):.0%}.{smoke(data)}")


@table
def rows(results):
    works, lines = [work for work in Entries(results.data["entries"]).by("work") if work.startswith("M = ")], []
    for setting in results.data["settings"]:
        found = [cells(results, setting)[work] for work in works]
        lines += [[name_of(setting), f"{name}, ms", *(millis(cell[name]["seconds"]) for cell in found)]
                  for name in (OURS, THEIRS)]
        lines.append(["", "times as fast", *map(times_as_fast, found)])
    return "|".join(["model", "", *works]), lines


@table
def prefill(results):
    return f"model|{OURS}|{THEIRS}|times as fast", [
        [name_of(setting), *(f"{results.data['prefill'] / cell[name]['seconds']:,.0f} tokens/s" for name in (OURS, THEIRS)),
         times_as_fast(cell)] for setting in results.data["settings"] for cell in [cells(results, setting)["prefill"]]]


@table
def start(results):
    return (f"model|{OURS}: start|llama.cpp, mapped: start|copied: start|{COPY}|{OURS}: start / copy|{OURS}: file|"
            f"llama.cpp: file|{OURS}: peak|mapped: peak|copied: peak", [
                [name_of(setting), *(f"{cell[name]['seconds']:.3g} s" for name in (OURS, THEIRS, COPIED, COPY)),
                 f"**{number(1 / cell[COPY]['ratio'])}**",
                 *(megabytes(setting["file_bytes"][name]) for name in (OURS, THEIRS)),
                 *(megabytes(setting["peak_bytes"][name]) for name in (OURS, THEIRS, COPIED))]
                for setting in results.data["settings"] for cell in [cells(results, setting)["start"]]])


@table
def texts(results):
    lines = []
    for setting in results.data["settings"]:
        found = cells(results, setting)
        lines += [[name_of(setting) if name == OURS else "", name, *text_columns(setting, found, name)] for name in (OURS, THEIRS)]
        fast = [times_as_fast(found[work]) if work in found else "" for work in ("plain", "speculation")]
        lines.append(["", "times as fast", *fast, "", "", ""])
    return "model||plain, tokens/s|speculation, tokens/s|speedup|tokens per round|texts that stayed the same", lines


def text_columns(setting, found, name):
    """Of one program; a model without a draft has its plain speed alone."""
    alone = found["plain"][name]["seconds"]
    if "speculation" not in found:
        return [f"{1 / alone:,.0f}", "", "", "", ""]
    fast, texts = found["speculation"][name]["seconds"], setting["texts"]
    return [f"{1 / alone:,.0f}", f"{1 / fast:,.0f}", number(alone / fast), number(texts[name]["tokens_per_round"]),
            f"{texts[name]['unchanged']} of {texts['texts']}"]


@table
def near(results):
    """After what margins texts differ."""
    found = [setting["texts"] for setting in results.data["settings"] if "texts" in setting]
    margins = [margin for texts in found for margin in texts["margins_of_changes"]]
    changed = (f"Speculation changed {len(margins)} of llama.cpp's {sum(texts['texts'] for texts in found)} texts here. Where "
               f"such a text first differs, the margin between the two likeliest tokens was {max(margins):.2g} of a logit "
               f"at most." if margins else "Speculation changed none of llama.cpp's texts here.")
    same = "; ".join(f"{name_of(setting)}: {setting['plain_texts']['same']} of {setting['plain_texts']['texts']}"
                     for setting in results.data["settings"])
    return prose(f"{changed} Plain texts that are the same in both programs: {same}.")


@table
def behind(results):
    """Where this project is slower, beyond the spread of both times, or takes more memory."""
    lines = []
    for setting in results.data["settings"]:
        for work, cell in cells(results, setting).items():
            for name in [name for name in (THEIRS, COPIED) if name in cell]:
                if cell[name]["ratio"] < 1 - max(cell[name]["spread"], cell[OURS]["spread"]):
                    lines.append([name_of(setting), in_words(work), name, number(cell[name]["ratio"])])
        ours = setting["peak_bytes"][OURS]
        lines += [[name_of(setting), "peak memory", name, number(peak / ours)]
                  for name, peak in setting["peak_bytes"].items() if peak < ours]
    if not lines:
        return "In no row, beyond the spread of the times.\n"
    return "model|work|beside|specdec's speed, or 1 / memory, over llama.cpp's", lines
