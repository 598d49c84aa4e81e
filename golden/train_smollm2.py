"""Trains SmolLM2-135M-Instruct's own heads: a feature layer as EAGLE-3, and Medusa heads, both over 8,192 tokens.

    python train_smollm2.py --model DIR --played played.jsonl --tasks tasks.jsonl --answers answers.jsonl

The texts are those of smollm2_texts.py. The target stays as it is. A run can be stopped at any time and goes on from its
last checkpoint. Writes heads/smollm2/eagle3 and heads/smollm2/medusa, matrices as int8 with a scale for each row.
"""
import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import heads
import model as llama
import smollm2_rows
from drafting import at
from published_heads import Eagle3OfTarget, MedusaOfFewer
from smollm2_rows import AHEAD, BLOCKS, Batch, Rows
from train import rate
from train_heads import Schedule, move, optimizers_of_all

HERE = Path(__file__).resolve().parent
KINDS = ["eagle3", "medusa"]
VOCABULARY, D_FF, N_HEADS = 8192, 896, 3    # fewer numbers than the target's layers have
TOKENS, PLACES = 4096, 48                   # of a step; of a text
LOG_EVERY, EVALUATE_EVERY = 40, 300


def make(kind: str, target: llama.Llama, kept: torch.Tensor):
    """One of the two, before training."""
    shape = target.shape
    if kind == "eagle3":
        network = Eagle3OfTarget(replace(shape, d_ff=D_FF), kept, BLOCKS)
        network.steps = AHEAD
    else:
        network = MedusaOfFewer(shape.d_model, N_HEADS, kept, shape.vocab_size)
        network.steps, network.every, network.decay = N_HEADS, 3, 0.8
    return network.begin_like(target)


def places_of(batch: Batch, generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Some places of each text where its own tokens are pending, [B, PLACES], and which of them are none twice."""
    places, counts = [], []
    for begin, end in zip(batch.first, batch.ends):
        order = begin + torch.randperm(end - AHEAD - begin, generator=generator)
        n = min(len(order), PLACES)
        places.append(order[torch.arange(PLACES) % n])
        counts.append(torch.arange(PLACES) < n)
    return torch.stack(places), torch.stack(counts)


class Judge:
    """What the target says at places of a batch and later, within the kept tokens."""

    def __init__(self, target, kept, batch: Batch, places, counts):
        later = [places + i for i in range(AHEAD)]
        hidden = torch.stack([at(batch.seen.hidden, p) for p in later])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = F.linear(hidden, target.model.embed_tokens.weight[kept]).float()
        sums = logits.logsumexp(-1)
        self.p = (logits - sums[..., None]).exp()
        self.entropy = sums - (self.p * logits).sum(-1)
        self.mass = (sums - torch.stack([batch.log_sum.gather(1, p) for p in later])).exp()
        best = torch.stack([batch.best.gather(1, p) for p in later])
        self.best = torch.searchsorted(kept, best).clamp(max=len(kept) - 1)
        self.inside, self.counts = kept[self.best] == best, counts

    def of(self, logits, every: int, with_overlap: bool) -> tuple:
        """Of each step: divergence at places where the likeliest token is kept; how often the likeliest tokens agree
        where all before do; 1 - total variation, if wanted."""
        mine = lambda x: x[:len(logits), :, ::every]
        log_q, p, inside = F.log_softmax(logits.float(), dim=-1), mine(self.p), mine(self.inside)
        counts = self.counts[None, :, ::every].expand_as(inside)
        mean = lambda x, where: (x * where).sum((1, 2)) / where.sum((1, 2)).clamp(min=1)
        divergence = mean(-mine(self.entropy) - (p * log_q).sum(-1), counts & inside)
        with torch.no_grad():
            agree = (logits.argmax(-1) == mine(self.best)) & inside
            before = torch.cat((counts[:1], agree.cumprod(0).bool()[:-1] & counts[1:]))
            overlap = torch.zeros(0)
            if with_overlap:
                overlap = mean(torch.minimum(p * mine(self.mass)[..., None], log_q.exp()).sum(-1), counts)
        return divergence, mean(agree, before), overlap


class Run:
    def __init__(self, target, rows: Path, work: Path, epochs: int):
        self.target, self.epochs, self.work = target, epochs, work
        E = target.shape.d_model
        self.rows, self.held_out = Rows(rows, E), Rows(rows, E, held_out=True)
        self.kept = self.rows.total().topk(VOCABULARY).indices.sort().values
        torch.manual_seed(0)
        self.networks = {kind: make(kind, target, self.kept) for kind in KINDS}
        self.optimizers = optimizers_of_all(self.networks)
        self.plan = [group for epoch in range(epochs) for group in self.rows.groups(epoch, TOKENS)]
        self.steps, self.step = len(self.plan), 0
        self.schedule = Schedule(self.steps)
        self.checkpoint = work / "smollm2.pt"
        if self.checkpoint.exists():
            self.resume(torch.load(self.checkpoint, weights_only=True))

    def resume(self, state):
        for kind, network in self.networks.items():
            network.load_state_dict(state["networks"][kind])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.step = state["step"]

    def save(self):
        torch.save(dict(networks={k: n.state_dict() for k, n in self.networks.items()}, step=self.step,
                        optimizers=[o.state_dict() for o in self.optimizers]), self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    def judged(self, batch: Batch, seed: int, learn: bool) -> dict:
        places, counts = places_of(batch, torch.Generator().manual_seed(seed))
        judge = Judge(self.target, self.kept, batch, places, counts)
        results = {}
        for kind, network in self.networks.items():
            with torch.autocast("cpu", torch.bfloat16):
                rows = network.rows(self.target, batch.seen, places[:, ::network.every], network.steps)
                logits = network.says(self.target, rows)
            divergence, agreed, overlap = judge.of(logits, network.every, with_overlap=not learn)
            if learn:
                (network.decay ** torch.arange(network.steps) * divergence).sum().backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            results[kind] = torch.cat((divergence.detach(), agreed, overlap))
        return results

    def learn(self) -> dict:
        results = self.judged(self.rows.batch(self.plan[self.step]), self.step, True)
        move(self.optimizers, rate(self.step, self.schedule))
        self.step += 1
        return results

    @torch.no_grad()
    def evaluate(self) -> dict:
        """Means over the held-out texts."""
        results = [self.judged(self.held_out.batch(group), i, False)
                   for i, group in enumerate(self.held_out.groups(0, TOKENS))]
        return {kind: torch.stack([r[kind] for r in results]).mean(0) for kind in self.networks}

    def report(self, what: str, means: dict):
        """On stderr, and as a line of each kind's curve."""
        for kind, values in means.items():
            path, parts = self.work / f"smollm2_{kind}.csv", values.split(self.networks[kind].steps)
            new = not path.exists()
            with open(path, "a", newline="") as f:
                writer = csv.writer(f, lineterminator="\n")
                if new:
                    names = ("divergence", "agreed", "overlap")
                    writer.writerow(["step", "text", *(f"{n} {i}" for n in names for i in range(len(parts[0])))])
                writer.writerow([self.step, what, *(f"{x:.4f}" for x in values.tolist())])
            print(f"{kind} {self.step}/{self.steps} {what} {time.process_time() / 60:.1f} min  "
                  + "  ".join(" ".join(f"{x:.3f}" for x in part.tolist()) for part in parts), file=sys.stderr, flush=True)

    def train(self):
        saved, recent = time.monotonic(), []
        while self.step < self.steps:
            recent.append(self.learn())
            last = self.step == self.steps
            if self.step % LOG_EVERY == 0 or last:
                self.report("training", {k: torch.stack([r[k] for r in recent]).mean(0) for k in self.networks})
                recent = []
            if self.step % EVALUATE_EVERY == 0 or last:
                self.report("held out", self.evaluate())
            if time.monotonic() - saved > 60 or last:
                self.save()
                saved = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of SmolLM2-135M-Instruct")
    parser.add_argument("--played", type=Path, required=True, help="stage 6's answers to the requests of play")
    parser.add_argument("--tasks", type=Path, required=True, help="the requests of tasks")
    parser.add_argument("--answers", type=Path, required=True, help="stage 6's answers to them")
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of rows, checkpoints and curves")
    parser.add_argument("--output", type=Path, default=HERE / "heads" / "smollm2", help="folder of the heads")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    target = llama.load(options.model).requires_grad_(False)
    for layer in target.modules():          # once; autocast would round frozen matrices again for every text
        if isinstance(layer, torch.nn.Linear):
            layer.weight.data = layer.weight.data.to(torch.bfloat16)
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    texts = smollm2_rows.texts_of(tokenizer, options.played, options.tasks, options.answers)
    smollm2_rows.write_shards(target, texts, options.work / "smollm2_rows")
    run = Run(target, options.work / "smollm2_rows", options.work, options.epochs)
    run.train()
    for kind, network in run.networks.items():
        heads.save(network, options.output / kind, as_int8=True)


if __name__ == "__main__":
    main()
