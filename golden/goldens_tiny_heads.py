"""Makes golden/checkpoints/heads: tiny random drafters in the published layouts, for the tiny target `sharded`.

    python goldens_tiny_heads.py

The files are committed; goldens_heads.py computes them and does not make them anew.
"""
from pathlib import Path

import numpy as np
import torch

import goldens_transformers as theirs
import heads
from ahead import Parallel
from drafting import Seen
from feature_layers import Eagle, Eagle3, Mtp
from model import Llama, Shape
from published_heads import (Eagle3OfTarget, MedusaAsPublished, MedusaOfFewer, MedusaOfTwo, Modules, ModulesOfQwen,
                             MtpOfQwen, PEagle)

HERE = Path(__file__).resolve().parent
TARGET, FOLDER = HERE / "checkpoints" / "sharded", HERE / "checkpoints" / "heads"
D_MODEL, N_LAYERS, VOCAB = 32, 4, 96        # of the target
OWN = Shape(d_model=D_MODEL, n_layers=1, n_heads=3, n_kv_heads=1, head_dim=16, d_ff=40, vocab_size=VOCAB,
            max_seq_len=256)
LIKE_TARGET = Shape(d_model=D_MODEL, n_layers=1, n_heads=4, n_kv_heads=2, head_dim=8, d_ff=64, vocab_size=VOCAB,
                    max_seq_len=256)
SMALL = Shape(d_model=D_MODEL, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=24, vocab_size=VOCAB,
              max_seq_len=256)
DRAFT = Shape(d_model=24, n_layers=2, n_heads=4, n_kv_heads=1, head_dim=8, d_ff=32, vocab_size=VOCAB, max_seq_len=256)
KEPT = torch.arange(3, VOCAB, 4)            # ids that EAGLE-3 can say


class Pard(Parallel):
    """Its vocabulary has none of the embedded pair's special tokens."""

    def config(self):
        return {key: value for key, value in super().config().items() if key not in ("bos_token_id", "eos_token_id")}


MAKERS = {
    "eagle": lambda: Eagle(OWN),
    "eagle_bias": lambda: Eagle(OWN, bias=True),
    "eagle3": lambda: Eagle3(OWN, KEPT, blocks=(0, 2, 3)),
    "mtp": lambda: Mtp(LIKE_TARGET, N_LAYERS, after_norm=True),
    "medusa": lambda: heads.Medusa(D_MODEL, n_heads=7),
    "blockwise": lambda: heads.Blockwise(D_MODEL, n_heads=5, width=48),
    "pard": lambda: Pard(Llama(DRAFT), mask=VOCAB - 1),
    "medusa_own": lambda: MedusaAsPublished(D_MODEL, n_heads=5, vocab_size=VOCAB),
    "medusa_int8": lambda: MedusaOfFewer(D_MODEL, n_heads=5, kept=KEPT, vocab_size=VOCAB),
    "eagle3_int8": lambda: Eagle3OfTarget(OWN, KEPT, blocks=(1, 2, 3)),
    "mtp_next": lambda: MtpOfQwen(LIKE_TARGET, N_LAYERS),
    "medusa_two": lambda: MedusaOfTwo(D_MODEL, n_heads=4),
    "peagle": lambda: PEagle(SMALL, KEPT, blocks=(0, 1, 3), mask=VOCAB - 1),
    "mtp_modules": lambda: Modules([Mtp(SMALL, N_LAYERS + i, after_norm=True) for i in range(3)]),
    "mtp_next_modules": lambda: ModulesOfQwen(SMALL, N_LAYERS, 2),
}


class Target:
    """The tiny target as transformers computes it, as drafters read it."""

    def __init__(self):
        whole = theirs.load(TARGET)
        self.whole, self.model, self.head = whole, whole.model, whole.lm_head

    def see(self, ids):
        tensors = {name: torch.from_numpy(t)[None] for name, t in theirs.activations(self.whole, ids).items()}
        stream = [tensors["embedding"], *(tensors[f"layers.{i}.residual"] for i in range(N_LAYERS))]
        return Seen(torch.tensor([ids]), stream, tensors["final_norm"], caches=[])


@torch.no_grad()
def randomise(network, seed):
    """Weights whose logits are well apart, as bf16 holds them; no norm's weight is 1 and no bias 0."""
    random = np.random.default_rng(seed)
    for name, parameter in sorted(network.named_parameters()):
        if name.endswith("bias"):
            values = random.normal(0, 0.5, parameter.shape)
        elif parameter.ndim == 1:
            values = random.uniform(0.5, 1.5, parameter.shape)
        else:
            values = random.normal(0, 1.5 * parameter.shape[1] ** -0.5, parameter.shape)
        parameter.copy_(torch.from_numpy(values).to(torch.bfloat16))
    return network.eval()


def networks():
    """The committed ones, by name."""
    return {name: heads.fill(maker(), FOLDER / name) for name, maker in MAKERS.items()}


if __name__ == "__main__":
    for number, (name, maker) in enumerate(MAKERS.items()):
        heads.save(randomise(maker(), 2000 + number), FOLDER / name, as_int8=name.endswith("int8"))
        print(f"{name}: {sum(file.stat().st_size for file in (FOLDER / name).iterdir())} bytes")
