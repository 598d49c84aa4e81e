"""Goldens of beam search: hypotheses and scores by transformers, and how clear each choice was by the float64 oracle.

    python goldens_beams.py toy target ...   the beams.jsonl of these folders of goldens/ alone

A run is left out where a choice was so close that another implementation's rounding might turn it.
"""
import sys
from itertools import count, product
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import GenerationMode

import goldens_files as files
import goldens_transformers as theirs
from oracle.beam_search import Options, plain, speculative
from oracle.llama_float64 import Checkpoint, forward

HERE = Path(__file__).resolve().parent
# How far a sum of log-probabilities by transformers may be from the oracle's. A margin between two sums that is more than
# twice as large is clear.
CLOSE, CLOSE_OF_SMOLLM2 = 1e-4, 5e-4
MOST_RETURNED = 3           # hypotheses of a line
WIDTHS = 6
GRID = [(beams, penalty, stop) for penalty, stop, beams in
        product((0.0, 1.0, -0.5, 2.0), (False, True, "never"), range(1, WIDTHS + 1))]
OF_TARGET = ("dialogue-2", "dialogue-5", "dialogue-7", "arithmetic-6", "questions-0", "questions-1", "rewriting-6",
             "stories-5", "poems-3", "recipes-7", "code-5", "code-0")
VOCABULARY, EOS, TOY_PROMPT = 12, 11, [1, 5, 2]         # of the tables
TOY_CLEAR = 1e-9            # no model rounds there
TINY = ("plain_rope", "sharded")            # with two and three eos ids
RANDOM_PROMPTS = 6


class Prefixes:
    """The oracle's logits after a prompt and more tokens, each row computed once."""

    def __init__(self, config, weights, prompt):
        self.config, self.weights, self.prompt, self.cache = config, weights, prompt, []
        self.known = {(): (forward(config, weights, prompt, self.cache)["logits"][-1], None)}

    def __call__(self, tokens):
        more = tuple(tokens[len(self.prompt):])
        if more not in self.known:
            self(tokens[:-1])
            cache = self.cache_before(more)
            logits = forward(self.config, self.weights, [more[-1]], cache)["logits"][-1]
            self.known[more] = logits, [(k[-1:], v[-1:]) for k, v in cache]
        return self.known[more][0]

    def cache_before(self, more):
        """(k, v) of each layer for all tokens but the last."""
        rows = [self.known[more[:n]][1] for n in range(1, len(more))]
        return [tuple(np.concatenate([start[side], *(row[layer][side] for row in rows)]) for side in (0, 1))
                for layer, start in enumerate(self.cache)]


GenerationConfig.get_generation_mode = lambda *_: GenerationMode.BEAM_SEARCH    # with a width of 1, too


def generate(model, ids, options, returned):
    """transformers' hypotheses, best first, without padding: [(tokens, score, whether an eos ended it)]."""
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                         num_beams=options.beams, num_return_sequences=returned, length_penalty=options.length_penalty,
                         early_stopping=options.early_stopping, max_new_tokens=options.max_new_tokens, temperature=None,
                         top_p=None, top_k=None, eos_token_id=list(options.eos_ids) or None, pad_token_id=0,
                         return_dict_in_generate=True, output_scores=True)
    return [(*without_padding(row.tolist()[len(ids):], options.eos_ids), score)
            for row, score in zip(out.sequences, out.sequences_scores.tolist())]


def without_padding(tokens, eos_ids):
    ends = [i for i, token in enumerate(tokens) if token in eos_ids]
    return (tokens[:ends[0] + 1], True) if ends else (tokens, False)


def line_of(model, prefixes, name, prompt, options, close):
    """A line of beams.jsonl, and whether its choices are clear. Fails where the oracle finds other hypotheses."""
    search = plain(prefixes, prompt, options)
    returned = min(options.beams, MOST_RETURNED)
    ours = search.hypotheses()[:returned]
    fields = fields_of(name, prompt, options, returned)
    if search.least_margin() <= 2 * close:
        return fields, False
    for own, (tokens, finished, score) in zip(ours, generate(model, prompt, options, returned), strict=True):
        assert (list(own.tokens), own.finished) == (tokens, finished), f"{fields['id']}: other hypotheses"
        error = abs(own.score - score) * len(tokens) ** options.length_penalty
        assert error <= close, f"{fields['id']}: a sum of log-probabilities is off by {error}"
    return fields | results(search, ours), True


def fields_of(name, prompt, options, returned):
    """What a run was asked for."""
    return {"id": f"{name}-{options.beams}-{options.length_penalty:g}-{options.early_stopping}".lower(),
            "prompt": name, "prompt_ids": prompt, "eos_ids": list(options.eos_ids), "beams": options.beams,
            "length_penalty": options.length_penalty, "early_stopping": options.early_stopping,
            "max_new_tokens": options.max_new_tokens, "num_return": returned}


def results(search, hypotheses):
    """What it found, and how clearly."""
    margins = {name: [None if m is None else files.rounded(m, 4) for m in values]
               for name, values in search.margins.items()}
    return {"steps": search.length,
            "hypotheses": [{"tokens": list(h.tokens), "score": files.rounded(h.score, 9), "finished": h.finished}
                           for h in hypotheses],
            "margins": margins, "least_margin": files.rounded(search.least_margin(), 4)}


def make(model, folder, out, prompts, eos_ids, max_new_tokens, settings, close=CLOSE):
    """beams.jsonl of a model: the settings are dealt to the prompts in turn."""
    checkpoint = Checkpoint(folder)
    config, weights, lines, unclear = checkpoint.config, checkpoint.in_memory(), [], []
    for number, (name, ids) in enumerate(prompts.items()):
        prefixes = Prefixes(config, weights, ids)
        for beams, penalty, stop in dealt(settings, number, len(prompts)):
            options = Options(beams, penalty, stop, max_new_tokens, tuple(eos_ids))
            line, clear = line_of(model, prefixes, name, ids, options, close)
            (lines if clear else unclear).append(line)
        print(f"  {name}: {len(ids)} tokens, {len(prefixes.known)} rows", flush=True)
    files.write_lines(out / "beams.jsonl", lines)
    manifest = files.read_json(out / "manifest.json")
    files.write_json(out / "manifest.json", manifest | {"beams_tolerance": close, "beams_left_out": [line["id"] for line in unclear]})
    ended = sum(hypothesis["finished"] for line in lines for hypothesis in line["hypotheses"])
    print(f"  beams: {len(lines)} runs, {sum(line['steps'] for line in lines)} steps, {ended} ended hypotheses; left out "
          f"as too close to a tie: {len(unclear)}:", *(line["id"] for line in unclear))


def dealt(settings, number, players):
    """Every width to every prompt: a row of the grid begins one prompt later than the row before."""
    return [setting for i, setting in enumerate(settings) if (i + i // WIDTHS) % players == number]


def make_toy(out):
    """Runs on tables of logits, with a draft: also the steps of each pass."""
    tables, lines = files.read_tensors(out / "tables.safetensors"), []
    for name, beams, width, depth in product(("random", "close", "equal"), (1, 3), (1, 2, VOCABULARY), (1, 3)):
        penalty, stop, _ = GRID[len(lines) * WIDTHS % len(GRID)]
        options = Options(beams, penalty, stop, 20, (EOS,))
        model = lambda kind: lambda tokens: tables[f"{name}.{kind}_logits"][tokens[-1]].astype(np.float64)
        search, steps = speculative(model("target"), model("draft"), TOY_PROMPT, options, width * beams, depth)
        assert search.hypotheses() == plain(model("target"), TOY_PROMPT, options).hypotheses()
        assert search.least_margin() > TOY_CLEAR
        lines.append(fields_of(name, TOY_PROMPT, options, beams) | {
            "id": f"{name}-{beams}-{width * beams}-{depth}", "tables": name, "draft_beams": width * beams,
            "spec_length": depth, "steps_per_pass": steps} | results(search, search.hypotheses()))
    files.write_lines(out / "beams.jsonl", lines)


def make_target(model, folder, out):
    """Prompts of greedy.jsonl."""
    prompts = {line["id"]: line["prompt_ids"] for line in files.read_lines(out / "greedy.jsonl")}
    make(model, folder, out, {name: prompts[name] for name in OF_TARGET}, theirs.eos_ids(folder), 28, GRID)


def make_smollm2(model, folder, out, prompts):
    """prompts: {name: ids}"""
    make(model, folder, out, prompts, theirs.eos_ids(folder), 24, half_of_grid(0), CLOSE_OF_SMOLLM2)


def half_of_grid(which):
    """Every other row of the grid."""
    return [setting for i, setting in enumerate(GRID) if (i // WIDTHS) % 2 == which]


def make_tiny(model, folder, out):
    """Random prompts whose texts are likely to end: one of three beams at least has done so after 16 tokens."""
    config, weights = Checkpoint(folder).config, Checkpoint(folder).in_memory()
    options, prompts = Options(3, 1.0, "never", 16, tuple(theirs.eos_ids(folder))), {}
    for seed in count():
        if len(prompts) == RANDOM_PROMPTS:
            break
        ids = theirs.random_ids(model, 3 + 2 * len(prompts), seed=seed)
        if any(hypothesis.finished for hypothesis in plain(Prefixes(config, weights, ids), ids, options).hypotheses()):
            prompts[f"random-{seed}"] = ids
    make(model, folder, out, prompts, options.eos_ids, options.max_new_tokens, half_of_grid(TINY.index(folder.name)))


def differences(folder, weights):
    """What a replay of beams.jsonl by the oracle finds otherwise. weights: (config, tensors) of the model. Yields texts."""
    prefixes, prompt = None, None
    for line in files.read_lines(folder / "beams.jsonl"):
        if line["prompt"] != prompt:
            prompt, prefixes = line["prompt"], Prefixes(*weights, line["prompt_ids"])
        search = plain(prefixes, line["prompt_ids"], Options(line["beams"], line["length_penalty"], line["early_stopping"],
                                                             line["max_new_tokens"], tuple(line["eos_ids"])))
        found = results(search, search.hypotheses()[:line["num_return"]])
        yield from files.differences(found, {name: line[name] for name in found}, f"{folder.name}/beams {line['id']}")


def main():
    for name in sys.argv[1:] or ["toy", *TINY, "target"]:
        out, folder = HERE / "goldens" / name, HERE / ("models" if name == "target" else "checkpoints") / name
        print(f"== {name}", flush=True)
        if name == "toy":
            make_toy(out)
        else:
            (make_target if name == "target" else make_tiny)(theirs.load(folder), folder, out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
