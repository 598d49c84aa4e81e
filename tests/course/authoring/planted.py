"""Bugs that students make, planted one by one in the reference: none may earn full marks.

tests/planted/stage_NN.txt has them, by task. An empty line ends a bug:

    4.3: every draft is compared with row 0
    - const TokenId choice = steps.choice(round.accepted);
    + const TokenId choice = steps.choice(0);

The lines after `-` stand in the task's region one below the other, and nowhere else in it; those after
`+` take their place. A bug may change several places. Where a line after the title says `no effect:`,
the program does the same for every input, and the words say why; then no check may fail.

usage: python3 tests/course planted --build DIR [--stage N]... [--match WORDS] [--survivors]
  --survivors  only those that are missed
Exit code 1 where one with an effect is missed, or one without is not.
"""
import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from student import checks, course, regions
from teacher import overlay

FOLDER = Path("tests/planted")
TITLE = re.compile(r"(\d+\.\d+): (.+)")
NO_EFFECT = "no effect: "


@dataclass(frozen=True)
class Planted:
    task: str
    title: str
    parts: tuple  # (lines to find, lines to put there), several
    why_no_effect: str = ""


def load(root, number):
    """The bugs of a stage. Raises CourseError."""
    path = root / FOLDER / f"stage_{number:02}.txt"
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n") if path.is_file() else []
    return [parse(block, path) for block in blocks]


def parse(block, path):
    first, *lines = block.splitlines()
    title = TITLE.fullmatch(first)
    if not title:
        raise course.CourseError(f"{path}: '{first}' is no title: TASK: WORDS")
    why = lines.pop(0)[len(NO_EFFECT):] if lines and lines[0].startswith(NO_EFFECT) else ""
    parts, before = [], ""
    for line in lines:
        if line[:1] not in ("-", "+") or line[1:2] not in ("", " "):
            raise course.CourseError(f"{path}: {title[1]}, {title[2]}: '{line}' begins with neither '- ' nor '+ '")
        if line[0] == "-" and before != "-":
            parts.append(([], []))
        if not parts:
            raise course.CourseError(f"{path}: {title[1]}, {title[2]}: it replaces nothing")
        parts[-1]["-+".index(line[0])].append(line[2:])
        before = line[0]
    return Planted(title[1], title[2], tuple(parts), why)


def source(root, planted):
    """(path, text with the bug). Raises CourseError where its lines are not in the task, once."""
    path, _ = regions.tree_regions(root, "task")[planted.task]
    text = (root / path).read_text(encoding="utf-8")
    region = next(r for r in regions.parse(text, path) if r.full_name == f"task {planted.task}")
    lines = regions.text_of(text, region).splitlines()
    for find, put in planted.parts:
        bare, wanted = [line.strip() for line in lines], [line.strip() for line in find]
        places = [i for i in range(len(lines)) if bare[i:i + len(find)] == wanted]
        if len(places) != 1:
            raise course.CourseError(f"{planted.task}, {planted.title}: {len(places)} places have {find}")
        lines[places[0]:places[0] + len(find)] = put
    return str(path), regions.replaced(text, region, lines)


def verdict(root, build, stage, planted):
    """The first result that is not a pass: of the checks of the task, then of those that need it, then of the
    others; None where all pass."""
    path, text = source(root, planted)
    expected = checks.load_expected(root, stage)
    with tempfile.TemporaryDirectory(prefix="specdec-planted-") as folder:
        Path(folder).chmod(0o755)  # checks run as somebody else
        overlaid = overlay.Overlay(root, build, {path: text}, folder)
        programs = checks.Programs(build, {name: overlaid.program(name)
                                           for name in (f"course_probe_{stage.number:02}", stage.folder)})
        for check in sorted(stage.checks, key=lambda check: (check.task != planted.task, planted.task not in check.needs)):
            result = checks.run(check, stage, expected.get(check.name, {}), programs, root)
            if result.status != checks.PASS:
                return result
    return None


def told(planted, result):
    """(whether the course is right about the bug, a line on it)."""
    what = f"{planted.task} {planted.title}"
    if planted.why_no_effect:
        return result is None, f"{'same   ' if result is None else 'WRONG  '} {what}: {planted.why_no_effect}"
    if result is None:
        return False, f"MISSED  {what}"
    return True, f"caught  {what}: {result.check.name}: {result.message.splitlines()[0]}"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", type=int, action="append")
    parser.add_argument("--match", default="")
    parser.add_argument("--survivors", action="store_true")
    options = parser.parse_args(arguments)
    root, wrong, count = options.root.resolve(), 0, 0
    try:
        stages = course.load(root)
        if not set(options.stage or []) <= set(stages):
            raise course.CourseError(f"there are the stages {', '.join(map(str, sorted(stages)))}")
        for number in options.stage or sorted(stages):
            for planted in load(root, number):
                if options.match not in f"{planted.task} {planted.title}":
                    continue
                right, line = told(planted, verdict(root, options.build.resolve(), stages[number], planted))
                wrong, count = wrong + (not right), count + 1
                if not (right and options.survivors):
                    print(line, flush=True)
    except (course.CourseError, regions.RegionError, overlay.CompileError) as error:
        print(f"planted: {error}", file=sys.stderr)
        return 2
    if not count:
        print("planted: there is no such bug", file=sys.stderr)
        return 2
    print(f"{count - wrong} of {count} are as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
