"""A small class hands in stage 4, and everybody gets the marks that they should.

usage: python3 tests/course test_class --build DIR [--root DIR] [--all]
Each submission is built in seconds, as a grader does. In every stage the reference is graded, and three
of the class, which ones changes with the sources; with --all or SPECDEC_FULL=1 the whole class.
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

from student import course
from teacher import grade_submission, sample, stubs, submissions

STAGE = 4
ROUND, STEPS = "common/speculation/count_round.cpp", "stages/04_greedy_speculation/draft_and_verify.cpp"
GREEDY, DRAFTER = "stages/04_greedy_speculation/greedy_speculation.cpp", "stages/04_greedy_speculation/greedy_drafter.cpp"
INCLUDES = "#include <cstdio>\n#include <cstdlib>\n"
# Who -> the task that is wrong, the file, what stands there, and what they wrote.
MISTAKES = {
    "rolls the draft's cache back too far": (
        "4.4", STEPS, "drafter_.truncate(draft_sequence_, round.draft_length());",
        "drafter_.truncate(draft_sequence_, round.start);"),
    "counts the bonus as accepted": (
        "4.5", ROUND, "stats.accepted += round.accepted;", "stats.accepted += round.emitted();"),
    "crashes": ("4.6", DRAFTER, "forwards_++;", "*static_cast<volatile int*>(nullptr) = 1;"),
    "never ends": ("4.5", ROUND, "stats.rounds++;", "for (volatile bool ever = true; ever;) {}"),
    "takes all memory": (
        "4.2", STEPS, "target_.forward(segment, logits_.rows(0, segment.logits_rows));",
        "for (;;) *static_cast<volatile char*>(std::malloc(1 << 20)) = 1;"),
    "forges facts and a score": (
        "4.3", GREEDY, "round.accepted++;",
        'std::puts("{\\"fact\\": \\"all is well\\", \\"value\\": 1}\\n{\\"score\\": 100}"); std::exit(0);'),
    "does not compile": ("4.5", ROUND, "stats.rounds++;", "stats.rounds+;"),
}


def reference_files(root, stage):
    return {path: (root / path).read_text(encoding="utf-8") for path in submissions.task_files(stage)}


def with_mistake(files, path, old, new):
    if files.get(path, "").count(old) != 1:
        raise course.CourseError(f"{path} does not have this once: {old}")
    return {**files, path: INCLUDES + files[path].replace(old, new)}


def the_references(root):
    """In every stage the reference with a line of one's own, so that nothing of the build is taken as it is."""
    for number, stage in course.load(root).items():
        files = {path: "// mine\n" + text for path, text in reference_files(root, stage).items()}
        yield number, f"hands in the reference of stage {number} as their own", files, set()


def the_class(root, stage):
    """(who, their files, the tasks that are wrong; None: all)."""
    files = reference_files(root, stage)
    yield "hands in the reference", files, set()
    yield "hands in nothing", {}, None
    undone = stubs.stubbed_sources(root, stage, {"4.4"})
    yield "leaves task 4.4 out", {path: undone.get(path, text) for path, text in files.items()}, {"4.4"}
    for who, (task, path, old, new) in MISTAKES.items():
        compiles = who != "does not compile"
        tasks = {task} if compiles else {t.name for t in stage.tasks if t.path == path}
        yield who, with_mistake(files, path, old, new), tasks


def wrong_marks(stage, record, tasks):
    """Yields what is not as it should be: a wrong task loses points, and others only by checks that need it."""
    for test in record["tests"]:
        own = [check for check in stage.checks if check.task == test["task"]]
        may_lose = tasks is None or any(tasks & {check.task, *check.needs} for check in own)
        if test["earned"] != test["points"] and not may_lose:
            yield f"task {test['task']} has {test['earned']} of {test['points']}: {test['checks']}"
        if tasks is None and test["earned"] or tasks and test["task"] in tasks and test["earned"] == test["points"]:
            yield f"task {test['task']} has {test['earned']} of {test['points']} points"


def impatient(load):
    """The course with checks that need not wait a minute for an endless loop."""
    def hurried(root):
        stages = load(root)
        for check in stages[STAGE].checks:
            check.seconds = 20
        return stages
    return hurried


def marks_of(root, build, number, files, folder):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return grade_submission.grade(root, build, number, folder)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--match", default="", help="only those with this in their name")
    options = parser.parse_args(arguments)
    root, build = options.root.resolve(), options.build.resolve()
    course.load = impatient(course.load)
    stages, wrong = course.load(root), []
    everybody = [(STAGE, *one) for one in the_class(root, stages[STAGE])]
    count = None if options.all or os.environ.get("SPECDEC_FULL") else 3
    graded = [*the_references(root), *sample.sampled(everybody, count, root)]
    for number, who, files, tasks in (one for one in graded if options.match in one[1]):
        with tempfile.TemporaryDirectory(prefix="specdec-class-") as folder:
            record = marks_of(root, build, number, files, Path(folder))
        found = list(wrong_marks(stages[number], record, tasks))
        marks = " ".join(f"{test['earned']:g}/{test['points']}" for test in record["tests"])
        print(f"{'WRONG' if found else 'right'}  {who}: {record['earned']:g} of {record['points']} ({marks}), "
              f"{record['seconds']:.0f} s", flush=True)
        for line in found:
            print(f"       {line}")
        wrong += found
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
