#!/usr/bin/env python3
"""What speculation without a draft model gains on SmolLM2-135M-Instruct, by kind of prompt, into real.json.

    python3 docs/experiments/real.py [PART ...] [--build DIR] [--out FILE] [--quick]

counts: alpha and tokens per pass of what copies from the text, with K = 5 and greedy decoding on all prompts of
real_prompts.jsonl, otherwise on the first FEW of each kind; they are the same however fast the machine is. heads: the
same of the model's own heads, with K = 3 on all prompts. suffixes: the same of the suffix drafter, as a chain and as a
tree. repeated: tokens per pass where each text to rewrite or to sum up gets a sentence more, and the request is made again.
clock, heads-clock and suffixes-clock: plain decoding and the ways of CLOCKED and so on by turns, on the first
TIMED prompts of each kind (25, 10 and 7 minutes, let nothing else run); turns.py and rounds.py say which rounds and
settings count. Each part ends where two ways write different greedy texts. `make real` gets the model, and
real_tables.py makes the tables.
"""
import json
import tempfile
import typing

import run
import programs
import rounds

ADAPTIVE, TREES, SELF = (programs.STAGES[stage] for stage in (7, 8, 9))
PROMPTS = run.HERE / "real_prompts.jsonl"
TOKENS = {"counts": 96, "clock": 64}  # new ones of each text, at most
K, K_OF_HEADS = 5, 3                  # of the tables by kind
ALL, FEW, TIMED = 12, 3, 2            # prompts of a kind
# Name -> the program and its options.
CHAINS = {"lookup": (ADAPTIVE, ["--draft-kind", "lookup"]), "ngram": (ADAPTIVE, ["--draft-kind", "ngram"]),
          "lookup, ngram": (ADAPTIVE, ["--fallback", "lookup,ngram"])}
BRANCHING = {f"tree of {n}": (TREES, ["--draft-kind", "lookup", "--tree", f"chains:{n}", "--spec-length", str(K)])
             for n in (1, 2, 4)}
HEADS = {f"{name}, K = {length}": (SELF, [*words, "--tree", "chains:1", "--spec-length", str(length)])
         for name, words, lengths in (("EAGLE-3", ["--heads", "smollm2/eagle3"], (1, 2, 3, 5)),
                                      ("Medusa", ["--heads", "smollm2/medusa"], (1, 2, 3)),
                                      ("lookup, EAGLE-3", ["--heads", "smollm2/eagle3", "--fallback", "lookup,heads"], (1, 2, 3, 5)))
         for length in lengths}
SUFFIXES = {"suffix": (ADAPTIVE, ["--draft-kind", "suffix"]),
            "suffix tree": (TREES, ["--draft-kind", "suffix", "--tree", "grow:8", "--spec-length", "8"])}
# What is added to a text before the same request is made again. The new answer is nearly the old one.
ADDED = ["", " All this was on a Monday.", " Nobody has forgotten it.", " More will be told another time."]
MEMORY = ["--suffix-memory", "100000"]
REPEATED = {**{f"{drafter}, K = 12": CHAINS[drafter] for drafter in ("lookup", "ngram")},
            **{f"{name}{', K = 12' if name == 'suffix' else ''}{', memory' if memory else ''}": (program, [*words, *memory])
               for name, (program, words) in SUFFIXES.items() for memory in ([], MEMORY)}}
OF_COPIES = [*CHAINS, *BRANCHING]
DRAFTERS = {"plain": (ADAPTIVE, ["--no-speculation"]), **CHAINS, **BRANCHING, **HEADS, **SUFFIXES}
LENGTHS = {"lookup": range(1, 13), **{drafter: (1, 2, 3, 5, 8, 12) for drafter in ("ngram", "lookup, ngram", "suffix")}}
COUNTED = ("emitted", "rounds", "drafted", "tested", "accepted")


class Way(typing.NamedTuple):
    drafter: str      # of DRAFTERS
    length: str = ""  # what chooses K: "K = 3"; or schedule or gain, which need measured costs
    T: int = 0

    def fields(self):
        """Of a request; the options' names with underscores."""
        fields = {"temperature": self.T, "seed": 1} if self.T else {}
        if self.length.startswith("K = "):
            fields["spec_length"] = int(self.length[4:])
        elif self.length:
            fields["draft_length"] = self.length
        return fields

    def run(self, options, folder):
        """The program, and its words; folder: for measured costs."""
        program, words = DRAFTERS[self.drafter]
        chosen = [word for name, value in self.fields().items() for word in (f"--{name.replace('_', '-')}", str(value))]
        costs = ["--cost-profile", f"{folder}/{self.drafter}.json"] if self.length in ("gain", "schedule") else []
        return program, ("--target", str(model(options)), *words, *chosen, *costs)


CLOCKED = [Way("lookup", "K = 3"), Way("lookup", "K = 8"), Way("lookup", "gain"), Way("lookup", "schedule"), Way("ngram", "K = 3"),
           Way("lookup, ngram", "gain"), Way("tree of 2"), Way("lookup", "gain", 1)]
CLOCKED_SUFFIXES = [Way("suffix", "K = 3"), Way("suffix", "gain")]
CLOCKED_HEADS = [Way("EAGLE-3, K = 2"), Way("Medusa, K = 2"), Way("lookup, EAGLE-3, K = 3")]


def model(options):
    folder = options.build / "models/SmolLM2-135M-Instruct"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: make real")
    return folder


def kind_of(request):
    return request["id"].partition("-")[0]


def first(requests, number):
    """The first prompts of each kind: rewriting-01, ..."""
    return [request for request in requests if int(request["id"].partition("-")[2]) <= number]


def requests_of(options):
    requests = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    return [request for request in requests if request["id"] in ("code-01", "rewriting-01")] if options.quick else requests


# --- counts ---

def counted_ways(drafter, quick):
    """Each with how many prompts of a kind it gets."""
    ways = [Way(drafter, T=T) for T in (0, 1)] if drafter not in LENGTHS else [
        *(Way(drafter, f"K = {length}") for length in LENGTHS[drafter]), *(Way(drafter, f"K = {length}", 1) for length in (1, 3, K, 12))]
    by_kind = (Way("tree of 2"), Way("suffix tree"), *(Way(chain, f"K = {K}") for chain in LENGTHS),
               *(Way(d) for d in HEADS if d.endswith(f"K = {K_OF_HEADS}")))
    return {way: ALL if way in by_kind else FEW for way in (ways[::4] if quick else ways)}


def decoded(options, drafter, requests, at_once=32):
    """Their results by id, and the summary."""
    name, words = drafter
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.writelines(json.dumps(request) + "\n" for request in requests)
        file.flush()
        lines = run.run(run.program(options.build, name), ["--target", model(options), *words, "--requests", file.name, "--max-batch",
                                                           at_once, "--max-new-tokens", TOKENS["counts"], "--output", "json"])
    *results, last = map(json.loads, lines.splitlines())
    return {result["id"]: result for result in results}, last["summary"]


def counts(options, drafters):
    requests, texts, entries, summary = requests_of(options), {}, [], None
    progress = run.Progress("runs", len(drafters))
    for drafter in drafters:
        ways = counted_ways(drafter, options.quick)
        # One prompt's requests follow each other, so that they share its cached keys and values.
        asked = {f"{request['id']} {way.length} {way.T}": (way, request) for request in requests
                 for way, number in ways.items() if first([request], number)}
        results, summary = decoded(options, DRAFTERS[drafter], [{**request, **way.fields(), "id": name}
                                                                for name, (way, request) in asked.items()])
        for name, (way, request) in asked.items():
            if way.T == 0 and texts.setdefault(request["id"], results[name]["tokens"]) != results[name]["tokens"]:
                raise SystemExit(f"{request['id']}: two ways wrote different texts with greedy decoding")
        for way, number in ((way, number) for way, most in ways.items() for number in {FEW, most}):
            found = [{"kind": kind_of(request), **results[f"{request['id']} {way.length} {way.T}"]["stats"]}
                     for request in first(requests, number)]
            entries += run.summed(found, lambda stats: {key: stats[key] for key in COUNTED}, **way._asdict(), prompts=number)
        progress.step()
    shape = {name: value for name, value in summary["model"].items() if name != "directory"}
    return {"tokens": TOKENS["counts"], "prompts": len(requests), "texts": len(texts), "model": shape, "entries": entries}


def repeated(options):
    chats = [request["chat"] for request in requests_of(options) if kind_of(request) in ("rewriting", "summary")]
    edits = [{"id": f"{edit}-{number}", "chat": chat + "".join(ADDED[:edit])} for number, chat in enumerate(chats)
             for edit in range(1, len(ADDED) + 1)]
    entries, progress = [], run.Progress("runs", len(REPEATED))
    for name, way in REPEATED.items():
        length = {"spec_length": 12} if "K = 12" in name else {}
        results, _ = decoded(options, way, [{**edit, **length} for edit in edits], at_once=1)
        found = [{"kind": kind_of(edit), **results[edit["id"]]["stats"]} for edit in edits]
        entries += run.summed(found, lambda stats: {key: stats[key] for key in COUNTED}, drafter=name)
        progress.step()
    return {"tokens": TOKENS["counts"], "prompts": len(edits), "entries": entries}


# --- the clock ---

class Sweep(programs.TextSweep):
    """Of real prompts, whose texts end where the model ends them."""

    def __init__(self, options, requests, settings):
        super().__init__(programs.Programs(options.build), settings, TOKENS["clock"], programs.counters)
        self.prompts, self.bandwidths = {request["id"]: request["chat"] for request in requests}, []

    def decode(self, program, words, text):
        result = run.timed(run.program(self.programs.build, program), [*words, "--chat", self.prompts[text], "--max-new-tokens", self.tokens])
        self.device = result["device"]
        return result

    def one_round(self, number):
        self.bandwidths.append(run.read_bandwidth())
        return super().one_round(number)


def clock(options, clocked):
    requests = first(requests_of(options), TIMED)
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(options, requests, [programs.Setting(
            {"benchmark": "real", "draft": way.drafter, "K": way.length, "T": way.T}, way.run(options, folder),
            Way("plain", T=way.T).run(options, folder), [request["id"] for request in requests]) for way in clocked])
        measures, thrown_away = programs.by_turns(programs.rules_of(options), "runs", sweep)
    entries = [{**identity, **rounds.entry_of(list(found))} for identity, found in measures]
    unsteady = {} if options.quick else rounds.unsteady(entries, lambda entry: entry["ratio_spreads"]["gain"])
    if len(unsteady) > len(clocked) / 2:
        raise SystemExit(f"the speedups of {len(unsteady)} of {len(clocked)} ways were not steady: let nothing else run")
    return {"device": sweep.device, "tokens": TOKENS["clock"], "prompts": len(requests), "rounds": len(measures[0][1]),
            "thrown_away": thrown_away, "unsteady": [rounds.name_of(setting) for setting in unsteady],
            "bandwidths": sweep.bandwidths, "weight_bytes": (model(options) / "model.safetensors").stat().st_size,
            "entries": [entry for entry in entries if rounds.setting_of(entry) not in unsteady]}


if __name__ == "__main__":
    run.measured_parts(__doc__, "real.json", {
        "counts": lambda options: counts(options, OF_COPIES), "heads": lambda options: counts(options, HEADS),
        "suffixes": lambda options: counts(options, SUFFIXES), "repeated": repeated,
        "clock": lambda options: clock(options, CLOCKED), "heads-clock": lambda options: clock(options, CLOCKED_HEADS),
        "suffixes-clock": lambda options: clock(options, CLOCKED_SUFFIXES)},
        ("clock", "heads-clock", "suffixes-clock"))
