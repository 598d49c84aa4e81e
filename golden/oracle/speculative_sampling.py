"""Speculative sampling, decision by decision, as Algorithm 1 of Leviathan, Kalman and Matias (ICML 2023) has it.

The paper's p is `target_probs` here, its q `draft_probs`, its gamma `spec_length`. Randomness is keyed (philox.py):
a draw is named by the seed, the absolute position of the token it is about, and its purpose, so that every uniform
can be recorded, and drawn again by anyone.

A model is a function `model(tokens, rows)`: the logits [rows, V] after each of the last `rows` tokens.
"""
from dataclasses import dataclass

import numpy as np

from .philox import uniform


@dataclass(frozen=True)
class Options:
    temperature: float = 0.0               # 0: argmax
    top_k: int = 0                         # 0: off
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    draft_temperature: float = 0.0         # everything else is the same for both models
    spec_length: int = 5                   # K
    seed: int = 0
    max_new_tokens: int = 24
    context_limit: int = 2048              # of the target
    draft_context_limit: int = 2048
    eos_ids: tuple = ()


# ---- from logits to a distribution: penalty, temperature, top-k, top-p, as in transformers ----

def penalise(logits, history, penalty):
    """Makes the tokens of the history less likely (Keskar et al., CTRL, section 4.1; by sign, as in transformers)."""
    logits, seen = logits.copy(), np.unique(history)
    logits[seen] = np.where(logits[seen] < 0, logits[seen] * penalty, logits[seen] / penalty)
    return logits


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def keep_top_k(logits, k):
    """Which tokens belong to the k most likely; those equal to the last of them stay too."""
    return logits >= np.sort(logits)[-k]


def keep_top_p(logits, top_p):
    """The most likely tokens, until they hold top_p together; the lower id first among equals. And how clear that was.

    A token is in when those before it hold less than top_p (Holtzman et al., section 3.1).
    """
    order = np.argsort(-logits, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(softmax(logits)[order])[:-1]])
    keep = np.empty(len(logits), bool)
    keep[order] = before < top_p
    return keep, np.abs(before[1:] - top_p).min()


def without(logits, keep):
    """The logits of what is kept, and the gap between the least likely token kept and the most likely one dropped."""
    dropped = logits[~keep & np.isfinite(logits)]
    gap = logits[keep].min() - dropped.max() if len(dropped) else np.inf
    return np.where(keep, logits, -np.inf), gap


def probabilities(logits, history, temperature, options):
    """The distribution [V] that a model samples from after `history`, and the margin of what the filters kept."""
    logits = penalise(logits, history, options.repetition_penalty)
    if temperature == 0:
        best = int(np.argmax(logits))                                      # the lowest id among equals
        one_hot = np.arange(len(logits)) == best
        return one_hot.astype(float), without(logits, one_hot)[1]
    logits, margin = logits / temperature, np.inf
    if 0 < options.top_k < len(logits):
        logits, margin = without(logits, keep_top_k(logits, options.top_k))
    if options.top_p < 1:
        keep, top_p_margin = keep_top_p(logits, options.top_p)
        logits, gap = without(logits, keep)
        margin = min(margin, top_p_margin, gap)
    return softmax(logits), margin


# ---- drawing ----

def draw(probs, seed, position, purpose):
    """One token by inversion: the first, in the order of ids, whose cumulative probability exceeds the uniform."""
    u = uniform(seed, position, purpose)
    ends = np.cumsum(probs) / probs.sum()
    token = int(np.searchsorted(ends, u, side="right"))
    begin = ends[token - 1] if token > 0 else 0.0
    return {"position": position, "purpose": purpose, "uniform": u, "token": token, "prob": probs[token],
            "margin": min(u - begin, ends[token] - u)}


def accept_test(token, target_probs, draft_probs, seed, position):
    """Keeps the draft token with probability min(1, target / draft)."""
    u, ratio = uniform(seed, position, "accept"), target_probs[token] / draft_probs[token]
    return {"position": position, "purpose": "accept", "uniform": u, "token": token, "target_prob": target_probs[token],
            "draft_prob": draft_probs[token], "accepted": bool(u < ratio), "margin": abs(u - ratio)}


def residual(target_probs, draft_probs):
    """norm(max(0, target - draft)): what the target still owes after a rejection."""
    rest = np.maximum(0, target_probs - draft_probs)
    return rest / rest.sum() if rest.sum() > 0 else target_probs       # no rest: only rounding can have rejected


# ---- Algorithm 1 ----

def round_spec_length(start, options):
    """K of the round: the target feeds K + 1 tokens, the draft K, and neither may outgrow its context."""
    room = min(options.context_limit - start - 1, options.draft_context_limit - start)
    return max(0, min(options.spec_length, room))


def propose(draft, tokens, K, options):
    """x_i ~ draft_probs_i for i = 1 .. K, one after the other. Returns the draws, their distributions, the margin."""
    drafts, draft_probs, margins = [], [], [np.inf]
    for _ in range(K):
        context = tokens + [d["token"] for d in drafts]
        probs, margin = probabilities(draft(context, 1)[0], context, options.draft_temperature, options)
        drafts.append(draw(probs, options.seed, len(context), "draft"))
        draft_probs.append(probs)
        margins.append(margin)
    return drafts, draft_probs, min(margins)


def speculative_round(target, draft, tokens, end, options):
    """One round after `tokens`, whose last one is pending; the text may not grow beyond `end` tokens.

    Returns the round's record; golden/goldens/README.md explains it.
    """
    start = len(tokens) - 1
    K = round_spec_length(start, options)
    drafts, draft_probs, draft_margin = propose(draft, tokens, K, options)
    rows = target(tokens + [d["token"] for d in drafts], K + 1)              # one pass: the row after each prefix

    emitted, tests, last, margins = [], [], None, [draft_margin]
    while last is None and not is_finished(tokens + emitted, end, options, new=emitted):
        i, position = len(emitted), len(tokens) + len(emitted)
        target_probs, margin = probabilities(rows[i], tokens + emitted, options.temperature, options)
        margins.append(margin)
        if i == K:                                                           # all accepted: the bonus token
            last = draw(target_probs, options.seed, position, "target")
        else:
            tests.append(accept_test(drafts[i]["token"], target_probs, draft_probs[i], options.seed, position))
            if not tests[i]["accepted"]:                                     # the correction
                last = draw(residual(target_probs, draft_probs[i]), options.seed, position, "resample")
        emitted.append(last["token"] if last else drafts[i]["token"])
    accepted = sum(test["accepted"] for test in tests)
    return {"start": start, "spec_length": K, "drafts": drafts, "tests": tests, "last": last,
            "filter_margin": min(margins), "accepted": accepted, "emitted": emitted,
            "target_length": start + accepted + 1, "draft_length": min(start + K, start + accepted + 1)}


def is_finished(tokens, end, options, new):
    """After an eos among the `new` tokens nothing follows, whatever else the round drafted."""
    return bool(new) and (new[-1] in options.eos_ids or len(tokens) >= end)


def speculative_rounds(target, draft, prompt, options):
    """The records of all rounds, one by one, until an eos or max_new_tokens."""
    tokens, end = list(prompt), len(prompt) + options.max_new_tokens
    emitted = []
    while not is_finished(tokens, end, options, new=emitted):
        record = speculative_round(target, draft, tokens, end, options)
        emitted = record["emitted"]
        tokens += emitted
        yield record


def generate(target, draft, prompt, options):
    """The new tokens, why they ended, and the rounds."""
    rounds = list(speculative_rounds(target, draft, prompt, options))
    tokens = [token for record in rounds for token in record["emitted"]]
    return tokens, "stop" if tokens[-1] in options.eos_ids else "length", rounds


def closest_decision(record):
    """The smallest margin of everything that was decided in a round."""
    decisions = [d for d in record["drafts"] + record["tests"] + [record["last"]] if d]
    return min([d["margin"] for d in decisions] + [record["filter_margin"]])
