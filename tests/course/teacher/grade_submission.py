"""`make grade STAGE=4 [SUBMISSION=dir] [HIDDEN=file] [FORMAT=F] [OUTPUT=file]`

usage: python3 tests/course grade_submission --stage N [--build DIR] [--submission DIR] [--hidden FILE]
           [--format F] [--output FILE]
  --submission  a student's files: those that hold the stage's tasks are built beside this project's
                own, others are ignored; without it, this project itself is graded
  --hidden      a teacher's cases, made by `make hidden`
How points are shared: see student/grade.py. Exit code: 0 when grading worked, whatever the score; 2 when not.
"""
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from student import checks, course, grade as own
from teacher import hidden, submissions


def grade(root, build, number, submission=None, hidden_file=None):
    """The record of a stage. Raises GradeError, CourseError, RegionError."""
    started, visibility, notes = time.monotonic(), "visible", []
    stages = course.load(root)
    stage = own.stage_of(stages, number)
    expected = checks.load_expected(root, stage)
    with contextlib.ExitStack() as stack:
        def folder():
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="specdec-grade-")))
            path.chmod(0o755)  # what is graded runs as somebody else
            return path
        if hidden_file:
            data = folder()
            visibility = hidden.add_cases(hidden_file, stage, expected, data, root)
        if submission:
            programs, broken, notes = submissions.programs(root, build, stage, submission, folder())
        else:
            programs, broken = own.own_programs(root, build, stages, stage)
        if hidden_file and programs.world:
            programs.world.sees.append(data)
        results = own.run_checks(stage, expected, programs, root, broken, started + own.SECONDS)
    return own.record_of(stage, results, visibility, notes, time.monotonic() - started)


def main(arguments):
    parser = own.parser_of("points by task, of this project or of a submission")
    parser.add_argument("--submission", type=Path)
    parser.add_argument("--hidden", type=Path)
    options = parser.parse_args(arguments)
    return own.answer(options, lambda *about: grade(*about, options.submission, options.hidden))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
