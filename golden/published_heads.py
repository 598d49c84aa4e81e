"""Drafters in published layouts that the embedded target has none of, for tiny random files.

Heads and EAGLE-3 with the target's own rows for a part of its tokens, Medusa heads with a projection each or with
several blocks, P-EAGLE of two blocks, MTP by the names of Qwen3-Next, and MTP with several modules.
"""
import torch
import torch.nn.functional as F
from torch import nn

import heads
from drafting import Drafter, at
from feature_layers import Block, Eagle3, Mtp
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


class MedusaOfTwo(heads.Medusa):
    """Heads of two blocks each, the second of which reads what the first one made."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__(d_model, n_heads)
        self.seconds = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_heads))

    def forward(self, rows):
        return torch.stack([x + F.silu(second(x)) for x, second in zip(super().forward(rows), self.seconds)])

    def tensors(self):
        return super().tensors() | {f"{i}.1.linear.{name}": p for i, second in enumerate(self.seconds)
                                    for name, p in second.named_parameters()}

    def config(self):
        return super().config() | {"medusa_num_layers": 2}


class PEagle(Eagle3):
    """EAGLE-3 of two blocks, of which only the first one reads embeddings. Its drafts do not know each other: from the
    second one on, each has the embedding of a mask token, and learnt numbers for the target's rows. So one pass makes all
    of them (P-EAGLE, arXiv 2602.01469). It drafts at one place at a time."""

    def __init__(self, s, kept: torch.Tensor, blocks: tuple, mask: int):
        super().__init__(s, kept, blocks)
        self.mask, self.mask_hidden = mask, nn.Parameter(torch.zeros(1, self.fc.in_features))
        self.layers = nn.ModuleDict({"1": Block(s, s.d_model, ("input_layernorm",))})

    def rows(self, target, seen, places, count):
        embed, place = target.model.embed_tokens, places.item()
        tokens = torch.cat((seen.tokens[:, 1:place + 1], torch.full((1, count - 1), self.mask)), dim=1)
        masks = self.fc(self.mask_hidden).expand(1, count - 1, -1)
        x = self.whole(embed(tokens), torch.cat((self.features(seen)[:, :place], masks), dim=1))
        block, (cos, sin) = self.layers["1"], self.turn(torch.arange(x.shape[1])[None])
        read, mask = block.input_layernorm(x), torch.ones(1, x.shape[1], x.shape[1], dtype=torch.bool).tril()
        y = x + block.self_attn(read, cos, sin, block.self_attn.cached(read, cos, sin), mask, [])
        return (y + block.mlp(block.post_attention_layernorm(y)))[:, -count:].transpose(0, 1)[:, :, None]

    def config(self):
        return super().config() | {"num_hidden_layers": 2, "parallel_drafting": True, "pard_token": self.mask}


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


class Modules(Drafter):
    """MTP with a module for each draft. A module's row for a token has the row of the module before it, for the token
    before, as its feature."""

    def __init__(self, modules: list):
        super().__init__()
        self.modules_ = nn.ModuleList(modules)
        self.steps = len(modules)

    def read(self, seen):
        return self.modules_[0].read(seen)

    def rows(self, target, seen, places, count):
        embeddings, rows, made = target.model.embed_tokens(seen.tokens), self.read(seen), []
        for i, module in enumerate(self.modules_):
            rows = module.whole(embeddings[:, i + 1:], rows[:, :-1])
            made.append(at(rows, places - 1))
        return torch.stack(made[:count])

    def says(self, target, rows):
        return torch.stack([module.says(target, row) for module, row in zip(self.modules_, rows)])

    def tensors(self):
        return {name: p for module in self.modules_ for name, p in module.tensors().items()}

    def config(self):
        return self.modules_[0].config() | {"num_nextn_predict_layers": self.steps}


class ModulesOfQwen(Modules):
    """They have all but their blocks in common."""

    def __init__(self, s, n_layers: int, count: int):
        super().__init__([MtpOfQwen(s, n_layers) for _ in range(count)])
        first = self.modules_[0]
        for module in self.modules_[1:]:
            module.eh_proj, module.enorm, module.hnorm, module.shared_head = (
                first.eh_proj, first.enorm, first.hnorm, first.shared_head)

    def tensors(self):
        return {name.replace("layers.0.", f"layers.{i}."): p for i, module in enumerate(self.modules_)
                for name, p in module.tensors().items()}

    def config(self):
        return self.modules_[0].config() | {"mtp_num_hidden_layers": self.steps}
