"""What SmolLM2 computes over the texts that its heads learn from, once for all epochs.

Each shard holds texts one after another: their tokens, where each begins, where the model's own part of it begins, the rows
that heads read, and what the model says at its own part (the likeliest token, log sum exp of the logits).
"""
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

import smollm2_texts
from drafting import Seen
from model import Llama

BLOCKS = [1, 14, 26]                        # EAGLE-3 reads the rows that leave these, counted from 0
AHEAD = 3                                   # tokens after a place that the target judges
SHARD, CHUNK, JITTER = 64, 1024, 60         # texts of a shard; rows whose logits are computed at a time


@dataclass
class Text:
    tokens: list
    own: int                                # where the model's part begins


def texts_of(tokenizer: Tokenizer, played: Path, tasks: Path, answers: Path) -> list[Text]:
    """What the runs of smollm2_texts.py wrote, prompts included; some answers may be missing."""
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    runs = lambda path: {r["id"]: r["tokens"] for r in map(json.loads, path.read_text().splitlines()) if "tokens" in r}
    opening = encode(smollm2_texts.OPENING)
    texts = [Text(opening + tokens, len(opening)) for tokens in runs(played).values()]
    written = runs(answers)
    asked = map(json.loads, tasks.read_text().splitlines())
    for request in (request for request in asked if request["id"] in written):
        prompt = encode(f"{smollm2_texts.OPENING}{request['chat']}<|im_end|>\n<|im_start|>assistant\n")
        texts.append(Text(prompt + written[request["id"]], len(prompt)))
    return texts


@torch.no_grad()
def compute_rows(model: Llama, text: Text) -> torch.Tensor:
    """[L, 4 d_model] in bf16: after the blocks, and after the final norm."""
    with torch.autocast("cpu", torch.bfloat16):
        stream = model.stream(model.model.embed_tokens(torch.tensor([text.tokens])))
        rows = [stream[i + 1] for i in BLOCKS] + [model.model.norm(stream[-1])]
    return torch.cat(rows, dim=-1)[0].to(torch.bfloat16)


@torch.no_grad()
def says(model: Llama, hidden: torch.Tensor) -> tuple:
    """log sum exp and the likeliest token of each row, and the sum of all p of every eighth one."""
    weight, total = model.model.embed_tokens.weight.to(torch.bfloat16), torch.zeros(model.shape.vocab_size)
    sums, best = [], []
    for part in hidden.split(CHUNK):
        logits = (part @ weight.T).float()
        sums.append(logits.logsumexp(-1))
        best.append(logits.argmax(-1).to(torch.int32))
        total += (logits[::8] - sums[-1][::8, None]).exp().sum(0)
    return torch.cat(sums), torch.cat(best), total


def make_shard(model: Llama, texts: list[Text], rows_of) -> dict:
    rows = torch.cat([rows_of(text) for text in texts])
    own = torch.cat([torch.arange(len(t.tokens)) >= t.own - 1 for t in texts])     # these say tokens of its own
    sums, best, total = says(model, rows[own, 3 * model.shape.d_model:])
    log_sum, likeliest = torch.zeros(len(rows)), torch.zeros(len(rows), dtype=torch.int32)
    log_sum[own], likeliest[own] = sums, best
    return {"tokens": torch.tensor([t for text in texts for t in text.tokens], dtype=torch.int32), "rows": rows,
            "lengths": torch.tensor([len(t.tokens) for t in texts]), "own": torch.tensor([t.own for t in texts]),
            "log_sum": log_sum, "best": likeliest, "total": total}


def write_shards(model: Llama, texts: list[Text], folder: Path, rows_of=None):
    """Those that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(texts), SHARD):
        path = folder / f"{first:05}.pt"
        if path.exists():
            continue
        torch.save(make_shard(model, texts[first:first + SHARD], rows_of or (lambda t: compute_rows(model, t))),
                   path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        print(f"rows of {min(first + SHARD, len(texts))} of {len(texts)} texts", flush=True)


class Batch:
    """Texts side by side, filled up at their ends."""

    def __init__(self, chosen: list[tuple[dict, int, int, int]], d_model: int):
        self.first = [own - 1 for *_, own in chosen]        # where the model's own tokens begin to be pending
        self.ends = [end - begin for _, begin, end, _ in chosen]
        L, B = max(self.ends), len(chosen)
        fill = lambda name, shape, dtype: torch.zeros(B, L, *shape, dtype=dtype)
        tokens, rows = fill("tokens", (), torch.int64), fill("rows", (4 * d_model,), torch.bfloat16)
        self.log_sum, self.best = fill("log_sum", (), torch.float32), fill("best", (), torch.int64)
        for i, (shard, begin, end, _) in enumerate(chosen):
            n = end - begin
            tokens[i, :n], rows[i, :n] = shard["tokens"][begin:end], shard["rows"][begin:end]
            self.log_sum[i, :n], self.best[i, :n] = shard["log_sum"][begin:end], shard["best"][begin:end]
        parts = rows.split(d_model, dim=-1)
        self.seen = Seen(tokens, dict(zip([i + 1 for i in BLOCKS], parts)), parts[-1], [])


class Rows:
    """All shards, and batches of their texts."""

    def __init__(self, folder: Path, d_model: int, held_out: bool = False):
        """held_out: those shards that training does not read, every sixteenth."""
        self.d_model = d_model
        paths = sorted(folder.glob("*.pt"))
        self.shards = [torch.load(p, mmap=True, weights_only=True) for i, p in enumerate(paths) if (i % 16 == 7) == held_out]
        self.texts = []                                     # shard, begin, end, own
        for shard in self.shards:
            ends = shard["lengths"].cumsum(0).tolist()
            for begin, end, own in zip([0, *ends], ends, shard["own"].tolist()):
                if end - begin - own > AHEAD + 1:
                    self.texts.append((shard, begin, end, own))

    def total(self) -> torch.Tensor:
        """The sums of p of the shards."""
        return sum(shard["total"] for shard in self.shards)

    def groups(self, epoch: int, tokens: int) -> list[list[int]]:
        """All texts once, those of similar lengths together, in an order of chance."""
        generator = torch.Generator().manual_seed(epoch)
        length = lambda i: self.texts[i][2] - self.texts[i][1]
        jitter = (torch.rand(len(self.texts), generator=generator) * JITTER).tolist()
        groups, longest = [[]], 0
        for i in sorted(range(len(self.texts)), key=lambda i: length(i) + jitter[i]):
            longest = max(longest, length(i))
            if (len(groups[-1]) + 1) * longest > tokens:
                groups.append([])
                longest = length(i)
            groups[-1].append(i)
        return [groups[g] for g in torch.randperm(len(groups), generator=generator).tolist() if groups[g]]

    def batch(self, group: list[int]) -> Batch:
        return Batch([self.texts[i] for i in group], self.d_model)
