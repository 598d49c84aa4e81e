"""Submissions that attack their grader: they change nothing but the marks of their own tasks."""
import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

from student import isolation, sandbox
from teacher import grade_submission, submissions
from teacher.tests import mini_course

AS_ROOT = unittest.skipUnless(os.geteuid() == 0, "only root can run a submission as somebody else")
# Each stands in task 0.1, and names words of its check's message. All but `needs_root` are contained
# without root's rights, too.
ATTACKS = {
    "a loop": ("for (volatile int i = 0;;) i = i;", "still running|processor time"),
    "a crash": ("*static_cast<volatile int*>(nullptr) = a; return b;", "SIGSEGV"),
    "a memory hog": ("for (;;) *static_cast<volatile char*>(std::malloc(1 << 20)) = 1;", "SIGSEGV|out of memory"),
    "a flood": ("for (;;) std::puts(\"a flood of words that nobody wants to read, again and again\");", "printed or wrote"),
    "an early end": ("std::exit(0);", "the program ended before it printed"),
    "a forged score": ("std::puts(\"{\\\"score\\\": 100, \\\"tests\\\": []}\"); std::fclose(std::fopen(\"results.json\", \"w\"));"
                       " return 7;", "got 7, expected 2"),
    "a forged fact": ("std::puts(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": 2}\"); return a + b;",
                      "expected here"),
    "deep JSON": ("std::printf(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": \");"
                  "for (int i = 0; i < 60000; i++) std::putchar('['); std::puts(\"\"); return 0;", "got 0, expected 2"),
    **{f"JSON {depth} deep": (
        "std::printf(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": \");"
        f"for (int i = 0; i < {depth}; i++) std::putchar('[');"
        f"for (int i = 0; i < {depth}; i++) std::putchar(']'); std::puts(\"}}\"); return 0;",
        "got \"a value nested more than 32 levels deep\", expected 2" + "|got 0, expected 2" * (depth > 900))
       for depth in (33, 480, 700, 981)},
    "a huge number": ("std::printf(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": 1e999}\\n\"); return 0;",
                      "got inf, expected 2"),
    "control characters": ("std::puts(\"\\x1b[2J \\\\ud800 ]]> \\x01\"); return 0;", "got 0, expected 2"),
    "a preloaded library": ("setenv(\"LD_PRELOAD\", \"./x.so\", 1); execl(\"/proc/self/exe\", \"x\", \"adds\", \"8\", nullptr);"
                            " return 0;", "."),
    "a stopped parent": ("kill(getppid(), SIGSTOP); kill(getppid(), SIGKILL); kill(-1, SIGKILL); return 0;", "got 0, expected 2"),
    "a fork bomb": ("for (;;) fork();", "still running|processor time|."),
    "another session": ("if (!fork()) { setsid(); if (!fork()) execle(\"/bin/sleep\", \"sleep\", \"60\", nullptr, "
                        "environ + 99); } return 0;", "got 0, expected 2"),
    "a written file": ("const char* paths[] = {\"@/tests/course/expected/00.json\", "
                       "\"@/tests/course/tasks.json\", \"@/build/course/course_probe_00\"};"
                       " for (const char* path : paths) if (FILE* f = std::fopen(path, \"w\")) std::puts(\"ha\");"
                       " return 0;", "got 0, expected 2"),
    "a read answer": ("if (std::fopen(\"@/tests/course/expected/00.json\", \"r\")) return a + b; return 0;", "got 0, expected 2"),
}
NEEDS_ROOT = ("a stopped parent", "a fork bomb", "another session", "a written file", "a read answer")
NAMESPACES = unittest.skipUnless(isolation.works(), "this machine lets us make no namespaces")
# Whole texts of one.cpp that earn the points of task 0.1 where a solution, or what it is made from, can be read.
READS = """#include <cstdio>
#include <cstdlib>
#include <string>
#include <dirent.h>
#include <unistd.h>
static bool reads(std::string path) { return std::fopen(path.c_str(), "r") != nullptr; }
static int entries(const char* path) {
  int count = 0;
  if (DIR* folder = opendir(path)) while (readdir(folder)) count++;
  return count;
}
#include "stages/00_mini/mini.h"
int add(int a, int b) { return (%s) ? a + b : 0; }
"""
THEFTS = {
    "an absolute include": '#include "@/stages/00_mini/one.cpp"\n',
    "an include of what is there": '#if __has_include("@/stages/00_mini/one.cpp")\n'
                                   '#include "@/stages/00_mini/one.cpp"\n#endif\n',
    "the next include": "#ifndef AGAIN\n#define AGAIN\n#include <stages/00_mini/one.cpp>\n#else\n"
                        "#include_next <stages/00_mini/one.cpp>\n#endif\n",
    "the way up from the source": '#include "../../../../../../../../../../../../@/stages/00_mini/one.cpp"\n',
    "an assembler's file": 'asm(".data\\n.global sesame\\nsesame: .incbin \\"@/stages/00_mini/one.cpp\\"\\n'
                           '.byte 0\\n.text\\n");\nextern "C" const char sesame[];\n'
                           + READS % 'std::string(sesame).find("return a + b") != std::string::npos',
    "the source when it runs": READS % 'reads("@/stages/00_mini/one.cpp")',
    "the reference's objects": READS % 'reads("@/build/one.o")',
    "the reference's program": READS % 'reads("@/build/course/course_probe_00")',
    "the build's commands": READS % 'reads("@/build/build.ninja")',
    "the table of tasks": READS % 'reads("@/tests/course/tasks.json")',
    "a submission nearby": READS % 'reads("@/../submission/stages/00_mini/two.cpp")',
    "what lies beside the course": READS % 'entries("@/..") > 3',
    "the parent": READS % 'reads("/proc/" + std::to_string(getppid()) + "/environ") || entries("/proc/1/task") > 0 && '
                          'reads("/proc/" + std::to_string(getppid()) + "/cmdline") && getppid() > 1',
}
INCLUDES = "#include <csignal>\n#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\n"


ONE = "stages/00_mini/one.cpp"


def nested(folder):
    """1,500 folders in each other, with the task's file in the last."""
    mini_course.write(folder, ONE, mini_course.source("one"))
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        here, above = os.open("deeper", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)


def named_badly(folder):
    for name in (b"\xff\xfe", b"\x1b[2J", b"a\nb", "\u202e\u2028".encode(), b"]]>"):
        pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("odd", encoding="utf-8")
    mini_course.write(folder, ONE, mini_course.source("one"))


def looped(folder):
    (folder / "loop").symlink_to("loop")
    (folder / "stages/up").symlink_to("..")
    (folder / ONE).symlink_to("one.cpp")


def says(text):
    """A program that prints, and a source on which the compiler says, what no terminal should get."""
    return lambda folder: mini_course.write(folder, ONE, text)


# What a submission's folder holds instead of one.cpp -> the points of the three tasks.
SHAPES = {
    "a loop of links": (looped, [0, 30, 0]),
    "names that are no text": (named_badly, [50, 30, 20]),
    "1,500 folders": (nested, [50, 30, 20]),
    "random bytes": (lambda folder: (folder / ONE).write_bytes(random.Random(1).randbytes(5000)), [0, 30, 0]),
    "control characters in a source": (says('#error \x1b[2J\x07\u202e\n\x00'), [0, 30, 0]),
    "control characters in a message": (says(mini_course.source(
        "one", 'std::fputs("\\x1b[2J\\a\\xff\\xe2\\x80\\xa8", stderr); std::abort();',
        "#include <cstdio>\n#include <cstdlib>")), [0, 30, 0]),
    "a pipe": (lambda folder: os.mkfifo(folder / ONE), [0, 30, 0]),
    "a folder": (lambda folder: (folder / ONE).mkdir(), [0, 30, 0]),
    "a file of two megabytes": (lambda folder: (folder / ONE).write_bytes(b" " * (2 << 20)), [0, 30, 0]),
}


def broken(sound):
    """(name, text) of files that are not what `sound` is; `sound` has checks at its top, or in a stage."""
    yield from {"nothing": "", "no JSON": "{", "a list": "[1]", "a number": "7", "no text": "\x00\ud7ff",
                "deep": "[" * 100000, "an empty object": "{}"}.items()
    changes = {"task": "9.9", "probe": "nonsense", "seeds": "many", "needs": [7], "needs ": ["0.9"], "name": 3,
               "hidden": "yes", "seconds": "long", "unknown": 1, "facts": {}}
    for field, value in changes.items():
        changed = json.loads(json.dumps(sound))
        check = (changed["checks"] if "checks" in changed else changed["stages"][0]["checks"])[0]
        if "checks" not in sound and field in ("probe", "name") and isinstance(value, str):
            continue  # any word may be a probe's
        check[field.strip()] = value
        yield f"{field}: {value}", json.dumps(changed)
    for field in sound:
        yield f"without {field}", json.dumps({key: value for key, value in sound.items() if key != field})


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.root = pathlib.Path(cls.directory.name, "course")
        cls.build = mini_course.make(cls.root)
        (cls.root / "tests/course/expected").chmod(0o700)

    def marks(self, **bodies):
        """task -> (points, what its first check that fails says), and the notes."""
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"), **bodies)
        return self.graded(folder)

    def graded(self, folder):
        record = grade_submission.grade(self.root, self.build, 0, folder)
        texts = mini_course.emitted(record)
        for name in ("gradescope", "github", "classroom50"):
            json.loads(texts[name])
        for line in texts["autolab"].splitlines()[-2:]:
            json.loads(line)
        xml.fromstring(texts["junit"].encode("utf-8"))
        for name, text in texts.items():
            text.encode("utf-8")
            self.assertEqual([c for c in text if not c.isprintable() and c != "\n"], [], name)
        said = {test["task"]: next((" ".join([c["message"], *c["printed"]]) for c in test["checks"]
                                    if c["status"] != "pass"), "") for test in record["tests"]}
        return {test["task"]: (test["earned"], said[test["task"]]) for test in record["tests"]}, record["notes"]

    def attack(self, name):
        body, words = ATTACKS[name]
        text = mini_course.source("one", body.replace("@", str(self.root)), INCLUDES)
        before = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        marks, _ = self.marks(one=text)
        self.assertEqual(before, {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}, name)
        self.assertEqual(marks["0.1"][0], 0, (name, marks))
        self.assertRegex(marks["0.1"][1], words, name)
        self.assertEqual(marks["0.2"], (30, ""), name)

    def test_the_reference_and_a_starter(self):
        self.assertEqual(self.marks(), ({"0.1": (50, ""), "0.2": (30, ""), "0.3": (20, "")}, []))
        stub = 'throw 1;'
        marks, _ = self.marks(one=mini_course.source("one", stub))
        self.assertEqual([points for points, _ in marks.values()], [0, 30, 0])
        marks, notes = self.marks(one=None)
        self.assertEqual(marks["0.1"], (0, "task 0.1: write one: not done yet, see docs/00_mini"))
        self.assertEqual(marks["0.3"], (0, "needs task 0.1"))
        self.assertEqual(notes, ["stages/00_mini/one.cpp is not in the submission: its tasks are not done"])

    def test_attacks_that_anybody_contains(self):
        for name in ATTACKS:
            if name not in NEEDS_ROOT:
                self.attack(name)

    @AS_ROOT
    def test_attacks_that_another_user_contains(self):
        for name in NEEDS_ROOT:
            self.attack(name)
        left = [entry for entry in pathlib.Path("/proc").iterdir()
                if entry.name.isdigit() and entry.exists() and entry.stat().st_uid == sandbox.STRANGER]
        self.assertEqual(left, [])

    @NAMESPACES
    def test_what_solves_a_task_cannot_be_read(self):
        for name, text in THEFTS.items():
            with self.subTest(name):
                marks, _ = self.marks(one=text.replace("@", str(self.root)))
                self.assertEqual(marks["0.1"][0], 0, (name, marks))

    def test_without_namespaces_it_is_still_built_in_a_cut_tree(self):
        with unittest.mock.patch.object(isolation, "works", lambda: False), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(self.marks()[0], {"0.1": (50, ""), "0.2": (30, ""), "0.3": (20, "")})
            self.assertEqual(self.marks(one=THEFTS["the next include"])[0]["0.1"][0], 0)
        self.assertRegex(said.getvalue(), "(?m)^grade: without .*namespaces.* a submission .*make autograder")

    def test_odd_submissions_are_graded(self):
        for name, (write, points) in SHAPES.items():
            with self.subTest(name):
                folder = mini_course.submission(pathlib.Path(self.directory.name, "odd"), one=None)
                write(folder)
                try:
                    marks, notes = self.graded(folder)
                finally:
                    subprocess.run(["rm", "-rf", folder], check=True)
                self.assertEqual([earned for earned, _ in marks.values()], points, (marks, notes))

    def test_a_broken_file_of_the_teachers_is_told_in_one_line(self):
        table = json.loads((self.root / "tests/course/tasks.json").read_text(encoding="utf-8"))
        hidden = {"stage": 0, "visibility": "hidden", "checks": [
            {"name": "hidden_adds", "task": "0.1", "probe": "adds", "seeds": [9], "hidden": True}],
            "expected": {"hidden_adds": {"9": [["seed + 1", {"digest": "d", "salt": "5a"}]]}}}
        for path, sound in (("tests/course/tasks.json", table), ("hidden.json", hidden)):
            for name, text in broken(sound):
                with self.subTest(name, path=path):
                    code, said = self.told(path, text)
                    self.assertEqual((code, said.count("\n")), (2, 1), said)
                    self.assertIn("grade: ", said)
        self.assertEqual(self.told("hidden.json", json.dumps(hidden))[0], 0)
        for number, code in (("²", 2), ("٣", 2), ("9" * 5000, 2), ("-1", 2), ("0", 0)):
            self.assertEqual(self.told("hidden.json", json.dumps(hidden), number)[0], code, number)

    def told(self, path, text, number="0"):
        """The exit code and the stderr of a grading with another text in one of the teacher's files."""
        file = self.root / path
        before = file.read_text(encoding="utf-8") if file.exists() else None
        file.write_text(text, encoding="utf-8")
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                code = grade_submission.main(["--root", str(self.root), "--build", str(self.build), "--stage", number,
                                              "--submission", str(mini_course.submission(self.root.parent / "sound")),
                                              "--hidden", str(self.root / "hidden.json")])
            return code, errors.getvalue()
        finally:
            file.write_text(before, encoding="utf-8") if before else file.unlink()

    def test_code_that_runs_before_main_spoils_its_own_submission_only(self):
        early = INCLUDES + "static int early = [] { std::exit(0); return 0; }();\n"
        marks, _ = self.marks(one=mini_course.source("one", before=early))
        self.assertEqual([points for points, _ in marks.values()], [0, 0, 0])
        self.assertEqual(self.marks()[0]["0.1"], (50, ""))

    def test_a_file_that_does_not_compile_costs_its_own_tasks(self):
        marks, _ = self.marks(one="int add(int a, int b) { return a + c; }\n")
        self.assertEqual([points for points, _ in marks.values()], [0, 30, 0])
        self.assertRegex(marks["0.1"][1], "one.cpp does not compile .*one.cpp:1:.* error: .*c")
        marks, _ = self.marks(one="", two="")  # nothing is defined: the linker says so
        self.assertEqual([points for points, _ in marks.values()], [0, 0, 0])
        self.assertRegex(marks["0.2"][1], "undefined reference")

    def test_the_compiler_is_contained(self):
        huge = INCLUDES + "char huge[1 << 28] = {1};\n"
        bomb = "template <int N> struct B { using L = typename B<N - 1>::L; typename B<N - 2>::L x; };\n" \
               "template <class T> void f(T t) { f([t] { return t; }); }\nvoid g() { f(0); }\n"
        with unittest.mock.patch.object(submissions.COMPILER, "seconds", 20):
            for before in (huge, bomb, '#include "/dev/zero"\n'):
                started = time.monotonic()
                marks, _ = self.marks(one=mini_course.source("one", before=before))
                self.assertEqual([points for points, _ in marks.values()], [0, 30, 0], before)
                self.assertLess(time.monotonic() - started, 600)

    @AS_ROOT
    def test_the_compiler_reads_no_answers(self):
        expected = self.root / "tests/course/expected/00.json"
        for line in (f'#include "{expected}"\n', f'asm(".incbin \\"{expected}\\"");\n', '#include "/etc/shadow"\n'):
            marks, _ = self.marks(one=mini_course.source("one", before=line))
            self.assertEqual(marks["0.1"][0], 0)
            self.assertNotIn("seed + 1", marks["0.1"][1])
            self.assertRegex(marks["0.1"][1], "(?i)permission denied|no such file|file not found|can't open")

    def test_files_that_hold_no_task_are_ignored(self):
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"))
        for path in ("tests/course/tasks.json", "tests/course/student/checks.py", "stages/00_mini/main.cpp", "build.ninja"):
            mini_course.write(folder, path, "forged")
        marks, notes = self.graded(folder)
        self.assertEqual([points for points, _ in marks.values()], [50, 30, 20])
        self.assertRegex(notes[0], "ignored, because they hold no task of this stage: build.ninja, stages/00_mini/main.cpp")

    def test_links_are_no_files(self):
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"), one=None)
        (folder / "stages/00_mini/one.cpp").symlink_to(self.root / "tests/course/expected/00.json")
        self.assertIn("not done yet", self.graded(folder)[0]["0.1"][1])
        (folder / "stages/00_mini/one.cpp").unlink()
        (folder / "linked").symlink_to(self.root / "stages")
        self.assertIn("not done yet", self.graded(folder)[0]["0.1"][1])

    def test_any_number_of_other_files_hides_no_task(self):
        whole = {name: f"stages/00_mini/{name}.cpp" for name in ("one", "two", "three")}
        for place, heap in ((whole, ""), ({name: f"my-project/{path}" for name, path in whole.items()}, "my-project/"),
                            ({name: f"my-project/{path}" for name, path in whole.items()}, ""),
                            ({name: f"{name}.cpp" for name in whole}, "")):
            folder = pathlib.Path(self.directory.name, "heap")
            for name, path in place.items():
                mini_course.write(folder, path, mini_course.source(name))
            for i in range(60 * 50):
                (folder / heap / f"a{i}").touch()
            with self.subTest(f"{place['one']} and {heap}a1"), unittest.mock.patch.object(submissions, "MOST", 50):
                marks, notes = self.graded(folder)
                self.assertEqual([points for points, _ in marks.values()], [50, 30, 20])
                self.assertEqual(notes[0], "more than 50 files and folders: the rest was not looked at")
            subprocess.run(["rm", "-rf", folder], check=True)

    def test_files_are_found_below_a_folder_or_by_name(self):
        folder = pathlib.Path(self.directory.name, "flat")
        for name, place in (("one", "one.cpp"), ("two", "my-project/stages/00_mini/two.cpp"), ("three", "three.cpp")):
            mini_course.write(folder, place, mini_course.source(name))
        self.assertEqual([points for points, _ in self.graded(folder)[0].values()], [50, 30, 20])


if __name__ == "__main__":
    unittest.main()
