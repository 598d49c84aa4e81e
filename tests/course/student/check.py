"""`make check STAGE=N`: builds and checks stage N, and says what to do next.

usage: python3 tests/course check --stage N [--build DIR] [--all | --list]
  --all    also runs checks whose prerequisites have failed
  --list   builds and runs nothing: names the checks of each task, and what the tree lacks for them

pass         the task does what it should
FAIL         it does something else: the first fact that differs, and what usually is the cause
ERROR        it was not judged: it does not compile, crashes, or never ends
to do        it is a stub still
--           not checked: it builds on another task, which comes first
When all of the stage's tasks pass, its golden files and the lower stages are checked, too.
Exit code: 0 when they pass as well, 1 when not, 2 when nothing could be checked.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import terminal
from student import building, checks, course, hint, progress, regions, reward
from terminal import coloured, printable

LABELS = {checks.PASS: ("pass", "green"), checks.FAIL: ("FAIL", "red"),
          checks.ERROR: ("ERROR", "red"), checks.NOT_CHECKED: ("--", "grey")}
TO_DO = ("to do", "grey")
NOT_BUILT = "its program cannot be built"
STUB = re.compile(r"task \d+\.\d+: .*: not done yet")  # what one says
PLACE = re.compile(r"(\S+?):(\d+):\d+: (?:fatal )?error: ")
WORST_FIRST = (checks.FAIL, checks.ERROR, checks.NOT_CHECKED, checks.PASS)


def check_stage(stage, programs, root, broken, run_all):
    """task -> results. A check is not run while a task that it needs has failed, nor where an earlier one of
    its own task did not come to an end, or found that nothing is done yet."""
    expected, results = checks.load_expected(root, stage), {task.name: [] for task in stage.tasks}
    failed, given_up = set(), {}
    for i, check in enumerate(checks.in_order(stage)):
        terminal.progress(f"stage {stage.number}: check {i + 1} of {len(stage.checks)}")
        if check.task in given_up and not run_all:
            result = checks.Result(check, checks.NOT_CHECKED, f"after {given_up[check.task]}")
        else:
            result = one_result(check, stage, expected, programs, root, broken, set() if run_all else failed)
        results[check.task].append(result)
        if result.status in (checks.FAIL, checks.ERROR):
            failed.add(check.task)
        if result.status == checks.ERROR or not result.begun:
            given_up[check.task] = check.name
    terminal.progress("")
    return results


def one_result(check, stage, expected, programs, root, broken, failed):
    program = f"course_probe_{stage.number:02}" if check.kind == "probe" else stage.folder
    if program in broken:
        return checks.Result(check, checks.ERROR, NOT_BUILT)
    first = next((name for name in check.needs if name in failed), None)
    if first:
        return checks.Result(check, checks.NOT_CHECKED, f"needs task {first}", needs=first)
    return checks.run(check, stage, expected.get(check.name, {}), programs, root)


def status_of(results):
    return next(status for status in WORST_FIRST if any(r.status == status for r in results))


def is_begun(results):
    return all(result.begun for result in results)


def print_task(task, results):
    """One line for a task, and the first of its failures; the others most often have the same cause."""
    status = status_of(results)
    label, colour = LABELS[status] if is_begun(results) else TO_DO
    waits = sorted({r.needs for r in results if r.needs}) if status == checks.NOT_CHECKED else []
    suffix = f"   {so_far(results)} task {', '.join(waits)}" if waits else ""
    failed = [result for result in results if result.status in (checks.FAIL, checks.ERROR)]
    if failed and failed[0].message == NOT_BUILT:  # the compiler has said why
        suffix = f"   {NOT_BUILT}"
    print(f"  {coloured(f'{label:5}', colour)} {task.name}  {task.title}{coloured(suffix, 'grey')}")
    if suffix or not is_begun(results):
        return
    for result in failed[:1]:
        first, *rest = result.message.splitlines()
        print(f"          {result.check.name}: {first}")
        for line in rest:
            print(f"          {coloured(line, 'yellow')}")
        print_output(line for line in result.printed if not STUB.match(line))  # of other tasks, as this one is begun
    if failed[1:]:
        names = ", ".join(result.check.name for result in failed[1:])
        print(coloured(f"          and {names}: perhaps for the same reason", "grey"))


def so_far(results):
    """Which checks of a task pass while others wait for another task, and that these need it."""
    passed = [result.check.name for result in results if result.status == checks.PASS]
    waiting = len(results) - len(passed)
    return f"right so far: {', '.join(passed)}; {waiting} more need" if passed else "not checked: needs"


def print_output(lines):
    for line in lines:
        print(f"          {coloured('| ' + line, 'grey')}")


def print_stage(stage, results, brief):
    """A stage's tasks; in brief, one line when all is well."""
    counts = {status: sum(status_of(r) == status for r in results.values()) for status in WORST_FIRST}
    if brief and counts[checks.PASS] == len(results):
        print(f"{coloured(f'Stage {stage.number}', 'bold')}: {len(results)} tasks {coloured('pass', 'green')}")
        return
    print(coloured(f"Stage {stage.number}, {stage.folder[3:].replace('_', ' ')}", "bold"))
    for task in stage.tasks:
        print_task(task, results[task.name])


def golden_check(stage, build):
    """The stage's own comparison with the golden files: (passed, lines to show)."""
    with tempfile.TemporaryFile("w+") as output:
        try:
            code = subprocess.run([build / "bin" / stage.folder, "--check"], stdout=output, stderr=output,
                                  timeout=300, check=False).returncode
        except subprocess.TimeoutExpired:
            return False, ["it was still running after 300 s"]
        output.seek(0)
        lines = printable(output.read()).splitlines()
    failures = [i for i, line in enumerate(lines) if "FAIL" in line or "NOT" in line]
    first = failures[0] if failures else max(0, len(lines) - 8)
    return code == 0, lines[-1:] if code == 0 else lines[first:first + 8]


def line_of(root, task):
    """Where a task is done: path:line of its region or its stub, or else of what it is in."""
    lines = (root / task.path).read_text(encoding="utf-8").splitlines()
    for wanted in (f"[task {task.name}:", f'"task {task.name}:', task.function):
        found = next((number for number, line in enumerate(lines, 1) if wanted and wanted in line), None)
        if found:
            return f"{task.path}:{found}"
    return task.path


def print_next(root, stage, results, golden_passed, broken, lower):
    """lower: the numbers of the stages below it."""
    place = next((PLACE.match(line) for lines in broken.values() for line in lines if PLACE.match(line)), None)
    if broken:
        where = f": {place[1]}:{place[2]}" if place else ""
        print(f"\nNext: fix what does not compile{where}. Until then its programs cannot be checked.")
        return
    todo = [task for task in stage.tasks if status_of(results[task.name]) != checks.PASS]
    done = len(stage.tasks) - len(todo)
    print(f"\n{terminal.bar(done, len(stage.tasks))}  {done} of {len(stage.tasks)} tasks of stage {stage.number} pass.", end=" ")
    if todo:
        # What is not checked waits for something else; that comes first.
        task = next((t for t in todo if status_of(results[t.name]) != checks.NOT_CHECKED), todo[0])
        print(f"Next: task {task.name}, {task.title}\n  {line_of(root, task)}\n  {task.page}\n"
              f"  make hint TASK={task.name}")
        if lower:
            print(coloured(f"Lower stages are checked when this one passes; make check STAGE={max(lower)} checks them now.",
                           "grey"))
    elif not golden_passed:
        print("Next: the golden files above. They see more than the tasks' checks do.")
    else:
        print(f"Next: predict what the stage gains, then measure it (make predict STAGE={stage.number}). Then do\n"
              f"the exercises of {stage.chapter}.")


def lacks(root, stage):
    """What is not in the tree, but needed to check a stage, in words."""
    expected = checks.load_expected(root, stage) if checks.expected_path(root, stage).is_file() else {}
    paths = [stage.chapter, f"stages/{stage.folder}", f"tests/course/probes/stage_{stage.number:02}.cpp",
             *sorted({task.path for task in stage.tasks}),
             *sorted({f"golden/{check.subject}" for check in stage.checks if check.kind == "golden"})]
    yield from (f"{path} is missing" for path in paths if not (root / path).exists())
    yield from (f"task {task.name} has no hint" for task in stage.tasks if not hint.hints(root, task.name))
    for check in (check for check in stage.checks if check.kind != "golden"):
        known = expected.get(check.name, {})
        yield from (f"nothing is known of what check {check.name} should give for seed {seed}"
                    for seed in check.seeds if not known.get(str(seed)))


def print_list(root, stage):
    """A stage's tasks with the names of their checks; returns whether the tree has what these need."""
    print(coloured(f"Stage {stage.number}, {stage.folder[3:].replace('_', ' ')}", "bold"))
    for task in stage.tasks:
        names = ", ".join(check.name for check in stage.checks if check.task == task.name)
        print(f"  {task.name}  {task.title}: {names}")
    lacking = list(lacks(root, stage))
    for line in lacking:
        print(f"check: {line}", file=sys.stderr)
    return not lacking


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", required=True)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--all", action="store_true")
    how.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    try:
        stages = course.load(options.root)
    except (course.CourseError, regions.RegionError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    number = course.number_of(options.stage)
    if number not in stages:
        missing = "" if options.stage else "STAGE= is missing; "
        print(f"check: {missing}STAGE is a number from {min(stages)} to {max(stages)}: make check STAGE={max(stages)}",
              file=sys.stderr)
        return 2
    if options.list:
        return 0 if all([print_list(options.root, stages[n]) for n in from_stage(stages, number)]) else 2
    return run(options, stages, number)


def from_stage(stages, number):
    """A stage's number, and those below it that there are."""
    return [n for n in sorted(stages, reverse=True) if n <= number]


def run(options, stages, number):
    """Builds and checks a stage, and those below it if it passes; returns the exit code."""
    root, build, stage = options.root, options.build.resolve(), stages[number]
    trouble = building.configure(root, build)
    if trouble:
        print(f"check: the build cannot be configured (make doctor may know why):\n{trouble}", file=sys.stderr)
        return 2
    broken, results = checked(options, build, stage)
    passed = golden_passed = all_pass(results)
    print_stage(stage, results, brief=False)
    if passed:
        golden_passed, lines = golden_check(stage, build)
        label = coloured("pass ", "green") if golden_passed else coloured("FAIL ", "red")
        print(f"  {label}      golden files: build/bin/{stage.folder} --check")
        print_output([] if golden_passed else lines)
        for n in from_stage(stages, number - 1):
            lower = checked(options, build, stages[n])[1]
            print_stage(stages[n], lower, brief=True)
            passed = passed and all_pass(lower)
    if all_pass(results) and golden_passed:
        reward.show(root, build, stage, results)
    elif any(status_of(r) == checks.PASS for r in results.values()):
        reward.show_so_far(build, stage)
    print_next(root, stage, results, golden_passed, broken, from_stage(stages, number - 1))
    return 0 if passed and golden_passed else 1


def checked(options, build, stage):
    """Builds a stage's programs, runs its checks, and keeps how many tasks are done: (program -> compiler errors,
    task -> results)."""
    files = progress.digest(options.root, stage)
    broken = building.build(build, building.own_programs(stage))
    for lines in {tuple(lines) for lines in broken.values()}:
        print(coloured("Does not compile", "red"))
        print_output(lines)
    results = check_stage(stage, checks.Programs(build), options.root, broken, options.all)
    progress.save(build, stage.number, {name: status_of(r) for name, r in results.items()}, options.root, files)
    return broken, results


def all_pass(results):
    return all(status_of(r) == checks.PASS for r in results.values())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        terminal.progress("")
        raise
