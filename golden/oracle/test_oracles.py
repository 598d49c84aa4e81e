"""Checks the oracles that need a yardstick of their own: Philox, speculative sampling, and beam search.

    python golden/oracle/test_oracles.py
"""
import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from oracle import beam_search as beams, philox, speculative_sampling as sampling

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


def all_texts(table, prompt, options):
    """Every text that ends with an eos or at the limit: {tokens: its sum of log-probabilities}."""
    texts, open_texts = {}, {(): 0.0}
    while open_texts:
        longer = {text + (token,): score + p for text, score in open_texts.items()
                  for token, p in enumerate(beams.log_probs(table[(*prompt, *text)[-1]]))}
        ended = {text for text in longer if text[-1] in options.eos_ids or len(text) == options.max_new_tokens}
        texts |= {text: longer[text] for text in ended}
        open_texts = {text: score for text, score in longer.items() if text not in ended}
    return texts


def test_beams_as_wide_as_all_texts_find_the_best():
    """A search that keeps everything is no search; stopping too soon or dropping a finished text shows here."""
    random = np.random.default_rng(6)
    for penalty in (0.0, 1.0, 2.0):
        table = random.normal(0, 1.5, (3, 3))
        options = beams.Options(81, penalty, "never", 4, (2,))
        best = {text: score / len(text) ** penalty for text, score in all_texts(table, [0], options).items()}
        found = beams.plain(lambda tokens: table[tokens[-1]], [0], options).hypotheses()
        assert len(found) == len(best) and all(abs(best[h.tokens] - h.score) <= 1e-12 for h in found)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_a_width_of_1_is_greedy():
    random = np.random.default_rng(7)
    for number in range(50):
        table = random.normal(0, 1.5, (9, 9))
        (found,) = beams.plain(lambda tokens: table[tokens[-1]], [0], beams.Options(1, 0.0, False, 12, (8,))).hypotheses()
        text = [0]
        while len(text) <= 12 and text[-1] != 8:
            text.append(int(table[text[-1]].argmax()))
        assert list(found.tokens) == text[1:] and found.finished == (text[-1] == 8)


def drafted_searches(count):
    """Random tables with a draft, widths and depths: (target, draft, options, u, K, V)."""
    random = np.random.default_rng(8)
    for number in range(count):
        V = int(random.integers(3, 6))
        width, depth = int(random.integers(1, 4)), int(random.integers(1, 5))
        target, draft = random.normal(0, 1.5, (2, V, V))
        options = beams.Options(width, (0.0, 1.0, -0.5, 2.0)[number % 4], (False, True, "never")[number % 3], 10,
                                tuple(range(V - number % 2, V)))
        yield target, draft, options, int(random.integers(width, V * width + 1)), depth, V


def speculative(target, draft, options, u, depth):
    return beams.speculative(lambda tokens: target[tokens[-1]], lambda tokens: draft[tokens[-1]], [0], options, u, depth)


def test_drafts_change_no_hypothesis():
    """Leviathan et al., appendix A.4, on 1,000 tables; a draft that is the target is always right."""
    for target, draft, options, u, depth, V in drafted_searches(1000):
        want = beams.plain(lambda tokens: target[tokens[-1]], [0], options)
        found, steps = speculative(target, draft, options, u, depth)
        assert found.hypotheses() == want.hypotheses() and sum(steps) == want.length
        assert all(1 <= n <= depth + 1 for n in steps)
        _, steps = speculative(target, target, options, options.beams, depth)
        assert len(steps) == -(-want.length // (depth + 1))


def test_a_draft_that_keeps_everything_is_always_right():
    """All extensions of w beams are V w, but those of a second step V V w: u = V w is enough for one step only."""
    too_narrow = 0
    for target, draft, options, _, depth, V in drafted_searches(200):
        depth = min(depth, 2)
        found, steps = speculative(target, draft, options, V ** depth * options.beams, depth)
        assert len(steps) == -(-found.length // (depth + 1))
        _, steps = speculative(target, draft, options, V * options.beams, 2)
        assert steps[0] >= 2 or found.length == 1
        too_narrow += len(steps) > -(-found.length // 3)
    assert too_narrow > 50


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("good:", name)
