"""Makes the embedded models from nothing: tokenizer, target, drafts, the target's own drafters, evaluation.

    python make_models.py                         every stage that is not done yet
    python make_models.py --stages evaluate       only this one

Training goes on from its last checkpoint when it was stopped. To make a model
anew, delete its model.safetensors and its checkpoint.
"""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import plot_training
from heads import KINDS
from model import SHAPES
from train_tokenizer import make_tokenizer

HERE = Path(__file__).resolve().parent
MODELS, FIGURES = HERE / "models", HERE / "figures"
STAGES = ["tokenizer", *SHAPES, "several", "heads", "compare", "evaluate"]


def is_done(stage: str) -> bool:
    if stage == "tokenizer":
        return all((MODELS / name / "tokenizer.json").exists() for name in SHAPES)
    if stage == "heads":
        return (FIGURES / "heads.json").exists()
    if stage == "several":
        return (FIGURES / "several.json").exists()
    if stage == "compare":
        return (FIGURES / "drafts.json").exists()
    if stage == "evaluate":
        return False
    return (MODELS / stage / "model.safetensors").exists()


def python(*arguments):
    subprocess.run([sys.executable, *map(str, arguments)], check=True)


def make(stage: str, work: Path, threads: int):
    if stage == "tokenizer":
        make_tokenizer([MODELS / name for name in SHAPES])
    elif stage == "heads":
        python(HERE / "train_heads.py", "--work", work)
        python(HERE / "markov.py", "--work", work)
        for kind in [*KINDS, "markov"]:
            shutil.copy(work / f"{kind}.csv", FIGURES / f"{kind}_training.csv")
        python(HERE / "measure_heads.py")
    elif stage == "several":
        python(HERE / "train_several.py", "--work", work, "--threads", threads)
        for boosted in work.glob("draft_boosted_*.csv"):
            shutil.copy(boosted, FIGURES / f"{boosted.stem}_training.csv")
        python(HERE / "compare_several.py", "--work", work)
    elif stage == "compare":
        python(HERE / "compare_drafts.py", "--work", work)
    elif stage == "evaluate":
        python(HERE / "evaluate.py", "--threads", threads)
        python(HERE / "report.py")
    else:
        python(HERE / "train.py", stage, "--work", work, "--threads", threads)
        FIGURES.mkdir(exist_ok=True)
        shutil.copy(work / f"{stage}.csv", FIGURES / f"{stage}_training.csv")
        plot_training.plot(FIGURES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of checkpoints and curves")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for stage in STAGES:
        if stage in options.stages and not is_done(stage):
            print(f"== {stage}", file=sys.stderr)
            make(stage, options.work, options.threads)


if __name__ == "__main__":
    main()
