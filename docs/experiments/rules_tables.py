"""The tables of chapters 4 and 5 that are made from rules.json."""
import math

import run
from table_text import Entries, Tables, number

TABLES = table = Tables()
ACCEPTS = {"rejection": "sum min(p, q)", "at-least": "sum of q where p >= q", "non-iterative": "1 / max(p / q)",
           "sample-and-match": "sum p q", "one-hot": "sum p q", "coupled": "see sitting 5.8", "residual-skipped": "sum min(p, q)"}


def alpha(entries):
    return number(entries.ratio("accepted", "tested"), 3) or "none"


def bound(entries):
    """Sum of min(p, q)."""
    return number(entries.ratio("acceptance_prob", "tested"), 3) or "none"


def tokens_per_pass(entries):
    return number(entries.ratio("emitted", "rounds"))


@table
def draft_kinds(data):
    """Greedy: tokens per target pass, by what drafts and by the kind of text."""
    entries = Entries(data["counts"]["drafts"])
    texts = ("stories", "rewriting", "arithmetic", "code")
    cell = lambda e: f"{tokens_per_pass(e)} ({alpha(e)})"
    return "|".join(["drafts by", *texts]), [[f"`{draft}`", *(cell(found.of(text=text)) for text in texts)]
                                             for draft, found in entries.by("draft").items()]


@table
def rules(data):
    return "rule|lossless|accepts|alpha|sum min(p, q)|alpha over it|tokens per target pass", [
        [f"`{rule}`", "no" if rule == "residual-skipped" else "yes", ACCEPTS[rule], alpha(e), bound(e),
         number(e.ratio("accepted", "acceptance_prob")) or "none", tokens_per_pass(e)]
        for rule, e in Entries(data["counts"]["rules"]).by("rule").items()]


DRAFTS_OF_FEWER_BITS = {"llama": "the embedded draft", "self": "the target itself"}


def drafts_of_fewer_bits(data):
    """(name, bytes as a share of the target's, entries by K)."""
    part = data["weights"]
    return [(f"{DRAFTS_OF_FEWER_BITS[draft]}, {'bf16' if weights == 'stored' else weights}", part["draft_bytes"][f"{draft} {weights}"] / part["target_bytes"],
             found.by("K")) for (draft, weights), found in Entries(part["entries"]).by("draft", "weights").items()]


def best_gain(c, by_K):
    """The K that gains most where weights come from memory, and its speedup: c is the share of bytes, and rows are free."""
    gains = {K: found.ratio("emitted", "rounds") / (1 + K * c) for K, found in by_K.items()}
    return max(gains.items(), key=lambda gain: gain[1])


@table
def rounded_drafts(data):
    rows = []
    for name, c, by_K in drafts_of_fewer_bits(data):
        K, speedup = best_gain(c, by_K)
        rows.append([name, number(c), alpha(by_K[5]), str(K), tokens_per_pass(by_K[K]), number(speedup)])
    return "draft|bytes, of the target's|alpha, K = 5|best K|tokens per pass|speedup, v = 1", rows


@table
def draft_temperatures(data):
    return "draft temperature|alpha|sum min(p, q)|tokens per target pass", [
        [f"{T}", alpha(e), bound(e), tokens_per_pass(e)]
        for T, e in Entries(data["counts"]["draft_temperatures"]).by("draft_temperature").items()]


def ratio_and_shares(entries, above):
    """above(entry) over all that was tested, and what each prompt adds to its deviation."""
    tested = entries.total("tested")
    ratio = sum(above(e) for e in entries) / tested
    return ratio, [(above(e) - ratio * e["tested"]) / tested for e in entries]


@table
def rule_errors(data):
    """alpha of two rules and its bound, with standard errors over prompts, which are drawn from the kinds as strata.
    Differences are paired: their errors come from the differences of the prompts."""
    found, rows = Entries(data["counts"]["prompts"]).by("seeds", "rule"), []
    for seeds in dict.fromkeys(seeds for seeds, _ in found):
        kinds = [e["text"] for e in found[seeds, "rejection"]]

        def with_error(value, shares):
            error = math.sqrt(run.stratified_variance(list(zip(kinds, shares))) or 0)
            return f"{0 if abs(value) < 0.0005 else value:.3f} ± {error:.3f}"  # no -0.000
        alphas = {}
        for rule in ("rejection", "coupled"):
            entries = found[seeds, rule]
            alphas[rule] = ratio_and_shares(entries, lambda e: e["accepted"])
            loss = ratio_and_shares(entries, lambda e: e["accepted"] - e["acceptance_prob"])
            rows.append([f"`{rule}`", str(seeds), with_error(*alphas[rule]), bound(entries), with_error(*loss)])
        (one, of_one), (other, of_other) = alphas["coupled"], alphas["rejection"]
        rows.append(["`coupled` minus `rejection`", str(seeds), with_error(one - other, [a - b for a, b in zip(of_one, of_other)]), "", ""])
    return "rule|seeds per prompt|alpha|sum min(p, q)|alpha minus it", rows
