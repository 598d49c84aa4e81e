#!/usr/bin/env python3
"""Makes tables of the chapters on speculation from real runs, and writes them to rules.json, with the hash of the
sources that they were made from. tables.py puts them into the pages.

    python3 docs/experiments/rules.py            # some 1,330 short runs of the programs in build/bin
    python3 docs/experiments/rules.py DIR        # in another directory

All numbers are counts, so they do not depend on the machine. The prompts are those of
golden/goldens/target/greedy.jsonl.
"""
import collections
import datetime
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from run import sources_sha256, stratified_variance

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bin"
GREEDY = "04_greedy_speculation"
SAMPLING = "05_rejection_sampling"
NEW_TOKENS = 100


def prompts():
    """The prompts by their kind."""
    result = collections.defaultdict(list)
    for line in (ROOT / "golden/goldens/target/greedy.jsonl").read_text(encoding="utf-8").splitlines():
        golden = json.loads(line)
        if len(golden["tokens"]) > 1:                # two code prompts are whole texts: nothing follows
            result[golden["kind"]].append(golden["prompt_ids"])
    return result


def stats(stage, prompt_ids, *options):
    """The "stats" of a run; with --quiet the program measures no times, which would take longer than the run."""
    with tempfile.TemporaryDirectory() as directory:
        trace = pathlib.Path(directory) / "trace.json"
        command = [str(BIN / stage), "--prompt-ids", ",".join(map(str, prompt_ids)), "--max-new-tokens",
                   str(NEW_TOKENS), "--threads", "1", "--quiet", "--trace", str(trace), *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        return json.loads(trace.read_text(encoding="utf-8"))["stats"]


class Sum:
    """The counters of several runs."""
    def __init__(self, runs):
        total = collections.Counter()
        for run in runs:
            for key in ("tested", "accepted", "drafted", "emitted", "target_forwards"):
                total[key] += run[key]
            total["acceptance_prob"] += (run["alpha_by_probability"] or 0) * run["tested"]
        self.total = total

    def ratio(self, above, below, digits=2):
        return f"{self.total[above] / self.total[below]:.{digits}f}" if self.total[below] else "none"

    def alpha(self):
        return self.ratio("accepted", "tested", 3)

    def acceptance_prob(self):
        return self.ratio("acceptance_prob", "tested", 3)

    def tokens(self):
        return self.ratio("emitted", "target_forwards")


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def draft_kinds(by_kind):
    """Greedy: tokens per target pass, by what drafts and by the kind of text."""
    texts = ("stories", "rewriting", "arithmetic", "code")
    rows = []
    for draft in ("llama", "bigram", "unigram", "lookup", "random"):
        sums = [Sum(stats(GREEDY, ids, "--draft-kind", draft) for ids in by_kind[text]) for text in texts]
        rows.append([f"`{draft}`"] + [f"{one.tokens()} ({one.alpha()})" for one in sums])
    return table(["drafts by", *texts], rows)


def sampled(chosen, *options):
    """A seed for each prompt: with one for all, a position would have the same dice in all texts."""
    return Sum(stats(SAMPLING, ids, "--seed", seed, *options) for seed, ids in enumerate(chosen))


def rules(chosen):
    formula = {"rejection": "sum min(p, q)", "at-least": "sum of q where p >= q", "non-iterative": "1 / max(p / q)",
               "sample-and-match": "sum p q", "one-hot": "sum p q", "coupled": "see sitting 5.8",
               "residual-skipped": "sum min(p, q)"}
    rows = []
    for rule, accepts in formula.items():
        one = sampled(chosen, "--temperature", 1, "--acceptance", rule)
        lossless = "no" if rule == "residual-skipped" else "yes"
        rows.append([f"`{rule}`", lossless, accepts, one.alpha(), one.acceptance_prob(), one.ratio("accepted", "acceptance_prob"),
                     one.tokens()])
    return table(["rule", "lossless", "accepts", "alpha", "sum min(p, q)", "alpha over it", "tokens per target pass"], rows)


def draft_temperatures(chosen):
    rows = []
    for temperature in (0, 0.5, 0.8, 1, 1.2, 2):
        one = sampled(chosen, "--temperature", 1, "--draft-temperature", temperature)
        rows.append([str(temperature), one.alpha(), one.acceptance_prob(), one.tokens()])
    return table(["draft temperature", "alpha", "sum min(p, q)", "tokens per target pass"], rows)


def by_prompt(chosen, rule, seeds):
    """Each prompt's counts, those of its seeds together: [accepted, tested, sum of min(p, q)]."""
    found = []
    for first, ids in enumerate(chosen):
        runs = [stats(SAMPLING, ids, "--seed", first + 100 * more, "--temperature", 1, "--acceptance", rule)
                for more in range(seeds)]
        found.append([sum(run["accepted"] for run in runs), sum(run["tested"] for run in runs),
                      sum((run["alpha_by_probability"] or 0) * run["tested"] for run in runs)])
    return found


def with_error(value, error):
    return f"{0 if abs(value) < 0.0005 else value:.3f} ± {error:.3f}"  # no -0.000


def rule_errors(by_kind):
    """alpha of two rules and its bound, with standard errors over prompts, which are drawn from the kinds as strata.
    Differences are paired: their errors come from the differences of the prompts."""
    kinds = [kind for kind, group in by_kind.items() for _ in group]
    chosen = [ids for group in by_kind.values() for ids in group]

    def ratio_and_shares(counts, above):
        """above(a, t, m) over all that was tested, and what each prompt adds to its deviation."""
        tested = sum(t for _, t, _ in counts)
        ratio = sum(above(*one) for one in counts) / tested
        return ratio, [(above(*one) - ratio * one[1]) / tested for one in counts]

    def error(shares):
        return math.sqrt(stratified_variance(list(zip(kinds, shares))))

    rows = []
    for seeds in (1, 4):
        alphas = {}
        for rule in ("rejection", "coupled"):
            counts = by_prompt(chosen, rule, seeds)
            alphas[rule] = alpha, shares = ratio_and_shares(counts, lambda a, t, m: a)
            bound, _ = ratio_and_shares(counts, lambda a, t, m: m)
            loss, of_loss = ratio_and_shares(counts, lambda a, t, m: a - m)
            rows.append([f"`{rule}`", str(seeds), with_error(alpha, error(shares)), f"{bound:.3f}",
                         with_error(loss, error(of_loss))])
        (one, of_one), (other, of_other) = alphas["coupled"], alphas["rejection"]
        paired = error([a - b for a, b in zip(of_one, of_other)])
        rows.append(["`coupled` minus `rejection`", str(seeds), with_error(one - other, paired), "", ""])
    return table(["rule", "seeds per prompt", "alpha", "sum min(p, q)", "alpha minus it"], rows)


def main():
    by_kind = prompts()
    chosen = [ids for group in by_kind.values() for ids in group]
    tables = {"draft-kinds": draft_kinds(by_kind), "rules": rules(chosen),
              "rule-errors": rule_errors(by_kind), "draft-temperatures": draft_temperatures(chosen)}
    made = {"date": datetime.date.today().isoformat(), "sources_sha256": sources_sha256()}
    kept = json.dumps({**made, "tables": {name: rows.splitlines() for name, rows in tables.items()}}, indent=1)
    file = pathlib.Path(__file__).with_name("rules.json")
    file.write_text(kept + "\n", encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main()
