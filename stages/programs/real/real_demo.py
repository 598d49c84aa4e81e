#!/usr/bin/env python3
"""Shows what speculation gains on a model that people know: SmolLM2-135M-Instruct, from `make real`.

    python3 stages/programs/real/real_demo.py [BUILD]

One answer, decoded plainly and with speculation; then questions of several kinds. No draft model: drafts are copied from
the text (lookup), counted in it (ngram), or made of the model's own rows (heads). Exit code 1: a text differs.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import demo  # noqa: E402
import get_model  # noqa: E402
import tool  # noqa: E402
from terminal import progress  # noqa: E402

STAGE, STAGE_OF_HEADS = "07_adaptive_drafting", "09_self_drafting"
PLAIN = "plain"
WAYS = {PLAIN: [STAGE, "--no-speculation"], "lookup": [STAGE, "--draft-kind", "lookup", "--spec-length", "auto"],
        "ngram": [STAGE, "--draft-kind", "ngram", "--spec-length", "auto"],
        "heads": [STAGE_OF_HEADS, "--tree", "chains:1", "--spec-length", "2"],
        "lookup, heads": [STAGE_OF_HEADS, "--fallback", "lookup,heads", "--tree", "chains:1", "--spec-length", "3"]}
RUNS, ENOUGH = 3, 60  # of each way, in turns; no further turn begins after so many seconds
NEW_TOKENS = 96
CLEARLY = 1.1  # times as fast as plain decoding: less may be the machine's unrest
QUESTIONS = {
    "rewriting": "Rewrite this text in the past tense:\n\nThe boy walks to the harbour. He sees a red boat. An old man sits in "
                 "the boat and mends a net. The boy asks the man for a job. The man laughs and gives him a rope.",
    "correcting": "Correct the spelling mistakes in this text:\n\nLast sumer we travelled to the mountains. The wether was "
                  "fine, and we walked every day. In the evening we sat by the fire and told storys. My brother had "
                  "forgoten his boots, so he walked in sandals.",
    "quoting": "The lighthouse at Cape Orsa was built in 1871 from grey granite. It is 38 metres tall and has 196 steps. The "
               "first keeper, Marta Ilves, lived there for 41 years with her two sons. The lamp burned whale oil until 1894, "
               "then paraffin, and since 1933 it has been electric.\n\nWhich sentence of the text above is about the lamp? "
               "Quote it.",
    "a list": "Turn this list into a numbered list:\n\n- buy four tickets for the train to York\n- call Mr Brandt about the "
              "blue basket\n- water the plants in the garden\n- return the book to the library",
    "a free answer": "Why is the sky blue?"}
SHOWN = "correcting"


def command(options, kind, way, *more):
    stage, *drafting = WAYS[way]
    return [options.build / "bin" / stage, "--target", options.model, "--chat", QUESTIONS[kind], "--max-new-tokens",
            str(NEW_TOKENS), *drafting, *more]


def report_of(options, kind, way):
    return json.loads(demo.output(command(options, kind, way, "--output", "json"), stdout=subprocess.PIPE))


def show_one_answer(options, folder):
    """The same question twice; answers go to our stdout as they are made."""
    demo.heading(f"one answer of {get_model.MODEL}, without speculation and with it")
    print(f"{QUESTIONS[SHOWN]}\n")
    for way in (PLAIN, "lookup"):
        print(f"[{'plain decoding' if way == PLAIN else 'speculation: drafts are copied from the text'}]")
        if way != PLAIN:
            demo.legend()
        file = folder / "report.json"
        demo.output(command(options, SHOWN, way, "--report", file))
        stats = json.loads(file.read_text(encoding="utf-8"))["stats"]
        print(f"\n({stats['tokens_per_second']:.1f} tokens/s, {stats['emitted'] / stats['target_forwards']:.1f} per pass)\n",
              flush=True)


def measure(options):
    """{kind: {way: reports}} of whole turns: each asks every question in every way."""
    found = {kind: {way: [] for way in WAYS} for kind in QUESTIONS}
    started = time.monotonic()
    for turn in range(RUNS):
        if turn > 0 and time.monotonic() - started > ENOUGH:
            break
        for number, kind in enumerate(QUESTIONS):
            progress(f"turn {turn + 1} of {RUNS}: question {number + 1} of {len(QUESTIONS)}")
            for way in WAYS:
                found[kind][way].append(report_of(options, kind, way))
    progress("")
    return found


def rate(reports):
    return statistics.median(report["stats"]["tokens_per_second"] for report in reports)


def table(found):
    """Prints a line for each kind of question and way. Returns the kinds on which some drafter was clearly faster."""
    print(f"{'':31}tokens/s  speedup  alpha  per pass")
    faster = []
    for kind, ways in found.items():
        plain = rate(ways[PLAIN])
        for way, reports in ways.items():
            stats, speed = reports[0]["stats"], rate(reports)
            cells = "" if way == PLAIN else (
                f"{f'{speed / plain:.2f}x':>9}{demo.number(stats['alpha'], 2) if stats['drafted'] else 'none':>7}"
                f"{stats['emitted'] / stats['target_forwards']:10.2f}")
            print(f"{kind if way == PLAIN else '':17}{way:14}{speed:8.1f}{cells}")
        faster += [kind] * any(rate(reports) >= CLEARLY * plain for reports in ways.values())
    return faster


def same_texts(found):
    """Whether each question has one answer, in whatever way it was decoded."""
    return all(len({tuple(report["tokens"]) for reports in ways.values() for report in reports}) == 1
               for ways in found.values())


def explanation(options, found, faster):
    runs = len(found[SHOWN][PLAIN])
    print(f"\nthe same text in every way: {demo.yes(same_texts(found))}\nfaster by a tenth or more: {', '.join(faster) or 'none'}\n\n"
          f"Medians of {runs} run{'s' if runs > 1 else ''} each on this machine. alpha: accepted / tested drafts; per pass: tokens per pass of the\n"
          "model. What copies or counts gains where an answer repeats the question's words, and little where it does not.\n"
          "There, K is chosen by what pays (--spec-length auto). Heads draft everywhere, two or three tokens in each round.\n\n"
          f"Next: ask your own         {options.build / 'bin' / STAGE_OF_HEADS} --target {options.model} \\\n"
          "                             --fallback lookup,heads --tree chains:1 --chat 'What is a whale?'\n"
          "      what it takes        docs/real-models.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=Path("build"))
    options = parser.parse_args()
    options.model = options.build / "models" / get_model.MODEL
    if get_model.differences(options.model):
        raise SystemExit(f"{options.model} is not there, or not whole; get it: make real")
    with tempfile.TemporaryDirectory() as folder:
        show_one_answer(options, Path(folder))
    demo.heading("questions of several kinds, each asked in every way")
    found = measure(options)
    explanation(options, found, table(found))
    return 0 if same_texts(found) else 1


if __name__ == "__main__":
    sys.exit(tool.run("real-demo", main))
