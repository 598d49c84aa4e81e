"""`make grade STAGE=4 [FORMAT=autolab|classroom50|github|gradescope|junit|text] [OUTPUT=file]`: the marks of this project.

usage: python3 tests/course grade --stage N [--build DIR] [--format F] [--output FILE]
A task's points are shared equally by its checks; what a check that does not pass would earn is lost.
With a teacher's hidden cases, they decide on half of each task's points. Counters (target forwards,
pages, bytes) are facts like others: they must be equal. Times are only shown.
Exit code: 0 when grading worked, whatever the score; 2 when not.
"""
import argparse
import dataclasses
import io
import sys
import time
from pathlib import Path

import tool
from student import building, checks, course, emitters, regions

SECONDS = 510  # of a grader's 10 minutes; what is not begun by then is not checked
AFTER_A_LOOP = 3  # seconds of processor time for the other checks of a task that once did not end


class GradeError(Exception):
    """Nothing can be graded: `str` says why."""


def own_programs(root, build, stages, stage):
    """Builds the project itself: (programs, program -> (why it is not there, compiler's lines))."""
    trouble = building.configure(root, build)
    if trouble:
        raise GradeError(f"the build cannot be configured (make doctor may know why):\n{trouble}")
    programs = checks.Programs(build)
    names = [name for name in building.programs_of(stages, stage.number) if name_belongs(name, stage)]
    for name in names:
        programs[name].unlink(missing_ok=True)  # an older program is never graded
    errors = building.build(build, names)
    return programs, {name: (f"{name} cannot be built", lines) for name, lines in errors.items()}


def name_belongs(name, stage):
    return name in (probe_of(stage), stage.folder, "golden_report")


def probe_of(stage):
    return f"course_probe_{stage.number:02}"


def run_check(check, stage, expected, programs, root, broken, failed, deadline):
    """broken: program or task -> (why, compiler's lines); failed: tasks whose checks do not end."""
    program = probe_of(stage) if check.kind == "probe" else stage.folder
    for name in (check.task, program):
        if name in broken:
            return checks.Result(check, checks.ERROR, broken[name][0], printed=broken[name][1])
    first = next((name for name in check.needs if name in failed or name in broken), None)
    if first:
        return checks.Result(check, checks.NOT_CHECKED, f"needs task {first}", needs=first)
    if time.monotonic() > deadline:
        return checks.Result(check, checks.NOT_CHECKED, "the time for grading is used up")
    return checks.run(check, stage, expected.get(check.name, {}), programs, root)


def run_checks(stage, expected, programs, root, broken, deadline):
    """All results. A check is run even where what it needs has failed, because it may pass all the same;
    not so where that crashed or hung, which costs time and tells nothing."""
    results, failed, endless = [], set(), set()
    for check in checks.in_order(stage):
        if check.task in endless:
            check = dataclasses.replace(check, seconds=min(check.seconds, AFTER_A_LOOP))
        result = run_check(check, stage, expected, programs, root, broken, failed, deadline)
        results.append(result)
        if result.status == checks.ERROR:
            failed.add(check.task)
            endless |= {check.task} if result.endless else set()
    return results


def test_of(task, points, results, visibility):
    """A task's entry in the record."""
    passed = sum(result.status == checks.PASS for result in results)
    return {"task": task.name, "title": task.title, "points": points,
            "earned": round(points * passed / len(results), 2),
            "status": "passed" if passed == len(results) else "failed", "visibility": visibility,
            "seconds": sum(result.seconds for result in results),
            "checks": [{"name": r.check.name, "status": r.status, "message": r.message, "printed": r.printed,
                        "seconds": r.seconds} for r in results]}


def leaderboard(results, earned, seconds):
    """What may be compared. A counter is shown where it was checked and found right."""
    entries = [{"name": "points", "value": earned, "order": "desc"}]
    for result in results:
        facts = dict(result.facts)
        forwards, tokens = facts.get("stats.target_forwards"), facts.get("tokens")
        if result.status == checks.PASS and isinstance(forwards, int) and isinstance(tokens, list) and tokens:
            entries.append({"name": f"target forwards per token, {result.check.name}",
                            "value": round(forwards / len(tokens), 4), "order": "asc"})
    return entries + [{"name": "seconds", "value": round(seconds, 1), "order": "asc"}]


def record_of(stage, results, hidden_visibility, notes, seconds):
    """The record that emitters.py describes."""
    tests = []
    for task in stage.tasks:
        own = [r for r in results if r.check.task == task.name]
        visible, hidden = ([r for r in own if r.check.hidden == wanted] for wanted in (False, True))
        points = task.points / 2 if visible and hidden else task.points
        tests += [test_of(task, points, group, visibility)
                  for group, visibility in ((visible, "visible"), (hidden, hidden_visibility)) if group]
    earned = round(sum(test["earned"] for test in tests), 2)
    return {"stage": stage.number, "name": stage.folder[3:].replace("_", " "),
            "points": sum(test["points"] for test in tests), "earned": earned, "seconds": seconds, "notes": notes,
            "tests": tests, "leaderboard": leaderboard([r for r in results if not r.check.hidden], earned, seconds)}


def stage_of(stages, number):
    if number not in stages:
        raise GradeError(f"STAGE is a number from {min(stages)} to {max(stages)}: make grade STAGE={max(stages)}")
    return stages[number]


def grade(root, build, number):
    """The record of a stage of the project itself. Raises GradeError, CourseError, RegionError."""
    started = time.monotonic()
    stages = course.load(root)
    stage = stage_of(stages, number)
    programs, broken = own_programs(root, build, stages, stage)
    results = run_checks(stage, checks.load_expected(root, stage), programs, root, broken, started + SECONDS)
    return record_of(stage, results, "visible", [], time.monotonic() - started)


def parser_of(words):
    """What all who grade are asked."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", required=True)
    parser.add_argument("--format", choices=sorted(emitters.FORMATS), default="text")
    parser.add_argument("--output", type=Path)
    return parser


def answer(options, record_of_stage):
    """Prints or writes the record that record_of_stage(root, build, number) makes; returns the exit code."""
    try:
        number = course.number_of(options.stage)
        record = record_of_stage(options.root.resolve(), options.build.resolve(), number)
        if options.output:
            options.output.write_text(emitters.FORMATS[options.format](record, io.StringIO()), encoding="utf-8")
            print(f"{options.output}: {emitters.number(record['earned'])} of {emitters.number(record['points'])} points")
        else:
            print(emitters.FORMATS[options.format](record), end="")
    except (GradeError, course.CourseError, regions.RegionError, tool.Trouble) as error:
        print(f"grade: {error}", file=sys.stderr)
        return 2
    return 0


def main(arguments):
    return answer(parser_of(__doc__.splitlines()[0]).parse_args(arguments), grade)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
