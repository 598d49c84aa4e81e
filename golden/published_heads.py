"""Drafters in published layouts that the embedded target has none of, for tiny random files.

Heads and EAGLE-3 with the target's own rows for a part of its tokens, Medusa heads with a projection each, and MTP by
the names of Qwen3-Next.
"""
import torch
import torch.nn.functional as F
from torch import nn

import heads
from feature_layers import Eagle3, Mtp
from model import NORM_EPS, RMSNorm


def lists_of(kept: torch.Tensor, vocab_size: int) -> dict:
    """Of the target's ids that are kept: what is added to a row's number, and whether an id is one of them."""
    return {"d2t": kept - torch.arange(len(kept)),
            "t2d": torch.zeros(vocab_size, dtype=torch.bool).index_fill(0, kept, True)}


class MedusaOfFewer(heads.Medusa):
    """Heads that say a part of the target's tokens, by its own rows."""

    def __init__(self, d_model: int, n_heads: int, kept: torch.Tensor, vocab_size: int):
        super().__init__(d_model, n_heads)
        self.lists = lists_of(kept, vocab_size)

    def kept(self):
        return self.lists["d2t"] + torch.arange(len(self.lists["d2t"]))

    def says(self, target, rows):
        return F.linear(rows, target.model.embed_tokens.weight[self.kept()])

    def tensors(self):
        return super().tensors() | self.lists

    def config(self):
        return super().config() | {"draft_vocab_size": len(self.lists["d2t"])}


class MedusaAsPublished(heads.Medusa):
    """Heads with a projection each (Cai et al. 2024, section 2.1.1)."""

    def __init__(self, d_model: int, n_heads: int, vocab_size: int):
        super().__init__(d_model, n_heads)
        self.projections = nn.ModuleList(nn.Linear(d_model, vocab_size, bias=False) for _ in range(n_heads))

    def says(self, _target, rows):
        return torch.stack([project(row) for project, row in zip(self.projections, rows)])

    def tensors(self):
        return super().tensors() | {f"{i}.1.weight": p.weight for i, p in enumerate(self.projections)}


class Eagle3OfTarget(Eagle3):
    """EAGLE-3 without a head of its own: the target's rows of the tokens that it has."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        del self.lm_head

    def begin_like(self, target):
        with torch.no_grad():
            self.norm.weight.copy_(target.model.norm.weight)
        return self

    def says(self, target, rows):
        return F.linear(self.norm(rows), target.model.embed_tokens.weight[self.kept()])


class AroundOne(nn.Module):
    """An RMSNorm whose file has its weights minus 1."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], 1 + self.weight, NORM_EPS)


class MtpOfQwen(Mtp):
    """MTP by the names of Qwen3-Next, whose norms are around one."""
    NAMES = {"eh_proj": "fc", "shared_head.norm": "norm", "hnorm": "pre_fc_norm_hidden", "enorm": "pre_fc_norm_embedding"}

    def __init__(self, s, n_layers: int):
        super().__init__(s, n_layers, after_norm=True)
        for path, module in list(self.named_modules()):
            if isinstance(module, RMSNorm):
                parent, _, name = path.rpartition(".")
                setattr(self.get_submodule(parent), name, AroundOne(s.d_model))

    def tensors(self):
        named = {name.removeprefix(self.prefix).removesuffix(".weight"): p for name, p in super().tensors().items()}
        return {f"mtp.{self.NAMES.get(name, 'layers.0.' + name)}.weight": p for name, p in named.items()}

    def config(self):
        fields = super().config()
        del fields["num_nextn_predict_layers"], fields["target_hidden_post_norm"]
        return fields | {"mtp_num_hidden_layers": 1}
