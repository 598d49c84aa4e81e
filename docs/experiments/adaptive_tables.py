"""The tables of docs/07_adaptive_drafting/ that are made from adaptive.json."""
import statistics

from table_text import TEXTS, Tables, markdown, number, prose

TABLES = table = Tables()
PAIRS = {"134m": "134m with 14m", "3b": "3B with 1B"}


def total(kinds, key):
    return sum(entry.get(key, 0) for entry in kinds.values())


def gain(entry):
    return entry["plain_seconds"] / entry["seconds"]


def all_texts(kinds):
    return {key: total(kinds, key) for key in ("emitted", "rounds", "drafted", "plain_seconds", "seconds")}


def by_setting(data, shape):
    """Rows of a shape: the setting, and its gain on each kind of text."""
    rows = []
    for name, kinds in data["counts"]["totals"][shape].items():
        every = all_texts(kinds)
        rows.append([name.replace("ngram", "n-grams"), number(every["emitted"] / every["rounds"]),
                     number(every["drafted"] / every["emitted"]), number(gain(every)), *(number(gain(kinds[kind])) for kind in TEXTS)])
    rows.sort(key=lambda row: (row[0] == "oracle", "below" in row[0]))
    return "|".join(["what drafts", "tokens per pass", "drafted per token", "gain", *TEXTS]), rows


@table
def adaptive_134m(data):
    return by_setting(data, "134m")


@table
def adaptive_3b(data):
    return by_setting(data, "3b")


@table
def adaptive_fill(data):
    """Tokens per pass of n-grams that also learn what the target found likely."""
    rows = []
    for temperature, fills in data["fill"]["temperatures"].items():
        for fill, kinds in fills.items():
            per_pass = lambda part: number(total(part, "emitted") / total(part, "target_forwards"))
            rows.append([temperature, fill, per_pass(kinds), *(per_pass({kind: kinds[kind]}) for kind in TEXTS)])
    return "|".join(["temperature", "likely tokens", "all texts", *TEXTS]), rows


@table
def adaptive_guard(data):
    """By how much the guard charges too little for the rounds of `confidence`."""
    off = lambda part: f"{100 * (total(part, 'spent') / total(part, 'charged') - 1):.1f} %"
    rows = [[PAIRS[shape], off(kinds), *(off({kind: kinds[kind]}) for kind in TEXTS)]
            for shape, kinds in data["guard"]["shapes"].items()]
    return "|".join(["target with draft", "all texts", *TEXTS]), rows


@table
def adaptive_places(data):
    """alpha over tested places beside alpha over all."""
    kinds = data["counts"]["totals"]["134m"]["fixed 5"]
    lookup = data["counts"]["totals"]["134m"]["lookup"]

    def pair(entry):
        return [number(entry["accepted"] / entry["tested"]) if entry["tested"] else "none",
                number(entry["accepted_places"] / entry["places"])]

    return "text|draft model, tested|draft model, all|lookup, tested|lookup, all", [
        [kind, *pair(kinds[kind]), *pair(lookup[kind])] for kind in TEXTS]


@table
def adaptive_costs(data):
    rows = []
    for shape, costs in data["costs"]["shapes"].items():
        pass_, step = costs["target_pass_seconds"], costs["draft_step_seconds"]
        rows.append([PAIRS[shape], f"{1000 * pass_[0]:.1f} ms", *(number(pass_[K] / pass_[0]) for K in (1, 5, 16)),
                     number(step / pass_[0], 3)])
    text = markdown(["target with draft", "one pass", "v(2)", "v(6)", "v(17)", "c"], rows)
    measured = data["costs"]
    return text + "\n" + prose(f"Measured {measured['date']}, {measured['machine']['cpu']}, two threads; one thread reads "
                               f"{measured['machine']['read_bandwidth_one_thread_gb_per_s']} GB/s from memory.")


def by_the_clock(data, shape):
    """Speedups over plain decoding in turns with it, of each setting and text."""
    measured, part = data["clock"], data["clock"]["shapes"][shape]
    settings, words = part["gains"], {1: "one", 3: "three", 5: "five"}
    texts = [kind for kind in TEXTS if kind in settings["fixed 3"]]
    rows = []
    for name, of_text in settings.items():
        off = [abs(run["gain"] / run["predicted_accounting"] - 1) for run in of_text.values()]
        rows.append([name.replace("ngram", "n-grams"), *(number(of_text[text]["gain"]) for text in texts),
                     f"{100 * statistics.median(off):.0f} %, {100 * max(off):.0f} %"])
    return markdown(["what drafts", *texts, "off the accounting: median, most"], rows) + "\n" + prose(
        f"Measured {measured['date']}, {measured['machine']['cpu']}, two threads; "
        f"{part['tokens']} tokens of each text, medians of {words[part['rounds']]}.")


@table
def adaptive_clock_134m(data):
    return by_the_clock(data, "134m")


@table
def adaptive_clock_3b(data):
    return by_the_clock(data, "3b")
