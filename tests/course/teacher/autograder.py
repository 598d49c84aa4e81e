"""`make autograder STAGE=4 [HIDDEN=file] [OUT=dir]`: a Gradescope zip, which is also a container's recipe.

usage: python3 tests/course autograder --stage N [--hidden FILE] [--out DIR]
Writes autograder-N.zip: setup.sh (packages, and a build of the assignment), run_autograder (builds a
submission's files beside it, and grades), a Dockerfile for machines of one's own, project/ (the
assignment: no solution of the stage is in it), and the hidden cases, if there are any.
The image must be Ubuntu 24.04, Debian 12 or newer.
"""
import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from student import course, regions
from teacher import assignment, hidden

TOOLS = course.FOLDER / "teacher"
RECIPES = TOOLS / "grader"


def write_recipe(root, out, name, stage):
    programs = f"course_probe_{stage.number:02} {stage.folder}" + " golden_report" * (stage.number > 0)
    text = (root / RECIPES / name).read_text(encoding="utf-8")
    (out / name).write_text(text.replace("{stage}", str(stage.number)).replace("{programs}", programs), encoding="utf-8")
    shutil.copymode(root / RECIPES / name, out / name)


def make_source(root, number, out, hidden_file=None):
    """Writes what the zip contains."""
    assignment.make_tree(root, number, out / "project")
    tools = sorted(path.relative_to(root) for path in (root / TOOLS).glob("*.py"))
    for path in [*tools, Path("docs/experiments/random_checkpoint.py")]:  # what marks somebody else's submission
        (out / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, out / "project" / path)
    for name in ("setup.sh", "run_autograder", "Dockerfile"):
        write_recipe(root, out, name, course.load(root)[number])
    if hidden_file:
        hidden.read_cases(hidden_file, course.load(root)[number])
        shutil.copy(hidden_file, out / "hidden.json")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", required=True)
    parser.add_argument("--hidden", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    try:
        number = course.number_of(options.stage)
        with tempfile.TemporaryDirectory() as folder:
            make_source(options.root.resolve(), number, Path(folder, "source"), options.hidden)
            options.out.mkdir(parents=True, exist_ok=True)
            name = options.out / f"autograder-{number}"
            path = shutil.make_archive(str(name), "zip", Path(folder, "source"))
    except (course.CourseError, regions.RegionError) as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    print(f"{path}: upload it as the assignment's autograder, or unpack it and see its Dockerfile")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
