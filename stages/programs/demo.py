#!/usr/bin/env python3
"""Shows what speculation gains, then stages 1 to 5 on one prompt side by side, then stage 6 on many prompts at once.

    python3 stages/programs/demo.py [BUILD] [--prompt TEXT] [--max-new-tokens N]

Streams each stage's text, then prints what it cost and whether the stages agree. Exit code 1: they do not.
"""
import argparse
import json
import math
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import tool
from terminal import coloured, has_colours

STAGES = ["01_naive_decoder", "02_contiguous_kv_cache", "03_paged_kv_cache", "04_greedy_speculation",
          "05_rejection_sampling"]
SPECULATIVE = STAGES[3:]
SAMPLING = ["--temperature", "0.8", "--seed", "1"]
LESSON = {"01_naive_decoder": "everything is computed again for every token",
          "02_contiguous_kv_cache": "keys and values are kept",
          "03_paged_kv_cache": "kept in pages",
          "04_greedy_speculation": "a draft model guesses, one pass verifies several tokens",
          "05_rejection_sampling": "the same at temperature 0.8: different words, the target's distribution"}
# The gain is shown on a target that has the embedded one's text at the cost of a larger model.
LARGER = ["--inflate-target", "134m"]
WAYS = {"plain decoding": ["--no-speculation"], "speculation": []}
RUNS = 3  # of each way, in turns
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


def heading(text):
    print(coloured(f"== {text}", "bold"))


def legend():
    if has_colours():
        print(f"({coloured('accepted drafts', 'green')}, {coloured('rejected ones', 'struck red')}, "
              + coloured("the target's own tokens", "blue") + ")")


def yes(condition):
    return "yes" if condition else "NO"


def output(arguments, **streams):
    """What a program writes to stdout, unless it goes to ours. Its messages are shown only if it fails."""
    done = subprocess.run(arguments, stderr=subprocess.PIPE, check=False, **streams)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    return done.stdout


def command(build, stage, options, *more):
    return [build / "bin" / stage, "--prompt", options.prompt, "--max-new-tokens", str(options.max_new_tokens), *more]


def stream(build, stage, options, report, *more):
    """The stage's report; prompt and text go to our stdout."""
    print(options.prompt, end="", flush=True)
    output(command(build, stage, options, "--report", report, *more))
    print(flush=True)
    return json.loads(report.read_text())


def silent(build, stage, options, *more):
    """The stage's report, without its text on our stdout."""
    return json.loads(output(command(build, stage, options, "--output", "json", *more), stdout=subprocess.PIPE))


def gain_demo(build, options, folder):
    """Plain decoding and speculation of one larger target. Returns speculation's gain, and whether the texts agree."""
    stage = "04_greedy_speculation"
    heading("what speculation gains: one text by one model, without a draft model and with it")
    runs = {way: [] for way in WAYS}
    for way, more in WAYS.items():
        print(f"[{way}]")
        if way == "speculation":
            legend()
        runs[way].append(stream(build, stage, options, Path(folder) / "gain.json", *LARGER, *more))
    print(f"[{RUNS - 1} more runs of each, in turns, without the text ...]\n", flush=True)
    for _ in range(RUNS - 1):
        for way, more in WAYS.items():
            runs[way].append(silent(build, stage, options, *LARGER, *more))
    print(f"{'':24}{'tokens/s':>10}{'target passes per token':>25}")
    rates = {}
    for way, results in runs.items():
        stats = results[0]["stats"]
        rates[way] = round(statistics.median(result["stats"]["tokens_per_second"] for result in results), 1)
        print(f"{way:24}{rates[way]:10.1f}{stats['target_forwards'] / stats['emitted']:25.2f}")
    gain = rates["speculation"] / rates["plain decoding"]
    same = len({tuple(result["tokens"]) for results in runs.values() for result in results}) == 1
    print(f"{'speedup':24}{f'{gain:.2f}x':>10}\n\nthe same text: {yes(same)}\n")
    print(f"Medians of {RUNS} runs each on this machine. The target is inflated: it is the small model that comes\n"
          f"with the source, in the shape of a model with {LARGER[1][:-1]} million parameters. The text stays the\n"
          "same, and a pass costs what the larger model's does.\n")
    return gain, same


def run(build, stage, options, folder):
    """The stage's report and logits; its text goes to our stdout."""
    heading(f"{stage}: {LESSON[stage]}")
    if stage in SPECULATIVE:
        legend()
    logits = Path(folder) / f"{stage}.safetensors"
    more = SAMPLING if stage == "05_rejection_sampling" else []
    report = stream(build, stage, options, Path(folder) / f"{stage}.json", "--dump-logits", logits, *more)
    return report, read_logits(logits)


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
    print(f"{'':24}{'tokens/s':>10}{'rows per token':>16}{'target passes per token':>25}{'cache bytes':>14}")
    for result, _ in results:
        stats, stage = result["stats"], result["stage"]
        print(f"{stage:24}{stats['tokens_per_second']:10.0f}{stats['target_rows'] / stats['emitted']:16.1f}"
              f"{stats['target_forwards'] / stats['emitted']:25.2f}{stats['cache_bytes']:14,}")
    print()
    for stage, (what, good, detail) in checks.items():
        print(f"{stage:24}{what}: {yes(good)}{detail}")
    first = results[0][0]
    print(f"\n{first['stats']['emitted']} new tokens after a prompt of {first['prompt_tokens']}. A row is one token "
          "sent through the model; a pass reads all\nof its weights once. Each stage ran once, so the tokens/s are only a "
          "first look.")


def number(value, digits):
    return "unknown" if value is None else f"{value:.{digits}f}"


def speculation_table(results, gain):
    """Prediction beside measurement: see docs/theory. gain: what the larger target gained."""
    print(f"\n{'':24}{'K':>4}{'alpha':>8}{'c':>8}{'v':>8}   speedup over plain decoding by")
    print(f"{'':52}{'formula':>10}{'accounting':>12}{'the clock':>11}")
    for result, _ in results:
        stats = result["stats"]
        print(f"{result['stage']:24}{result['spec_length']:4}{number(stats['alpha'], 3):>8}{number(stats['c'], 2):>8}"
              f"{number(stats['v'], 2):>8}{number(stats['speedup_formula'], 2):>10}"
              f"{number(stats['speedup_accounting'], 2):>12}{number(stats['speedup_clock'], 2):>11}")
    if (results[0][0]["stats"]["speedup_clock"] or gain) < gain:
        print("\nAt its real size the target gains less: it fits in the processor's cache, so verifying several\n"
              "tokens costs v passes rather than about one, and a draft costs c passes rather than almost none\n"
              "(docs/theory).")


def batch_requests(options):
    own = {"id": "the prompt", "prompt": options.prompt}
    requests = [own] + [other if "prompt" in other or "chat" in other else {**own, **other} for other in OTHERS]
    return [{"max_new_tokens": options.max_new_tokens, **request} for request in requests]


def run_batch(build, path, *more):
    """Results and summary of stage 6 for a file of requests."""
    arguments = [build / "bin" / BATCH, "--requests", path, "--output", "json", *more]
    *results, last = map(json.loads, output(arguments, stdout=subprocess.PIPE).splitlines())
    return results, last["summary"]


def batch_demo(build, options, folder):
    """Eight requests at once, and each of them alone. Returns whether every one came out the same."""
    print()
    heading(f"{BATCH}: many requests share every pass, each accepts its own number of drafts")
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
    print(f"\neach of {len(results)} requests gets the tokens that it gets alone: {yes(same)}")
    one_by_one = sum(result["stats"]["rounds"] for result in alone)
    print(f"{together['stats']['emitted']} tokens took {together['target_forwards']} passes of the target, prompts "
          f"included; one request after the other takes {one_by_one} rounds of one pass each")
    return same


def next_steps(build):
    print(f"\nNext: see each round           {build / 'bin/04_greedy_speculation'} --explain --max-new-tokens 12\n"
          "      start the course         docs/00_before_you_start.md\n"
          "      write stage 0 yourself   make assignment STAGE=0\n"
          "      a model that you know    make real-demo    (with a network: 93 MB)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=Path("build"))
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gain, same_text = gain_demo(options.build, options, folder)
        results = [run(options.build, stage, options, folder) for stage in STAGES]
        checks = verdicts(results, silent(options.build, "05_rejection_sampling", options)["tokens"])
        table(results, checks)
        speculation_table([result for result in results if result[0]["stage"] in SPECULATIVE], gain)
        same = batch_demo(options.build, options, folder)
    next_steps(options.build)
    sys.exit(0 if same_text and same and all(good for _, good, _ in checks.values()) else 1)


if __name__ == "__main__":
    sys.exit(tool.run("demo", main))
