"""Runs the course's checks and judges what the programs print.

A check runs a program that contains a student's code and only prints facts; here they are compared
with what the reference said (tests/course/expected/). So whatever that code does, the verdict is
made by a process that never loads it.

usage: python3 tests/course checks --build DIR --stage N [--check NAME]   run them, one line each
                                 --build DIR --record N                 write expected/0N.json from this build
"""
import argparse
import array
import hashlib
import hmac
import json
import math
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from student import course, sandbox
from terminal import printable

PASS, FAIL, ERROR, NOT_CHECKED = "pass", "fail", "error", "not checked"
NOT_DONE = re.compile(r"task (\d+\.\d+): .*: not done yet")
SHOWN = 10  # lines of what a program printed beside its facts
LONGEST = 1 << 16  # characters of a fact's line
DEEPEST = 32  # lists and objects in each other, of a fact's value


@dataclass
class Result:
    check: course.Check
    status: str
    message: str = ""
    needs: str = ""  # not checked: the task that it waits for
    printed: list = field(default_factory=list)  # what else the program said
    seconds: float = 0.0
    facts: list = field(default_factory=list)  # those of the last seed
    fact: str = ""  # the one that differs, or that was to come when the program broke off
    begun: bool = True  # whether the task is no stub any more
    endless: bool = False  # whether its time was up

    def __post_init__(self):
        """What a stranger's program said goes to terminals and reports."""
        self.message, *self.printed = map(printable, [self.message, *self.printed])


class Programs:
    """Where the programs are: those of a build, unless told otherwise; and the world that they see."""

    def __init__(self, build, others=None, world=None):
        self.build, self.others, self.world = Path(build).resolve(), others or {}, world

    def __getitem__(self, name):
        if name in self.others:
            return self.others[name]
        folder = "bin" if name[:2].isdigit() else "course"
        return self.build / folder / name


# ---- facts

def facts_of(text):
    """The facts among the printed lines, as (fact, value), and the other lines."""
    facts, others = [], []
    for line in text.splitlines():
        try:
            entry = json.loads(line) if line.startswith('{"fact"') and len(line) <= LONGEST else None
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and set(entry) == {"fact", "value"} and isinstance(entry["fact"], str):
            facts.append((entry["fact"], within_depth(entry["value"])))
        else:
            others.append(line)
    return facts, others


def within_depth(value):
    """The value, or words that say that it is nested deeper than any that we expect: what looks at values is
    recursive, and one program's facts must not end the marks of the others."""
    level = [value]
    for _ in range(DEEPEST):
        level = [item for held in level if isinstance(held, (list, dict))
                 for item in (held.values() if isinstance(held, dict) else held)]
        if not level:
            return value
    return f"a value nested more than {DEEPEST} levels deep"


def shown(value, most=60):
    """A value as people write it, shortened: 1, 2, 3 for a list, NaN for what is no number."""
    text = _plain(value)
    return text if len(text) <= most else text[:most - 3] + "..."


def _plain(value, inside=False):
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_plain(item, True)}" for key, item in value.items()) or "nothing"
    if isinstance(value, list):
        text = ", ".join(_plain(item, True) for item in value)
        return f"({text})" if inside else text or "nothing"
    return _number(value)


def _number(value, digits=6):
    return f"{value:.{digits}g}" if isinstance(value, float) else "NaN" if value is None else str(value)


def compared(got, want):
    """Both values in words, with as many digits as tell them apart."""
    if isinstance(want, float) and (got is None or isinstance(got, (int, float))):
        digits = next((n for n in range(6, 18) if _number(got, n) != _number(want, n)), 17)
        return f"got {_number(got, digits)}, expected {_number(want, digits)}"
    return f"got {shown(got)}, expected {shown(want)}"


def relative_error(got, want):
    """||got - want|| / ||want||; infinite where a number is none, or where the sizes differ."""
    try:
        numbers = [float(x) for x in got]
    except (TypeError, ValueError, OverflowError):
        return math.inf
    if len(numbers) != len(want) or not all(map(math.isfinite, numbers)):
        return math.inf
    norm = math.hypot(*want)
    error = math.hypot(*(x - y for x, y in zip(numbers, want)))
    return error / norm if norm > 0 else (0.0 if error == 0 else math.inf)


def digest(salt, value):
    """What is kept of a hidden case's value: equal values have equal digests, and no way leads back
    but to try values."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]


def difference(got, want):
    """Empty where a value is as expected, else what is wrong with it."""
    if isinstance(want, dict) and "digest" in want:
        return "" if digest(want["salt"], got) == want["digest"] else f"{shown(got)} is wrong"
    if isinstance(want, dict) and "floats" in want:
        return _difference_of_floats(got, want)
    if type(got) is type(want) and got == want:
        return ""
    if isinstance(got, list) and isinstance(want, list) and max(len(got), len(want)) > 1:
        return _difference_of_lists(got, want)
    return compared(got, want)


def _difference_of_floats(got, want):
    floats, wanted = got.get("floats") if isinstance(got, dict) else None, want["floats"]
    if not isinstance(floats, list) or len(floats) != len(wanted):
        return f"got {shown(floats)}, expected {len(wanted)} numbers"
    error = relative_error(floats, wanted)
    if error <= want["tolerance"]:
        return ""
    together = f"all {len(wanted)} together: " if len(wanted) > 1 else ""
    apart = f"{together}relative error {error:.1e}, at most {want['tolerance']:.0e}"
    if want.get("hidden"):
        return apart
    worst = max(range(len(wanted)), key=lambda i: _distance(floats[i], wanted[i]))
    return f"number {worst + 1} of {len(wanted)}: {compared(floats[worst], wanted[worst])} ({apart})"


def _difference_of_lists(got, want):
    for i, (one, other) in enumerate(zip(got, want)):
        if one != other:
            return f"number {i + 1} of {len(want)}: {compared(one, other)}"
    return f"got {len(got)} values, expected {len(want)}"


def _distance(got, want):
    try:
        distance = abs(float(got) - want)
    except (TypeError, ValueError, OverflowError):
        return math.inf
    return distance if math.isfinite(distance) else math.inf


def first_difference(got, want):
    """Of two lists of facts: None where they are equal, else the fact that differs, and how."""
    for i, (fact, value) in enumerate(want):
        if i >= len(got):
            return fact, "the program ended before it printed this"
        if got[i][0] != fact:
            return fact, f"expected here, but the program printed '{got[i][0][:80]}'"
        wrong = difference(got[i][1], value)
        if wrong:
            return fact, wrong
    return None if len(got) == len(want) else (got[len(want)][0][:80], "nothing more was expected")


# ---- running

def command_of(check, stage, seed, programs, root):
    if check.kind == "probe":
        return [programs[f"course_probe_{stage.number:02}"], check.subject, str(seed)]
    if check.kind == "json":
        return [programs[stage.folder], *check.subject, *stage.options, "--output", "json", "--quiet"]
    ids = check.subject if check.hidden else golden_ids(root / "golden" / check.subject)
    return [programs[stage.folder], "--prompt-ids", ids, "--dump", "dump.safetensors", *stage.options,
            *check.options, "--max-new-tokens", "1", "--output", "json", "--quiet"]


def golden_ids(path):
    """The prompt of a golden file, from the safetensors' metadata or its `token_ids` tensor."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    tokens = header["token_ids"]
    begin, end = (8 + size + offset for offset in tokens["data_offsets"])
    width = {"I32": 4, "I64": 8}[tokens["dtype"]]
    return ",".join(str(int.from_bytes(data[i:i + width], "little")) for i in range(begin, end, width))


def json_facts(check, text):
    """The values at the check's paths in the JSON that a stage printed, as facts."""
    facts = []
    try:
        value = json.loads(text.splitlines()[-1] if text.splitlines() else "")
    except (ValueError, RecursionError):
        return facts
    for path in check.facts:
        found = value
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        facts.append((path, within_depth(found)))
    return facts


def observed(check, stage, seed, programs, root):
    """Runs a check's program once: (outcome, facts, other lines)."""
    limits = sandbox.Limits(seconds=3 * check.seconds, processor=check.seconds)
    if check.kind == "golden":
        limits.output = 64 * sandbox.MEGABYTE
    files = ["dump.safetensors"] if check.kind == "golden" else []
    outcome = sandbox.run(command_of(check, stage, seed, programs, root), limits, files, programs.world)
    if check.kind == "probe":
        return (outcome, *facts_of(outcome.stdout))
    if check.kind == "json":
        return outcome, json_facts(check, outcome.stdout), []
    return outcome, dump_facts(outcome.files) if check.hidden else [], []


def dump_facts(files):
    """The float32 tensors of a dump in the order of their names, as facts."""
    data = files.get("dump.safetensors", b"")
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:8 + size])
        spans = {name: entry["data_offsets"] for name, entry in sorted(header.items()) if name != "__metadata__"}
        return [(name, {"floats": array.array("f", data[8 + size + begin:8 + size + end]).tolist()})
                for name, (begin, end) in spans.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []  # it is no dump


def unfinished(check, outcome, printed):
    """The result of a program that did not come to an orderly end, or None."""
    said = [line.removeprefix("../") for line in outcome.stderr.splitlines() if line.strip()][-SHOWN:]
    stub = NOT_DONE.search(outcome.stderr) if outcome.code != 0 else None
    seconds = outcome.seconds
    if stub and stub[1] == check.task:
        return Result(check, FAIL, stub[0] + outcome.stderr[stub.end():].split("\n")[0], seconds=seconds, begun=False)
    if stub:
        return Result(check, NOT_CHECKED, f"needs task {stub[1]}", needs=stub[1], seconds=seconds)
    if outcome.trouble() or outcome.code != 0:
        message = outcome.trouble() or f"the program ended with exit code {outcome.code}"
        if "std::bad_alloc" in outcome.stderr:
            message = "it ran out of memory: a loop that never ends and goes on appending?"
        return Result(check, ERROR, message, printed=printed[-SHOWN:] + said, seconds=seconds, endless=outcome.endless())
    return None


def run_once(check, stage, seed, expected, programs, root):
    outcome, facts, printed = observed(check, stage, seed, programs, root)
    if check.kind == "golden" and not check.hidden:
        # A dump is whole or absent, and written before the first token: what follows is no part of it.
        dumped = "dump.safetensors" in (outcome.files or {})
        end = None if dumped else unfinished(check, outcome, printed)
        return end or compare_dump(check, outcome, programs, root)
    # What was said before the end counts: a wrong fact explains more than the crash after it.
    wrong = first_difference(facts, expected)
    end = unfinished(check, outcome, printed)
    if wrong and (end is None or facts and first_difference(facts, expected[:len(facts)])):
        fact, how = wrong
        said = [line for line in outcome.stderr.splitlines() if line.strip()]
        return Result(check, FAIL, f"{fact}: {how}", printed=(printed + said)[-SHOWN:], seconds=outcome.seconds, fact=fact)
    if end and end.status == ERROR and wrong:
        end.fact = wrong[0]
        end.message += f", before it printed: {end.fact}"
    return end or Result(check, PASS, seconds=outcome.seconds, facts=facts)


def compare_dump(check, outcome, programs, root):
    """Holds a dumped forward pass against a golden file, by a program without student code."""
    dump = outcome.files.get("dump.safetensors")
    if dump is None:
        return Result(check, ERROR, "no dump was written", seconds=outcome.seconds)
    golden = (root / "golden" / check.subject).resolve()
    with tempfile.TemporaryDirectory() as folder:
        # A copy of the golden file and its tolerances, which in a grader only we may read.
        path, copy = Path(folder, "dump.safetensors"), Path(folder, golden.name)
        path.write_bytes(dump)
        for name in (golden.name, "manifest.json"):
            Path(folder, name).write_bytes(golden.with_name(name).read_bytes())
        Path(folder).chmod(0o755)
        report = sandbox.run([programs["golden_report"], path, copy])
    if report.code == 0:
        return Result(check, PASS, seconds=outcome.seconds)
    lines = (report.stdout + report.stderr).strip().splitlines() or ["the comparison failed"]
    return Result(check, FAIL if report.code == 1 else ERROR, lines[0], printed=lines[1:], seconds=outcome.seconds)


def run(check, stage, expected, programs, root):
    """A check's result: that of the first seed that does not pass. expected: seed -> facts."""
    result, seconds = None, 0.0
    for seed in check.seeds:
        want = [tuple(fact) for fact in expected.get(str(seed), [])]
        if check.kind != "golden" and not want:
            return Result(check, ERROR, f"nothing is known of what it should give for seed {seed}")
        result = run_once(check, stage, seed, want, programs, root)
        seconds += result.seconds
        if result.status != PASS:
            break
    result.seconds = seconds
    cause = cause_of(check, result.fact) if result.status == FAIL and result.begun else None
    if cause:
        result.message += f"\nusually: {cause}"
    return result


def cause_of(check, fact):
    """What most often is the cause where a fact differs, or None."""
    return next((cause for part, cause in check.causes.items() if part in fact), None)


def in_order(stage):
    """The checks in the order of their tasks."""
    place = {task.name: i for i, task in enumerate(stage.tasks)}
    return sorted(stage.checks, key=lambda check: place[check.task])


def expected_path(root, stage):
    return root / course.FOLDER / "expected" / f"{stage.number:02}.json"


def load_expected(root, stage):
    """check name -> seed -> facts. Raises CourseError."""
    path = expected_path(root, stage)
    return require_facts(course.read_json(path), path)


def require_facts(expected, path):
    """What is expected, if it is what a file of expected facts holds. Raises CourseError."""
    is_one = isinstance(expected, dict) and all(
        isinstance(seeds, dict) and all(isinstance(facts, list) and all(
            isinstance(fact, list) and len(fact) == 2 and isinstance(fact[0], str) for fact in facts)
            for facts in seeds.values()) for seeds in expected.values())
    if not is_one:
        raise course.CourseError(f"{path}: not a file of expected facts: check name -> seed -> list of [fact, value]")
    return expected


def record(stage, programs, root):
    """Writes what the programs print, which must be the reference's, as what is expected."""
    lines = []
    for check in stage.checks:
        if check.kind == "golden":
            continue
        seeds = {}
        for seed in check.seeds:
            outcome, facts, printed = observed(check, stage, seed, programs, root)
            if outcome.code != 0 or printed or not facts or len({fact for fact, _ in facts}) != len(facts):
                raise course.CourseError(f"check {check.name}, seed {seed}: exit code {outcome.code}, "
                                         f"{len(facts)} facts, printed {printed[:3]}: {outcome.stderr[-300:]}")
            seeds[str(seed)] = facts
        lines.append(f"{json.dumps(check.name)}: {json.dumps(seeds, ensure_ascii=False)}")
    expected_path(root, stage).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", type=int)
    parser.add_argument("--check", help="only the checks with this in their name")
    parser.add_argument("--record", type=int)
    options = parser.parse_args(arguments)
    stages, programs = course.load(options.root), Programs(options.build)
    if options.record is not None:
        record(stages[options.record], programs, options.root)
        return 0
    stage = stages[options.stage]
    expected, failed = load_expected(options.root, stage), 0
    for check in in_order(stage):
        if options.check and options.check not in check.name:
            continue
        result = run(check, stage, expected.get(check.name, {}), programs, options.root)
        failed += result.status != PASS
        print(f"{result.status:12}{check.task:5}{check.name:40}{result.seconds:6.2f} s  {result.message}")
        for line in result.printed:
            print(f"{'':17}{line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
