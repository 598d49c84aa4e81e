"""Trains the embedded models: the target on text, then each draft to imitate the target.

    python train.py target        writes models/target
    python train.py draft         writes models/draft; needs the target
    python train.py draft_small draft_large draft_small:cross-entropy

The last line trains three drafts side by side, which saves two of three passes
of the target. A draft with an objective of its own is an experiment and goes
to the folder `work`. A run can be stopped at any time and goes on from its last checkpoint. Every
step reads documents that no step read before, in an order that the seeds fix.
"""
import argparse
import csv
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import textgen
from model import SHAPES, Llama, Shape, load, save
from train_tokenizer import BPE_ENTRIES

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"
ROW = 512                                   # tokens of a usual training row
NOT_COUNTED = -100                          # expected token of positions that are not to be predicted


@dataclass(frozen=True)
class Plan:
    """How one model is trained."""
    steps: int
    tokens_per_step: int
    schedule: tuple                         # (step, learning rate relative to its maximum), linear between
    matrix_rate: float                      # Muon's learning rate, for the matrices of the layers
    vector_rate: float                      # AdamW's, for embeddings and norms
    first_seed: int
    drill: int = 0                          # in so many steps one row of each batch is a copying drill
    without: str = ""                       # a kind that is not read
    long_from: int = 0                      # the step from which every third one has long rows


TARGET_PLAN = Plan(steps=3500, tokens_per_step=4096, matrix_rate=0.004, vector_rate=0.004, first_seed=0, drill=150,
                   schedule=((0, 0), (50, 1), (1200, 1), (3500, 0)), long_from=2400)
DRAFT_PLAN = Plan(steps=800, tokens_per_step=4096, matrix_rate=0.005, vector_rate=0.005, first_seed=300_000_000,
                  schedule=((0, 0), (20, 1), (250, 1), (800, 0)), without="poems", long_from=560)


class Rows:
    """Rows of tokens, each beginning with a document and filled with the following ones."""

    def __init__(self, tokenizer: Tokenizer, next_seed: int, without: str = ""):
        self.tokenizer, self.next_seed, self.without = tokenizer, next_seed, without

    def row(self, length: int) -> list[int]:
        tokens = []
        while len(tokens) < length:
            document = textgen.training_document(self.next_seed)
            self.next_seed += 1
            if document.kind != self.without:
                tokens += self.tokenizer.encode(document.text(), add_special_tokens=False).ids
        return tokens[:length]

    def batch(self, tokens: int, length: int, n_drills: int = 0):
        """Inputs and what they should predict, both [tokens / length, length]."""
        n_rows = tokens // length
        rows = torch.tensor([self.row(length + 1) for _ in range(n_rows - n_drills)])
        pairs = [(rows[:, :-1], rows[:, 1:])] + [drill(length, self.next_seed + i) for i in range(n_drills)]
        return tuple(torch.cat(x) for x in zip(*pairs))


def drill(length: int, seed: int):
    """A row for practising to copy: random tokens, over and over; only what has come before is to be predicted.

    Text teaches copying late, because its frequent phrases are learned first and
    explain most of it. Random tokens can be predicted in no other way.
    """
    generator = torch.Generator().manual_seed(seed)
    period = int(torch.randint(16, length // 2, (), generator=generator))
    tokens = torch.randint(0, BPE_ENTRIES, (period,), generator=generator).repeat(length // period + 2)[:length + 1]
    expected = tokens[1:].clone()
    expected[:period] = NOT_COUNTED
    return tokens[None, :-1], expected[None]


def row_length(step: int, plan: Plan) -> int:
    """512, and toward the end in every third step longer rows, up to the 2,048 positions of the context."""
    if step < plan.long_from or step % 3:
        return ROW
    return 4 * ROW if step % 2 else 2 * ROW


def rate(step: int, plan: Plan) -> float:
    """Learning rate relative to its maximum: linear between the points of the schedule."""
    for (left, from_), (right, to) in zip(plan.schedule, plan.schedule[1:]):
        if step < right:
            return from_ + (to - from_) * (step + 1 - left) / (right + 1 - left)
    return 0.0


def optimizers(model: Llama, plan: Plan) -> list:
    """Muon for the layers' matrices (in two halves, to run side by side), AdamW for everything else."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    muons = [torch.optim.Muon(part, lr=plan.matrix_rate, weight_decay=0.05, momentum=0.95,
                              adjust_lr_fn="match_rms_adamw") for part in (matrices[::2], matrices[1::2])]
    adam = torch.optim.AdamW(others, lr=plan.vector_rate, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0)
    for optimizer in muons + [adam]:
        for group in optimizer.param_groups:
            group["top_rate"] = group["lr"]
    return muons + [adam]


def logits_of(model: Llama, inputs: torch.Tensor) -> torch.Tensor:
    """float32 [B, T, V], by matrix products in bf16: the weights are saved in bf16 anyway, and it is faster by half."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(inputs)
    return logits.float()


def cross_entropy(logits, expected, _target_log_probs):
    """Cross entropy of the next token in nats, summed over the positions that count."""
    return F.cross_entropy(logits.flatten(0, 1), expected.flatten(), ignore_index=NOT_COUNTED, reduction="sum")


def divergence(logits, _expected, target_log_probs):
    """Divergence of the draft's next-token distribution from the target's, summed over the positions: sum p log(p / q)."""
    return (target_log_probs.exp() * (target_log_probs - F.log_softmax(logits, dim=-1))).sum()


def total_variation(logits, _expected, target_log_probs):
    """Total variation of both distributions, summed over the positions: sum |p - q| / 2, which is 1 - sum min(p, q)."""
    return (target_log_probs.exp() - F.softmax(logits, dim=-1)).abs().sum() / 2


OBJECTIVES = {"cross-entropy": cross_entropy, "divergence": divergence, "total-variation": total_variation}


@dataclass(frozen=True)
class Student:
    """A model to train, and what it minimises."""
    model: str
    objective: str = ""                     # the model's own where it is empty
    seed: int = 0                           # of the initial weights

    def shape(self) -> Shape:
        return SHAPES[self.model]

    def name(self) -> str:
        return f"{self.model}_{self.objective}" if self.objective else self.model

    def loss(self):
        return OBJECTIVES[self.objective or ("cross-entropy" if self.model == "target" else "divergence")]

    def folder(self, work: Path) -> Path:
        return work / self.name() if self.objective else HERE / "models" / self.model


def student(text: str) -> Student:
    """From `model` or `model:objective`."""
    model, _, objective = text.partition(":")
    if model not in SHAPES or objective not in ("", *OBJECTIVES):
        raise argparse.ArgumentTypeError(f"{text}: expected one of {', '.join(SHAPES)}, and after a colon one of "
                                         f"{', '.join(OBJECTIVES)}")
    return Student(model, objective)


def losses(students: list[Student], models: list[Llama], target: Llama | None):
    """Function from a batch to each student's loss."""
    def losses_of(batch):
        inputs, expected = batch
        target_log_probs = None
        if target is not None:
            with torch.no_grad():
                target_log_probs = F.log_softmax(logits_of(target, inputs), dim=-1)
        return torch.stack([s.loss()(logits_of(m, inputs), expected, target_log_probs) for s, m in zip(students, models)])
    return losses_of


@torch.no_grad()
def held_out_bits(model: Llama, tokenizer: Tokenizer, per_kind: int = 6) -> dict:
    """Bits per token of each kind on a few held-out documents, after the fixed header."""
    bits = {}
    for kind in textgen.KINDS:
        total = count = 0
        for d in textgen.held_out(kind, per_kind, first=900_000):
            ids = torch.tensor([tokenizer.encode(d.text(), add_special_tokens=False).ids[:2048]])
            start = textgen.header_length(tokenizer, d)
            nats = F.cross_entropy(model(ids[:, :-1])[0, start - 1:], ids[0, start:], reduction="sum")
            total, count = total + nats.item() / math.log(2), count + ids.shape[1] - start
        bits[kind] = total / count
    return bits


class Run:
    """A training run of one or several models on the same batches, with its checkpoint. Each model has a curve."""

    def __init__(self, students: list[Student], plan: Plan, work: Path, n_workers: int):
        self.students, self.plan = students, plan
        self.n_workers, self.workers, self.compiled = n_workers, ThreadPoolExecutor(n_workers), set()
        self.checkpoint = work / f"{'+'.join(s.name() for s in students)}.pt"
        self.curves = [work / f"{s.name()}.csv" for s in students]
        work.mkdir(parents=True, exist_ok=True)
        self.models = []
        for s in students:
            torch.manual_seed(s.seed)
            self.models.append(Llama(s.shape()))
        self.tokenizer = Tokenizer.from_file(str(HERE / "models" / "target" / "tokenizer.json"))
        self.optimizers = [o for model in self.models for o in optimizers(model, plan)]
        self.rows = Rows(self.tokenizer, plan.first_seed, plan.without)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        if self.checkpoint.exists():
            self.resume()

    def resume(self):
        state = torch.load(self.checkpoint, weights_only=True)
        for saved_by, parts in (("models", self.models), ("optimizers", self.optimizers)):
            for part, saved in zip(parts, state[saved_by]):
                part.load_state_dict(saved)
        self.rows.next_seed = state["next_seed"]
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        for curve in self.curves:
            lines = curve.read_text().splitlines(keepends=True) if curve.exists() else []
            curve.write_text("".join(l for i, l in enumerate(lines) if i == 0 or int(l.split(",")[0]) <= self.step))

    def save(self):
        state = dict(models=[m.state_dict() for m in self.models], optimizers=[o.state_dict() for o in self.optimizers],
                     step=self.step, next_seed=self.rows.next_seed, tokens=self.tokens, seconds=self.seconds)
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    def log(self, curve: Path, loss: float, held_out: dict):
        new = not curve.exists() or not curve.read_text()
        with open(curve, "a", newline="") as f:
            writer = csv.writer(f)
            if new:
                writer.writerow(["step", "tokens", "seconds", "loss"] + textgen.KINDS)
            writer.writerow([self.step, self.tokens, f"{self.seconds:.0f}", f"{loss:.4f}"]
                            + [f"{held_out[k]:.3f}" if held_out else "" for k in textgen.KINDS])

    def backward(self, losses_of, batch) -> torch.Tensor:
        """Puts the gradients of the batch's mean losses in place; each worker takes a part of the rows.

        No model's loss depends on another's parameters, so the gradient of the sum serves all of them.
        """
        parameters = [p for model in self.models for p in model.parameters()]
        counted = (batch[1] != NOT_COUNTED).sum()

        def part(rows):
            losses = losses_of(rows) / counted
            return losses.detach(), torch.autograd.grad(losses.sum(), parameters)

        parts = list(zip(*(x.chunk(self.n_workers) for x in batch)))
        if batch[0].shape not in self.compiled:             # the first time one after the other: it is compiled then
            self.compiled.add(batch[0].shape)
            results = [part(rows) for rows in parts]
        else:
            results = list(self.workers.map(part, parts))
        for parameter, *gradients in zip(parameters, *(g for _, g in results)):
            parameter.grad = sum(gradients)
        return sum(losses for losses, _ in results)

    def one_step(self, losses_of) -> torch.Tensor:
        length = row_length(self.step, self.plan)
        batch = self.rows.batch(self.plan.tokens_per_step, length, n_drills=int(self.step < self.plan.drill))
        losses = self.backward(losses_of, batch)
        for model in self.models:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["top_rate"] * rate(self.step, self.plan)
        list(self.workers.map(lambda optimizer: optimizer.step(), self.optimizers))
        for model in self.models:
            model.zero_grad()
        self.step, self.tokens = self.step + 1, self.tokens + self.plan.tokens_per_step
        return losses

    def train(self, losses_of, log_every: int = 25, held_out_every: int = 200):
        """Runs the remaining steps; saves a checkpoint every two minutes."""
        saved = time.monotonic()
        recent = []
        while self.step < self.plan.steps:
            began = time.monotonic()
            recent.append(self.one_step(losses_of))
            self.seconds += time.monotonic() - began
            if self.step % log_every == 0 or self.step == self.plan.steps:
                means, recent = torch.stack(recent).mean(0).tolist(), []
                last = self.step % held_out_every == 0 or self.step == self.plan.steps
                for s, model, curve, mean in zip(self.students, self.models, self.curves, means):
                    held_out = held_out_bits(model, self.tokenizer) if last else {}
                    self.log(curve, mean, held_out)
                    print(f"{s.name()} step {self.step}/{self.plan.steps}  loss {mean:.3f}  "
                          f"{self.tokens / self.seconds:.0f} tokens/s  {self.seconds / 60:.1f} min  "
                          + " ".join(f"{k} {v:.2f}" for k, v in held_out.items()), file=sys.stderr, flush=True)
            if time.monotonic() - saved > 120 or self.step == self.plan.steps:
                self.save()
                saved = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("students", type=student, nargs="+", metavar="MODEL[:OBJECTIVE]", help="models: "
                        f"{', '.join(SHAPES)}; objectives: {', '.join(OBJECTIVES)}")
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of checkpoints and curves")
    parser.add_argument("--steps", type=int, help="instead of the plan's number")
    parser.add_argument("--threads", type=int, default=2, help="each computes with its share of a batch's rows")
    parser.add_argument("--no-compile", action="store_true", help="slower, but needs no C++ compiler")
    options = parser.parse_args()
    trains_target = any(s.model == "target" for s in options.students)
    if trains_target and len(options.students) > 1:
        parser.error("the target trains alone: the drafts need it finished")
    torch.set_num_threads(1)
    plan = TARGET_PLAN if trains_target else DRAFT_PLAN
    if options.steps:
        plan = replace(plan, steps=options.steps)
    run = Run(options.students, plan, options.work, options.threads)
    target = None if trains_target else load(HERE / "models" / "target").requires_grad_(False)
    losses_of = losses(run.students, run.models, target)
    run.train(losses_of if options.no_compile else torch.compile(losses_of, dynamic=False))
    for s, model in zip(run.students, run.models):
        save(model, s.folder(options.work))


if __name__ == "__main__":
    main()
