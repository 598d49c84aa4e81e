"""`make hidden SECRET=word [STAGE=4] [OUT=dir] [VISIBILITY=after_published|hidden]`: a teacher's cases.

usage: python3 tests/course hidden --secret WORD [--stage N] [--build DIR] [--out DIR] [--visibility V]
Writes hidden/0N.json for `make grade STAGE=N HIDDEN=hidden/0N.json`: the stage's checks on seeds,
prompts and a checkpoint of random weights that follow from the secret. What is expected comes from
this build, which must be the reference, and for the checkpoint from the float64 oracle in
golden/oracle where NumPy is there. The same secret makes the same file.

Integers and texts are kept as salted digests (HMAC-SHA256), numbers as they are, with a tolerance;
no message shows what was wanted. That keeps answers out of sight of a reader of the file or of a report,
and out of tables copied from it. It does not keep them from a student who has the file and tries
values: a count below 100 is found at once. So the file stays with the teacher, and in a grader
only root may read it. What really protects is that the cases are not known before the submission.
"""
import argparse
import hashlib
import hmac
import json
import random
import re
import sys
import tempfile
from pathlib import Path

from student import checks, course, regions

VISIBILITIES = ("after_published", "hidden", "after_due_date", "visible")  # Gradescope's
SEEDS = 2
TOLERANCE = 1e-4  # of a tensor, in relative norm; float32 has about 1e-6 here
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 96}


def derived(secret, *about):
    """A number below 2^31 that cannot be known without the secret."""
    text = "/".join(map(str, about))
    return int.from_bytes(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()[:4], "big") >> 1


def new_prompt(root, dice):
    """The first words of a line of the draft's text, which the embedded pair goes on with."""
    lines = (root / "golden/draft_text.txt").read_text(encoding="utf-8").splitlines()
    lines = [words for words in map(str.split, lines) if len(words) > 8 and words[0].isalpha()]
    return " ".join(dice.choice(lines)[:dice.randint(4, 7)])


def replaced_option(options, name, value):
    """The program's options with another value for one of them, where it is there."""
    return [str(value) if i and options[i - 1] == name else word for i, word in enumerate(options)]


def case_of(check, number, secret, root):
    """The hidden twin of a check, as an entry of tasks.json; None where it can have none."""
    seed = derived(secret, number, check.name)
    dice = random.Random(seed)
    entry = {"name": f"hidden_{check.name}", "task": check.task, "needs": check.needs, "causes": check.causes,
             "seconds": check.seconds, "hidden": True}
    if check.kind == "probe":
        seeds = [derived(secret, number, check.name, i) for i in range(SEEDS)]
        return {**entry, "probe": check.subject, "seeds": seeds}
    if check.kind == "json":
        options = replaced_option(check.subject, "--prompt", new_prompt(root, dice))
        options = replaced_option(options, "--prompt-ids", 100 + seed % 3000)
        options = replaced_option(options, "--seed", seed % 10000)
        return {**entry, "json": options, "facts": check.facts} if options != check.subject else None
    tokens = [dice.randrange(2, SHAPE["vocab_size"]) for _ in range(dice.randint(4, 6))]
    return {**entry, "golden": ",".join(map(str, tokens)), "options": ["--target", f"checkpoint {seed}"]}


def made_checkpoints(entries, root, folder):
    """The entries with their checkpoints written and named: a seed makes the same one everywhere."""
    sys.path.insert(0, str(root / "docs/experiments"))
    made = []
    for entry in entries:
        options = list(entry.get("options", []))
        for i, word in enumerate(options):
            if word.startswith("checkpoint "):
                import random_checkpoint
                place = folder / word.replace(" ", "_")
                place.mkdir(exist_ok=True)
                random_checkpoint.write(place, SHAPE, int(word.split()[1]))
                options[i] = str(place)
        made.append({**entry, "options": options} if options else entry)
    return made


def oracle_facts(root, check):
    """The tensors of a golden case in float64, or None without NumPy."""
    sys.path.insert(0, str(root / "golden"))
    try:
        from oracle import llama_float64
    except ImportError:
        return None
    checkpoint = llama_float64.Checkpoint(check.options[1])
    tokens = [int(word) for word in check.subject.split(",")]
    tensors = llama_float64.forward(checkpoint.config, checkpoint, tokens)
    return [(name, {"floats": [float(x) for x in tensor.reshape(-1)]}) for name, tensor in sorted(tensors.items())]


def kept(value, salt):
    """What the file keeps of a value."""
    if isinstance(value, dict) and "floats" in value:
        return {"tolerance": TOLERANCE, **value, "hidden": True}
    return {"digest": checks.digest(salt, value), "salt": salt}


def expected_of(check, stage, seed, secret, programs, root):
    """What the reference says, as the file keeps it."""
    outcome, facts, printed = checks.observed(check, stage, seed, programs, root)
    if outcome.code != 0 or not facts or printed:
        raise course.CourseError(f"the reference does not pass {check.name}, seed {seed}: {outcome.stderr[-300:]}")
    if check.kind == "golden":
        known = dict(oracle_facts(root, check) or facts)
        facts = [(name, {"floats": [float(f"{x:.7g}") for x in known[name]["floats"]]}) for name, _ in facts]
    return [(name, kept(value, f"{derived(secret, check.name, seed, name):08x}")) for name, value in facts]


def make(root, build, number, secret, visibility):
    """The text of the file of hidden cases of a stage."""
    stage, programs = course.load(root)[number], checks.Programs(build)
    entries = [case for case in (case_of(check, number, secret, root) for check in stage.checks) if case]
    with tempfile.TemporaryDirectory(prefix="specdec-hidden-") as folder:
        Path(folder).chmod(0o755)
        expected = {}
        for check in map(course.check_of, made_checkpoints(entries, root, Path(folder))):
            expected[check.name] = {str(seed): expected_of(check, stage, seed, secret, programs, root)
                                    for seed in check.seeds}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False)}" for name, facts in expected.items())
    return (f'{{"stage": {number}, "visibility": "{visibility}",\n"checks": {json.dumps(entries, ensure_ascii=False, indent=1)},'
            f'\n"expected": {{\n{lines}\n}}}}\n')


def read_cases(path, stage):
    """A file of hidden cases. Raises CourseError."""
    return require_cases(course.read_json(path), path, stage)


def require_cases(cases, path, stage):
    """The content of a file of hidden cases, if it is one: checks that are twins of the stage's, and what
    each of them expects. Raises CourseError for anything else, so that no submission pays for it."""
    try:
        if cases["stage"] != stage.number:
            raise course.CourseError(f"{path} has cases of stage {cases['stage']}, not {stage.number}")
        if cases["visibility"] not in VISIBILITIES:
            raise course.CourseError(f"{path}: visibility is one of {', '.join(VISIBILITIES)}")
        expected = checks.require_facts(cases["expected"], path)
        for check in map(course.check_of, cases["checks"]):
            require_twin(check, stage)
            require_expected(check, expected)
    except (AttributeError, KeyError, TypeError) as error:
        raise course.CourseError(f"{path}: not a file of hidden cases: {type(error).__name__}: {error}") from error
    except course.CourseError as error:
        raise course.CourseError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    return cases


def require_twin(check, stage):
    """Raises CourseError where a hidden check is not of the kind of the stage's check that it is named after."""
    twin = next((known for known in stage.checks if check.name == f"hidden_{known.name}"), None)
    if twin is None or (check.kind, check.task) != (twin.kind, twin.task) or check.needs != twin.needs:
        raise course.CourseError(f"check {check.name} matches no check of stage {stage.number}: run make hidden again")
    if check.kind == "probe" and check.subject != twin.subject or check.facts != twin.facts or not check.hidden:
        raise course.CourseError(f"check {check.name} asks something different from {twin.name}")
    if any(word.startswith("checkpoint ") and not word[11:].isdecimal() for word in check.options):
        raise course.CourseError(f"check {check.name}: a checkpoint is named by a number")


def require_expected(check, expected):
    """Raises CourseError where it is not known what a hidden check should give."""
    for seed in check.seeds:
        facts = expected.get(check.name, {}).get(str(seed), [])
        if not facts or not all(is_kept(value) for _, value in facts):
            raise course.CourseError(f"nothing is known of what check {check.name} should give for seed {seed}")


def is_kept(value):
    """Whether a value is one that `kept` makes."""
    if not isinstance(value, dict):
        return False
    if "floats" in value:
        return (set(value) == {"tolerance", "floats", "hidden"} and value["hidden"] is True
                and isinstance(value["floats"], list) and all(map(is_float32, [value["tolerance"], *value["floats"]])))
    return set(value) == {"digest", "salt"} and all(map(is_hexadecimal, value.values()))


def is_hexadecimal(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]+", value) is not None


def is_float32(value):
    return isinstance(value, (int, float)) and abs(value) < 2**128


def add_cases(path, stage, expected, folder, root):
    """Adds the cases of a file to a stage's checks, and what they expect; returns their visibility.
    folder: for checkpoints."""
    cases = read_cases(path, stage)
    stage.checks += map(course.check_of, made_checkpoints(cases["checks"], root, folder))
    expected.update(cases["expected"])
    return cases["visibility"]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", default="", help="all, where none is given")
    parser.add_argument("--secret", required=True)
    parser.add_argument("--out", type=Path, default=Path("hidden"))
    parser.add_argument("--visibility", choices=["after_published", "hidden"], default="after_published")
    options = parser.parse_args(arguments)
    try:
        stages = sorted(course.load(options.root))
        if not options.secret:
            raise course.CourseError("a secret is needed: make hidden SECRET=word, or for one stage STAGE=4 SECRET=word")
        if options.stage and course.number_of(options.stage) not in stages:
            raise course.CourseError(f"STAGE is a number from {stages[0]} to {stages[-1]}: make hidden STAGE=4 SECRET=word")
        for number in [int(options.stage)] if options.stage else stages:
            text = make(options.root.resolve(), options.build.resolve(), number, options.secret, options.visibility)
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"{number:02}.json"
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            print(f"{path}: keep it; make grade STAGE={number} HIDDEN={path}", flush=True)
    except (course.CourseError, regions.RegionError, KeyError) as error:
        print(f"hidden: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
