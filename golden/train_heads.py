"""Trains the heads that draft from the embedded target's rows. The target stays as it is.

    python train_heads.py         writes heads/blockwise and heads/medusa

All kinds learn side by side from the same passes of the target. A run can be
stopped at any time and goes on from its last checkpoint.
"""
import argparse
import csv
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import heads
from model import Llama, load
from train import ROW, Rows, rate

HERE = Path(__file__).resolve().parent
STEPS, TOKENS_PER_STEP, FIRST_SEED, RATE = 900, 2048, 600_000_000, 0.005
ROWS_PER_STEP = 512                         # that heads learn from; neighbours teach the same
LOG_EVERY = 20


class Schedule:
    """Of the learning rate, as train.rate() reads it."""

    def __init__(self, steps: int):
        self.schedule = ((0, 0), (20, 1), (steps * 2 // 5, 1), (steps, 0))


def optimizers_of(network: torch.nn.Module) -> list:
    """Muon for matrices, AdamW for biases."""
    matrices = [p for p in network.parameters() if p.ndim == 2]
    biases = [p for p in network.parameters() if p.ndim != 2]
    made = [torch.optim.Muon(matrices, lr=RATE, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw")]
    return made + ([torch.optim.AdamW(biases, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)] if biases else [])


class Run:
    """A training run of all kinds of heads, with its checkpoint and a curve for each kind."""

    def __init__(self, target: Llama, steps: int, work: Path):
        self.target, self.steps, self.work, self.schedule = target, steps, work, Schedule(steps)
        work.mkdir(parents=True, exist_ok=True)
        self.checkpoint = work / "heads.pt"
        self.curves = {kind: work / f"{kind}.csv" for kind in heads.KINDS}
        torch.manual_seed(0)
        self.networks = {kind: make(target.shape.d_model) for kind, make in heads.KINDS.items()}
        self.optimizers = [o for network in self.networks.values() for o in optimizers_of(network)]
        tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
        self.rows = Rows(tokenizer, FIRST_SEED)
        self.step, self.seconds = 0, 0.0
        if self.checkpoint.exists():
            self.resume()

    def resume(self):
        state = torch.load(self.checkpoint, weights_only=True)
        for kind, network in self.networks.items():
            network.load_state_dict(state["networks"][kind])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.step, self.seconds, self.rows.next_seed = state["step"], state["seconds"], state["next_seed"]
        for curve in self.curves.values():                  # without what was logged after the checkpoint
            lines = curve.read_text().splitlines(keepends=True) if curve.exists() else []
            curve.write_text("".join(l for i, l in enumerate(lines) if i == 0 or int(l.split(",")[0]) <= self.step))

    def save(self):
        state = dict(networks={k: n.state_dict() for k, n in self.networks.items()}, step=self.step,
                     optimizers=[o.state_dict() for o in self.optimizers], seconds=self.seconds,
                     next_seed=self.rows.next_seed)
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    @torch.no_grad()
    def sample(self):
        """Rows of the target on new text, [N, d_model], and of each what it says 1, 2, ... places later, log p
        [n_heads, N, V]."""
        tokens, _ = self.rows.batch(TOKENS_PER_STEP, ROW)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.target.hidden(tokens)
        hidden = hidden.float()
        generator = torch.Generator().manual_seed(self.step)
        last = ROW - heads.N_HEADS
        chosen = torch.randperm(tokens.shape[0] * last, generator=generator)[:ROWS_PER_STEP]
        row, place = chosen // last, chosen % last
        later = torch.stack([hidden[row, place + 1 + i] for i in range(heads.N_HEADS)])
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.target.head(later)
        return hidden[row, place], F.log_softmax(logits.float(), dim=-1)

    def one_step(self) -> dict:
        """The divergence of each head's distribution from the target's, sum p log(p / q), [n_heads] by kind."""
        rows, log_probs = self.sample()
        losses = {}
        for kind, network in self.networks.items():
            with torch.autocast("cpu", torch.bfloat16):
                logits = self.target.head(network(rows))
            log_q = F.log_softmax(logits.float(), dim=-1)
            losses[kind] = (log_probs.exp() * (log_probs - log_q)).sum(-1).mean(-1)
            losses[kind].sum().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = RATE * rate(self.step, self.schedule)
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return {kind: loss.detach() for kind, loss in losses.items()}

    def log(self, recent: list):
        for kind in self.networks:
            mean = torch.stack([losses[kind] for losses in recent]).mean(0).tolist()
            new = not self.curves[kind].exists()
            with open(self.curves[kind], "a", newline="") as f:
                writer = csv.writer(f, lineterminator="\n")
                if new:
                    writer.writerow(["step", "seconds"] + [f"head {i}" for i in range(heads.N_HEADS)])
                writer.writerow([self.step, f"{self.seconds:.0f}"] + [f"{x:.4f}" for x in mean])
            print(f"{kind} step {self.step}/{self.steps}  {self.seconds / 60:.1f} min  "
                  + " ".join(f"{x:.3f}" for x in mean), file=sys.stderr, flush=True)

    def train(self):
        saved, recent = time.monotonic(), []
        while self.step < self.steps:
            began = time.process_time()
            recent.append(self.one_step())
            self.seconds += time.process_time() - began
            if self.step % LOG_EVERY == 0 or self.step == self.steps:
                self.log(recent)
                recent = []
            if time.monotonic() - saved > 60 or self.step == self.steps:
                self.save()
                saved = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of the checkpoint and the curves")
    parser.add_argument("--output", type=Path, default=HERE / "heads", help="folder of the heads")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run(load(HERE / "models" / "target").requires_grad_(False), options.steps, options.work)
    run.train()
    for kind, network in run.networks.items():
        heads.save(network, options.output / kind)


if __name__ == "__main__":
    main()
