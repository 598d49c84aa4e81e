"""Draws the loss curves of both models from figures/*_training.csv into figures/training.png."""
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIXED = ("step", "tokens", "seconds", "loss")
LABELS = {"target": "cross entropy of the next token (nats)", "draft": "divergence from the target (nats)"}


def read(path: Path) -> list[dict]:
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def plot(folder: Path):
    names = [n for n in LABELS if (folder / f"{n}_training.csv").exists()]
    figure, axes = plt.subplots(2, len(names), figsize=(6 * len(names), 7.5), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        rows = read(folder / f"{name}_training.csv")
        above, below = axes[:, column]
        above.plot([int(r["tokens"]) / 1e6 for r in rows], [float(r["loss"]) for r in rows], color="black", linewidth=1)
        above.set(title=name, ylabel=LABELS[name], yscale="log")
        checked = [r for r in rows if r["stories"]]
        for kind in (k for k in rows[0] if k not in FIXED):
            below.plot([int(r["tokens"]) / 1e6 for r in checked], [float(r[kind]) for r in checked], label=kind, linewidth=1)
        below.set(xlabel="million tokens seen", ylabel="bits per held-out token", yscale="log")
        below.legend(fontsize=8, ncols=2)
        for axis in (above, below):
            axis.grid(True, which="both", alpha=0.25)
    figure.tight_layout()
    figure.savefig(folder / "training.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    plot(Path(__file__).resolve().parent / "figures")
