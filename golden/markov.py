"""Trains the Markov head: what the token before a draft adds to the logits of the parallel draft model.

    python markov.py       writes heads/markov, and goldens/target/acceptance_markov.jsonl
"""
import argparse
from pathlib import Path

import torch
from torch import nn

import goldens_files as files
import heads
import train_heads
from chain_rounds import starts
from drafting import Drafter
from goldens_heads import SPEC_LENGTH, acceptance_line
from model import load

HERE = Path(__file__).resolve().parent
RANK, STEPS, PLACES = 16, 300, 64


class Markov(Drafter):
    """The parallel drafter, which stays as it is, and a bigram model of low rank. Row i > 0 knows the token before its
    own; row 0 does not need to, because the draft model has read that token."""
    rate, every = 0.01, 2

    def __init__(self, parallel: Drafter, vocab_size: int, rank: int = RANK):
        super().__init__()
        self.parallel = [parallel]          # in a list: not a part that learns or is saved
        self.steps = parallel.steps
        self.embed_before = nn.Parameter(0.1 * torch.randn(vocab_size, rank, generator=torch.Generator().manual_seed(0)))
        self.lm_head_after = nn.Parameter(torch.zeros(vocab_size, rank))

    def rows(self, target, seen, places, count):
        """The parallel drafter's rows, and beside them those of the tokens before."""
        with torch.no_grad():
            rows = self.parallel[0].rows(target, seen, places, count)
        before = [self.embed_before[seen.tokens.gather(1, places + i)] for i in range(1, count)]
        return torch.cat((rows.float(), torch.stack([torch.zeros(*places.shape, self.rank), *before])), dim=-1)

    def says(self, target, rows):
        with torch.no_grad():
            logits = self.parallel[0].says(target, rows[..., :-self.rank])
        return logits.float() + rows[..., -self.rank:] @ self.lm_head_after.T

    @property
    def rank(self) -> int:
        return self.embed_before.shape[1]

    def tensors(self) -> dict:
        return {"before.weight": self.embed_before, "after.weight": self.lm_head_after}

    def config(self) -> dict:
        return {"model_type": "markov", "rank": self.rank, "vocab_size": len(self.embed_before)}


def train(target, parallel: Drafter, work: Path, output: Path):
    run = train_heads.Run(["markov"], target, STEPS, PLACES, work, lambda *_: Markov(parallel, target.shape.vocab_size))
    with torch.enable_grad():               # goldens are computed without
        run.train()
    heads.save(run.networks["markov"], output)


def write_counts(goldens: Path):
    """What becomes of the drafts of heads/markov on the texts of greedy.jsonl."""
    target = load(HERE / "models" / "target").requires_grad_(False)
    network = heads.fill(Markov(parallel_of(target), target.shape.vocab_size), HERE / "heads" / "markov")
    lines = {}
    for text in files.read_lines(goldens / "greedy.jsonl"):
        start = starts(target, text["prompt_ids"], text["tokens"], SPEC_LENGTH)
        lines[text["id"]] = acceptance_line(target, network, text, start)
    files.write_lines(goldens / "acceptance_markov.jsonl",
                      [{"id": id_, "heads": "markov"} | line for id_, line in lines.items() if line])


def parallel_of(target) -> Drafter:
    return heads.load("parallel", HERE / "heads" / "parallel", target).requires_grad_(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of the checkpoint and the curve")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = HERE / "heads" / "markov"
    if not folder.exists():
        target = load(HERE / "models" / "target").requires_grad_(False)
        train(target, parallel_of(target), options.work, folder)
    write_counts(HERE / "goldens" / "target")


if __name__ == "__main__":
    main()
