"""Makes the golden files of the embedded target's own drafters.

    python goldens_heads.py       into goldens/target, where greedy.jsonl is

make_goldens.py makes them too, after that file.
"""
from pathlib import Path

import torch

import goldens_files as files
import heads
from chain_rounds import by_position, drafted, logits_of, right, rounds
from model import load

HERE = Path(__file__).resolve().parent
TARGET, HEADS = HERE / "models" / "target", HERE / "heads"
SPEC_LENGTH = 5
CLEAR = 5e-5                              # least margin of a drafted token, times the largest logit


def acceptance_line(target, network, text):
    """Counts by position; None where a tested draft was too close to another choice."""
    logits = logits_of(target, network, text["prompt_ids"], text["tokens"], SPEC_LENGTH)
    each = rounds(right(drafted(network, logits), text["tokens"]))
    top = logits.topk(2, dim=-1).values
    margins = ((top[..., 0] - top[..., 1]) / logits.abs().amax(-1)).numpy()
    least = float(min(margins[place, :tested].min() for place, tested, _ in each))
    if least <= CLEAR:
        return None
    return {"spec_length": SPEC_LENGTH, "rounds": len(each),
            "tested": by_position([tested for _, tested, _ in each], SPEC_LENGTH),
            "accepted": by_position([accepted for _, _, accepted in each], SPEC_LENGTH),
            "least_margin": files.rounded(least, 4)}


def make_acceptance(target, networks, out):
    texts, lines = files.read_lines(out / "greedy.jsonl"), []
    for kind, network in networks.items():
        found = {text["id"]: acceptance_line(target, network, text) for text in texts}
        lines += [{"id": id_, "heads": kind} | line for id_, line in found.items() if line]
        unclear = [id_ for id_, line in found.items() if not line]
        print(f"  {kind}: {len(texts) - len(unclear)} texts; left out as too close to a tie:", *unclear, flush=True)
    files.write_lines(out / "acceptance.jsonl", lines)


def make(out):
    """Of the embedded target, into its folder of goldens."""
    target = load(TARGET)
    make_acceptance(target, heads.load_all(HEADS, target), out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(HERE / "goldens" / "target")
