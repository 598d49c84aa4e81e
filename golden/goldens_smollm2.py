"""The goldens of a real model, SmolLM2-135M-Instruct, as `make real` converts it: small files of a large model.

    python goldens_smollm2.py [--model DIR] [--out DIR] [--beams]

Of each prompt: some tensors of the last rows, some columns of their logits, the first greedy steps, and the greedy text.
Of some prompts: beam search. --beams: makes beams.jsonl alone.
"""
import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

import check_goldens
import goldens_beams
import goldens_files as files
import goldens_transformers as theirs
from real_prompts import BEAM_PROMPTS, PROMPTS

HERE = Path(__file__).resolve().parent
LAST_ROWS, STEPS, TOP, GREEDY_TOKENS = 4, 4, 16, 48
LAYERS = (0, 14, 29)        # whose residuals are stored
EVERY = 96                  # one column of the logits in so many
CLEAR = 5e-5                # least margin of a greedy choice, times the largest logit
WHOLE = "short"             # the prompt with whole rows of logits, and with a cache
WHOLE_STEPS = [1, 3]


def int32(values):
    return np.array(values, np.int32)


def rendered(tokenizer, prompt):
    """The text of a prompt, special tokens included."""
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def ids_of(tokenizer, prompt):
    return tokenizer.backend_tokenizer.encode(rendered(tokenizer, prompt), add_special_tokens=False).ids


def is_stored(name):
    return name in ("final_norm", "logits") or name in (f"layers.{layer}.residual" for layer in LAYERS)


def make_prompt(model, ids, out, name):
    """The files of one prompt. Returns its entry of the manifest."""
    tensors = {key: t for key, t in theirs.activations(model, ids).items() if is_stored(key)}
    norms = {key: files.rounded(float(np.linalg.norm(t.astype(np.float64)))) for key, t in tensors.items()}
    first = len(ids) - LAST_ROWS
    columns = np.arange(0, tensors["logits"].shape[1], EVERY)
    stored = {key: t[first:] for key, t in tensors.items()} | {"logits": tensors["logits"][first:, columns]}
    files.write_tensors(out / f"{name}.safetensors", {"token_ids": int32(ids), "rows": int32(range(first, len(ids))),
                                                      "logits_ids": int32(columns)} | stored)
    tokens, logits, cache = theirs.greedy_steps(model, ids, STEPS, STEPS)
    top_ids, margins = np.argsort(-logits, axis=1, kind="stable")[:, :TOP], theirs.margins(logits)
    whole = {"full_steps": int32(WHOLE_STEPS), "full_logits": logits[WHOLE_STEPS]} if name == WHOLE else {}
    files.write_tensors(out / f"{name}.steps.safetensors", {
        "token_ids": int32(ids), "tokens": int32(tokens), "margins": margins, "max_abs": np.abs(logits).max(axis=1),
        "norms": np.linalg.norm(logits.astype(np.float64), axis=1), "top_ids": int32(top_ids),
        "top_logits": np.take_along_axis(logits, top_ids, axis=1)} | whole)
    if name == WHOLE:
        kept = {key: t for key, t in cache.items() if int(key.split(".")[1]) in LAYERS}
        files.write_tensors(out / f"{name}.cache.safetensors",
                            {"token_ids": int32((ids + tokens)[:len(next(iter(kept.values())))])} | kept)
    return {"tokens": len(ids), "rows": LAST_ROWS, "norms": norms, "top2_margin": files.rounded(float(margins[0]), 5),
            "min_step_margin": files.rounded(float(margins.min()), 5)}


def greedy_line(model, name, prompt, text, ids, eos):
    """A line of greedy.jsonl."""
    tokens, logits = theirs.greedy_text(model, ids, GREEDY_TOKENS, eos)
    margins, largest = theirs.margins(logits), np.abs(logits).max(axis=1).astype(np.float64)
    close = sum(margin <= CLEAR * high for margin, high in zip(margins, largest))
    print(f"  {name}: {len(ids)} + {len(tokens)} tokens, least margin {margins.min():.4f}, {close} choices close to a tie",
          flush=True)
    return {"id": name, "prompt": text, **({} if isinstance(prompt, str) else {"messages": prompt}), "prompt_ids": ids,
            "tokens": tokens, "finish_reason": "stop" if tokens[-1] in eos else "length",
            "margins": files.rounded(margins.tolist(), 6), "max_abs": files.rounded(largest.tolist(), 6),
            "min_margin": files.rounded(float(margins.min()), 6)}


def make(folder, out):
    """All files of `out`, checked against the float64 oracle."""
    import make_goldens
    out.mkdir(parents=True, exist_ok=True)
    model, tokenizer = theirs.load(folder), AutoTokenizer.from_pretrained(folder)
    entries, lines = {}, []
    for name, prompt in PROMPTS.items():
        text, ids = rendered(tokenizer, prompt), ids_of(tokenizer, prompt)
        entries[name] = {"text": text, **make_prompt(model, ids, out, name)}
        lines.append(greedy_line(model, name, prompt, text, ids, theirs.eos_ids(folder)))
    files.write_lines(out / "greedy.jsonl", lines)
    make_goldens.write_manifest(folder, f"build/models/{folder.name}", out, entries,
                                model.model.rotary_emb.inv_freq.numpy())
    make_beams(model, tokenizer, folder, out)
    check_goldens.check_model(folder, out, write=True)


def make_beams(model, tokenizer, folder, out):
    prompts = {name: ids_of(tokenizer, prompt) for name, prompt in BEAM_PROMPTS.items()}
    goldens_beams.make_smollm2(model, folder, out, prompts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=check_goldens.REAL_MODEL)
    parser.add_argument("--out", type=Path, default=HERE / "goldens/smollm2")
    parser.add_argument("--beams", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.beams:
        make_beams(theirs.load(options.model), AutoTokenizer.from_pretrained(options.model), options.model, options.out)
        return 0
    make(options.model, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
