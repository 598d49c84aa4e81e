"""Measures the embedded pair on held-out documents, kind by kind.

    python evaluate.py            writes figures/evaluation.json and prints its tables

Perplexity of both models; greedy alpha of speculation with 5 drafted tokens;
whether answers are right where that can be checked; the target's own text.
"""
import argparse
import json
import math
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import textgen
from model import Llama, load
from train_tokenizer import EOS_IDS

HERE = Path(__file__).resolve().parent
SPEC_LENGTH = 5


@torch.no_grad()
def continuations(model: Llama, prompts: list[list[int]], max_new_tokens: int, choose) -> list[list[int]]:
    """Continuations up to and with the first eos, computed together; prompts are padded on the left.

    choose: from logits [B, V] to a token of each row, [B].
    """
    longest = max(map(len, prompts))
    tokens = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    padding = torch.tensor([longest - len(p) for p in prompts])[:, None]
    caches = [[] for _ in model.model.layers]
    outputs, running = [[] for _ in prompts], set(range(len(prompts)))
    columns = torch.arange(longest)
    while running and columns[-1] < longest + max_new_tokens - 1:
        positions = (columns - padding).clamp(min=0)                              # [B, T]
        seen = torch.arange(columns[-1] + 1)
        mask = (seen <= columns[:, None]) & ((seen >= padding[..., None]) | (seen == columns[:, None]))
        hidden = model.hidden(tokens, caches=caches, positions=positions, mask=mask[:, None])
        tokens = choose(model.head(hidden[:, -1]))[:, None]
        for i in list(running):
            outputs[i].append(tokens[i].item())
            if outputs[i][-1] in EOS_IDS:
                running.discard(i)
        columns = columns[-1:] + 1
    return outputs


def greedy(model: Llama, prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
    return continuations(model, prompts, max_new_tokens, lambda logits: logits.argmax(-1))


def sampled(model: Llama, prompts: list[list[int]], max_new_tokens: int, seed: int) -> list[list[int]]:
    """Continuations drawn at temperature 1."""
    generator = torch.Generator().manual_seed(seed)
    return continuations(model, prompts, max_new_tokens,
                         lambda logits: torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0])


def speculation_counts(drafted_right: list[bool]) -> tuple[int, int, int]:
    """Rounds, tested and accepted tokens of greedy speculation.

    drafted_right[i]: is the draft's argmax after i emitted tokens the target's?
    A round drafts SPEC_LENGTH tokens, keeps those before the first wrong one and
    emits one token more, which is not tested.
    """
    rounds = tested = accepted = at = 0
    while at < len(drafted_right):
        in_round = drafted_right[at:at + SPEC_LENGTH]
        kept = in_round.index(False) if False in in_round else len(in_round)
        rounds += 1
        tested += min(kept + 1, len(in_round))
        accepted += kept
        at += kept + 1
    return rounds, tested, accepted


@torch.no_grad()
def agreement(draft: Llama, prompt: list[int], output: list[int]) -> list[bool]:
    """For each token of the target's output: would the draft, after the same prefix, choose it too?"""
    logits = draft(torch.tensor([prompt + output[:-1]]))[0, len(prompt) - 1:]
    return (logits.argmax(-1) == torch.tensor(output)).tolist()


@torch.no_grad()
def bits(model: Llama, ids: list[int], start: int) -> float:
    """Bits that the model needs for ids[start:]."""
    tokens = torch.tensor([ids])
    nats = F.cross_entropy(model(tokens[:, :-1])[0, start - 1:], tokens[0, start:], reduction="sum")
    return nats.item() / math.log(2)


def is_right(document: textgen.Document, written: str) -> bool | None:
    """Does the reply contain what it must? None where there is nothing to check."""
    if document.answer is None:
        return None
    if document.kind == "arithmetic":
        return re.findall(r"The answer is (\d+)", written)[-1:] == [document.answer]
    if document.kind == "rewriting":
        return document.answer in written
    return re.search(rf"\b{re.escape(document.answer)}\b", written) is not None


class Pair:
    def __init__(self, folder: Path = HERE / "models"):
        self.target, self.draft = load(folder / "target"), load(folder / "draft")
        self.tokenizer = Tokenizer.from_file(str(folder / "target" / "tokenizer.json"))

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def text_measures(self, documents) -> dict:
        """Bits per token and perplexity over whole documents and over what follows the prompts."""
        sums = dict(tokens=0, rest=0, target=0.0, draft=0.0, target_rest=0.0, draft_rest=0.0)
        for d in documents:
            ids = self.ids(d.text())[:self.target.shape.max_seq_len]
            start, split = textgen.header_length(self.tokenizer, d), len(self.ids(d.prompt()))
            sums["tokens"] += len(ids) - start
            sums["rest"] += len(ids) - split
            for name in ("target", "draft"):
                sums[name] += bits(getattr(self, name), ids, start)
                sums[name + "_rest"] += bits(getattr(self, name), ids, split)
        result = {"tokens": sums["tokens"]}
        for name in ("target", "draft"):
            result[f"{name}_bits_per_token"] = sums[name] / sums["tokens"]
            result[f"{name}_perplexity"] = 2 ** (sums[name] / sums["tokens"])
            result[f"{name}_bits_per_token_after_prompt"] = sums[name + "_rest"] / sums["rest"]
        return result

    def speculation_measures(self, documents, max_new_tokens: int) -> dict:
        """Greedy continuations by the target: alpha, tokens per round, right answers, one sample."""
        prompts = [self.ids(d.prompt()) for d in documents]
        fits = [i for i, p in enumerate(prompts) if len(p) + max_new_tokens <= self.target.shape.max_seq_len]
        documents, prompts = [documents[i] for i in fits], [prompts[i] for i in fits]
        outputs = greedy(self.target, prompts, max_new_tokens)
        counts = [speculation_counts(agreement(self.draft, p, o)) for p, o in zip(prompts, outputs)]
        rounds, tested, accepted = (sum(c) for c in zip(*counts))
        written = [self.tokenizer.decode(o) for o in outputs]
        right = [r for r in map(is_right, documents, written) if r is not None]
        shown = min(range(len(documents)), key=lambda i: abs(len(prompts[i]) + len(outputs[i]) - 220))
        return {"prompts": len(prompts), "emitted": sum(map(len, outputs)), "alpha": accepted / tested,
                "emitted_per_round": sum(map(len, outputs)) / rounds,
                "right": sum(right) / len(right) if right else None,
                "sample": {"prompt": documents[shown].prompt(), "target": written[shown]}}


def evaluate(pair: Pair, n_prompts: int, max_new_tokens: int) -> dict:
    results = {}
    for kind in textgen.KINDS:
        documents = textgen.held_out(kind, n_prompts)
        results[kind] = {**pair.text_measures(documents), **pair.speculation_measures(documents, max_new_tokens)}
        print(f"{kind} done", file=sys.stderr)
    return results


def table(results: dict) -> str:
    """The measures as a Markdown table."""
    lines = ["| kind | target bits/token | target perplexity | draft bits/token | draft perplexity | target bits/token after the prompt "
             "| greedy alpha | tokens per round | answers right |", "|---|---|---|---|---|---|---|---|---|"]
    for kind, r in results.items():
        right = "–" if r["right"] is None else f"{100 * r['right']:.0f}%"
        lines.append(f"| {kind} | {r['target_bits_per_token']:.2f} | {r['target_perplexity']:.2f} | {r['draft_bits_per_token']:.2f} "
                     f"| {r['draft_perplexity']:.2f} | {r['target_bits_per_token_after_prompt']:.2f} | {r['alpha']:.3f} "
                     f"| {r['emitted_per_round']:.2f} | {right} |")
    mean = sum(r["alpha"] for r in results.values()) / len(results)
    return "\n".join(lines + [f"| mean | | | | | | {mean:.3f} | | |"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=HERE / "models")
    parser.add_argument("--prompts", type=int, default=40, help="held-out prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "figures" / "evaluation.json")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = evaluate(Pair(options.models), options.prompts, options.max_new_tokens)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
