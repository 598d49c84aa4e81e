"""Goldens without a network: speculative sampling on tables of logits, the filters alone, and uniforms by name."""
import numpy as np

import goldens_files as files
from goldens_sampling import CLOSEST, coverage, first_seed, record, replay, write_runs
from oracle import speculative_sampling as sampling
from oracle.philox import PURPOSES, uniform
from oracle.speculative_sampling import Options

VOCABULARY, EOS, CONTEXT = 12, 11, 64
MAX_NEW_TOKENS = 32
TRIES = 100

RUNS = (
    [dict(tables=t, temperature=1.0, spec_length=k) for t in ("random", "close", "equal", "flat") for k in (1, 3, 8)]
    + [dict(tables="random", temperature=t, draft_temperature=d, spec_length=4)
       for t, d in ((0.7, 0.7), (1.5, 0.5), (0.5, 1.5), (1.0, 0.0), (0.0, 1.0))]
    + [dict(tables="random", temperature=1.0, top_k=k, spec_length=4) for k in (1, 2, 4)]
    + [dict(tables="close", temperature=1.0, top_p=p, spec_length=4) for p in (0.3, 0.6, 0.9)]
    + [dict(tables=t, temperature=1.0, repetition_penalty=p, spec_length=5)
       for t, p in (("random", 1.5), ("close", 1.2), ("equal", 1.2), ("equal", 2.0))]
    + [dict(tables="close", temperature=0.8, top_k=5, top_p=0.85, repetition_penalty=1.3, draft_temperature=1.1,
            spec_length=5)]
    + [dict(tables=t, temperature=0.0, spec_length=k) for t, k in (("random", 3), ("close", 5), ("equal", 4))]
    + [dict(tables="close", temperature=1.0, spec_length=4, room=0),
       dict(tables="close", temperature=1.0, spec_length=6, draft_room=-9),
       dict(tables="close", temperature=1.0, spec_length=0)])


def make_tables():
    """Logits [V, V] after each token, by name; multiples of 1/1024, so that float32 holds them exactly."""
    random, shape = np.random.default_rng(11), (VOCABULARY, VOCABULARY)
    exact = lambda deviation: np.round(random.normal(0, deviation, shape) * 1024) / 1024
    tables = {f"{name}.target_logits": exact(2.0) for name in ("random", "close", "equal")}
    tables |= {"random.draft_logits": exact(2.0), "close.draft_logits": tables["close.target_logits"] + exact(0.5),
               "equal.draft_logits": tables["equal.target_logits"]}
    return tables | {"flat.target_logits": np.zeros(shape), "flat.draft_logits": exact(1.0)}


def models(tables, name):
    """The pair that draws from these tables."""
    model = lambda table: lambda tokens, rows: table[np.array(tokens[-rows:])]
    return model(tables[f"{name}.target_logits"]), model(tables[f"{name}.draft_logits"])


def make_runs(tables):
    runs = []
    for number, fields in enumerate(RUNS):
        fields = {"max_new_tokens": MAX_NEW_TOKENS} | fields
        name, prompts = fields.pop("tables"), [[1, 5, 2 + number % 7]] * TRIES
        run = record(*models(tables, name), prompts, fields, first_seed(number), [EOS], CONTEXT)
        runs.append({"id": f"{number}-{name}", "tables": name} | run)
    return runs


def filter_cases():
    """What penalty, temperature, top-k and top-p make of some logits; every other case has ties."""
    random = np.random.default_rng(12)
    for number in range(48):
        grain = 16 if number % 2 else 1
        logits, history = np.round(random.normal(0, 2.0, VOCABULARY) * grain) / grain, random.integers(0, VOCABULARY, 4)
        given = {"temperature": [0.0, 0.5, 1.0, 1.7][number % 4], "top_k": [0, 1, 3, 12, 40][number % 5],
                 "top_p": [1.0, 0.9, 0.35][number % 3], "repetition_penalty": [1.0, 1.25, 2.0, 0.8][number // 4 % 4]}
        probs, _ = sampling.probabilities(logits, history, given["temperature"], Options(**given))
        yield {"logits": logits.tolist(), "history": history.tolist()} | given | {"probs": files.rounded(probs, 9)}


def uniforms():
    """Draws with seeds and positions of all sizes."""
    for seed in (0, 1, 2 ** 32, 2 ** 53 - 1):
        for position in (0, 1, 2047, 131071):
            for purpose in PURPOSES:
                for index in (0, 4095) if purpose == "race" else (0,):
                    yield {"seed": seed, "position": position, "purpose": purpose, "index": index,
                           "uniform": uniform(seed, position, purpose, index)}


def make(out):
    tables = make_tables()
    files.write_tensors(out / "tables.safetensors", tables)
    runs = make_runs(tables)
    write_runs(out / "sampling.jsonl", runs)
    files.write_lines(out / "filters.jsonl", filter_cases())
    files.write_lines(out / "uniforms.jsonl", uniforms())
    files.write_json(out / "manifest.json", {"closest_decision": CLOSEST, "coverage": coverage(runs)})


def differences_in_float32(folder):
    """What comes out otherwise when the tables' float32 numbers are used, and all filters and sums are float32's."""
    tables = files.read_tensors(folder / "tables.safetensors")
    found = list(replay(files.read_lines(folder / "sampling.jsonl"), lambda line: models(tables, line["tables"])))
    for number, case in enumerate(files.read_lines(folder / "filters.jsonl")):
        given = {name: case[name] for name in ("temperature", "top_k", "top_p", "repetition_penalty")}
        logits = np.array(case["logits"], np.float32)
        probs, _ = sampling.probabilities(logits, case["history"], case["temperature"], Options(**given))
        same_kept = np.array_equal(probs > 0, np.array(case["probs"]) > 0)
        if not (same_kept and np.allclose(probs, case["probs"], rtol=1e-5, atol=1e-7)):
            found.append(f"filters {number}")
    return found
