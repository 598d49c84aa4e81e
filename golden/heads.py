"""Heads that draft from the embedded target's own rows: the networks, and how they are stored.

A row is one of the target's hidden states after the final norm, where it predicts the next token. Head i predicts
the token i + 1 places after that one. Every head's output goes through the target's own projection.
"""
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

N_HEADS = 5
BLOCKWISE_WIDTH = 384


class Medusa(nn.Module):
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
        return {f"{i}.0.linear.{name}": p for i, block in enumerate(self.blocks) for name, p in block.named_parameters()}

    def config(self) -> dict:
        return {"model_type": "medusa", "hidden_size": self.blocks[0].in_features, "medusa_num_heads": len(self.blocks),
                "medusa_num_layers": 1}


class Blockwise(nn.Module):
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


KINDS = {"blockwise": Blockwise, "medusa": Medusa}


def save(heads: nn.Module, folder: Path):
    """Writes config.json and model.safetensors (bf16)."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: p.detach().to(torch.bfloat16).contiguous() for name, p in heads.tensors().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(heads.config(), indent=2, sort_keys=True) + "\n")


@torch.no_grad()
def load(folder: Path) -> nn.Module:
    """The saved heads, computing in float32."""
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "medusa":
        heads = Medusa(config["hidden_size"], config["medusa_num_heads"])
    else:
        heads = Blockwise(config["hidden_size"], config["num_heads"], config["intermediate_size"])
    stored = load_file(folder / "model.safetensors")
    own = heads.tensors()
    assert own.keys() == stored.keys(), (own.keys(), stored.keys())
    for name, parameter in own.items():
        parameter.copy_(stored[name].float())
    return heads.eval()
