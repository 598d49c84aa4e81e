#!/usr/bin/env python3
"""Runs stages 1 to 5 on one prompt, puts what they did side by side, and ends with stage 6 on many prompts at once.

    python3 stages/programs/demo.py [BUILD] [--prompt TEXT] [--max-new-tokens N]

Streams each stage's text as it is written; then says what it cost, and whether the stages agree.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

STAGES = ["01_naive_decoder", "02_contiguous_kv_cache", "03_paged_kv_cache", "04_greedy_speculation",
          "05_rejection_sampling"]
SPECULATIVE = STAGES[3:]
SAMPLING = ["--temperature", "0.8", "--seed", "1"]
LESSON = {"01_naive_decoder": "everything is computed again for every token",
          "02_contiguous_kv_cache": "keys and values are kept",
          "03_paged_kv_cache": "kept in pages",
          "04_greedy_speculation": "a draft model guesses, one pass verifies several tokens",
          "05_rejection_sampling": "the same at temperature 0.8: other words, the same law"}
BATCH = "06_batched_verification"
# Requests of the batch, beside the demo's own prompt: what each adds to it.
OTHERS = [{"id": "same, sampled", "temperature": 0.8, "seed": 1},
          {"id": "other beginning", "prompt": "Once, in the winter, Sunita came to York. Sunita was looking for a friend."},
          {"id": "question", "chat": "What is 12 + 30?"},
          {"id": "list", "prompt": "You need:\n- 200 g of mushrooms\n-"},
          {"id": "code", "prompt": "class GlassLetter:\n", "temperature": 0.5, "seed": 7},
          {"id": "plain", "prompt": "The sun shone.", "no_speculation": True, "max_new_tokens": 16},
          {"id": "stops", "prompt": "Snow fell.", "stop": ["."]}]
PROMPT = "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat."


def read_logits(path):
    """The float32 tensor `logits` of a safetensors file: its bytes, and its width."""
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])["logits"]
    begin, end = entry["data_offsets"]
    return data[8 + size + begin:8 + size + end], entry["shape"][1]


def relative_error(a, b):
    """||a - b|| / ||b||; infinite where the sizes differ."""
    if len(a) != len(b):
        return math.inf
    pairs = zip(struct.iter_unpack("<f", a), struct.iter_unpack("<f", b))
    above = below = 0.0
    for (x,), (y,) in pairs:
        above += (x - y) ** 2
        below += y * y
    return math.sqrt(above / below)


def command(build, stage, options, *more):
    return [build / "bin" / stage, "--prompt", options.prompt, "--max-new-tokens", str(options.max_new_tokens), *more]


def run(build, stage, options, folder):
    """The stage's report and logits; its text goes to our stdout."""
    report, logits = Path(folder) / f"{stage}.json", Path(folder) / f"{stage}.safetensors"
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    bold, plain = ("\033[1m", "\033[0m") if coloured else ("", "")
    print(f"{bold}== {stage}: {LESSON[stage]}{plain}")
    if coloured and stage in SPECULATIVE:
        print("(\033[32maccepted drafts\033[0m, \033[31;9mrejected ones\033[0m, "
              "\033[34mthe target's own tokens\033[0m)")
    print(options.prompt, end="", flush=True)
    more = SAMPLING if stage == "05_rejection_sampling" else []
    # The summary on stderr is for people who run a stage alone; here the table has it all.
    done = subprocess.run(command(build, stage, options, "--report", report, "--dump-logits", logits, *more),
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    print(flush=True)
    return json.loads(report.read_text()), read_logits(logits)


def greedy_tokens(build, stage, options):
    done = subprocess.run(command(build, stage, options, "--output", "json"), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["tokens"]


def yes(condition):
    return "yes" if condition else "NO"


def verdicts(results, stage_5_greedy):
    """What must be true of each stage beside the one before, and whether it is."""
    (first, (first_logits, _)), (second, (second_logits, _)), (third, third_logits), (fourth, fourth_logits) = results[:4]
    error = relative_error(second_logits, first_logits)
    return {"02_contiguous_kv_cache": ("equal to stage 1", second["tokens"] == first["tokens"] and error <= 1e-5,
                                       f" (logits within {error:.0e})"),
            "03_paged_kv_cache": ("equal to stage 2, bit for bit", third["tokens"] == second["tokens"]
                                  and third_logits[0] == second_logits, ""),
            "04_greedy_speculation": ("identical to plain decoding", fourth["tokens"] == third["tokens"]
                                      and fourth_logits == third_logits, " (and every logit, bit for bit)"),
            "05_rejection_sampling": ("at temperature 0 identical to plain decoding", stage_5_greedy == third["tokens"],
                                      "")}


def table(results, checks):
    print(f"{'':24}{'tokens/s':>10}{'rows a token':>14}{'target passes a token':>23}{'cache bytes':>14}")
    for result, _ in results:
        stats, stage = result["stats"], result["stage"]
        print(f"{stage:24}{stats['tokens_per_second']:10.0f}{stats['target_rows'] / stats['emitted']:14.1f}"
              f"{stats['target_forwards'] / stats['emitted']:23.2f}{stats['cache_bytes']:14,}")
    print()
    for stage, (what, good, detail) in checks.items():
        print(f"{stage:24}{what}: {yes(good)}{detail}")
    print(f"\n{results[0][0]['stats']['emitted']} new tokens after {results[0][0]['prompt_tokens']}; a row is one token "
          "sent through the model, a pass reads all of its weights once.")


def number(value, digits):
    return "unknown" if value is None else f"{value:.{digits}f}"


def speculation_table(results):
    """Prediction beside measurement: see docs/theory.md."""
    print(f"\n{'':24}{'K':>4}{'alpha':>8}{'c':>8}{'v':>8}   speed-up over plain decoding by")
    print(f"{'':52}{'formula':>10}{'accounting':>12}{'the clock':>11}")
    for result, _ in results:
        stats = result["stats"]
        print(f"{result['stage']:24}{result['spec_length']:4}{number(stats['alpha'], 3):>8}{number(stats['c'], 2):>8}"
              f"{number(stats['v'], 2):>8}{number(stats['speedup_formula'], 2):>10}"
              f"{number(stats['speedup_accounting'], 2):>12}{number(stats['speedup_clock'], 2):>11}")
    if any((result["stats"]["v"] or 0) > 1.5 for result, _ in results):
        print("\nv is large because this small target lies in the processor's cache, where only arithmetic counts. Where\n"
              "weights come from memory, v is near 1 and drafts are cheap: docs/theory.md has the argument.")


def batch_requests(options):
    own = {"id": "the prompt", "prompt": options.prompt}
    requests = [own] + [other if "prompt" in other or "chat" in other else {**own, **other} for other in OTHERS]
    return [{"max_new_tokens": options.max_new_tokens, **request} for request in requests]


def run_batch(build, path, *more):
    """Results and summary of stage 6 for a file of requests."""
    done = subprocess.run([build / "bin" / BATCH, "--requests", path, "--output", "json", *more], stdout=subprocess.PIPE,
                          check=True)
    *results, last = map(json.loads, done.stdout.splitlines())
    return results, last["summary"]


def batch_demo(build, options, folder):
    """Eight requests at once, and each of them alone. Returns whether every one came out the same."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    bold, plain = ("\033[1m", "\033[0m") if coloured else ("", "")
    print(f"\n{bold}== {BATCH}: many requests share every pass, each accepts its own number of drafts{plain}")
    requests, file = batch_requests(options), Path(folder) / "requests.jsonl"
    file.write_text("".join(json.dumps(request) + "\n" for request in requests))
    results, together = run_batch(build, file)
    alone = []
    for request in requests:
        single = Path(folder) / "single.jsonl"
        single.write_text(json.dumps(request) + "\n")
        alone += run_batch(build, single)[0]
    print(f"{'':17}{'tokens':>7}{'rounds':>8}{'alpha':>7}{'first token':>13}  text")
    for result in results:
        stats, text = result["stats"], " ".join(result["text"].split())
        print(f"{result['id']:17}{len(result['tokens']):7}{stats['rounds']:8}{number(stats['alpha'], 2) if stats['drafted'] else 'none':>7}"
              f"{1e3 * stats['time_to_first_token']:10.1f} ms  {text[:50]}{'...' if len(text) > 50 else ''}")
    same = [result["tokens"] for result in results] == [result["tokens"] for result in alone]
    print(f"\n{len(results)} requests at once are {len(results)} requests alone: {yes(same)}")
    one_by_one = sum(result["stats"]["rounds"] for result in alone)
    print(f"{together['stats']['emitted']} tokens took {together['target_forwards']} passes of the target, prompts and all; "
          f"one request after the other has {one_by_one} rounds, a pass each")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=Path("build"))
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [run(options.build, stage, options, folder) for stage in STAGES]
        checks = verdicts(results, greedy_tokens(options.build, "05_rejection_sampling", options))
        table(results, checks)
        speculation_table([result for result in results if result[0]["stage"] in SPECULATIVE])
        same = batch_demo(options.build, options, folder)
    sys.exit(0 if same and all(good for _, good, _ in checks.values()) else 1)


if __name__ == "__main__":
    main()
