"""Makes the golden files of the embedded target's own drafters, and of tiny random ones in the published layouts.

    python goldens_heads.py       into goldens/target, where greedy.jsonl is, and into goldens/sharded

make_goldens.py makes them too, after the other files of these folders.
"""
from pathlib import Path

import numpy as np
import torch

import check_goldens
import goldens_files as files
import goldens_tiny_heads as tiny
import heads
from chain_rounds import by_position, drafted, logits_of, right, rounds, starts
from drafting import see
from model import load
from published_heads import Modules, PEagle

HERE = Path(__file__).resolve().parent
TARGET, HEADS = HERE / "models" / "target", HERE / "heads"
SPEC_LENGTH = 5
CLEAR = 5e-5                              # least margin of a drafted token, times the largest logit
PROMPTS = ["short", "chat"]               # of the embedded target's goldens


def relative_margins(logits):
    """Of the likeliest tokens: how far the next one is, over the largest |logit|."""
    top = logits.topk(2, dim=-1).values
    return ((top[..., 0] - top[..., 1]) / logits.abs().amax(-1)).numpy()


def drafts_of(network):
    """How many it drafts in a row."""
    if isinstance(network, Modules):
        return network.steps
    return min(SPEC_LENGTH, len(network.blocks)) if isinstance(network, heads.Medusa) else SPEC_LENGTH


def acceptance_line(target, network, text, start):
    """Counts by position; None where a tested draft was too close to another choice."""
    count = drafts_of(network)
    logits = logits_of(target, network, *start, count)
    each, margins = rounds(right(drafted(network, logits), text["tokens"])), relative_margins(logits)
    least = float(min(margins[place, :tested].min() for place, tested, _ in each))
    if least <= CLEAR:
        return None
    return {"spec_length": count, "rounds": len(each),
            "tested": by_position([tested for _, tested, _ in each], count),
            "accepted": by_position([accepted for _, _, accepted in each], count),
            "least_margin": files.rounded(least, 4)}


def make_acceptance(target, networks, out):
    found = {}
    for text in files.read_lines(out / "greedy.jsonl"):
        start = starts(target, text["prompt_ids"], text["tokens"], SPEC_LENGTH)
        found |= {(kind, text["id"]): acceptance_line(target, n, text, start) for kind, n in networks.items()}
    for kind in networks:
        unclear = [id_ for (of, id_), line in found.items() if of == kind and not line]
        print(f"  {kind}: left out as too close to a tie:", *unclear)
    lines = sorted(found.items(), key=lambda item: list(networks).index(item[0][0]))      # by drafter, then by text
    found_lines = [{"id": id_, "heads": kind} | line for (kind, id_), line in lines if line]
    files.write_lines(out / "acceptance.jsonl", found_lines)


@torch.no_grad()
def round_of(network, target, see_text, ids):
    """A round's tensors where the last of the ids is pending. see_text: the target's pass over ids."""
    place, tokens, array = torch.tensor([[len(ids) - 1]]), [], lambda t: t.numpy().copy()
    count = drafts_of(network)
    for i in range(count):
        seen = see_text(ids + tokens + [0] * (count - i))
        rows = network.rows(target, seen, place, count)[:, 0, 0]
        logits = network.says(target, rows)
        tokens.append(drafted(network, logits)[i].item())
    assert relative_margins(logits).min() > CLEAR, "too close to a tie"
    tensors = {"token_ids": np.array(ids, np.int32), "tokens": np.array(tokens, np.int32), "rows": array(rows),
               "logits": array(logits)}
    if hasattr(network, "read"):
        tensors["read"] = array(network.read(seen)[0, :len(ids) - 1])
    if hasattr(network, "combine") and not isinstance(network, PEagle):
        places = torch.arange(1, len(ids))[None]
        tensors["text_rows"] = array(network.rows(target, seen, places, 1)[0, 0])
    return tensors


def write_rounds(network, target, see_text, prompts, path):
    """prompts: ids by name, which is the first part of their tensors' names."""
    tensors = {f"{name}.{key}": tensor for name, ids in prompts.items()
               for key, tensor in round_of(network, target, see_text, ids).items()}
    path.parent.mkdir(exist_ok=True)
    files.write_tensors(path, tensors)


def prompts_of(goldens, names):
    """Their ids."""
    return {name: files.read_tensors(goldens / f"{name}.safetensors")["token_ids"].tolist() for name in names}


def hashes(folder):
    return {f"{path.parent.name}/{path.name}": files.sha256(path) for path in sorted(folder.glob("*/*.*"))
            if path.name in ("config.json", "model.safetensors")}


def make(out):
    """Of the embedded target, into its folder of goldens."""
    target = load(TARGET)
    networks = heads.load_all(HEADS, target)
    make_acceptance(target, networks, out)
    prompts = prompts_of(out, PROMPTS)
    see_text = lambda ids: see(target, torch.tensor([ids]))
    for kind, network in networks.items():
        write_rounds(network, target, see_text, prompts, out / "heads" / f"{kind}.safetensors")
    files.write_json(out / "heads" / "manifest.json", {"model": "golden/heads", "sha256": hashes(HEADS)})


def make_tiny(out):
    """Of the random ones, into their target's folder of goldens."""
    target = tiny.Target()
    prompts = prompts_of(out, ["short", "medium"])
    for name, network in tiny.networks().items():
        write_rounds(network, target, target.see, prompts, out / "heads" / f"{name}.safetensors")
    manifest = {"model": "golden/checkpoints/heads", "sha256": hashes(tiny.FOLDER)}
    files.write_json(out / "heads" / "manifest.json", manifest)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for makes, folder in ((make, HERE / "goldens" / "target"), (make_tiny, HERE / "goldens" / tiny.TARGET.name)):
        makes(folder)
        check_goldens.check_drafters(folder, write=True)
