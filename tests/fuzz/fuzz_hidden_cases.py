"""Any bytes as a teacher's hidden cases: one line, or checks that can be run and judged."""
import sys
from pathlib import Path

import python_fuzzer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/course"))
with python_fuzzer.instrumented():
    from student import checks, course
    from teacher import hidden

PATH = Path("hidden.json")
STAGE = course.load(ROOT)[3]  # it has checks of all three kinds
PROGRAMS = checks.Programs("build")
ANSWERS = (0, 1.5, "text", None, [1, 2], {"floats": [1.0, 2.0]}, {"floats": ["text"]}, {"floats": 7}, {"digest": 1})


def check(data):
    try:
        cases = hidden.require_cases(course.parse_json(data, PATH), PATH, STAGE)
    except course.CourseError as error:
        python_fuzzer.require_one_line(error)
        return
    for one in map(course.check_of, cases["checks"]):
        for seed in one.seeds:
            facts = cases["expected"][one.name][str(seed)]
            command = checks.command_of(one, STAGE, seed, PROGRAMS, ROOT)
            assert all(isinstance(word, (str, Path)) for word in command), command
            for answer in ANSWERS:
                checks.first_difference([(name, answer) for name, _ in facts], [tuple(fact) for fact in facts])


if __name__ == "__main__":
    sys.exit(python_fuzzer.run(check))
