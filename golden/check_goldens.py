"""Shows that the golden files agree with the NumPy float64 oracle within float32 rounding.

    python check_goldens.py                  every folder of goldens/
    python check_goldens.py --goldens DIR --model DIR

Prints the relative error of each kind of tensor. Fails at the first thing that is not as it must be.
make_goldens.py calls this too, to write errors, tolerances and near-ties beside the tensors.
"""
import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

import check_heads
import goldens_beams
import goldens_files as files
import goldens_sampling
import goldens_toy
from oracle.llama_float64 import Checkpoint, forward, inverse_frequencies

HERE = Path(__file__).resolve().parent
REAL_MODEL = HERE.parent / "build/models/SmolLM2-135M-Instruct"  # where `make real` has been run
LEAST_TOLERANCE = 1e-5
WRITTEN = 1e-6                              # norms stand in the manifest with 7 digits
ROUNDING = 2.0 ** -24                       # largest relative error of rounding to float32
# The relative norm error that rounding alone may cause: a residual after n layers carries the roundings of about 8
# operations a layer, each grown by what follows it. Measured errors stay several times below.
ALLOWED_BEFORE, ALLOWED_PER_LAYER = 16 * ROUNDING, 32 * ROUNDING


class Wrong(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Wrong(message)


def allowed(name, n_layers):
    """How far float32 may be from float64 at this tensor."""
    if name == "embedding":
        return 0.0
    layers = int(name.split(".")[1]) + 1 if name.startswith("layers.") else n_layers
    return ALLOWED_BEFORE + ALLOWED_PER_LAYER * layers


def worst(*errors):
    """The largest; NaN where one is NaN, unlike Python's max."""
    return float(np.max(errors))


def tolerance(error):
    return files.rounded(float(max(LEAST_TOLERANCE, 4 * error)), 3)


def check_activations(golden, expected, norms, place):
    """Stored rows and the norms of all rows against the oracle's. Returns the errors by name."""
    rows, columns = golden.pop("rows"), golden.pop("logits_ids", None)
    odd = sorted(set(golden) - set(expected) if columns is not None else set(golden) ^ set(expected))
    require(not odd, f"{place}: tensors {odd[:3]} are missing or unknown")
    errors = {}
    for name, got in golden.items():
        want, norm = expected[name][rows], np.linalg.norm(expected[name])
        want = want[:, columns] if name == "logits" and columns is not None else want
        require(got.shape == want.shape, f"{place}: {name} has the shape {got.shape}")
        errors[name] = worst(files.relative_error(got, want), abs(norms[name] - norm) / norm - WRITTEN)
    return errors


def check_steps(steps, logits, place):
    """Greedy steps against the oracle's logits [n, V] after the same tokens. Returns the worst row's error."""
    want_top = np.take_along_axis(logits, steps["top_ids"].astype(int), axis=1)
    errors = [files.relative_error(a, b) for a, b in zip(steps["top_logits"], want_top)]
    errors += [files.relative_error(a, logits[s])
               for a, s in zip(steps.get("full_logits", ()), steps.get("full_steps", ()))]
    errors += [files.relative_error(a, np.linalg.norm(b)) for a, b in zip(steps["norms"], logits)]
    require(np.array_equal(steps["top_ids"][:, 0], steps["tokens"]), f"{place}: top_ids do not begin with the tokens")
    return worst(*errors)


def near_ties(margins, max_abs, limit):
    return int(np.sum(np.array(margins) <= 2 * limit * np.array(max_abs)))


def check_choices(logits, tokens, margins, max_abs, limit, place):
    """Each token is the argmax of the oracle's row, unless it was too close to tell; margins are right."""
    reach = 2 * limit * np.abs(logits).max(axis=1)
    short = logits.max(axis=1) - logits[np.arange(len(tokens)), tokens]         # 0 where the token is the argmax
    require(np.all(short <= reach), f"{place}: token {int(np.argmax(short > reach))} is not the oracle's")
    top = np.sort(logits, axis=1)[:, -2:]
    off = np.abs(top[:, 1] - top[:, 0] - margins)
    require(np.all(off <= reach + 1e-4), f"{place}: margin {int(np.argmax(off))} is off by {off.max():.3g}")
    off = np.abs(np.abs(logits).max(axis=1) - max_abs)
    require(np.all(off <= reach + 1e-3), f"{place}: max_abs {int(np.argmax(off))} is off by {off.max():.3g}")


def check_prompt(config, weights, folder, prompt, norms):
    """One prompt's files. Returns the errors by tensor, and what is needed to judge its greedy steps."""
    place, stem = f"{folder.name}/{prompt}", folder / prompt
    golden, steps = (files.read_tensors(f"{stem}{kind}.safetensors") for kind in ("", ".steps"))
    ids = golden.pop("token_ids").tolist()
    require(steps["token_ids"].tolist() == ids, f"{place}: steps belong to another prompt")
    expected = forward(config, weights, ids + steps["tokens"].tolist()[:-1])
    logits = expected["logits"][len(ids) - 1:]
    errors = check_activations(golden, {name: t[:len(ids)] for name, t in expected.items()}, norms, place)
    errors["logits"] = worst(errors["logits"], check_steps(steps, logits, f"{place} steps"))
    for name, got in optional(f"{stem}.cache.safetensors"):
        if name == "token_ids":
            require(got.tolist() == (ids + steps["tokens"].tolist())[:len(got)], f"{place}: another text's cache")
        else:
            errors[name] = worst(errors.get(name, 0), files.relative_error(got, expected[name][:len(got)]))
    for name, error in errors.items():
        limit = allowed(name, config.n_layers)
        require(files.within(error, limit),
                f"{place}: {name} is off by {error:.3g}, more than rounding explains ({limit:.3g})")
    for name, got in optional(f"{stem}.float64.safetensors"):
        if name not in ("token_ids", "rows"):
            error = files.relative_error(got, expected[name][:len(ids)])
            require(files.within(error, 1e-13), f"{place} float64: {name} is off by {error:.3g}")
    return errors, (logits, steps["tokens"], steps["margins"], steps["max_abs"])


def optional(path):
    return files.read_tensors(path).items() if Path(path).exists() else []


def check_greedy(config, weights, folder, limit, draft=None):
    """Every line of greedy.jsonl. draft: its (config, weights). Returns the numbers of near-ties."""
    ties = draft_ties = 0
    for line in files.read_lines(folder / "greedy.jsonl"):
        place, first = f"{folder.name}/greedy {line['id']}", len(line["prompt_ids"]) - 1
        text = line["prompt_ids"] + line["tokens"][:-1]
        logits = forward(config, weights, text)["logits"][first:]
        check_choices(logits, line["tokens"], line["margins"], line["max_abs"], limit, place)
        ties += near_ties(line["margins"], line["max_abs"], limit)
        if draft:
            logits, largest = forward(*draft, text)["logits"][first:], line["draft_max_abs"]
            check_choices(logits, line["draft_tokens"], line["draft_margins"], largest, limit, f"{place} draft")
            draft_ties += near_ties(line["draft_margins"], largest, limit)
    return {"greedy_near_ties": ties} | ({"draft_near_ties": draft_ties} if draft else {})


def check_model(model, folder, write=False, draft=None):
    """All goldens of one model, weights in `model`; prints a table. draft: folder of the draft's weights.

    write: stores errors, tolerances and near-ties in the manifest; otherwise the stored tolerances must hold.
    """
    manifest = files.read_json(folder / "manifest.json")
    for name, value in manifest["sha256"].items():
        require(files.sha256(model / name) == value, f"{folder}: made for other weights than {model / name}")
    config, weights = load(model)
    errors, steps = defaultdict(float), {}
    for prompt, entry in manifest["prompts"].items():
        measured, steps[prompt] = check_prompt(config, weights, folder, prompt, entry["norms"])
        errors |= {name: worst(error, errors[name]) for name, error in measured.items()}
    tolerances = {name: tolerance(error) for name, error in errors.items()} if write else manifest["tolerances"]
    for name, error in errors.items():
        require(files.within(error, tolerances[name]),
                f"{folder.name}: {name}: error {error:.3g}, tolerance {tolerances[name]:.3g}")
    one_ulp = 2.0 ** -23                    # PyTorch's power is rarely not the float32 nearest to the true one
    require(np.allclose(manifest["inv_freq"], inverse_frequencies(config), rtol=one_ulp, atol=0), f"{folder}: inv_freq")
    limit = tolerances["logits"]
    for prompt, entry in manifest["prompts"].items():
        check_choices(*steps[prompt], limit, f"{folder.name}/{prompt} steps")
        entry["near_ties"] = near_ties(*steps[prompt][2:], limit)
    if (folder / "greedy.jsonl").exists():
        manifest |= check_greedy(config, weights, folder, limit, load(draft) if draft else None)
    print_errors(folder.name, errors, tolerances, manifest)
    if write:
        stored = {"errors": {name: files.rounded(error, 3) for name, error in errors.items()}, "tolerances": tolerances}
        files.write_json(folder / "manifest.json", manifest | stored)


def load(model):
    checkpoint = Checkpoint(model)
    return checkpoint.config, checkpoint.in_memory()


def print_errors(name, errors, tolerances, manifest):
    """The worst relative error of each kind of tensor over layers and prompts."""
    largest, limits = defaultdict(float), defaultdict(float)
    for tensor, error in errors.items():
        kind = tensor.split(".")[-1]
        largest[kind], limits[kind] = worst(largest[kind], error), worst(limits[kind], tolerances[tensor])
    ties = {"steps": sum(entry["near_ties"] for entry in manifest["prompts"].values())}
    ties |= {key: manifest[key] for key in ("greedy_near_ties", "draft_near_ties") if key in manifest}
    print(f"{name}: {len(manifest['prompts'])} prompts; near-ties", ", ".join(f"{k} {v}" for k, v in ties.items()))
    for kind, error in largest.items():
        print(f"  {kind:15} error {error:8.2e}   tolerance {limits[kind]:8.2e}")


def model_folder(folder):
    """The weights that a folder of goldens/ belongs to."""
    if folder.name == "smollm2":
        return REAL_MODEL
    return HERE / ("models" if folder.name in ("target", "draft") else "checkpoints") / folder.name


def draft_of(folder):
    return HERE / "models" / "draft" if folder.name == "target" else None


def check_sampling(folder):
    """The recorded runs come out again in float32; the pair's logits are then those of transformers."""
    found = (goldens_toy.differences_in_float32(folder) if folder.name == "toy" else
             goldens_sampling.replay_pair(folder, model_folder(folder), draft_of(folder)))
    require(not found, f"{folder.name}: {'; '.join(found[:5])}")
    print(f"{folder.name}: every recorded decision of sampling is the same in float32")


def check_drafters(folder, write=False):
    check_heads.check(model_folder(folder), folder, require, allowed, tolerance, write)


def check_beams(folder):
    found = list(goldens_beams.differences(folder, load(model_folder(folder))))
    require(not found, "; ".join(found[:5]))
    print(f"{folder.name}: the oracle's beam searches find the recorded hypotheses")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--goldens", type=Path, default=HERE / "goldens")
    parser.add_argument("--model", type=Path, help="the model of a single folder of goldens")
    options = parser.parse_args()
    try:
        if options.model:
            check_model(options.model, options.goldens)
            return
        for folder in sorted(manifest.parent for manifest in options.goldens.glob("*/manifest.json")):
            if folder.name == "smollm2" and not REAL_MODEL.is_dir():
                print("smollm2: NOT CHECKED; make real gets the model")
                continue
            if folder.name != "toy":
                check_model(model_folder(folder), folder, draft=draft_of(folder))
            if folder.name in ("toy", "target"):
                check_sampling(folder)
            if (folder / "heads").is_dir():
                check_drafters(folder)
            if folder.name != "toy" and (folder / "beams.jsonl").exists():
                check_beams(folder)
    except Wrong as wrong:
        sys.exit(f"check_goldens: {wrong}")
    print("all golden files agree with the oracle")


if __name__ == "__main__":
    main()
