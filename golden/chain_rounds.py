"""Greedy rounds of a drafter on a text that the target has written: what is drafted, tested and accepted, by position.

A draft is tested only if those before it are the text's tokens. So one pass says what a drafter drafts in every round
that might begin, and the rounds follow.
"""
import numpy as np
import torch

from drafting import see


@torch.no_grad()
def starts(target, prompt, output, count):
    """The target's pass over a text, and the places of pending tokens, of all rounds that might begin in the output."""
    seen = see(target, torch.tensor([prompt + output[:-1] + [0] * count]))
    return seen, torch.arange(len(prompt) - 1, len(prompt) + len(output) - 1)[None]


@torch.no_grad()
def logits_of(target, network, seen, places, count):
    """What a drafter says in rounds that begin at these places and whose drafts are the text's tokens:
    [places, count, V]."""
    return network.says(target, network.rows(target, seen, places, count))[:, 0].transpose(0, 1)


def drafted(network, logits):
    """The likeliest tokens, as the target's ids."""
    chosen = logits.argmax(-1)
    return network.kept()[chosen] if hasattr(network, "kept") else chosen


def right(tokens, output):
    """Whether draft i of a round at a place is the output's token there, [places, count]; past its end it is not."""
    count = tokens.shape[1]
    later = np.array(output + [-1] * count)
    return np.asarray(tokens) == later[np.arange(len(output))[:, None] + np.arange(count)]


def rounds(right_at):
    """The rounds of a text: (place, tested, accepted). No draft is tested after a wrong one or past the text's end."""
    place, found = 0, []
    while place < len(right_at):
        in_text = right_at[place, :len(right_at) - place]
        accepted = len(in_text) if in_text.all() else int(np.argmin(in_text))
        found.append((place, min(accepted + 1, len(in_text)), accepted))
        place += accepted + 1
    return found


def by_position(counts, positions):
    """How many of the counts reach each position."""
    return [sum(count > i for count in counts) for i in range(positions)]
