"""Puts what was measured into README.md, between its markers.

    python report.py        reads the files of figures/
"""
import csv
import json
import re
from pathlib import Path

import compare_drafts
import compare_losses
import compare_several
import measure_heads
from evaluate import table

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"


def training() -> str:
    """Steps, tokens, time and final loss of both trainings."""
    lines = ["| | steps | tokens | minutes | tokens/s | final loss (nats) |", "|---|---|---|---|---|---|"]
    for name in ("target", "draft"):
        with open(FIGURES / f"{name}_training.csv", newline="") as f:
            last = list(csv.DictReader(f))[-1]
        tokens, seconds = int(last["tokens"]), float(last["seconds"])
        lines.append(f"| {name} | {last['step']} | {tokens / 1e6:.1f} million | {seconds / 60:.0f} "
                     f"| {tokens / seconds:.0f} | {last['loss']} |")
    return "\n".join(lines)


def sample(kind: str, prompt: str, written: str) -> str:
    """The last lines of the prompt and the text that the target wrote."""
    shown = prompt.replace("<|begin_of_text|>", "")
    if "<|start_header_id|>user<|end_header_id|>" in shown:
        shown = shown.split("<|start_header_id|>user<|end_header_id|>\n\n")[-1]
        shown = shown.replace("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "\n\n")
    return f"**{kind}**\n```text\n{shown}▮{written.rstrip()}\n```"


def fill(text: str, mark: str, content: str) -> str:
    """Replaces what stands between <!-- mark --> and <!-- end mark -->."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end {mark} -->)"
    assert re.search(pattern, text, re.S), mark
    return re.sub(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.S)


def main():
    results = json.loads((FIGURES / "evaluation.json").read_text())
    text = (HERE / "README.md").read_text()
    text = fill(text, "training", training())
    text = fill(text, "table", table(results))
    drafts = json.loads((FIGURES / "drafts.json").read_text())
    text = fill(text, "draft sizes", compare_drafts.size_table(drafts))
    text = fill(text, "drafts by kind", compare_drafts.kind_table(drafts))
    text = fill(text, "draft schedule", compare_drafts.schedule_table(drafts))
    text = fill(text, "draft objectives", compare_drafts.objective_table(drafts))
    text = fill(text, "several", compare_several.table(json.loads((FIGURES / "several.json").read_text())))
    drafters = json.loads((FIGURES / "heads.json").read_text())
    text = fill(text, "heads", measure_heads.position_table(drafters))
    text = fill(text, "heads by kind", measure_heads.kind_table(drafters))
    losses = json.loads((FIGURES / "losses.json").read_text())
    text = fill(text, "losses", compare_losses.table(losses["objectives"]))
    text = fill(text, "samples", "\n\n".join(sample(k, r["sample"]["prompt"], r["sample"]["target"]) for k, r in results.items()))
    (HERE / "README.md").write_text(text)


if __name__ == "__main__":
    main()
