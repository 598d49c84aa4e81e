"""Records runs of speculative sampling by the embedded pair, decision by decision.

The oracle decides (oracle/speculative_sampling.py), with logits from the float64 oracle. A seed is taken when no
decision of its run is closer than CLOSEST, so that float32 decides the same; `replay` shows that it does.
"""
import numpy as np
import torch
from tokenizers import Tokenizer

import goldens_files as files
import goldens_transformers
import textgen
from oracle import speculative_sampling as sampling
from oracle.llama_float64 import Checkpoint, forward
from oracle.speculative_sampling import Options

CLOSEST = 1e-4
SEEDS_A_PROMPT, PROMPTS_A_RUN = 20, 100
MOST_PROMPT_TOKENS = 120                   # a short prompt is enough to sample after

# What the runs try; where one says nothing, draft_temperature is the temperature. Runs with top-p are short and of
# kinds of text that are easy to predict: elsewhere some token is nearly always close to the border of the nucleus.
EASY = dict(kind="arithmetic", max_new_tokens=20)
ALL_FILTERS = dict(temperature=0.8, top_k=30, top_p=0.9, repetition_penalty=1.2, max_new_tokens=12)
PAIR_RUNS = (
    [dict(temperature=t, spec_length=k) for t in (0.7, 1.0) for k in (1, 2, 3, 5, 8)]
    + [dict(temperature=t, top_k=k, spec_length=4) for t, k in ((1.0, 1), (0.7, 5), (1.0, 20), (1.3, 50))]
    + [dict(temperature=t, top_p=p, spec_length=4) | EASY for t, p in ((1.0, 0.5), (0.7, 0.9))]
    + [dict(temperature=1.0, top_p=0.95, spec_length=4, kind="code", max_new_tokens=12)]
    + [dict(temperature=1.0, repetition_penalty=p, spec_length=5) for p in (1.1, 1.5)]
    + [dict(temperature=t, draft_temperature=d, spec_length=k)
       for t, d, k in ((0.7, 1.2, 3), (1.2, 0.3, 6), (1.0, 0.0, 4), (0.0, 1.0, 4))]
    + [ALL_FILTERS | dict(spec_length=k, kind=kind) for k, kind in ((3, "recipes"), (7, "code"))]
    + [ALL_FILTERS | dict(spec_length=5, kind="recipes", top_k=10, top_p=0.8, draft_temperature=0.6)]
    + [dict(temperature=0.0, spec_length=k) for k in (1, 4, 8)]
    + [dict(temperature=0.0, repetition_penalty=1.3, spec_length=5)]
    + [dict(temperature=1.0, spec_length=5, room=0), dict(temperature=0.7, spec_length=8, room=3)])


class CachedModel:
    """A Llama as a function (tokens, rows) -> logits. It keeps keys and values of the tokens it saw last."""

    def __init__(self, folder):
        checkpoint = Checkpoint(folder)
        self.config, self.weights = checkpoint.config, checkpoint.in_memory()
        self.tokens, self.cache = [], []

    def __call__(self, tokens, rows):
        known = 0                                                   # how far the cache is good, leaving `rows` to do
        while known < min(len(tokens) - rows, len(self.tokens)) and tokens[known] == self.tokens[known]:
            known += 1
        self.cache[:] = [(k[:known], v[:known]) for k, v in self.cache]
        self.tokens = list(tokens)
        return forward(self.config, self.weights, tokens[known:], self.cache)["logits"][-rows:]


def options_of(fields, prompt, seed, eos_ids, limit):
    """room: how many positions the context has beyond prompt and new tokens; draft_room: the draft's."""
    fields = {"draft_temperature": fields["temperature"]} | fields
    end = len(prompt) + fields["max_new_tokens"]
    contexts = {"context_limit": end + fields.pop("room") if "room" in fields else limit,
                "draft_context_limit": end + fields.pop("draft_room") if "draft_room" in fields else limit}
    return Options(seed=seed, eos_ids=tuple(eos_ids), **contexts, **fields)


def first_seed(number):
    """Where the search for a run's seed begins; every third run has one that needs more than 32 bits."""
    return 10_000 * number + (2 ** 40 if number % 3 == 2 else 0)


def record(target, draft, prompts, fields, seed, eos_ids, limit):
    """The first run, from this seed on, whose decisions are all clear; in between the next prompt has its turn."""
    eos_ids = [] if {"room", "draft_room"} & set(fields) else eos_ids           # these runs are to reach the limit
    for attempt in range(SEEDS_A_PROMPT * len(prompts)):
        prompt = prompts[attempt // SEEDS_A_PROMPT]
        options = options_of(fields, prompt, seed + attempt, eos_ids, limit)
        rounds = clear_rounds(target, draft, prompt, options)
        if rounds:
            break
    else:
        raise RuntimeError(f"{fields}: no clear run after {len(prompts)} prompts")
    tokens = [token for r in rounds for token in r["emitted"]]
    closest = min(map(sampling.closest_decision, rounds))
    given = {key: value for key, value in vars(options).items() if key != "eos_ids"}
    return {"prompt_ids": list(prompt), "options": given, "eos_ids": list(eos_ids), "tokens": tokens,
            "finish_reason": "stop" if tokens[-1] in eos_ids else "length",
            "min_margin": files.rounded(float(closest), 6), "rounds": [plain(r) for r in rounds]}


def clear_rounds(target, draft, prompt, options):
    """All rounds of a run, or None as soon as a decision is too close."""
    rounds = []
    for r in sampling.speculative_rounds(target, draft, prompt, options):
        if sampling.closest_decision(r) < CLOSEST:
            return None
        rounds.append(r)
    return rounds


def plain(value):
    """JSON: probabilities with 9 digits, uniforms whole, no infinity."""
    if isinstance(value, dict):
        return {k: v if k == "uniform" else plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return files.rounded(value, 9) if np.isfinite(value) else None
    return value


def coverage(runs):
    """How often the runs show each thing that can happen."""
    rounds = [(run, r) for run in runs for r in run["rounds"]]
    last_is = lambda r, purpose: bool(r["last"]) and r["last"]["purpose"] == purpose
    return {
        "runs": len(runs), "rounds": len(rounds),
        "decisions": sum(len(r["drafts"] + r["tests"]) + bool(r["last"]) for _, r in rounds),
        "rejections": sum(last_is(r, "resample") for _, r in rounds),
        "bonus_tokens": sum(last_is(r, "target") and r["spec_length"] > 0 for _, r in rounds),
        "rounds_with_a_shorter_K": sum(r["spec_length"] < run["options"]["spec_length"] for run, r in rounds),
        "stops_by_eos": sum(run["finish_reason"] == "stop" for run in runs),
        "stops_at_an_accepted_draft": sum(r["last"] is None for _, r in rounds),
        "seeds_above_32_bits": sum(run["options"]["seed"] >= 2 ** 32 for run in runs)}


def write_runs(path, runs):
    summary = coverage(runs)
    print(f"  {path.name}:", ", ".join(f"{key} {value}" for key, value in summary.items()))
    assert all(summary.values()), "some case never happens"
    files.write_lines(path, runs)


def make_pair(target_folder, draft_folder, out):
    """sampling.jsonl of the embedded pair, after held-out prompts of all kinds in turn."""
    target, draft = CachedModel(target_folder), CachedModel(draft_folder)
    tokenizer = Tokenizer.from_file(str(target_folder / "tokenizer.json"))
    eos_ids, runs = goldens_transformers.eos_ids(target_folder), []
    for number, fields in enumerate(PAIR_RUNS):
        usual = {"kind": textgen.KINDS[number % len(textgen.KINDS)], "max_new_tokens": 16 + 8 * (number % 3)}
        fields = usual | fields
        kind = fields.pop("kind")
        documents = textgen.held_out(kind, 10 * PROMPTS_A_RUN, first=1000 * (1 + number))
        prompts = [tokenizer.encode(d.prompt(), add_special_tokens=False).ids for d in documents]
        prompts = [ids for ids in prompts if len(ids) <= MOST_PROMPT_TOKENS][:PROMPTS_A_RUN]
        run = record(target, draft, prompts, fields, first_seed(number), eos_ids, target.config.max_seq_len)
        runs.append({"id": f"{number}-{kind}"} | run)
    write_runs(out / "sampling.jsonl", runs)


def replay(lines, models):
    """Runs every line again, usually in float32. models: (target, draft) of a line. Yields what differs."""
    for line in lines:
        options = Options(**line["options"], eos_ids=tuple(line["eos_ids"]))
        tokens, reason, rounds = sampling.generate(*models(line), line["prompt_ids"], options)
        again = {"tokens": tokens, "finish_reason": reason, "rounds": [plain(r) for r in rounds]}
        yield from files.differences(again, {key: line[key] for key in again}, f"sampling {line['id']}")
        if not line["min_margin"] >= CLOSEST:
            yield f"sampling {line['id']}: margin {line['min_margin']}"


def replay_pair(folder, target_folder, draft_folder):
    """The pair's runs with the logits that transformers computes in float32."""
    def model(folder):
        llama = goldens_transformers.load(folder)
        return lambda tokens, rows: llama(torch.tensor([tokens]), use_cache=False).logits[0, -rows:].numpy()
    pair = model(target_folder), model(draft_folder)
    return list(replay(files.read_lines(folder / "sampling.jsonl"), lambda line: pair))
