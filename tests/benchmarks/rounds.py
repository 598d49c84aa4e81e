"""From what a benchmark gave in each round to what a table says, and whether it was steady.

A time is the median of the faster half of the rounds, and a rate that of its time; all else, ratios above all, are
medians over the rounds: what is divided was measured within a moment. What a program could not measure in a round, as
the machine's yardstick changed meanwhile, does not count. What is never done, as arithmetic while a model is loaded, has no
rate.

The spread of a time, and of its rate, is the range of that half, divided by the time (turns.py). The spread of a ratio
is the distance between the quartiles of its rounds, divided by their median. Both are parts: 0.02 is 2%.
"""
import statistics

import turns

FORM = "rounds"     # of results that come from here: with rounds and spreads
FEWEST = 5          # rounds, of nine, in which the yardstick held still
LARGEST_SPREAD = turns.Rules().largest_spread
MOST_UNSTEADY = 0.05  # of a sweep's settings, or one
TIMES = ("seconds",)
RATES = ("tokens_per_second", "plain_tokens_per_second", "bytes_per_second", "flops_per_second")
YARDSTICKS = ("bandwidth", "peak")  # the machine's, beside each setting
COUNTED = ("samples", "rows", "alpha", "emitted_per_round", "mean_spec_length", "full_steps", "emitted_overall", "drafting")  # by no clock
NAMING = ("benchmark", "target", "draft", "T", "K", "M", "B", "stage", "asked")  # a setting, but for the text


def entry_of(counters):
    """counters: of each round. Returns one dict: a value for each counter, `samples`, the rounds that count, `spread`,
    the largest of a time, and `ratio_spreads`, a dict with one for each ratio: what is no time, rate, yardstick or count."""
    kept = [found for found in counters if found.get("samples", 1) > 0]
    entry = {"samples": len(kept), "spread": 0.0, "ratio_spreads": {}}
    for name in dict.fromkeys(name for found in counters for name in found):
        values = [found[name] for found in kept if found.get(name) is not None and (found[name] or name not in RATES)]
        if name == "samples":
            continue
        if not values:
            entry[name] = None
        elif name in TIMES + RATES:
            times = turns.summary([1 / value if name in RATES else value for value in values])
            entry[name] = turns.rounded(1 / times["seconds"]) if name in RATES else times["seconds"]
            entry["spread"] = max(entry["spread"], times["spread"])
        else:
            entry[name] = turns.rounded(statistics.median(values))
            if name not in YARDSTICKS + COUNTED:
                entry["ratio_spreads"][name] = ratio_spread(values)
    return entry


def ratio_spread(values):
    """The distance between the quartiles, divided by the median; 0 where there is one value, or the median is 0."""
    middle = statistics.median(values)
    if len(values) == 1 or middle == 0:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return turns.rounded((high - low) / middle)


def setting_of(entry):
    """What names it, but for the text: means over texts want all of them or none."""
    return tuple(str(entry.get(name)) for name in NAMING)


def name_of(setting):
    """The same in words."""
    return " ".join(word for word in setting if word != "None")


def unsteady(entries, spread_of=lambda entry: entry["spread"]):
    """The settings that were not steady, each with what is wrong: the spread, of the texts the median one, and the fewest
    rounds. spread_of: of what a table shows, by default a time."""
    settings = {}
    for entry in entries:
        settings.setdefault(setting_of(entry), []).append(entry)
    found = {setting: (statistics.median(map(spread_of, texts)), min(entry["samples"] for entry in texts))
             for setting, texts in settings.items()}
    return {setting: (spread, samples) for setting, (spread, samples) in found.items()
            if spread > LARGEST_SPREAD or samples < FEWEST}


def steady_entries(entries):
    """Those of the settings that were steady. Too many others end the run: such a machine was not quiet."""
    settings, wrong = {setting_of(entry) for entry in entries}, unsteady(entries)
    if len(wrong) > max(1, MOST_UNSTEADY * len(settings)):
        setting, (spread, samples) = max(wrong.items(), key=lambda item: (-item[1][1], item[1][0]))
        raise SystemExit(f"{len(wrong)} of {len(settings)} settings were not steady, the worst: {name_of(setting)}, whose times "
                         f"differ by {spread:.0%} in {samples} rounds")
    return [entry for entry in entries if setting_of(entry) not in wrong]


def gap(first, second):
    """Between value * (1 - spread) .. value * (1 + spread) of two pairs (value, spread). Up to 0, the two overlap."""
    lows, highs = zip(*((value * (1 - spread), value * (1 + spread)) for value, spread in (first, second)))
    return max(lows) - min(highs)


def inversions(entries):
    """What physics forbids: (benchmark, M, a larger M, their seconds) where more rows took less time, by more than both
    times are uncertain."""
    series = {}
    for entry in entries:
        if entry.get("M") and entry.get("seconds"):
            series.setdefault(entry["benchmark"], []).append(entry)
    return [(name, few["M"], many["M"], few["seconds"], many["seconds"]) for name, found in series.items()
            for few in found for many in found
            if few["M"] < many["M"] and few["seconds"] > many["seconds"]
            and gap((few["seconds"], few["spread"]), (many["seconds"], many["spread"])) > 0]


def refuse_inversions(entries):
    """Ends the run where more rows took less time: so no machine works, and something went wrong."""
    found = inversions(entries)
    if found:
        name, few, many, first, second = found[0]
        raise SystemExit(f"{len(found)} times cannot be right, as that of {name}: {first:.4g} s for M = {few}, and {second:.4g} s for "
                         f"M = {many}")
