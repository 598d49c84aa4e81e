"""Measures decoding by the project's programs, as their users run them: bench.py and the experiments of chapters 6 to 8.

A setting is a program with its options, which continues some texts. It is held against another one, mostly plain
decoding. In each round (turns.py) that one continues a text first, and then all settings do that are held against it.
So what is divided was measured within seconds. Greedy texts must be the same.
"""
import json
import tempfile
import typing

import rounds
import run  # of docs/experiments
import turns

STAGES = {1: "01_naive_decoder", 2: "02_contiguous_kv_cache", 3: "03_paged_kv_cache", 4: "04_greedy_speculation",
          5: "05_rejection_sampling", 6: "06_batched_verification", 7: "07_adaptive_drafting", 8: "08_token_trees",
          9: "09_self_drafting", 10: "10_beam_search"}
SYNTHETIC = "synthetic_speculation"
TEXTS = ("arithmetic-6", "dialogue-2", "code-3", "rewriting-2", "recipes-0", "stories-0", "questions-1", "poems-1")
FEW_TEXTS = ("code-3", "rewriting-2", "recipes-0", "stories-0")


# --- one run ---

def in_shape(of, shape):
    return [] if shape == "embedded" else [f"--inflate-{of}", shape]


def draft_words(name):
    """name: a kind of draft, or the draft model's shape; "_int8" after it for weights of eight bits."""
    shape = name.removesuffix("_int8")
    words = ["--draft-weights", "int8"] if name != shape else []
    return words + (["--draft-kind", shape] if shape in ("self", "bigram", "lookup", "ngram") else in_shape("draft", shape))


class Programs:
    """The programs of a build."""

    def __init__(self, build):
        self.build = build

    def decode(self, name, words, prompt, tokens):
        """The JSON of a run that continues a prompt by `tokens` tokens."""
        return run.timed(run.program(self.build, name), [*words, *run.prompt_words(prompt, tokens), "--ignore-eos"])

    def serve(self, name, words, prompts, tokens, batch):
        """Its summary, and the tokens of each request. prompts: of each the ids, or the fields of a line. They are computed as soon as there is room, so that most steps
        are rounds of a full batch."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            fields = [prompt if isinstance(prompt, dict) else {"prompt_ids": prompt} for prompt in prompts]
            file.writelines(json.dumps({"id": str(i), **prompt}) + "\n" for i, prompt in enumerate(fields))
            file.flush()
            lines = run.run(run.program(self.build, name), [*map(str, words), "--requests", file.name, "--ignore-eos", "--max-new-tokens",
                                              str(tokens), "--max-batch", str(batch), "--no-prefix-cache", "--token-budget",
                                              "4096", "--prefill-chunk", "4096", "--output", "json"]).splitlines()
        *results, last = map(json.loads, lines)
        return last["summary"], {int(result["id"]): result["tokens"] for result in results}


# --- what a run says, beside another ---

def rate(stats):
    return stats["emitted"] / stats["decode_seconds"]


def counters(stats, against):
    """Of one text. The names with "speedup" are the program's own predictions."""
    gain, accounting = rate(stats) / rate(against), stats.get("speedup_accounting")
    return {"tokens_per_second": rate(stats), "plain_tokens_per_second": rate(against), "gain": gain,
            "alpha": stats["accepted"] / max(stats["tested"], 1), "emitted_per_round": stats["emitted"] / stats["rounds"],
            "mean_spec_length": stats["mean_spec_length"], "c": stats.get("c"), "v": stats.get("v"),
            **({"nodes_per_round": stats["nodes"] / stats["rounds"]} if "nodes" in stats else {}),
            "predicted_formula": stats.get("speedup_formula"), "predicted_accounting": accounting,
            "gain_over_accounting": gain / accounting if accounting else None}


def full_batch(summary, batch):
    """The steps in which B requests had a round and no prompt was computed."""
    for entry in summary["decode_steps_by_batch_size"]:
        if entry["requests"] == batch:
            return entry
    raise SystemExit(f"no step had rounds of {batch} requests and nothing else")


def batch_counters(summary, plain, batch, K):
    """Per step of full batches: counts, seconds, and ratios to the same batch without speculation. `drafting`: the share
    of rounds that drafted. In full batches a round emits more than in the whole text: requests with many accepted drafts
    end early, and what the others do alone is not in there."""
    full, before, stats = full_batch(summary, batch), full_batch(plain, batch), summary["stats"]
    step, draft, verify = (full[name] / full["steps"] for name in ("seconds", "draft_seconds", "verify_seconds"))
    pass_ = before["verify_seconds"] / before["steps"]
    speed, overall = full["emitted"] / full["seconds"], stats["tokens_per_second"]
    return {"full_steps": full["steps"], "rows": full["rows"] / full["steps"], "emitted_per_round": full["emitted"] / full["steps"] / batch,
            "emitted_overall": stats["emitted"] / stats["rounds"], "alpha": stats["alpha"],
            "drafting": stats["drafted_rounds"] / stats["rounds"],
            "step_ms": 1e3 * step, "draft_ms": 1e3 * draft, "verify_ms": 1e3 * verify,
            "tokens_per_second": speed, "tokens_per_second_overall": overall,
            "c": draft / K / pass_ if K else None, "v": verify / pass_, "overhead_in_passes": (step - draft - verify) / pass_,
            "gain": speed / (before["emitted"] / before["seconds"]),
            "gain_overall": overall / plain["stats"]["tokens_per_second"]}


# --- sweeps: every setting once in each round ---

class Setting(typing.NamedTuple):
    fields: dict    # that name it among the entries
    run: tuple      # the program, and its words
    against: tuple  # the same of what it is held against
    texts: tuple = TEXTS


def begun_later(settings, number, count):
    """The settings, beginning elsewhere in each of the rounds."""
    start = number % (count + 1) * len(settings) // (count + 1)
    return settings[start:] + settings[:start]


class Sweep:
    """`identities`: of the entries. one_round(number): what was measured of each. `rounds`: how many there will be, where
    the settings begin elsewhere in each. step(): called after each measurement."""
    device, rounds, step = None, 1, staticmethod(lambda: None)


class TextSweep(Sweep):
    """Settings on texts. read(): what becomes of the "stats" of a run, and of those that they are held against."""

    def __init__(self, programs, settings, tokens, read=counters):
        self.programs, self.tokens, self.read = programs, tokens, read
        self.prompts = {golden["id"]: golden["prompt_ids"] for golden in run.goldens()}
        self.turns = sorted(((setting, text) for setting in settings for text in setting.texts),
                            key=lambda turn: (turn[1], turn[0].against))
        self.identities = [{**setting.fields, "text": text.partition("-")[0]} for setting, text in self.turns]

    def decode(self, program, words, text):
        result = self.programs.decode(program, words, self.prompts[text], self.tokens)
        self.device = result["device"]
        return result

    def one_round(self, number):
        found, held, against = {}, None, None
        for at in begun_later(list(range(len(self.turns))), number, self.rounds):
            setting, text = self.turns[at]
            if held != (held := (text, setting.against)):
                against = self.decode(*setting.against, text)
            result = self.decode(*setting.run, text)
            if setting.fields.get("T", 0) == 0 and result["tokens"] != against["tokens"]:
                raise SystemExit(f"{text}: {' '.join(map(str, setting.run[1]))}: this is not the text of plain decoding")
            found[at] = self.read(result["stats"], against["stats"])
            self.step()
        return [found[at] for at in range(len(self.turns))]


def rules_of(options):
    return turns.Rules(rounds=1 if options.quick else rounds.FEWEST, strict=not options.quick)


def by_turns(rules, name, sweep, pids=()):
    """(identity, what was measured in each of the rounds that count) of all, and how many rounds were thrown away."""
    progress = run.Progress(name, (rules.rounds + 1) * len(sweep.identities))
    sweep.rounds, sweep.step = rules.rounds, progress.step
    kept, thrown_away = turns.kept_rounds(sweep.one_round, rules, pids)
    return list(zip(sweep.identities, zip(*kept))), thrown_away


def measured(options, name, settings, tokens, read=counters):
    """Settings on texts: the same, and the device."""
    sweep = TextSweep(Programs(options.build), settings, tokens, read)
    return by_turns(rules_of(options), name, sweep)[0], sweep.device


def clocked(options, name, settings, tokens, kept):
    """Settings on texts, as a file of results has them: of each, medians of the values that are `kept`."""
    measures, _ = measured(options, name, settings, tokens)
    entries = [{**identity, **rounds.entry_of(found)} for identity, found in measures]
    return {"tokens": tokens, "rounds": len(measures[0][1]), "entries": [{name: e[name] for name in kept} for e in entries]}


class BatchSweep(Sweep):
    """Stage 6 by B and K, K = 0 first for each B. groups: what names them, with "B". summary_at(group, K) runs the
    program."""

    def __init__(self, groups, lengths, summary_at):
        self.groups, self.lengths, self.summary_at = groups, lengths, summary_at
        self.identities = [{**group, "K": K} for group in groups for K in lengths]

    def one_round(self, number):
        found = {}
        for at in begun_later(list(range(len(self.groups))), number, self.rounds):
            group, summaries = self.groups[at], {}
            for K in self.lengths:
                summaries[K] = self.summary_at(group, K)
                self.step()
            self.device = summaries[0]["device"]
            for K, summary in summaries.items():
                found[at, K] = batch_counters(summary, summaries[0], group["B"], K)
        return [found[at, K] for at in range(len(self.groups)) for K in self.lengths]


def drafting(K):
    return ["--spec-length", K] if K else ["--no-speculation"]


def batches_of(programs, pairs, batches, lengths, tokens):
    """Of the texts, as many times as a batch needs them."""
    prompts = [golden["prompt_ids"] for golden in run.goldens(TEXTS)]

    def summary_at(group, K):
        words = [*in_shape("target", group["target"]), *in_shape("draft", group["draft"]), *drafting(K)]
        return programs.serve(STAGES[6], words, [prompts[i % len(prompts)] for i in range(group["B"])], tokens, group["B"])[0]
    return BatchSweep([{"benchmark": "batch", "target": target, "draft": draft, "B": B} for target, draft in pairs for B in batches],
                      lengths, summary_at)


class StageSweep(Sweep):
    """The ladder: stages on the same texts, each held against the one before it. Stage 6 has all texts in one batch."""
    K, TOKENS_OF_STAGE_1 = 5, 4  # stage 1 computes the whole text for every token

    def __init__(self, programs, ladders, texts, tokens):
        """ladders: (target, draft, first stage)."""
        self.programs, self.tokens = programs, tokens
        self.prompts = [golden["prompt_ids"] for golden in run.goldens(texts)]
        self.stages = [(target, draft, stage) for target, draft, first in ladders for stage in range(first, 7)]
        self.identities = [{"benchmark": "stages", "target": target, "draft": draft, "stage": stage}
                           for target, draft, stage in self.stages]

    def decoded(self, target, draft, stage):
        """Tokens per second, and the texts."""
        words = in_shape("target", target) + ([*in_shape("draft", draft), "--spec-length", self.K] if stage >= 4 else [])
        if stage == 6:
            summary, texts = self.programs.serve(STAGES[6], words, self.prompts, self.tokens, len(self.prompts))
            steps = summary["decode_steps_by_batch_size"]
            return (sum(s["emitted"] for s in steps) / sum(s["seconds"] for s in steps),
                    [texts[i] for i in range(len(self.prompts))])
        tokens = min(self.tokens, self.TOKENS_OF_STAGE_1) if stage == 1 else self.tokens
        results = [self.programs.decode(STAGES[stage], words, prompt, tokens) for prompt in self.prompts]
        self.device = results[0]["device"]
        return (sum(r["stats"]["emitted"] for r in results) / sum(r["stats"]["decode_seconds"] for r in results),
                [r["tokens"] for r in results])

    def one_round(self, number):
        found, before = [], None
        for target, draft, stage in self.stages:
            speed, texts = self.decoded(target, draft, stage)
            entry = {"tokens_per_second": speed}
            if before and before[0] == (target, draft):
                entry["gain"] = speed / before[1]
                if any(old != new[:len(old)] for old, new in zip(before[2], texts)):
                    raise SystemExit(f"stages {stage - 1} and {stage} wrote different texts")
            before = (target, draft), speed, texts
            found.append(entry)
        return found
