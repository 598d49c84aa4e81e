"""What every drafter of stage 9 reads and says, whatever it is made of.

A place is where a round's pending token is. A drafter says what follows it: K rows for each place, of which row i
is about the token i + 1 places later. A row may depend on the tokens before that one (a feature layer reads the
drafts before) or on none after the place.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Seen:
    """A model's pass over rows of tokens, each of which begins a text."""
    tokens: torch.Tensor                    # [B, L]
    stream: list                            # of the residual: before the first block, after each one, [B, L, d_model]
    hidden: torch.Tensor                    # [B, L, d_model], after the final norm
    caches: list                            # keys and values of each layer


class Drafter(nn.Module):
    """A network with rows(target, seen, places, count), which are [count, B, A, width]; tensors() and config() are its
    file."""
    rate, decay = 0.005, 1.0                # of learning; how much less the loss of each later row counts
    steps, every = 5, 1                     # rows of a place that learn; at every such place
    objective = "divergence"                # from the target; or "cross-entropy" of the text, or "total-variation"

    def begin_like(self, _target):
        """Takes over from the target what training begins with."""
        return self

    def says(self, target, rows: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return target.head(rows)

    def more_loss(self, _rows, _seen, _places):
        """Beside that of what is said."""
        return 0.0


def see(model, tokens: torch.Tensor) -> Seen:
    caches = [[] for _ in model.model.layers]
    stream = model.stream(model.model.embed_tokens(tokens), caches=caches)
    return Seen(tokens, stream, model.model.norm(stream[-1]), caches)


def at(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """rows: [B, L, width], places: [B, A]; result: [B, A, width]."""
    return rows.gather(1, places[..., None].expand(-1, -1, rows.shape[-1]))


def after(model, seen: Seen, places: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """What the model computes where it reads `inputs` [T, d_model] after each place, [T, B, A, d_model].

    All places at once: a row sees the text up to its place and the inputs before it, not those of other places.
    """
    (B, A), T, L = places.shape, len(inputs), seen.tokens.shape[1]
    step = torch.arange(T).repeat(A)                                            # [A T], the place's T rows together
    place = places.repeat_interleave(T, dim=1)                                  # [B, A T]
    text = torch.arange(L) <= place[..., None]                                  # [B, A T, L]
    group = torch.arange(A).repeat_interleave(T)
    own = (group == group[:, None]) & (step <= step[:, None])                   # [A T, A T]
    mask = torch.cat((text, own.expand(B, -1, -1)), dim=-1)[:, None]
    x = inputs.repeat(A, 1).expand(B, -1, -1)
    caches = [list(layer) for layer in seen.caches]
    rows = model.model.norm(model.stream(x, caches=caches, positions=place + 1 + step, mask=mask)[-1])
    return rows.unflatten(1, (A, T)).permute(2, 0, 1, 3)
