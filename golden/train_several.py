"""Trains several tiny drafts for one tree: boosted, and independently of one another.

    python train_several.py             writes models/draft_boosted_1, 2 and 3; the independent ones go to `work`

All of them read the same batches side by side, so the target runs once for all. The first draft belongs to both groups.
An independent draft differs from it only in its initial weights. A boosted draft learns at those places alone where the
likeliest token of every draft before it is wrong at this step (Miao et al. 2024, SpecInfer).
"""
import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from model import Llama, Shape, load, save
from train import DRAFT_PLAN, HERE, Run, logits_of
from train_tokenizer import link_tokenizer

TINY = Shape(d_model=24, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=64, d_ff=64)
STEPS = 2000
PLAN = replace(DRAFT_PLAN, steps=STEPS, tokens_per_step=1024, schedule=((0, 0), (100, 1), (1400, 1), (STEPS, 0)),
               long_from=STEPS)


@dataclass(frozen=True)
class OneOfSeveral:
    """A draft of the smallest shape."""
    group: str
    number: int                             # its place in the group, from 1
    after: tuple = ()                       # boosted: the students before it, by their places in STUDENTS

    @property
    def seed(self) -> int:
        return self.number - 1

    def shape(self) -> Shape:
        return TINY

    def name(self) -> str:
        return f"{self.group}_{self.number}"

    def save(self, model: Llama, work: Path):
        """The boosted ones are stored."""
        folder = (work if self.group == "independent" else HERE / "models") / self.name()
        save(model, folder)
        link_tokenizer(folder, HERE / "models" / "target")


STUDENTS = [OneOfSeveral("draft_boosted", 1), OneOfSeveral("draft_boosted", 2, after=(0,)), OneOfSeveral("draft_boosted", 3, after=(0, 1)),
            OneOfSeveral("independent", 2), OneOfSeveral("independent", 3)]


def losses(models, target):
    """Function from a batch to each student's mean divergence from the target at the places where it learns, times the
    batch's tokens."""
    def losses_of(batch):
        with torch.no_grad():
            target_log_probs = F.log_softmax(logits_of(target, batch[0]), dim=-1)
        wrong, means = [], []
        for student, model in zip(STUDENTS, models):
            logits = model(batch[0])
            each = (target_log_probs.exp() * (target_log_probs - F.log_softmax(logits, dim=-1))).sum(-1)
            learns = torch.ones_like(each)
            for earlier in student.after:
                learns = learns * wrong[earlier]
            wrong.append((logits.argmax(-1) != target_log_probs.argmax(-1)).float())
            means.append((learns * each).sum() / learns.sum().clamp(min=1))
        return torch.stack(means) * batch[0].numel()
    return losses_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of weights, checkpoint and curves")
    parser.add_argument("--threads", type=int, default=1, help="each computes with its share of a batch's rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run(STUDENTS, PLAN, options.work, options.threads)
    target = load(HERE / "models" / "target").requires_grad_(False)
    run.train(losses(run.models, target))
    for student, model in zip(STUDENTS, run.models):
        student.save(model, options.work)


if __name__ == "__main__":
    main()
