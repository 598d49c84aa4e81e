"""Plants classic bugs in the oracles, one at a time, and expects the golden files to show each of them.

    python goldens_sensitivity.py [FOLDER ...]        folders of goldens/; by default the tiny models

Bugs of the forward pass: prints in how many folders check_goldens saw it, and what it said first; one folder may well
miss some, as its model lacks the feature. Bugs of speculative sampling: prints how many runs of goldens/toy came out
otherwise. Bugs of drafters, which change no text: prints which drafters' golden rounds came out otherwise, and how many
drafts are accepted with and without the bug. Fails if a bug is seen nowhere.
"""
import functools
import sys
import types
from pathlib import Path

import check_goldens
import check_heads
import goldens_files as files
import goldens_sampling
import goldens_toy
from goldens_tiny_models import MODELS as TINY

HERE = Path(__file__).resolve().parent
LLAMA, SAMPLING, DRAFTERS = (HERE / "oracle" / f"{name}.py" for name in
                             ("llama_float64", "speculative_sampling", "drafters_float64"))

# name: (what stands there, what the bug makes of it)
LLAMA_BUGS = {
    "RoPE of adjacent pairs": (
        "heads = x.reshape(len(x), -1, 2, len(inv_freq)) ",
        "heads = x.reshape(len(x), -1, len(inv_freq), 2).swapaxes(2, 3) "),
    "RoPE without scaling": ('if rope.get("rope_type", rope.get("type", "default")) == "default":', "if True:"),
    "RoPE scaled by the factor alone": (
        "return np.where((wavelength", "return inv_freq / factor; np.where((wavelength"),
    "RoPE one position late": ("np.arange(first_position, first_position + len(x))", "np.arange(1, 1 + len(x))"),
    "RoPE the other way round": ("sin = np.cos(angles), np.sin(angles)", "sin = np.cos(angles), -np.sin(angles)"),
    "theta 10000": ('self.rope.get("rope_theta", fields.get("rope_theta", 10000.0))', "10000.0"),
    "mask lets the next token in": ("np.arange(S - T, S)[:, None]", "np.arange(S - T, S)[:, None] + 1"),
    "mask hides the token itself": ("np.arange(S - T, S)[:, None]", "np.maximum(0, np.arange(S - T, S)[:, None] - 1)"),
    "scale by d_model / n_heads": ("np.sqrt(config.head_dim)", "np.sqrt(config.d_model / config.n_heads)"),
    "query head reads KV head h mod Hkv": (
        "k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)",
        "k, v = np.tile(k, (group, 1, 1)), np.tile(v, (group, 1, 1))"),
    "gate and up swapped": ('silu(t["gate"]) * t["up"]', 'silu(t["up"]) * t["gate"]'),
    "eps 1e-6": ('fields.get("rms_norm_eps", 1e-6)', "1e-6"),
    "eps doubled": ('fields.get("rms_norm_eps", 1e-6)', '2 * fields.get("rms_norm_eps", 1e-6)'),
    "eps outside the root": (
        "np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)",
        "(np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) + eps)"),
    "norm weight + 1": ("+ eps) * weight", "+ eps) * (1 + weight)"),
    "second residual from the block's input": ('t["attn_residual"] + t["mlp_out"]', 'x + t["mlp_out"]'),
    "head always tied": ('if config.tied else "lm_head.weight"', 'if True else "lm_head.weight"'),
    "sigmoid for SiLU": ("return x / (1 + np.exp(-x))", "return 1 / (1 + np.exp(-x))"),
    "bf16 read as f16": ('(raw.view("<u2").astype(np.uint32) << 16).view(np.float32)', 'raw.view("<f2")'),
}


SAMPLING_BUGS = {
    "uniform compared with draft_probs": ("bool(u < ratio)", "bool(u < draft_probs[token])"),
    "accept draw shared with the draft's": ('uniform(seed, position, "accept")', 'uniform(seed, position, "draft")'),
    "one uniform for every position": ("uniform(seed, position, purpose)", "uniform(seed, 0, purpose)"),
    "seed's upper half ignored": ("uniform(seed, position, purpose)", "uniform(seed % 2 ** 32, position, purpose)"),
    "nothing subtracted for the residual": ("np.maximum(0, target_probs - draft_probs)", "target_probs.copy()"),
    "residual by absolute value": ("np.maximum(0, target_probs - draft_probs)", "np.abs(target_probs - draft_probs)"),
    "correction with the bonus's purpose": ('position, "resample")', 'position, "target")'),
    "bonus from the row before": ("probabilities(rows[i],", "probabilities(rows[min(i, max(K - 1, 0))],"),
    "penalty's history does not grow": ("(rows[i], tokens + emitted,", "(rows[i], tokens,"),
    "penalty divides negative logits": ("logits[seen] * penalty,", "logits[seen] / penalty,"),
    "penalty subtracted": ("logits[seen] / penalty)", "logits[seen] - penalty + 1)"),
    "draft at the target's temperature": ("context, options.draft_temperature,", "context, options.temperature,"),
    "filters on the target's side only": (
        "options.draft_temperature, options)", "options.draft_temperature, Options())"),
    "top-k keeps one too many": ("np.sort(logits)[-k]", "np.sort(logits)[-k - 1]"),
    "top-p drops the token that crosses it": (
        "keep[order] = before < top_p", "keep[order] = (before == 0) | (before + softmax(logits)[order] < top_p)"),
    "draw by descending probability": (
        "ends = np.cumsum(probs)", "probs = np.sort(probs)[::-1]; ends = np.cumsum(probs)"),
    "goes on after an accepted eos": ("is_finished(tokens + emitted, end, options, new=emitted)", "False"),
    "K not shortened near the limit": ("return max(0, min(options.spec_length, room))", "return options.spec_length"),
}

DRAFTER_BUGS = {
    "rows before the final norm": (
        'return seen["final_norm"]\n', 'return seen[f"layers.{self.target.config.n_layers - 1}.residual"]\n'),
    "rows that enter the layers": (
        'seen[f"layers.{i}.residual"] for', 'seen[f"layers.{i - 1}.residual" if i else "embedding"] for'),
    "[feature, embedding]": (
        "np.concatenate([embeddings, features], axis=1)", "np.concatenate([features, embeddings], axis=1)"),
    "drafts one position late": (
        "past, inv_freq = len(cache[0]),", "past, inv_freq = len(cache[0]) + bool(len(cache[0])),"),
    "RoPE of the target": ("inverse_frequencies(self.config)", "inverse_frequencies(self.target.config)"),
    "row of the token before": ("token = self.features[place - 1]", "token = self.features[place - 2]"),
    "fed back after the norm": ("row[0]\n", '(self.norm(row, "norm") if self.kind == "eagle3" else row)[0]\n'),
    "d2t as an id": ('rows + weights["d2t"][rows]', 'weights["d2t"][rows]'),
    "fc without its bias": (' + w.get("fc.bias", 0)', ""),
    "heads one late": ("self.target, w, rows[:count])", "self.target, w, np.roll(rows, -1, axis=0)[:count])"),
    "one block for all heads": ('silu(w[f"{head}.{block}.linear.weight"]', 'silu(w[f"0.{block}.linear.weight"]'),
    "heads without biases": (' + w[f"{head}.{block}.linear.bias"]', ""),
    "pending token not seen": ("read_after(self.cache, place + 1,", "read_after(self.cache, place,"),
}


def module_with(path, old, new):
    """The oracle's module with one piece of its source replaced."""
    source = path.read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {path.name}"
    module = types.ModuleType(f"oracle.changed_{path.stem}")
    sys.modules[module.__name__] = module                       # dataclasses look their module up
    module.__package__ = "oracle"
    exec(compile(source.replace(old, new), str(path), "exec"), vars(module))
    return module


def complaint_of_llama(module, folder):
    """What check_goldens says with this oracle; None if it is content."""
    for name in ("Checkpoint", "forward", "inverse_frequencies"):
        setattr(check_goldens, name, getattr(module, name))
    try:
        check_goldens.check_model(check_goldens.model_folder(folder), folder)
    except check_goldens.Wrong as wrong:
        return str(wrong)
    return None


def complaints_of_sampling(module):
    """The runs and cases of goldens/toy that come out otherwise with this oracle."""
    goldens_sampling.sampling = goldens_toy.sampling = module
    goldens_sampling.Options = goldens_toy.Options = module.Options
    texts = goldens_toy.differences_in_float32(HERE / "goldens" / "toy")
    return sorted({text.split(":")[0].split(".")[0] for text in texts})


def see_llama_bugs(folders):
    for bug, change in LLAMA_BUGS.items():
        complaints = [complaint_of_llama(module_with(LLAMA, *change), folder) for folder in folders]
        caught = [text for text in complaints if text]
        print(f"{bug}: {len(caught)} of {len(folders)} folders; {caught[0] if caught else 'NOT SEEN'}", flush=True)
        yield bug, caught


def see_sampling_bugs():
    for bug, change in SAMPLING_BUGS.items():
        caught = complaints_of_sampling(module_with(SAMPLING, *change))
        print(f"{bug}: {len(caught)} runs or cases of the toy", flush=True)
        yield bug, caught


SHORT, DRAFTS = 100, 5                      # tokens of the texts on which drafters are counted, and of a round


@functools.cache
def texts_of(folder):
    lines = files.read_lines(folder / "greedy.jsonl")
    return [line for line in lines if "kind" in line and line["id"].endswith("-0") and len(line["tokens"]) <= SHORT]


def drafter_of(module, folder, name):
    return module.load(check_heads.weights_of(folder / "heads") / name, module.Model(check_goldens.model_folder(folder)))


def accepted(module, folder, name):
    """Drafts of the texts of a folder of goldens."""
    drafter = drafter_of(module, folder, name)
    return sum(sum(check_heads.chain(drafter, t["prompt_ids"], t["tokens"], DRAFTS)["accepted"]) for t in texts_of(folder))


@functools.cache
def rightly_accepted(folder, name):
    return accepted(check_heads.oracle, folder, name)


def is_seen(module, folder, name):
    """Whether a drafter's golden rounds come out otherwise."""
    goldens = folder / "heads"
    tolerances = files.tolerances_of(goldens / "manifest.json")
    errors = check_heads.errors_of(drafter_of(module, folder, name), files.read_tensors(goldens / f"{name}.safetensors"))
    return isinstance(errors, str) or not all(files.within(e, tolerances[tensor]) for tensor, e in errors.items())


def complaints_of_drafters(module, folder):
    """The drafters that come out otherwise, with what becomes of the drafts accepted."""
    for name in sorted(path.stem for path in (folder / "heads").glob("*.safetensors")):
        try:
            if is_seen(module, folder, name):
                right = rightly_accepted(folder, name)          # 0 where there are no texts
                yield f"{folder.name}/{name}" + (f" accepts {accepted(module, folder, name)}, not {right}" if right else "")
        except (ValueError, KeyError):                          # shapes that do not fit
            yield f"{folder.name}/{name}"


def see_drafter_bugs():
    folders = [HERE / "goldens" / name for name in ("sharded", "target")]
    for bug, change in DRAFTER_BUGS.items():
        module = module_with(DRAFTERS, *change)
        caught = [text for folder in folders for text in complaints_of_drafters(module, folder)]
        print(f"{bug}: {', '.join(caught)}", flush=True)
        yield bug, caught
    unchanged = module_with(DRAFTERS, "def load", "def load")
    assert not any(list(complaints_of_drafters(unchanged, folder)) for folder in folders)


def main():
    folders = [HERE / "goldens" / name for name in (sys.argv[1:] or TINY)]
    check_goldens.print_errors = lambda *args: None
    seen = [*see_llama_bugs(folders), *see_sampling_bugs(), *see_drafter_bugs()]
    unseen = [bug for bug, caught in seen if not caught]
    unchanged = [complaint_of_llama(module_with(LLAMA, "def silu", "def silu"), folder) for folder in folders]
    assert not any(unchanged) and not complaints_of_sampling(module_with(SAMPLING, "def draw", "def draw"))
    if unseen:
        sys.exit(f"not seen: {unseen}")


if __name__ == "__main__":
    main()
