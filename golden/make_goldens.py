"""Makes the golden files: what transformers computes for the embedded pair and the tiny random models.

    python make_goldens.py                            everything but goldens/smollm2
    python make_goldens.py --only untied toy          these folders
    python make_goldens.py --check                    makes them anew elsewhere and compares with the committed ones
    python make_goldens.py --model DIR --out DIR      activations, steps and caches of another Llama

Each model's goldens are then checked against the NumPy float64 oracle (check_goldens.py).
"""
import argparse
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors
import tokenizers
import torch
import transformers

import check_goldens
import goldens_beams
import goldens_files as files
import goldens_heads
import goldens_sampling
import goldens_tiny_heads as tiny_heads
import goldens_toy
import goldens_transformers as theirs
import markov
import textgen
from goldens_tiny_models import MODELS as TINY
from oracle.llama_float64 import Checkpoint, forward

HERE = Path(__file__).resolve().parent
PAIR = {"target": HERE / "models" / "target", "draft": HERE / "models" / "draft"}
ALL = [*TINY, "toy", "draft", "target"]

MOST_FULL_ROWS, LAST_ROWS = 16, 4         # a longer prompt stores its last rows only
STEPS, TOP, FULL_STEPS, CACHE_STEPS = 64, 16, [1, 63], 16
LONG_CHARACTERS, LONG_TOKENS = 2400, 400
GREEDY_PER_KIND, GREEDY_TOKENS = 8, 200
ASSISTANT_DRAFTS = 5
CLEAR = 5e-5                              # least margin of a greedy choice, times the largest logit


def texts():
    """Prompts by name, special tokens included."""
    documents = textgen.held_out("stories", 1000) + textgen.held_out("questions", 1000)
    long = next(d for d in documents if len(d.text()) > LONG_CHARACTERS)
    return {"short": textgen.BEGIN + "Once upon a time",
            "non_ascii": textgen.BEGIN + "Käse 🙂",
            "chat": textgen.render_chat([("user", "What is 12 plus 30?")], add_generation_prompt=True),
            "long": long.text()}


def prompts_of(model, folder):
    """{name: (text or None, ids)} for a model with a tokenizer, random ids for one without."""
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = {name: tokenizer.encode(text, add_special_tokens=False).ids for name, text in texts().items()}
        ids["long"] = ids["long"][:LONG_TOKENS]
        return {name: (tokenizer.decode(ids[name], skip_special_tokens=False), ids[name]) for name in ids}
    return {name: (None, theirs.random_ids(model, length)) for name, length in {"short": 4, "medium": 9, "long": 40}.items()}


def make_prompt(model, ids, text, out, name, keep_cache):
    """The files of one prompt. Returns its entry of the manifest."""
    tensors, int32 = theirs.activations(model, ids), lambda values: np.array(values, np.int32)
    rows = range(len(ids)) if len(ids) <= MOST_FULL_ROWS else range(len(ids) - LAST_ROWS, len(ids))
    files.write_tensors(out / f"{name}.safetensors", {"token_ids": int32(ids), "rows": int32(rows)}
                        | {key: t[rows.start:] for key, t in tensors.items()})
    tokens, logits, cache = theirs.greedy_steps(model, ids, STEPS, CACHE_STEPS)
    top_ids, margins = np.argsort(-logits, axis=1, kind="stable")[:, :TOP], theirs.margins(logits)
    files.write_tensors(out / f"{name}.steps.safetensors", {
        "token_ids": int32(ids), "tokens": int32(tokens), "margins": margins, "max_abs": np.abs(logits).max(axis=1),
        "norms": np.linalg.norm(logits.astype(np.float64), axis=1), "top_ids": int32(top_ids),
        "top_logits": np.take_along_axis(logits, top_ids, axis=1), "full_steps": int32(FULL_STEPS),
        "full_logits": logits[FULL_STEPS]})
    if keep_cache:
        files.write_tensors(out / f"{name}.cache.safetensors", {"token_ids": int32(ids + tokens[:CACHE_STEPS])} | cache)
    norms = {key: files.rounded(float(np.linalg.norm(t.astype(np.float64)))) for key, t in tensors.items()}
    return {"text": text, "tokens": len(ids), "rows": len(rows), "norms": norms,
            "top2_margin": files.rounded(float(margins[0]), 5),
            "min_step_margin": files.rounded(float(margins.min()), 5)}


def write_manifest(folder, label, out, prompts, inv_freq):
    config = Checkpoint(folder).config
    dimensions = ("d_model", "d_ff", "n_layers", "n_heads", "n_kv_heads", "head_dim", "vocab_size", "max_seq_len")
    read = [p for p in sorted(folder.iterdir())
            if p.name in ("config.json", "generation_config.json", "tokenizer.json") or p.name.startswith("model")]
    files.write_json(out / "manifest.json", {
        "model": label, "sha256": {p.name: files.sha256(p) for p in read}, "versions": versions(),
        "shape": {name: getattr(config, name) for name in dimensions}, "eos_ids": theirs.eos_ids(folder),
        "inv_freq": [float(str(f)) for f in inv_freq], "prompts": prompts})


def versions():
    modules = {m.__name__: m.__version__ for m in (torch, transformers, tokenizers, safetensors, np)}
    return {"python": platform.python_version()} | modules


def make_model(folder, label, out, doubles=False):
    """Activations, steps and a cache. doubles: also the oracle's activations in float64, for the short prompt."""
    model = theirs.load(folder)
    prompts = prompts_of(model, folder)
    entries = {name: make_prompt(model, ids, text, out, name, keep_cache=name == "short")
               for name, (text, ids) in prompts.items()}
    if doubles:
        checkpoint, ids = Checkpoint(folder), np.array(prompts["short"][1], np.int32)
        places = {"token_ids": ids, "rows": np.arange(len(ids), dtype=np.int32)}
        tensors = forward(checkpoint.config, checkpoint, ids)
        files.write_tensors(out / "short.float64.safetensors", places | tensors, np.float64)
    write_manifest(folder, label, out, entries, model.model.rotary_emb.inv_freq.numpy())
    return model


def digits(values):
    return files.rounded(values.astype(np.float64), 6)


def greedy_line(model, ids, count, eos, **names):
    tokens, logits = theirs.greedy_text(model, ids, count, eos)
    margins = theirs.margins(logits)
    return names | {"prompt_ids": ids, "tokens": tokens, "finish_reason": "stop" if tokens[-1] in eos else "length",
                    "margins": digits(margins), "max_abs": digits(np.abs(logits).max(axis=1)),
                    "min_margin": min(digits(margins))}


def is_clear(margins, max_abs):
    """Whether no choice is so close that another implementation's rounding might turn it."""
    return all(margin > CLEAR * largest for margin, largest in zip(margins, max_abs))


def pair_line(target, draft, document, ids, eos, name):
    """A line of greedy.jsonl, or None where the target or the draft was close to another choice."""
    line = greedy_line(target, ids, GREEDY_TOKENS, eos, id=name, kind=document.kind, prompt=document.prompt())
    chosen, margins, largest = theirs.choices(draft, ids + line["tokens"][:-1], len(ids) - 1)
    if not (is_clear(line["margins"], line["max_abs"]) and is_clear(margins, largest)):
        return None
    assisted, _ = theirs.greedy_text(target, ids, GREEDY_TOKENS, eos, assistant=draft)
    return line | {"draft_tokens": chosen, "draft_margins": digits(margins), "draft_max_abs": digits(largest),
                   "assisted_equal": assisted == line["tokens"]}


def make_greedy_of_pair(target, draft, out):
    """The first clear texts of each kind: with what the draft would choose, and whether assisted generation agrees."""
    tokenizer = tokenizers.Tokenizer.from_file(str(PAIR["target"] / "tokenizer.json"))
    eos, lines, unclear = theirs.eos_ids(PAIR["target"]), [], []
    theirs.constant_drafts(draft, ASSISTANT_DRAFTS)
    for kind in textgen.KINDS:
        of_kind = []
        for number, document in enumerate(textgen.held_out(kind, 4 * GREEDY_PER_KIND)):
            if len(of_kind) == GREEDY_PER_KIND:
                break
            ids = tokenizer.encode(document.prompt(), add_special_tokens=False).ids
            line = pair_line(target, draft, document, ids, eos, f"{kind}-{number}")
            if line:
                of_kind.append(line)
            else:
                unclear.append(f"{kind}-{number}")
        lines += of_kind
        print(f"  {kind}: {sum(len(line['tokens']) for line in of_kind)} tokens in {len(of_kind)} texts", flush=True)
    files.write_lines(out / "greedy.jsonl", lines)
    unequal = [line["id"] for line in lines if not line["assisted_equal"]]
    print(f"  left out as too close to a tie: {len(unclear)}:", *unclear)
    print(f"  assisted generation differs in {len(unequal)} of {len(lines)} texts", *unequal)


def make_greedy_of_tiny(model, folder, out):
    lines = [greedy_line(model, theirs.random_ids(model, 3 + 2 * n, seed=n), 48, theirs.eos_ids(folder), id=f"random-{n}")
             for n in range(6)]
    files.write_lines(out / "greedy.jsonl", lines)


def make(name, goldens):
    """One folder of goldens/."""
    print(f"== {name}", flush=True)
    out = goldens / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if name == "toy":
        goldens_toy.make(out)
        goldens_beams.make_toy(out)
        check_goldens.check_sampling(out)
        return
    folder = PAIR.get(name, HERE / "checkpoints" / name)
    model = make_model(folder, str(folder.relative_to(HERE.parent)), out, doubles=name in TINY)
    if name in TINY:
        make_greedy_of_tiny(model, folder, out)
    if name in goldens_beams.TINY:
        goldens_beams.make_tiny(model, folder, out)
    if name == "target":
        make_greedy_of_pair(model, theirs.load(PAIR["draft"]), out)
        goldens_sampling.make_pair(PAIR["target"], PAIR["draft"], out)
        goldens_heads.make(out)
        markov.write_counts(out)
        goldens_beams.make_target(model, folder, out)
    if name == tiny_heads.TARGET.name:
        goldens_heads.make_tiny(out)
    check_goldens.check_model(folder, out, write=True, draft=PAIR["draft"] if name == "target" else None)
    if name == "target":
        check_goldens.check_sampling(out)
    if (out / "heads").is_dir():
        check_goldens.check_drafters(out, write=True)


def check(names):
    """Makes the goldens in another place and compares. Integers must be equal, floats within their tolerance."""
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            make(name, Path(place))
        found = [text for name in names for text in
                 files.folder_differences(Path(place) / name, HERE / "goldens" / name)]
    for text in found[:40]:
        print(text)
    print(f"{len(names)} folders made anew: {len(found)} differences from the committed files")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.model:
        assert options.out, "--model needs --out"
        options.out.mkdir(parents=True, exist_ok=True)
        make_model(options.model, options.model.name, options.out)
        check_goldens.check_model(options.model, options.out, write=True)
        return 0
    if options.check:
        return check(options.only)
    for name in options.only:
        make(name, HERE / "goldens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
