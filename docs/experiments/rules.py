#!/usr/bin/env python3
"""Makes tables of the chapters on speculation from some 1,330 short runs, into rules.json. tables.py puts them into the
pages.

    python3 docs/experiments/rules.py [--build DIR]

All numbers are counts, so they do not depend on the machine. The prompts are those of
golden/goldens/target/greedy.jsonl.
"""
import collections
import math

import run
from table_text import markdown

GREEDY, SAMPLING = "04_greedy_speculation", "05_rejection_sampling"
NEW_TOKENS = 100


class Runs:
    """Of one build, on the prompts by their kind."""

    def __init__(self, options):
        self.options = options
        prompts = [golden for golden in run.goldens() if len(golden["tokens"]) > 1]  # two are whole texts: nothing follows
        self.by_kind = run.by_kind(prompts, 1 if options.quick else len(prompts))
        self.prompts = [prompt for group in self.by_kind.values() for prompt in group]

    def stats(self, stage, prompt, *words):
        return run.traced(run.program(self.options.build, stage), [
            "--prompt-ids", ",".join(map(str, prompt["prompt_ids"])), "--max-new-tokens", NEW_TOKENS, "--threads", 1, *words])["stats"]

    def sampled(self, *words):
        """A seed for each prompt: with one for all, a position would have the same dice in all texts."""
        return Sum(self.stats(SAMPLING, prompt, "--seed", seed, *words) for seed, prompt in enumerate(self.prompts))


class Sum:
    """The counters of several runs."""

    def __init__(self, stats):
        self.total = collections.Counter()
        for one in stats:
            self.total.update({key: one[key] for key in ("tested", "accepted", "drafted", "emitted", "target_forwards")})
            self.total["acceptance_prob"] += (one["alpha_by_probability"] or 0) * one["tested"]

    def ratio(self, above, below, digits=2):
        return f"{self.total[above] / self.total[below]:.{digits}f}" if self.total[below] else "none"

    def cells(self):
        """alpha, sum min(p, q), tokens per target pass."""
        return [self.ratio("accepted", "tested", 3), self.ratio("acceptance_prob", "tested", 3),
                self.ratio("emitted", "target_forwards")]


def draft_kinds(runs):
    """Greedy: tokens per target pass, by what drafts and by the kind of text."""
    texts = ("stories", "rewriting", "arithmetic", "code")
    rows = []
    for draft in ("llama", "bigram", "unigram", "lookup", "random"):
        sums = [Sum(runs.stats(GREEDY, prompt, "--draft-kind", draft) for prompt in runs.by_kind[text]).cells() for text in texts]
        rows.append([f"`{draft}`", *(f"{tokens} ({alpha})" for alpha, _, tokens in sums)])
    return markdown(["drafts by", *texts], rows)


def rules(runs):
    formula = {"rejection": "sum min(p, q)", "at-least": "sum of q where p >= q", "non-iterative": "1 / max(p / q)",
               "sample-and-match": "sum p q", "one-hot": "sum p q", "coupled": "see sitting 5.8",
               "residual-skipped": "sum min(p, q)"}
    rows = []
    for rule, accepts in formula.items():
        one = runs.sampled("--temperature", 1, "--acceptance", rule)
        alpha, bound, tokens = one.cells()
        rows.append([f"`{rule}`", "no" if rule == "residual-skipped" else "yes", accepts, alpha, bound,
                     one.ratio("accepted", "acceptance_prob"), tokens])
    return markdown(["rule", "lossless", "accepts", "alpha", "sum min(p, q)", "alpha over it", "tokens per target pass"], rows)


def draft_temperatures(runs):
    return markdown(["draft temperature", "alpha", "sum min(p, q)", "tokens per target pass"],
                    [[str(temperature), *runs.sampled("--temperature", 1, "--draft-temperature", temperature).cells()]
                     for temperature in (0, 0.5, 0.8, 1, 1.2, 2)])


def with_error(value, error):
    return f"{0 if abs(value) < 0.0005 else value:.3f} ± {error:.3f}"  # no -0.000


def rule_errors(runs):
    """alpha of two rules and its bound, with standard errors over prompts, which are drawn from the kinds as strata.
    Differences are paired: their errors come from the differences of the prompts."""
    def by_prompt(rule, seeds):
        """Each prompt's counts, those of its seeds together: (accepted, tested, sum of min(p, q))."""
        for first, prompt in enumerate(runs.prompts):
            total = Sum(runs.stats(SAMPLING, prompt, "--seed", first + 100 * more, "--temperature", 1, "--acceptance", rule)
                        for more in range(seeds)).total
            yield total["accepted"], total["tested"], total["acceptance_prob"]

    def ratio_and_shares(counts, above):
        """above(a, t, m) over all that was tested, and what each prompt adds to its deviation."""
        tested = sum(t for _, t, _ in counts)
        ratio = sum(above(*one) for one in counts) / tested
        return ratio, [(above(*one) - ratio * one[1]) / tested for one in counts]

    def error(shares):
        return math.sqrt(run.stratified_variance(list(zip((prompt["kind"] for prompt in runs.prompts), shares))) or 0)

    rows = []
    for seeds in (1, 4):
        alphas = {}
        for rule in ("rejection", "coupled"):
            counts = list(by_prompt(rule, seeds))
            alphas[rule] = alpha, shares = ratio_and_shares(counts, lambda a, t, m: a)
            bound, _ = ratio_and_shares(counts, lambda a, t, m: m)
            loss, of_loss = ratio_and_shares(counts, lambda a, t, m: a - m)
            rows.append([f"`{rule}`", str(seeds), with_error(alpha, error(shares)), f"{bound:.3f}",
                         with_error(loss, error(of_loss))])
        (one, of_one), (other, of_other) = alphas["coupled"], alphas["rejection"]
        paired = error([a - b for a, b in zip(of_one, of_other)])
        rows.append(["`coupled` minus `rejection`", str(seeds), with_error(one - other, paired), "", ""])
    return markdown(["rule", "seeds per prompt", "alpha", "sum min(p, q)", "alpha minus it"], rows)


def tables(options):
    runs = Runs(options)
    made = {"draft-kinds": draft_kinds, "rules": rules, "rule-errors": rule_errors, "draft-temperatures": draft_temperatures}
    return {name: make(runs).splitlines() for name, make in made.items()}


if __name__ == "__main__":
    run.measured_parts(__doc__, "rules.json", {"tables": tables})
