"""Plants classic bugs in the oracles, one at a time, and expects the golden files to show each of them.

    python goldens_sensitivity.py [FOLDER ...]        folders of goldens/; by default the tiny models

Bugs of the forward pass: prints in how many folders check_goldens saw it, and what it said first; one folder may well
miss some, as its model lacks the feature. Bugs of speculative sampling: prints how many runs of goldens/toy came out
otherwise. Fails if a bug is seen nowhere.
"""
import sys
import types
from pathlib import Path

import check_goldens
import goldens_sampling
import goldens_toy
from goldens_tiny_models import MODELS as TINY

HERE = Path(__file__).resolve().parent
LLAMA, SAMPLING = HERE / "oracle" / "llama_float64.py", HERE / "oracle" / "speculative_sampling.py"

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


def main():
    folders = [HERE / "goldens" / name for name in (sys.argv[1:] or TINY)]
    check_goldens.print_errors = lambda *args: None
    unseen = [bug for bug, caught in [*see_llama_bugs(folders), *see_sampling_bugs()] if not caught]
    unchanged = [complaint_of_llama(module_with(LLAMA, "def silu", "def silu"), folder) for folder in folders]
    assert not any(unchanged) and not complaints_of_sampling(module_with(SAMPLING, "def draw", "def draw"))
    if unseen:
        sys.exit(f"not seen: {unseen}")


if __name__ == "__main__":
    main()
