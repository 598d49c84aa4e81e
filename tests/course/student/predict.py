"""Puts what a reader predicted of a stage beside what its program counts.

usage: python3 tests/course predict --build DIR --stage N [--make]
           [--emitted X] [--forwards X] [--rows X] [--pages X] [--speedup X]
  --make   builds the stage's program first

Each stage asks for numbers of its own (a stage without any of them says which), and runs its program on the embedded
pair: always the same prompts, tokens and seeds, so all counts are the same on every machine.

A speedup is measured here and now, in five pairs of runs, plain and speculative in turn. The table shows the median
and the spread. A prediction is close when it is within a factor of 1.2 of any value in the spread. Where the median and
the accounting (counts times measured costs) differ by more than a factor of 1.15, the machine is busy with something
else, and there is no verdict. All runs together take about a second.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "docs" / "experiments"))
import formulas  # noqa: E402
from student import building, course  # noqa: E402

PROMPT = "In the evening Elin ran past the bridge."
OTHERS = ["Once, in the winter, Sunita came to York. Sunita was looking for a friend.",
          "On Friday Jonas looked into the barn. There sat Mrs Mensah, eating toast.",
          "Once, before dawn, Elin came to Bergen. Elin was looking for a silver lamp."]
BATCH = [PROMPT, *OTHERS]
PAGE_SIZE, SPEC_LENGTH, TREE, TIMED_RUNS = 4, 3, "top:3x2x1", 5
# What passes and draft steps cost where all weights are streamed: streams.json of stage 7's chapter.
PROFILE = {"format": "specdec-cost-profile-1", "draft_step_seconds": 0.001,
           "target_pass_seconds": [0.01, 0.0102, 0.0104, 0.0106, 0.0108, 0.011, 0.0112, 0.0114, 0.0116]}
# Up to which factor a prediction is close: of a count, of one that needs a guess of alpha, of a time.
CLOSE_COUNT, CLOSE_GUESS, CLOSE_TIME = 1.05, 1.15, 1.2
# Beyond which factor between clock and accounting there is no verdict on a time. It is below CLOSE_TIME, so what is too
# high is above the accounting and what is too low is below it: no two runs can say both of one prediction.
BUSY = 1.15


class PredictError(Exception):
    """There is nothing to compare: `str` says why."""


# Option and make variable -> what it is.
QUANTITIES = {
    "emitted": "tokens per round after '.'",
    "forwards": "target forwards per token",
    "rows": "rows per token",
    "pages": f"pages of {PAGE_SIZE}",
    "speedup": "speedup over plain decoding",
}

# Stages, quantity, +1: too high or -1: too low, the likeliest reason.
REASONS = [
    ((0,), "emitted", +1, "a drafted token counts only if all before it were accepted: multiply their probabilities"),
    ((0,), "emitted", -1, "the correction or bonus was left out (1 token per round), or one probability was used for all "
                           "contexts: after '.' both rows are equal"),
    ((1,), "rows", +1, "all passes were given the rows of the last one; they begin with the prompt's and grow by one"),
    ((1,), "rows", -1, "only new rows were counted; without a cache a pass computes the whole text again"),
    ((2, 3), "rows", +1, "cached rows were counted again; each token is fed once"),
    ((2, 3), "rows", -1, "the rows of the prompt were left out"),
    ((3,), "pages", +1, "more was counted than the pages of the prompt and the new tokens"),
    ((3,), "pages", -1, "the prompt was left out, or the last page, which is partly full"),
    ((4, 5), "forwards", +1, "the bonus or correction was left out, or the acceptance rate, accepted over drafted, was "
                             "used instead of alpha, accepted over tested"),
    ((4, 5), "forwards", -1, "all drafted tokens were counted as accepted; the first rejection ends the round"),
    ((4, 5), "speedup", +1, "v was taken as 1; where the weights fit in the processor's cache, every further row costs time"),
    ((4, 5), "speedup", -1, "v was taken for K = 5, or as K + 1; here a pass has K + 1 = 4 rows, which share the weights"),
    ((6,), "forwards", +1, "passes of single requests were added up; in a batch, requests share passes"),
    ((6,), "forwards", -1, "the batch runs until its slowest request ends, and the prompts need a pass, too"),
    ((6,), "rows", +1, "K + 1 rows were counted per token; a round has K + 1 rows and emits E tokens, so divide by E"),
    ((6,), "rows", -1, "rejected drafted tokens were left out; a round has K + 1 rows, however many are accepted, and "
                         "prompts have rows, too"),
    ((6,), "speedup", +1, "v was taken from a single sequence; B (K + 1) rows leave less idle arithmetic than K + 1"),
    ((6,), "speedup", -1, "drafting was counted B times; one pass of the draft serves all requests"),
    ((7,), "forwards", +1, "E was taken at the first K; where drafts are good, K grows, and a round emits more"),
    ((7,), "forwards", -1, "all drafted tokens were counted as accepted, or every round as one of the largest K"),
    ((7,), "rows", +1, "every round was counted with the largest K; after a rejection K falls, and a round has K + 1 rows"),
    ((7,), "rows", -1, "rejected drafted tokens were left out; a round has K + 1 rows, however many are accepted"),
    ((8,), "forwards", +1, "the siblings were left out, or the token after the path: a round emits one token more than it accepts"),
    ((8,), "forwards", -1, "every node was counted as accepted; of each level at most one is, and only after an accepted node"),
    ((8,), "rows", +1, "the paths of the tree were counted one by one; what they share has one row"),
    ((8,), "rows", -1, "only the accepted path was counted; a round has a row for the pending token and for every node"),
    ((9,), "forwards", +1, "the token after the drafts was left out: a round emits one token more than it accepts"),
    ((9,), "forwards", -1, "how often a head is right anywhere was taken for its alpha, or the heads' alphas were added and "
                           "not multiplied: a draft counts only if all before it were accepted"),
    ((9,), "rows", +1, "rows of heads were counted; they are no rows of a pass of the target"),
    ((9,), "rows", -1, "only the accepted drafts were counted; a round has a row for the pending token and for each draft"),
    ((10,), "forwards", +1, "the step after the drafts was left out: a pass is good for one step more than were drafted"),
    ((10,), "forwards", -1, "all drafted steps were counted as right, or one beam was looked at: all beams of a step must be drafted"),
    ((10,), "rows", +1, "each text was counted with its whole path; texts share the nodes that they begin with"),
    ((10,), "rows", -1, "only the beams were counted; each level of drafts has u rows, whatever becomes of them"),
]


class Speedup:
    """How many times plain decoding's speed: by the clock of several pairs of runs, and by the accounting."""

    def __init__(self, by_clock, by_accounting):
        self.low, self.median, self.high = min(by_clock), statistics.median(by_clock), max(by_clock)
        self.runs, self.by_accounting = len(by_clock), by_accounting

    def is_busy(self):
        """Whether something else on this machine takes so much time that the clock cannot be believed."""
        return apart(self.median, self.by_accounting) > BUSY


class Run:
    """What one run has counted, and what the formulas predict of it: quantity -> number; and its speedup, if it has one."""

    def __init__(self, words, counted, formula, notes="", speedup=None):
        self.words, self.counted, self.formula, self.notes, self.speedup = words, counted, formula, notes, speedup
        if speedup:
            counted["speedup"] = speedup.median


def apart(one, other):
    """The factor between two numbers above 0: 1 or more."""
    return max(one / other, other / one)


def output_of(build, program, options):
    """The last line of a program's JSON output. PredictError where it fails."""
    path = pathlib.Path(build) / "bin" / program
    if not path.exists():
        raise PredictError(f"{path} is not built: make build")
    done = subprocess.run([str(path), *options, "--output", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise PredictError(f"{program} failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def single(build, program, n_tokens, *options):
    """A run on the one prompt: its JSON, and the options of it that a reader would type."""
    typed = ["--prompt", PROMPT, "--max-new-tokens", str(n_tokens), "--ignore-eos", *options]
    result = output_of(build, program, [*typed, "--device", "cpu"])
    words = " ".join(f"'{word}'" if " " in word else word for word in typed)
    return result, f"build/bin/{program} {words}"


def toy(build):
    result = output_of(build, "00_toy_speculation", ["--spec-length", "2"])
    target, draft, K = result["target_probs"], result["draft_probs"], result["spec_length"]
    mean = statistics.mean(sum(map(min, p, q)) for p, q in zip(target, draft))
    alpha = accepted_of_tested(target, draft, result["rounds"][0]["before"][-1], K)
    return Run(f"build/bin/00_toy_speculation --spec-length {K}", {"emitted": result["mean_emitted"]},
               {"emitted": formulas.emitted(mean, K)},
               f"the formula takes the mean of the table's last column, {mean:.2f}, for every context; with "
               f"accepted / tested, {alpha:.4f}, it gives {formulas.emitted(alpha, K):.3f}")


def accepted_of_tested(target, draft, token, K):
    """Exactly, for a round of K drafts after a token: the expected accepted drafts over the expected tested ones."""
    reached, tested, accepted = {token: 1.0}, 0, 0  # reached: token -> the chance that a draft after it is tested
    for _ in range(K):
        tested += sum(reached.values())
        reached = {token: sum(chance * min(target[before][token], draft[before][token])
                              for before, chance in reached.items()) for token in range(len(target))}
        accepted += sum(reached.values())
    return accepted / tested


def naive(build):
    result, words = single(build, "01_naive_decoder", 40)
    P, N = result["prompt_tokens"], result["stats"]["emitted"]
    return Run(words, {"rows": result["stats"]["target_rows"] / N}, {"rows": P + (N - 1) / 2},
               f"P = {P} prompt tokens, N = {N} new ones")


def contiguous(build):
    result, words = single(build, "02_contiguous_kv_cache", 40)
    P, N = result["prompt_tokens"], result["stats"]["emitted"]
    return Run(words, {"rows": result["stats"]["target_rows"] / N}, {"rows": (P + N - 1) / N},
               f"P = {P} prompt tokens, N = {N} new ones")


def paged(build):
    result, words = single(build, "03_paged_kv_cache", 40, "--page-size", str(PAGE_SIZE))
    stats, P = result["stats"], result["prompt_tokens"]
    N, page_bytes = stats["emitted"], PAGE_SIZE * result["model"]["cache_bytes_per_token"]
    return Run(words, {"rows": stats["target_rows"] / N, "pages": stats["cache_bytes"] / page_bytes},
               {"rows": (P + N - 1) / N, "pages": math.ceil((P + N) / PAGE_SIZE)},
               f"P = {P} prompt tokens, N = {N} new ones")


def in_turn(plain, speculative):
    """What both say, in pairs: run in turn, so that what slows the machine down meets both."""
    return [(plain(), speculative()) for _ in range(TIMED_RUNS)]


def speculative(program, *options):
    def run(build):
        typed = ["--spec-length", str(SPEC_LENGTH), *options]
        words = single(build, program, 100, *typed)[1]
        pairs = in_turn(lambda: single(build, program, 100, "--no-speculation", *options)[0]["stats"],
                        lambda: single(build, program, 100, *typed)[0]["stats"])
        stats = pairs[0][1]
        middle = {name: statistics.median(spec[name] for _, spec in pairs)
                  for name in ("c", "v", "speedup_formula", "speedup_accounting")}
        return Run(words,
                   {"forwards": stats["target_forwards"] / stats["emitted"]},
                   {"forwards": 1 / formulas.emitted(stats["alpha"], SPEC_LENGTH),
                    "speedup": middle["speedup_formula"]},
                   f"alpha {stats['alpha']:.3f} ({stats['accepted']} of {stats['tested']} tested), "
                   f"{stats['rounds']} rounds; measured c {middle['c']:.2f}, v {middle['v']:.2f}; "
                   f"speedup by accounting {middle['speedup_accounting']:.2f}",
                   Speedup([plain["decode_seconds"] / spec["decode_seconds"] for plain, spec in pairs],
                           middle["speedup_accounting"]))
    return run


def batch_accounting(pairs):
    """The speedup of a batch from what its parts cost in the run that disturbed each of them least: the counts are the
    same in all runs."""
    def parts(spec):
        draft, verify = spec["stats"]["draft_seconds"], spec["stats"]["verify_seconds"]
        return draft, verify, spec["seconds"] - draft - verify
    return min(plain["seconds"] for plain, _ in pairs) / sum(map(min, zip(*(parts(spec) for _, spec in pairs))))


def batch(build):
    def summary(*options):
        return output_of(build, "06_batched_verification",
                         ["--requests", requests.name, "--ignore-eos", "--device", "cpu", *options])["summary"]

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as requests:
        for prompt in BATCH:
            requests.write(json.dumps({"prompt": prompt, "max_new_tokens": 100}) + "\n")
        requests.flush()
        pairs = in_turn(lambda: summary("--no-speculation"), lambda: summary("--spec-length", str(SPEC_LENGTH)))
    result, accounting = pairs[0][1], batch_accounting(pairs)
    stats, B, P = result["stats"], len(BATCH), result["prompt_tokens"]
    E, N = formulas.emitted(stats["alpha"], SPEC_LENGTH), stats["emitted"]
    return Run(f"{B} requests at once, 100 new tokens each, K = {SPEC_LENGTH}, greedy",
               {"forwards": stats["target_forwards"] / N, "rows": stats["target_rows"] / N},
               {"forwards": (1 + N / B / E) / N, "rows": (P - B) / N + (SPEC_LENGTH + 1) / E},
               f"alpha {stats['alpha']:.3f}, {P} prompt tokens in all, {stats['rounds']} rounds in "
               f"{stats['target_forwards']} passes; speedup by accounting {accounting:.2f}",
               Speedup([plain["seconds"] / spec["seconds"] for plain, spec in pairs], accounting))


def adaptive(build):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        json.dump(PROFILE, profile)
        profile.flush()
        typed = ["--spec-length", "auto", "--cost-profile"]
        result, words = single(build, "07_adaptive_drafting", 100, *typed, profile.name)
    stats, P = result["stats"], result["prompt_tokens"]
    K, N, rounds = stats["mean_spec_length"], stats["emitted"], stats["rounds"]
    E = sum(n * formulas.emitted(stats["alpha"], drafted) for drafted, n in enumerate(stats["rounds_by_drafted"])) / rounds
    return Run(words.replace(profile.name, "streams.json"),
               {"forwards": stats["target_forwards"] / N, "rows": stats["target_rows"] / N},
               {"forwards": 1 / E, "rows": (P - 1) / N + (K + 1) / E},
               f"alpha {stats['alpha']:.3f} ({stats['accepted']} of {stats['tested']} tested), {rounds} rounds, "
               f"{K:.2f} drafted tokens in each on average; the formula takes E of alpha and each round's own K")


def trees(build):
    result, words = single(build, "08_token_trees", 100, "--tree", TREE)
    stats, P = result["stats"], result["prompt_tokens"]
    N, levels, nodes = stats["emitted"], stats["mean_spec_length"], stats["nodes"] / stats["rounds"]
    E = formulas.emitted(stats["alpha"], round(levels))
    return Run(words, {"forwards": stats["target_forwards"] / N, "rows": stats["target_rows"] / N},
               {"forwards": 1 / E, "rows": (P - 1) / N + (nodes + 1) / E},
               f"alpha {stats['alpha']:.3f} ({stats['accepted']} of {stats['tested']} tested places), {stats['rounds']} "
               f"rounds, {nodes:.1f} nodes on {levels:.1f} levels in each on average; the formula takes the same alpha on "
               "all levels")


def heads(build):
    result, words = single(build, "09_self_drafting", 100, "--self-draft", "blockwise", "--tree", "chains:1")
    stats, P = result["stats"], result["prompt_tokens"]
    N, K = stats["emitted"], stats["mean_spec_length"]
    E = formulas.emitted(stats["alpha"], round(K))
    places = ", ".join(f"{share:.2f}" for share in stats["accepted_per_position"])
    return Run(words, {"forwards": stats["target_forwards"] / N, "rows": stats["target_rows"] / N},
               {"forwards": 1 / E, "rows": (P - 1) / N + (K + 1) / E},
               f"alpha {stats['alpha']:.3f} ({stats['accepted']} of {stats['tested']} tested), {stats['rounds']} rounds, "
               f"which accepted the drafts at places 0, 1, ... in these shares: {places}; the formula takes the same alpha "
               "for all heads")


def beams(build):
    result, words = single(build, "10_beam_search", 100, "--beams", "2", "--draft-beams", "4", "--spec-length", str(SPEC_LENGTH))
    stats, P = result["stats"], result["prompt_tokens"]
    N, K, width = stats["emitted"], SPEC_LENGTH, 4
    beta = stats["accepted"] / stats["tested"]
    E = formulas.emitted(beta, K)
    return Run(words, {"forwards": stats["target_forwards"] / N, "rows": stats["target_rows"] / N},
               {"forwards": 1 / E, "rows": (P - 1) / N + (2 + width * K) / E},
               f"beta {beta:.3f} ({stats['accepted']} of {stats['tested']} tested steps had all their beams drafted), "
               f"{stats['rounds']} passes for {N} steps; the formula takes the same beta on all levels")


# stage -> (what is predicted, the chapter, how to get it)
STAGES = {
    0: (["emitted"], "00_toy_speculation", toy),
    1: (["rows"], "01_naive_decoder", naive),
    2: (["rows"], "02_contiguous_kv_cache", contiguous),
    3: (["rows", "pages"], "03_paged_kv_cache", paged),
    4: (["forwards", "speedup"], "04_greedy_speculation", speculative("04_greedy_speculation")),
    5: (["forwards", "speedup"], "05_rejection_sampling",
        speculative("05_rejection_sampling", "--temperature", "1")),
    6: (["forwards", "rows", "speedup"], "06_batched_verification", batch),
    7: (["forwards", "rows"], "07_adaptive_drafting", adaptive),
    8: (["forwards", "rows"], "08_token_trees", trees),
    9: (["forwards", "rows"], "09_self_drafting", heads),
    10: (["forwards", "rows"], "10_beam_search", beams),
}


def verdict(stage, name, predicted, counted, spread=None):
    """In words: how far apart the two are, and most often why. spread: the least and the largest that was measured."""
    low, high = spread or (counted, counted)
    close = CLOSE_TIME if name == "speedup" else CLOSE_COUNT if stage < 4 else CLOSE_GUESS
    if apart(predicted, min(max(predicted, low), high)) <= close:
        return "close" if name != "speedup" or (predicted - 1) * (counted - 1) >= 0 else "close, but on the other side of 1"
    side = 1 if predicted > counted else -1
    reason = next(why for stages, quantity, which, why in REASONS
                  if stage in stages and (quantity, which) == (name, side))
    return f"too {'high' if side > 0 else 'low'} by a factor of {apart(predicted, counted):.2f}: most often because {reason}"


def verdict_of_time(stage, predicted, speedup):
    """As `verdict`; none where the clock cannot be believed."""
    if speedup.is_busy():
        return (f"no verdict: the machine is busy with something else (the clock gives {speedup.median:.2f}, the accounting "
                f"{speedup.by_accounting:.2f}; they may differ by a factor of {BUSY})")
    return verdict(stage, "speedup", predicted, speedup.median, (speedup.low, speedup.high))


def table(stage, run, predictions):
    """The lines that a reader sees: all quantities side by side, then a sentence on each."""
    yield run.words
    yield f"{'':30}{'predicted':>11}{'formula':>11}{'counted':>11}"
    for name, predicted in predictions.items():
        formula = f"{run.formula[name]:.3f}" if name in run.formula else "-"
        label = QUANTITIES[name] + (" *" if name == "speedup" else "")
        yield f"{label:30}{predicted:11.3f}{formula:>11}{run.counted[name]:11.3f}"
    for name, predicted in predictions.items():
        yield f"{name.upper()}: " + (verdict_of_time(stage, predicted, run.speedup) if name == "speedup" else
                                     verdict(stage, name, predicted, run.counted[name]))
    yield run.notes
    if "speedup" in predictions:
        yield (f"* measured on this machine just now: the median of {run.speedup.runs} pairs of runs, which range from "
               f"{run.speedup.low:.2f} to {run.speedup.high:.2f}; all else is counted")


def positive(text):
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def stage_of(text):
    """The stage's number. PredictError where it is none, or not in this tree."""
    there = [n for n in STAGES if folder_of(n)]
    number = course.number_of(text)
    if number in STAGES and number not in there:
        raise PredictError(f"stage {number} is not in this assignment")
    if number not in STAGES:
        missing = "" if text else "STAGE= is missing; "
        raise PredictError(f"predict: {missing}STAGE is a number from {min(there)} to {max(there)}: "
                           f"make predict STAGE={max(there)}")
    return number


def folder_of(number):
    """A stage's folder, which is also its program's name; None where this tree does not have it."""
    return next((path.name for path in (REPOSITORY / "stages").glob(f"{number:02}_*")), None)


def page_of(chapter):
    """The page of a chapter that explains how to predict, if this tree has it."""
    pages = sorted((REPOSITORY / "docs" / chapter).glob("*.md"))
    asking = [page for page in pages if "\n## Predict, then measure\n" in page.read_text(encoding="utf-8")]
    return asking[0].relative_to(REPOSITORY).as_posix() if asking else f"docs/{chapter}"


def parse(arguments):
    parser = argparse.ArgumentParser(usage="make predict STAGE=4 FORWARDS=0.4 SPEEDUP=1.5", add_help=True,
                                     description="each stage's chapter explains the numbers that it asks for")
    parser.add_argument("--build", default="build")
    parser.add_argument("--stage", required=True, metavar="N", help=f"{min(STAGES)} to {max(STAGES)}")
    parser.add_argument("--make", action="store_true", help="build the stage's program first")
    for name, words in QUANTITIES.items():
        parser.add_argument(f"--{name}", type=positive, help=words)
    return parser.parse_args(arguments)


def predictions_of(options, stage):
    """The numbers of the stage. PredictError where one is missing, or one is of another stage."""
    wanted, chapter, _ = STAGES[stage]
    given = [name for name in QUANTITIES if getattr(options, name) is not None]
    if sorted(given) != sorted(wanted):
        usage = " ".join(f"{name.upper()}=..." for name in wanted)
        meaning = "".join(f"\n  {name.upper():10}{QUANTITIES[name]}" for name in wanted)
        raise PredictError(f"usage: make predict STAGE={stage} {usage}{meaning}\n"
                           f"Write your numbers down first: {page_of(chapter)}, \"Predict, then measure\".")
    return {name: getattr(options, name) for name in wanted}


def make(build, program):
    """Builds a program. PredictError where it cannot be."""
    trouble = building.configure(REPOSITORY, build)
    if trouble:
        raise PredictError(f"predict: the build cannot be configured (make doctor may know why):\n{trouble}")
    broken = building.build(build, [program])
    if broken:
        raise PredictError("\n".join([f"predict: {program} cannot be built", *broken[program]]))


def main(arguments):
    options = parse(arguments)
    try:
        stage = stage_of(options.stage)
        predictions = predictions_of(options, stage)
        if options.make:
            make(pathlib.Path(options.build).resolve(), folder_of(stage))
        for line in table(stage, STAGES[stage][2](options.build), predictions):
            print(line)
    except PredictError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
