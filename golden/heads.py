"""The drafters of the embedded target's self-drafting: blockwise and Medusa heads here, the others in files of
their own; how all are made and stored.

A head reads the target's row after the final norm that says what the pending token is. Head i says the token i + 1
places after that one. Every head's output goes through the target's own projection.
"""
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import model
from ahead import Lookahead, Parallel
from drafting import Drafter, Seen, at
from feature_layers import Eagle, Eagle3, Mtp
from int8 import dequantised, quantised

HERE = Path(__file__).resolve().parent
N_HEADS = 5
BLOCKWISE_WIDTH = 384


class Heads(Drafter):
    """Heads on one row."""
    steps = N_HEADS

    def read(self, seen: Seen) -> torch.Tensor:
        return seen.hidden

    def rows(self, _target, seen: Seen, places: torch.Tensor, count: int) -> torch.Tensor:
        read = at(self.read(seen), places - 1)
        return self(read.flatten(0, 1)).unflatten(1, read.shape[:2])[:count]


class Medusa(Heads):
    """A residual block for each head: row + SiLU(W row + b) (Cai et al. 2024, equation 1)."""

    def __init__(self, d_model: int, n_heads: int = N_HEADS):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_heads))
        for block in self.blocks:
            nn.init.zeros_(block.weight)
            nn.init.zeros_(block.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows: [N, d_model]; result: [n_heads, N, d_model]."""
        return torch.stack([rows + F.silu(block(rows)) for block in self.blocks])

    def tensors(self) -> dict:
        """By the published names: head, layer."""
        return {f"{i}.0.linear.{name}": p for i, block in enumerate(self.blocks)
                for name, p in block.named_parameters()}

    def config(self) -> dict:
        return {"model_type": "medusa", "hidden_size": self.blocks[0].in_features, "medusa_num_heads": len(self.blocks),
                "medusa_num_layers": 1}


class Blockwise(Heads):
    """One network of two layers for all heads (Stern et al. 2018, section 4, with SiLU for ReLU)."""

    def __init__(self, d_model: int, n_heads: int = N_HEADS, width: int = BLOCKWISE_WIDTH):
        super().__init__()
        self.n_heads = n_heads
        self.up = nn.Linear(d_model, width, bias=False)
        self.down = nn.Linear(width, n_heads * d_model, bias=False)
        nn.init.normal_(self.up.weight, std=d_model ** -0.5)
        nn.init.zeros_(self.down.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """rows: [N, d_model]; result: [n_heads, N, d_model]."""
        joint = self.down(F.silu(self.up(rows)))
        return (rows[:, None] + joint.unflatten(-1, (self.n_heads, -1))).transpose(0, 1)

    def tensors(self) -> dict:
        return {"up.weight": self.up.weight, "down.weight": self.down.weight}

    def config(self) -> dict:
        return {"model_type": "blockwise", "hidden_size": self.up.in_features, "num_heads": self.n_heads,
                "intermediate_size": self.up.out_features}


KINDS = ["blockwise", "medusa", "lookahead", "eagle", "eagle3", "mtp", "parallel"]


def make(kind: str, target: model.Llama, kept: torch.Tensor | None = None) -> nn.Module:
    """A drafter before training. kept: the ids that EAGLE-3 can say."""
    shape = target.shape
    makers = {"blockwise": lambda: Blockwise(shape.d_model), "medusa": lambda: Medusa(shape.d_model),
              "lookahead": lambda: Lookahead(shape.d_model), "eagle": lambda: Eagle(shape),
              "eagle3": lambda: Eagle3(shape, kept), "mtp": lambda: Mtp(shape, shape.n_layers),
              "parallel": lambda: Parallel(model.load(HERE / "models" / "draft"))}
    return makers[kind]().begin_like(target)


def save(heads: nn.Module, folder: Path, as_int8: bool = False):
    """Writes config.json and model.safetensors: numbers as bf16, or matrices as int8 with float32 scales."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = lambda p: p.detach().to(torch.bfloat16 if p.is_floating_point() else p.dtype).contiguous()
    tensors = {name: stored(p) for name, p in heads.tensors().items()}
    save_file(quantised(tensors) if as_int8 else tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(heads.config(), indent=2, sort_keys=True) + "\n")


@torch.no_grad()
def fill(network: nn.Module, folder: Path) -> nn.Module:
    """Takes the weights from the folder, to compute in float32."""
    own, stored = network.tensors(), dequantised(load_file(folder / "model.safetensors"))
    assert own.keys() == stored.keys(), (own.keys(), stored.keys())
    for name, parameter in own.items():
        parameter.copy_(stored[name])
    return network.eval()


def load(kind: str, folder: Path, target: model.Llama) -> nn.Module:
    """A saved drafter of the embedded target."""
    kept = load_file(folder / "model.safetensors")["t2d"].nonzero()[:, 0] if kind == "eagle3" else None
    return fill(make(kind, target, kept), folder)


def load_all(folder: Path, target: model.Llama) -> dict:
    """The drafters that are there, by kind."""
    return {kind: load(kind, folder / kind, target) for kind in KINDS if (folder / kind).is_dir()}
