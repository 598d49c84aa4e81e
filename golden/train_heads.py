"""Trains the drafters that read the embedded target's rows. The target stays as it is.

    python train_heads.py         writes heads/KIND, of every kind that is not there

The kinds of one run learn side by side from the same passes of the target. A
run can be stopped at any time and goes on from its last checkpoint.
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
from drafting import at, see
from model import Llama, load
from train import ROW, Rows, rate

HERE = Path(__file__).resolve().parent
TOKENS_PER_STEP, FIRST_SEED = 2048, 600_000_000
# Kinds, steps, and places of a row that they learn at: neighbours teach the same.
RUNS = [(["blockwise", "medusa"], 900, 128), (["eagle", "eagle3", "mtp"], 600, 64),
        (["lookahead", "parallel"], 500, 64)]
AHEAD = 5                                   # tokens after a place that the target judges
LOG_EVERY = 20
VOCABULARY, VOCABULARY_BATCHES = 1024, 8     # of EAGLE-3; text that it is counted on


class Schedule:
    """Of the learning rate, as train.rate() reads it."""

    def __init__(self, steps: int):
        self.schedule = ((0, 0), (20, 1), (steps * 2 // 5, 1), (steps, 0))


def is_matrix(name: str, parameter: torch.Tensor) -> bool:
    """Whether Muon moves it, and not AdamW."""
    return parameter.ndim == 2 and "embed" not in name and "lm_head" not in name


def optimizers_of(network) -> list:
    """Muon for matrices, AdamW for biases, norms and embeddings."""
    named = list(network.named_parameters())
    matrices, others = ([p for n, p in named if is_matrix(n, p) == wanted] for wanted in (True, False))
    muon = lambda: torch.optim.Muon(matrices, lr=network.rate, weight_decay=0.05, momentum=0.95,
                                    adjust_lr_fn="match_rms_adamw")
    adam = lambda: torch.optim.AdamW(others, lr=network.rate, betas=(0.9, 0.95), weight_decay=0.0)
    return [make() for make, parameters in ((muon, matrices), (adam, others)) if parameters]


def optimizers_of_all(networks: dict) -> list:
    optimizers = [o for network in networks.values() for o in optimizers_of(network)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["top_rate"] = group["lr"]
    return optimizers


def move(optimizers: list, factor: float):
    """A step of all, at this part of their top rates."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["top_rate"] * factor
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def commonest(target: Llama, rows: Rows) -> torch.Tensor:
    """The ids that the target says most often on training text, in rising order: those of the largest mean p."""
    total = torch.zeros(target.shape.vocab_size)
    for _ in range(VOCABULARY_BATCHES):
        tokens, _ = rows.batch(TOKENS_PER_STEP, ROW)
        with torch.autocast("cpu", torch.bfloat16):
            logits = target(tokens)
        total += logits.float().softmax(-1).sum((0, 1))
    return total.topk(VOCABULARY).indices.sort().values


def divergence(log_p, log_q):
    """Sum p log(p / q) at each place."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)


class Run:
    """A training run of some kinds, with its checkpoint and a curve for each kind."""

    def __init__(self, kinds: list[str], target: Llama, steps: int, places: int, work: Path, make=heads.make):
        """make: as heads.make; kinds are the names that it knows."""
        self.target, self.steps, self.places, self.schedule = target, steps, places, Schedule(steps)
        work.mkdir(parents=True, exist_ok=True)
        self.checkpoint = work / f"heads_{'+'.join(kinds)}.pt"
        self.curves = {kind: work / f"{kind}.csv" for kind in kinds}
        state = torch.load(self.checkpoint, weights_only=True) if self.checkpoint.exists() else None
        tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
        self.kept = state["kept"] if state else None
        if not state and any(kind.startswith("eagle3") for kind in kinds):
            self.kept = commonest(target, Rows(tokenizer, FIRST_SEED))
        torch.manual_seed(0)
        self.networks = {kind: make(kind, target, self.kept) for kind in kinds}
        self.optimizers = optimizers_of_all(self.networks)
        self.rows = Rows(tokenizer, FIRST_SEED)
        self.step, self.seconds = 0, dict.fromkeys(["target", *kinds], 0.0)
        if state:
            self.resume(state)

    def resume(self, state: dict):
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
                     next_seed=self.rows.next_seed, kept=self.kept)
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    @torch.no_grad()
    def sample(self):
        """The target's pass over new text, places of it [B, places], and what the target says there and later,
        log p [AHEAD, B, places, V]."""
        tokens, _ = self.rows.batch(TOKENS_PER_STEP, ROW)
        generator = torch.Generator().manual_seed(self.step)
        places = torch.stack([1 + torch.randperm(ROW - AHEAD - 1, generator=generator)[:self.places] for _ in tokens])
        with torch.autocast("cpu", torch.bfloat16):
            seen = see(self.target, tokens)
            logits = self.target.head(torch.stack([at(seen.hidden, places + i) for i in range(AHEAD)]))
        return seen, places, F.log_softmax(logits.float(), dim=-1)

    def judge(self, objective: str, logits: torch.Tensor, log_p: torch.Tensor, said: torch.Tensor):
        """The objective and the total variation from the target, means over the places, each [count]. said: the text's
        tokens, [count, B, places].

        A drafter with a vocabulary of its own learns what p is within it, at places where p's best token is, or for
        cross-entropy, the text's.
        """
        log_q, log_p = F.log_softmax(logits.float(), dim=-1), log_p[:len(logits)]
        fewer = logits.shape[-1] < log_p.shape[-1]
        inside = log_p[..., self.kept] if fewer else log_p
        variation = 1 - torch.minimum(inside.exp(), log_q.exp()).sum(-1)
        if objective == "total-variation":
            losses, counts = variation, torch.ones_like(variation)
        elif objective == "cross-entropy":
            columns, counts = self.columns(said) if fewer else (said, torch.ones_like(variation))
            losses = -log_q.gather(-1, columns[..., None])[..., 0]
        elif fewer:
            losses, counts = divergence(F.log_softmax(inside, dim=-1), log_q), self.columns(log_p.argmax(-1))[1]
        else:
            losses, counts = divergence(log_p, log_q), torch.ones_like(variation)
        return (losses * counts).sum((1, 2)) / counts.sum((1, 2)), variation.detach().mean((1, 2))

    def columns(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of a vocabulary of its own, and whether it has these ids."""
        columns = torch.searchsorted(self.kept, ids).clamp(max=len(self.kept) - 1)
        return columns, self.kept[columns] == ids

    def learn(self, network, seen, places, log_p) -> torch.Tensor:
        """Puts the gradient in place. Returns the objective and total variation, [2, steps]."""
        places, log_p = places[:, ::network.every], log_p[:, :, ::network.every]
        with torch.autocast("cpu", torch.bfloat16):
            rows = network.rows(self.target, seen, places, network.steps)
            logits = network.says(self.target, rows)
        said = torch.stack([seen.tokens.gather(1, places + 1 + i) for i in range(network.steps)])
        losses, variations = self.judge(network.objective, logits, log_p, said)
        weights = network.decay ** torch.arange(network.steps)
        ((weights * losses).sum() + network.more_loss(rows, seen, places)).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        return torch.stack((losses, variations)).detach()

    def one_step(self) -> dict:
        began = time.process_time()
        seen, places, log_p = self.sample()
        self.seconds["target"] += time.process_time() - began
        results = {}
        for kind, network in self.networks.items():
            began = time.process_time()
            results[kind] = self.learn(network, seen, places, log_p)
            self.seconds[kind] += time.process_time() - began
        move(self.optimizers, rate(self.step, self.schedule))
        self.step += 1
        return results

    def log(self, recent: list):
        for kind in self.networks:
            means = torch.stack([results[kind] for results in recent]).mean(0).tolist()
            new = not self.curves[kind].exists()
            with open(self.curves[kind], "a", newline="") as f:
                writer = csv.writer(f, lineterminator="\n")
                if new:
                    names = [f"{name} {i}" for name in (self.networks[kind].objective, "variation") for i in range(len(means[0]))]
                    writer.writerow(["step", "seconds", *names])
                writer.writerow([self.step, f"{self.seconds[kind]:.0f}"] + [f"{x:.4f}" for part in means for x in part])
            print(f"{kind} step {self.step}/{self.steps}  {sum(self.seconds.values()) / 60:.1f} min  {self.networks[kind].objective} "
                  + " ".join(f"{x:.3f}" for x in means[0]) + "  1 - variation "
                  + " ".join(f"{1 - x:.3f}" for x in means[1]), file=sys.stderr, flush=True)

    def train(self):
        saved, recent = time.monotonic(), []
        while self.step < self.steps:
            recent.append(self.one_step())
            if self.step % LOG_EVERY == 0 or self.step == self.steps:
                self.log(recent)
                recent = []
            if time.monotonic() - saved > 60 or self.step == self.steps:
                self.save()
                saved = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of checkpoints and curves")
    parser.add_argument("--output", type=Path, default=HERE / "heads", help="folder of the drafters")
    parser.add_argument("--steps", type=int, help="instead of each run's number")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load(HERE / "models" / "target").requires_grad_(False)
    for kinds, steps, places in RUNS:
        if all((options.output / kind).exists() for kind in kinds):
            continue
        run = Run(kinds, target, options.steps or steps, places, options.work)
        run.train()
        for kind, network in run.networks.items():
            heads.save(network, options.output / kind)


if __name__ == "__main__":
    main()
