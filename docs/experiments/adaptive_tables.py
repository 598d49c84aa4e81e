"""The tables of docs/07_adaptive_drafting/ that are made from adaptive.json."""
import statistics

from table_text import TEXTS, Entries, Tables, markdown, number, prose

TABLES = table = Tables()
PAIRS = {"134m": "134m with 14m", "3b": "3B with 1B"}


def gain(entries):
    """Plain decoding's seconds over those of the rounds."""
    return entries.ratio("plain_seconds", "seconds")


def counted(data, **wanted):
    return Entries(data["counts"]["entries"]).of(**wanted)


def texts(entries, cell):
    """A cell for each kind of text."""
    return [cell(entries.of(text=kind)) for kind in TEXTS]


def by_setting(data, shape):
    """Rows of a shape: the setting, and its gain on each kind of text."""
    rows = [[way.replace("ngram", "n-grams"), number(found.ratio("emitted", "rounds")), number(found.ratio("drafted", "emitted")),
             number(gain(found)), *texts(found, lambda e: number(gain(e)))] for way, found in counted(data, shape=shape).by("way").items()]
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
    per_pass = lambda e: number(e.ratio("emitted", "rounds"))
    return "|".join(["temperature", "likely tokens", "all texts", *TEXTS]), [
        [str(T), str(fill), per_pass(found), *texts(found, per_pass)]
        for (T, fill), found in Entries(data["fill"]["entries"]).by("T", "fill").items()]


@table
def adaptive_guard(data):
    """By how much the guard charges too little for the rounds of `confidence`."""
    off = lambda e: f"{100 * (e.ratio('spent', 'charged') - 1):.1f} %"
    return "|".join(["target with draft", "all texts", *TEXTS]), [
        [PAIRS[shape], off(found), *texts(found, off)] for shape, found in Entries(data["guard"]["entries"]).by("shape").items()]


@table
def adaptive_places(data):
    """alpha over tested places beside alpha over all."""
    pair = lambda e: [number(e.ratio("accepted", "tested")) or "none", number(e.ratio("accepted_places", "places"))]
    ways = [counted(data, shape="134m", way=way) for way in ("fixed 5", "lookup")]
    return "text|draft model, tested|draft model, all|lookup, tested|lookup, all", [
        [kind, *(cell for way in ways for cell in pair(way.of(text=kind)))] for kind in TEXTS]


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


ESTIMATORS = {"margin": "margin, by the logistic", "confidence": "largest probability", "entropy": "1 - entropy"}


def bins(entries, name):
    """[places, accepted, sum of the estimates] of each bin."""
    total = {}
    for e in entries:
        for column, which in enumerate(("places", "accepted", "sum")):
            for i, n in e.get(f"{name}_{which}", []):
                total.setdefault(i, [0, 0, 0])[column] += n
    return [total[i] for i in sorted(total) if total[i][0]]


def auc(found):
    """How often an accepted draft has the larger estimate than a rejected one, by bins; equal ones count half."""
    better, rejected_below = 0, 0
    for places, accepted, _ in found:
        better += accepted * (rejected_below + (places - accepted) / 2)
        rejected_below += places - accepted
    accepted = sum(a for _, a, _ in found)
    return better / (accepted * rejected_below) if accepted and rejected_below else None


def off(found):
    """By how much estimates miss the share that was accepted, averaged over places."""
    return sum(abs(total - accepted) for _, accepted, total in found) / sum(places for places, *_ in found)


def of_estimates(data):
    """AUC and error of each estimator, by temperature and kind of text."""
    rows = []
    for T, of_T in Entries(data["entries"]).of(way="full").by("T").items():
        for kind, found in {"all texts": of_T, **of_T.by("text")}.items():
            by_name = [bins(found, name) for name in ESTIMATORS]
            places, accepted = (sum(column) for column in list(zip(*by_name[0]))[:2])
            rows.append([str(T), kind, str(places), number(accepted / places), *(number(auc(b)) or "none" for b in by_name),
                         *(number(off(b)) for b in by_name)])
    heads = [f"{what}: {name}" for what in ("AUC", "off") for name in ESTIMATORS]
    return "|".join(["T", "text", "tested", "alpha", *heads]), rows


@table
def adaptive_estimates(data):
    return of_estimates(data["survival"])


@table
def adaptive_estimates_real(data):
    return of_estimates(data["survival-real"])


@table
def adaptive_survivals(data):
    """What the policy estimated of the drafts that it made, and what came true."""
    rows = []
    for pair, part in (("embedded pair", data["survival"]), ("SmolLM2, EAGLE-3", data["survival-real"])):
        for T, found in Entries(part["entries"]).of(way="survival").by("T").items():
            places, accepted, estimated = (sum(column) for column in zip(*bins(found, "survival")))
            rows.append([pair, str(T), str(places), number(estimated / places), number(accepted / places)])
    return "drafts|T|drafted|estimated survival|survived", rows


@table
def adaptive_survival(data):
    """Gains by count of the policy beside others."""
    rows = []
    for shape in PAIRS:
        ways = {**counted(data, shape=shape).by("way"), "survival": Entries(data["survival"]["gains"]).of(shape=shape)}
        for way in ("fixed 3", "gain", "confidence", "survival", "oracle"):
            found = ways[way]
            rows.append([PAIRS[shape], way, number(found.ratio("emitted", "rounds")), number(found.ratio("drafted", "emitted")),
                         number(gain(found)), *texts(found, lambda e: number(gain(e)))])
    return "|".join(["target with draft", "K by", "tokens per pass", "drafted per token", "gain", *TEXTS]), rows


def by_the_clock(data, shape):
    """Speedups over plain decoding in turns with it, of each setting and text."""
    measured, part, words = data["clock"], data["clock"]["shapes"][shape], {1: "one", 3: "three", 5: "five"}
    entries = Entries(measured["entries"]).of(shape=shape)
    shown = [kind for kind in TEXTS if entries.of(text=kind)]
    rows = []
    for way, found in entries.by("way").items():
        off = [abs(e["gain"] / e["predicted_accounting"] - 1) for e in found]
        rows.append([way.replace("ngram", "n-grams"), *(number(found.of(text=kind)[0]["gain"]) for kind in shown),
                     f"{100 * statistics.median(off):.0f} %, {100 * max(off):.0f} %"])
    return markdown(["what drafts", *shown, "off the accounting: median, most"], rows) + "\n" + prose(
        f"Measured {measured['date']}, {measured['machine']['cpu']}, two threads; "
        f"{part['tokens']} tokens of each text, medians of {words[part['rounds']]}.")


@table
def adaptive_clock_134m(data):
    return by_the_clock(data, "134m")


@table
def adaptive_clock_3b(data):
    return by_the_clock(data, "3b")
