"""Checks the two oracles that need a yardstick of their own: Philox, and speculative sampling.

    python golden/oracle/test_oracles.py
"""
import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from oracle import philox, speculative_sampling as sampling

# Random123, kat_vectors, philox4x32 with 10 rounds: counter, key, result.
KNOWN_ANSWERS = """
00000000 00000000 00000000 00000000  00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff  ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344  a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""


def test_philox():
    for line in KNOWN_ANSWERS.strip().splitlines():
        words = [int(word, 16) for word in line.split()]
        assert philox.philox4x32(words[:4], words[4:6]) == tuple(words[6:]), line
    draws = [philox.uniform(seed, position, purpose) for seed, position, purpose in
             product((0, 1, 2 ** 40), range(500), philox.PURPOSES)]
    assert len(set(draws)) > 0.999 * len(draws) and 0 <= min(draws) and max(draws) < 1
    assert abs(np.mean(draws) - 0.5) < 0.01


def test_filters_equal_those_of_transformers():
    import torch
    from transformers import (RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper,
                              TopPLogitsWarper)
    random = np.random.default_rng(1)
    for temperature, top_k, top_p, penalty in product((0.3, 1.0, 1.7), (0, 1, 7), (0.2, 0.9, 1.0), (1.0, 1.3)):
        logits, history = random.normal(0, 3, 50), random.integers(0, 50, 12)
        chain = [RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(temperature)]
        chain += [TopKLogitsWarper(top_k)] if top_k else []
        chain += [TopPLogitsWarper(top_p)] if top_p < 1 else []
        theirs, ids = torch.tensor(logits)[None], torch.tensor(history)[None]
        for step in chain:
            theirs = step(ids, theirs)
        options = sampling.Options(top_k=top_k, top_p=top_p, repetition_penalty=penalty)
        ours, _ = sampling.probabilities(logits, history, temperature, options)
        assert np.abs(ours - theirs.softmax(-1)[0].numpy()).max() <= 1e-12


def emission_law(target_probs, draft_probs):
    """The exact distribution of the token that one test and its correction emit."""
    accept = np.divide(target_probs, draft_probs, out=np.ones_like(target_probs), where=draft_probs > 0).clip(max=1)
    kept = draft_probs * accept
    return kept + (1 - kept.sum()) * sampling.residual(target_probs, draft_probs)


def test_the_law_is_the_targets():
    """Leviathan et al., appendix A.1, by enumeration."""
    random = np.random.default_rng(2)
    for _ in range(200):
        target_probs, draft_probs = (sampling.softmax(random.normal(0, 2, 9)) for _ in range(2))
        draft_probs[random.integers(9)] = 0
        draft_probs /= draft_probs.sum()
        assert np.abs(emission_law(target_probs, draft_probs) - target_probs).max() <= 1e-15


def table_model(table):
    return lambda tokens, rows: [table[token] for token in tokens[-rows:]]


def test_generated_text_follows_the_target():
    """Frequencies of the first two tokens over many seeds; the same with the draft's law must fail."""
    random = np.random.default_rng(3)
    target_table, draft_table = random.normal(0, 1.5, (2, 4, 4))
    counts, n = np.zeros((4, 4)), 4000
    for seed in range(n):
        options = sampling.Options(temperature=1.0, draft_temperature=0.8, spec_length=3, seed=seed, max_new_tokens=2)
        (a, b), _, _ = sampling.generate(table_model(target_table), table_model(draft_table), [1], options)
        counts[a, b] += 1

    def chi_square(table):
        first = sampling.softmax(table[1])
        expected = n * np.array([first[a] * sampling.softmax(table[a]) for a in range(4)])
        return ((counts - expected) ** 2 / expected).sum()
    assert chi_square(target_table) < 40 < 400 < chi_square(draft_table)       # 15 degrees of freedom


def test_temperature_0_is_greedy():
    random = np.random.default_rng(4)
    target_table, draft_table = random.normal(0, 1.5, (2, 20, 20))
    for K in range(0, 9):
        options = sampling.Options(spec_length=K, max_new_tokens=30, eos_ids=(3,), seed=K)
        tokens, reason, rounds = sampling.generate(table_model(target_table), table_model(draft_table), [5], options)
        expected = [5]
        while len(expected) <= 30 and expected[-1] != 3:
            expected.append(int(target_table[expected[-1]].argmax()))
        assert tokens == expected[1:] and reason == ("stop" if tokens[-1] == 3 else "length")
        assert tokens == sum((r["emitted"] for r in rounds), [])


def test_rounds_keep_within_the_context():
    random = np.random.default_rng(5)
    target_table, draft_table = random.normal(0, 1.5, (2, 20, 20))
    options = sampling.Options(temperature=1.0, draft_temperature=1.0, spec_length=4, max_new_tokens=30,
                               context_limit=31, draft_context_limit=20)
    _, _, rounds = sampling.generate(table_model(target_table), table_model(draft_table), [5], options)
    for r in rounds:
        assert r["start"] + r["spec_length"] + 1 <= 31 and r["draft_length"] <= max(20, r["start"] + 1)
        assert r["spec_length"] == max(0, min(4, 31 - r["start"] - 1, 20 - r["start"]))
    assert rounds[0]["spec_length"] == 4 and rounds[-1]["spec_length"] == 0


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("good:", name)
