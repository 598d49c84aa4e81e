"""All drafts in one pass: the target with look-ahead tokens (PaSS), a draft model with mask tokens (PARD)."""
import torch
from torch import nn

from drafting import Drafter, Seen, after, at, see
from model import Llama, llama_config

N_LOOKAHEAD = 4
PARD_TOKEN = 4095                           # the last reserved special token
BEGINNING = 2240                            # "201": of 167 tokens, the one after which the target foresees most


class Lookahead(Drafter):
    """Embeddings that the target reads after the pending token: it says what comes there, and after each of them."""
    rate, every = 0.05, 4

    def __init__(self, d_model: int, n_tokens: int = N_LOOKAHEAD):
        super().__init__()
        self.embeddings = nn.Parameter(torch.empty(n_tokens, d_model))
        self.steps = n_tokens + 1

    def begin_like(self, target):
        """All begin as a token: from the mean of all tokens, which is like none, training hardly got away."""
        with torch.no_grad():
            beginning = target.model.embed_tokens.weight[BEGINNING]
            self.embeddings.copy_(beginning + 0.01 * torch.randn_like(self.embeddings))
        return self

    def rows(self, target, seen: Seen, places: torch.Tensor, count: int) -> torch.Tensor:
        return torch.cat((at(seen.hidden, places)[None], after(target, seen, places, self.embeddings[:count - 1])))

    def tensors(self) -> dict:
        return {"lookahead.weight": self.embeddings}

    def config(self) -> dict:
        n_tokens, d_model = self.embeddings.shape
        return {"model_type": "lookahead", "hidden_size": d_model, "num_lookahead_tokens": n_tokens}


class Parallel(Drafter):
    """A draft model that learnt to read mask tokens after the pending one."""
    rate, decay = 0.0015, 0.8

    def __init__(self, draft: Llama, mask: int = PARD_TOKEN):
        super().__init__()
        self.draft, self.mask = draft, mask

    def begin_like(self, _target):
        with torch.no_grad():
            embeddings = self.draft.model.embed_tokens.weight
            embeddings[self.mask] = embeddings[BEGINNING]
        return self

    def rows(self, _target, seen: Seen, places: torch.Tensor, count: int) -> torch.Tensor:
        own = see(self.draft, seen.tokens)
        masks = self.draft.model.embed_tokens.weight[self.mask].expand(count - 1, -1)
        return torch.cat((at(own.hidden, places)[None], after(self.draft, own, places, masks)))

    def says(self, _target, rows):
        return self.draft.head(rows)

    def tensors(self) -> dict:
        return self.draft.state_dict(keep_vars=True)

    def config(self) -> dict:
        return llama_config(self.draft.shape) | {"pard_token": self.mask}
