"""Beam search in float64 with the rules of transformers' `generate`, and the same sped up by a draft. NumPy only.

    table = np.array([[0.0, 2.0, 1.0], [1.5, 0.0, 1.0], [0.0, 0.5, 0.2]])
    search = plain(lambda tokens: table[tokens[-1]], [1], Options(beams=2, max_new_tokens=4))
    [(h.tokens, h.score) for h in search.hypotheses()]

A model is a function `model(tokens)`: the logits [V] after them. Candidates with equal scores keep their order: the
better beam's first, then the lower id.
"""
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Options:
    beams: int = 4                         # w
    length_penalty: float = 1.0
    early_stopping: bool | str = False     # or True, or "never"
    max_new_tokens: int = 24
    eos_ids: tuple = ()


@dataclass(frozen=True)
class Beam:
    tokens: tuple                          # generated ones, with the eos that ended it
    score: float                           # the sum of their log-probabilities; of a hypothesis, penalised
    finished: bool = False                 # by an eos


def log_probs(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def best_extensions(beams, rows, count):
    """The `count` best of all tokens after all beams; rows: log-probabilities [V] after each beam."""
    scores = np.concatenate([beam.score + row for beam, row in zip(beams, rows)])
    vocabulary = len(rows[0])
    return [Beam(beams[i // vocabulary].tokens + (i % vocabulary,), float(scores[i]))
            for i in map(int, np.argsort(-scores, kind="stable")[:count])]


def gap(beams, place):
    """How far the first `place` of ranked beams are from the rest; None where there is no rest."""
    return beams[place - 1].score - beams[place].score if place < len(beams) else None


class Search:
    """A beam search, step by step. `margins` says of every step how clear its choices were."""

    def __init__(self, options):
        self.options, self.length, self.done = options, 0, False
        self.running, self.finished = [Beam((), 0.0)], []
        self.margins = {"ranks": [], "running": [], "candidates": [], "scores": []}

    def step(self, rows):
        """rows: the target's log-probabilities [V] after each running beam."""
        w, eos = self.options.beams, self.options.eos_ids
        kept = max(2, 1 + len(eos)) * w
        ranked = best_extensions(self.running, rows, kept + 1)
        self.length += 1
        at_limit = self.length == self.options.max_new_tokens
        going_on = [beam for beam in ranked if beam.tokens[-1] not in eos]
        ending = [beam for beam in ranked[:w] if at_limit or beam.tokens[-1] in eos]
        for name, margin in (("ranks", gap(ranked, w)), ("running", gap(going_on, w)), ("candidates", gap(ranked, kept))):
            self.margins[name].append(margin)
        self.running = going_on[:w]
        self.finish(ending)
        self.done = at_limit or not self.running or not self.may_improve()

    def penalised(self, score, length):
        return score / length ** self.options.length_penalty

    def finish(self, ending):
        """Of old and new hypotheses the best w stay."""
        w = self.options.beams
        new = [Beam(beam.tokens, self.penalised(beam.score, self.length), beam.tokens[-1] in self.options.eos_ids)
               for beam in ending]
        ranked = sorted(self.finished + new, key=lambda beam: -beam.score)     # stable
        for a, b in zip(ranked[:w], ranked[1:]):
            self.note_scores(a.score - b.score, len(a.tokens), len(b.tokens))
        self.finished = ranked[:w]

    def may_improve(self):
        """Whether the search goes on. With a positive length penalty the default test may stop it too soon."""
        options = self.options
        if len(self.finished) < options.beams:
            return True
        if options.early_stopping is True:
            return False
        hopeful = options.early_stopping == "never" and options.length_penalty > 0
        length, worst = options.max_new_tokens if hopeful else self.length, self.finished[-1]
        best = self.penalised(self.running[0].score, length)
        self.note_scores(abs(best - worst.score), length, len(worst.tokens))
        return best > worst.score

    def note_scores(self, difference, *lengths):
        """A margin between penalised scores, in units of what the penalty has divided."""
        self.margins["scores"].append(difference * min(length ** self.options.length_penalty for length in lengths))

    def hypotheses(self):
        return self.finished

    def least_margin(self):
        return min((m for margins in self.margins.values() for m in margins if m is not None), default=np.inf)


def plain(model, prompt, options):
    """One pass of the model per step. Returns the search."""
    search = Search(options)
    while not search.done:
        search.step([log_probs(model(prompt + list(beam.tokens))) for beam in search.running])
    return search


def draft_levels(draft, prompt, beams, width, depth, eos_ids):
    """The draft's own beam search from the target's beams: the `width` best that go on, of each of `depth` steps."""
    levels, margins = [beams], []
    for _ in range(depth):
        rows = [log_probs(draft(prompt + list(beam.tokens))) for beam in levels[-1]]
        for row in rows:
            row[list(eos_ids)] = -np.inf                       # a text that has ended needs no row
        ranked = [beam for beam in best_extensions(levels[-1], rows, width + 1) if beam.score > -np.inf]
        margins.append(gap(ranked, width))
        levels.append(ranked[:width])
    return levels, margins


def speculative(target, draft, prompt, options, width, depth):
    """Leviathan et al., appendix A.4: a pass reads the target's beams and the draft's, `width` in each of `depth` levels.

    The target then takes its own steps as long as the pass has a row for each of its beams. Returns the search and the
    steps of each pass.
    """
    search, steps_per_pass = Search(options), []
    search.margins["draft"] = []
    while not search.done:
        levels, margins = draft_levels(draft, prompt, search.running, width, depth, options.eos_ids)
        search.margins["draft"] += margins
        rows = {beam.tokens: log_probs(target(prompt + list(beam.tokens))) for level in levels for beam in level}
        first = search.length
        while not search.done and all(beam.tokens in rows for beam in search.running):
            search.step([rows[beam.tokens] for beam in search.running])
        steps_per_pass.append(search.length - first)
    return search, steps_per_pass
