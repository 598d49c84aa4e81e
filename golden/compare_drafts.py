"""Compares drafts of the embedded target: three sizes, and three training objectives at the smallest size.

    python compare_drafts.py            trains what is missing, writes figures/drafts.json and prints its tables

Every draft is measured on the same text, which the target alone has written from
held-out prompts: once greedily, once drawn at temperature 1.
"""
import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from tokenizers import Tokenizer

import textgen
from evaluate import SPEC_LENGTH, greedy, sampled, speculation_counts
from model import Llama, load
from train import DRAFT_PLAN

HERE = Path(__file__).resolve().parent
MODELS = HERE / "models"
SIZES = ["draft_small", "draft", "draft_large"]
COMPARED = "draft_small"                    # the size at which objectives are compared
EXPERIMENTS = ["cross-entropy", "total-variation"]
SAMPLE_SEED = 1


@torch.no_grad()
def logits_after(model: Llama, prompt: list[int], output: list[int]) -> torch.Tensor:
    """What the model predicts at each place of the output, [len(output), V]."""
    hidden = model.hidden(torch.tensor([prompt + output[:-1]]))
    return model.head(hidden[0, len(prompt) - 1:])


class Texts:
    """What the target writes after held-out prompts of one kind, and its own logits there."""

    def __init__(self, target: Llama, tokenizer: Tokenizer, kind: str, n_prompts: int, max_new_tokens: int):
        prompts = [tokenizer.encode(d.prompt(), add_special_tokens=False).ids for d in textgen.held_out(kind, n_prompts)]
        prompts = [p for p in prompts if len(p) + max_new_tokens <= target.shape.max_seq_len]
        self.greedy = list(zip(prompts, greedy(target, prompts, max_new_tokens)))
        self.sampled = [(p, o, logits_after(target, p, o).softmax(-1))
                        for p, o in zip(prompts, sampled(target, prompts, max_new_tokens, SAMPLE_SEED))]

    def measure(self, draft: Llama) -> dict:
        """Greedy alpha as in evaluate.py; over all places, how often the argmax agrees; the mean of sum min(p, q)."""
        agree = [(logits_after(draft, p, o).argmax(-1) == torch.tensor(o)).tolist() for p, o in self.greedy]
        rounds, tested, accepted = (sum(c) for c in zip(*map(speculation_counts, agree)))
        places = sum(map(len, agree))
        overlaps = torch.cat([torch.minimum(probs, logits_after(draft, p, o).softmax(-1)).sum(-1)
                              for p, o, probs in self.sampled])
        return {"greedy_places": places, "same_argmax": sum(map(sum, agree)) / places, "alpha": accepted / tested,
                "emitted_per_round": places / rounds, "sampled_places": len(overlaps), "overlap": overlaps.mean().item()}
TARGET_BYTES_PER_TOKEN = 9_240_576  # of the embedded target's matrices, in bf16


def size_of(name: str, model: Llama) -> dict:
    """Where a draft is, and how much of it a step reads: every matrix once, in bf16. The head is the embedding."""
    matrices = sum(p.numel() for p in model.parameters() if p.ndim == 2)
    return {"directory": f"golden/models/{name}", "shape": asdict(model.shape),
            "parameters": sum(p.numel() for p in model.parameters()), "weight_bytes_per_token": 2 * matrices}


def train_experiments(work: Path):
    if not all((work / f"{COMPARED}_{objective}" / "model.safetensors").exists() for objective in EXPERIMENTS):
        subprocess.run([sys.executable, HERE / "train.py", *(f"{COMPARED}:{objective}" for objective in EXPERIMENTS),
                        "--work", work], check=True)


def compare(work: Path, n_prompts: int, max_new_tokens: int) -> dict:
    folders = {name: MODELS / name for name in SIZES}
    folders |= {objective: work / f"{COMPARED}_{objective}" for objective in EXPERIMENTS}
    drafts = {name: load(folder) for name, folder in folders.items()}
    measures = {name: {} for name in drafts}
    target, tokenizer = load(MODELS / "target"), Tokenizer.from_file(str(MODELS / "target" / "tokenizer.json"))
    for kind in textgen.KINDS:
        texts = Texts(target, tokenizer, kind, n_prompts, max_new_tokens)
        for name, draft in drafts.items():
            measures[name][kind] = texts.measure(draft)
        print(f"{kind} done", file=sys.stderr)
    return {
        "command": "python golden/compare_drafts.py", "prompts_per_kind": n_prompts, "max_new_tokens": max_new_tokens,
        "spec_length": SPEC_LENGTH, "sample_seed": SAMPLE_SEED, "plan": asdict(DRAFT_PLAN),
        "sizes": {name: {**size_of(name, drafts[name]), "kinds": measures[name]} for name in SIZES},
        "objectives": {"draft": COMPARED, "kinds": {
            objective: measures[COMPARED if objective == "divergence" else objective]
            for objective in ("cross-entropy", "divergence", "total-variation")}}}


def mean(kinds: dict, measure: str, without: str = "") -> float:
    """Over the kinds of text, each with the same weight."""
    values = [m[measure] for kind, m in kinds.items() if kind != without]
    return sum(values) / len(values)


def best_gain(alpha: float, c: float) -> tuple[float, int]:
    """The largest walltime factor of Theorem 3.8 (Leviathan et al. 2023), and its K."""
    return max(((1 - alpha ** (K + 1)) / (1 - alpha) / (1 + K * c), K) for K in range(1, 17))


def size_table(results: dict) -> str:
    lines = ["| draft | layers, d_model, d_ff | parameters | bytes per token | greedy alpha | alpha at temperature 1 "
             "| c by bytes | best gain |", "|---|---|---|---|---|---|---|---|"]
    for name, r in results["sizes"].items():
        shape, alpha = r["shape"], mean(r["kinds"], "alpha")
        c = r["weight_bytes_per_token"] / TARGET_BYTES_PER_TOKEN
        gain, K = best_gain(alpha, c)
        lines.append(f"| `{name}` | {shape['n_layers']}, {shape['d_model']}, {shape['d_ff']} | {r['parameters']:,} "
                     f"| {r['weight_bytes_per_token']:,} | {alpha:.3f} | {mean(r['kinds'], 'overlap'):.3f} "
                     f"| {c:.3f} | {gain:.2f} (K = {K}) |")
    return "\n".join(lines)


def kind_table(results: dict) -> str:
    """Greedy alpha and alpha at temperature 1 of each size, kind by kind."""
    sizes = results["sizes"]
    lines = ["| kind |" + "".join(f" `{name}` greedy | temperature 1 |" for name in sizes), "|---|" + "---|---|" * len(sizes)]
    rows = {kind: [(r["kinds"][kind]["alpha"], r["kinds"][kind]["overlap"]) for r in sizes.values()] for kind in textgen.KINDS}
    rows["mean"] = [(mean(r["kinds"], "alpha"), mean(r["kinds"], "overlap")) for r in sizes.values()]
    return "\n".join(lines + [f"| {kind} |" + "".join(f" {a:.3f} | {b:.3f} |" for a, b in row) for kind, row in rows.items()])


def schedule_table(results: dict) -> str:
    """What the three objectives have in common."""
    plan = results["plan"]
    peak, rates = plan["matrix_rate"], plan["schedule"]
    points = ", ".join(f"{peak * relative:g} at step {step}" for step, relative in rates)
    steps, each = plan["steps"], plan["tokens_per_step"]
    rows = [("draft", f"`{results['objectives']['draft']}`"), ("steps", f"{steps}"),
            ("tokens", f"{each:,} per step, {steps * each / 1e6:.1f} million in all"),
            ("learning rate of Muon and AdamW", f"{points}; straight lines between"),
            ("rows", f"512 tokens; from step {plan['long_from']} every third step has 1,024 or 2,048"),
            ("text", f"training documents from seed {plan['first_seed']:,} on, without {plan['without']}"),
            ("initialisation", "`torch.manual_seed(0)`")]
    return "\n".join(["| | all three |", "|---|---|"] + [f"| {name} | {value} |" for name, value in rows])


def means_table(first: str, columns: list, rows: dict) -> str:
    """Means over the kinds of text. columns: (title, measure, digits, the kind that is left out). rows: name -> kinds."""
    lines = [[first, *(title for title, *_ in columns)]]
    lines += [[name, *(f"{mean(kinds, measure, without):.{digits}f}" for _, measure, digits, without in columns)]
              for name, kinds in rows.items()]
    head, *body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([head, "|" + "---|" * (len(columns) + 1), *body])


def objective_table(results: dict) -> str:
    return means_table("objective", [("same argmax", "same_argmax", 3, ""), ("greedy alpha", "alpha", 3, ""),
                                     ("alpha at temperature 1", "overlap", 3, ""),
                                     ("same argmax without poems", "same_argmax", 3, "poems"),
                                     ("alpha at temperature 1 without poems", "overlap", 3, "poems")],
                       results["objectives"]["kinds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder of the experiments' weights")
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "drafts.json")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    train_experiments(options.work)
    torch.set_num_threads(options.threads)
    results = compare(options.work, options.prompts, options.max_new_tokens)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(size_table(results), kind_table(results), schedule_table(results), objective_table(results), sep="\n\n")


if __name__ == "__main__":
    main()
