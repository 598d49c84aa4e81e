"""Submissions that attack their grader: they change nothing but the marks of their own tasks."""
import os
import pathlib
import tempfile
import time
import unittest
import unittest.mock

from student import emitters, sandbox
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
    "an early end": ("std::exit(0);", "nothing was said"),
    "a forged score": ("std::puts(\"{\\\"score\\\": 100, \\\"tests\\\": []}\"); std::fclose(std::fopen(\"results.json\", \"w\"));"
                       " return 7;", "7, not 2"),
    "a forged fact": ("std::puts(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": 2}\"); return a + b;",
                      "expected here"),
    "deep JSON": ("std::printf(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": \");"
                  "for (int i = 0; i < 60000; i++) std::putchar('['); std::puts(\"\"); return 0;", "0, not 2"),
    "a huge number": ("std::printf(\"{\\\"fact\\\": \\\"seed + 1\\\", \\\"value\\\": 1e999}\\n\"); return 0;",
                      "Infinity, not 2"),
    "control characters": ("std::puts(\"\\x1b[2J \\\\ud800 ]]> \\x01\"); return 0;", "0, not 2"),
    "a preloaded library": ("setenv(\"LD_PRELOAD\", \"./x.so\", 1); execl(\"/proc/self/exe\", \"x\", \"adds\", \"8\", nullptr);"
                            " return 0;", "."),
    "a stopped parent": ("kill(getppid(), SIGSTOP); kill(getppid(), SIGKILL); kill(-1, SIGKILL); return 0;", "0, not 2"),
    "a fork bomb": ("for (;;) fork();", "still running|processor time|."),
    "another session": ("if (!fork()) { setsid(); if (!fork()) execle(\"/bin/sleep\", \"sleep\", \"60\", nullptr, "
                        "environ + 99); } return 0;", "0, not 2"),
    "a written file": ("const char* paths[] = {\"@/tests/course/expected/00.json\", "
                       "\"@/tests/course/tasks.json\", \"@/build/course/course_probe_00\"};"
                       " for (const char* path : paths) if (FILE* f = std::fopen(path, \"w\")) std::puts(\"ha\");"
                       " return 0;", "0, not 2"),
    "a read answer": ("if (std::fopen(\"@/tests/course/expected/00.json\", \"r\")) return a + b; return 0;", "0, not 2"),
}
NEEDS_ROOT = ("a stopped parent", "a fork bomb", "another session", "a written file", "a read answer")
INCLUDES = "#include <csignal>\n#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\n"


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
        for emit in emitters.FORMATS.values():
            emit(record).encode("utf-8")
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
        self.assertEqual(marks["0.1"], (0, "task 0.1: write one: not done yet, see docs/00, section 1"))
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
            self.assertRegex(marks["0.1"][1], "(?i)permission denied|file not found|can't open")

    def test_files_that_hold_no_task_are_ignored(self):
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"))
        for path in ("tests/course/tasks.json", "tests/course/student/checks.py", "stages/00_mini/main.cpp", "build.ninja"):
            mini_course.write(folder, path, "forged")
        marks, notes = self.graded(folder)
        self.assertEqual([points for points, _ in marks.values()], [50, 30, 20])
        self.assertRegex(notes[0], "ignored, for they hold no task of this stage: build.ninja, stages/00_mini/main.cpp")

    def test_links_are_no_files(self):
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"), one=None)
        (folder / "stages/00_mini/one.cpp").symlink_to(self.root / "tests/course/expected/00.json")
        self.assertIn("not done yet", self.graded(folder)[0]["0.1"][1])
        (folder / "stages/00_mini/one.cpp").unlink()
        (folder / "linked").symlink_to(self.root / "stages")
        self.assertIn("not done yet", self.graded(folder)[0]["0.1"][1])

    def test_files_are_found_below_a_folder_or_by_name(self):
        folder = pathlib.Path(self.directory.name, "flat")
        for name, place in (("one", "one.cpp"), ("two", "my-project/stages/00_mini/two.cpp"), ("three", "three.cpp")):
            mini_course.write(folder, place, mini_course.source(name))
        self.assertEqual([points for points, _ in self.graded(folder)[0].values()], [50, 30, 20])


if __name__ == "__main__":
    unittest.main()
