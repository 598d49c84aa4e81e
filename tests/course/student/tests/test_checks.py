"""How checks judge, on a made-up course whose programs are shell scripts."""
import contextlib
import io
import json
import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from student import building, check, checks, course, reward, sandbox

WANT = [("length after 3 drafts", 14), ("tokens", [5, 6, 7]), ("law", {"floats": [0.5, 0.25], "tolerance": 1e-6})]


def fact(name, value):
    return "echo '" + json.dumps({"fact": name, "value": value}, separators=(",", ":")) + "'\n"


GOOD = "".join(fact(name, value) for name, value in WANT)


class ChecksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.root.chmod(0o755)
        tasks = [course.Task(f"4.{i}", f"title {i}", 25, "a.cpp", "docs/04_x/3_y.md") for i in (1, 2)]
        self.checks = [course.Check("first", "4.1", [], {"length": "a length is often so", "tokens": "tokens are often so"},
                                    "probe", "first", seconds=3),
                       course.Check("second", "4.2", ["4.1"], {"": "or so"}, "probe", "second", seconds=3)]
        self.stage = course.Stage(4, "04_x", tasks, self.checks)
        self.program = self.root / "probe"
        self.programs = checks.Programs(self.root, {"course_probe_04": self.program})

    def run_check(self, script, which=0):
        self.program.write_text("#!/bin/sh\n" + script)
        self.program.chmod(0o755)
        return checks.run(self.checks[which], self.stage, {"0": WANT}, self.programs, self.root)

    def expect(self, script, status, *words):
        result = self.run_check(script)
        self.assertEqual(result.status, status, result.message)
        for word in words:
            self.assertIn(word, " ".join([result.message, *result.printed]))

    def test_equal_facts_pass_whatever_else_is_printed(self):
        self.expect("echo debugging\n" + GOOD + "echo more >&2\n", checks.PASS)

    def test_the_first_wrong_fact_is_reported_with_its_own_cause(self):
        self.expect(GOOD.replace("14", "12").replace("6", "9"), checks.FAIL,
                    "length after 3 drafts: got 12, expected 14", "usually: a length is often so")
        self.expect(GOOD.replace("6", "9"), checks.FAIL, "tokens: number 2 of 3: got 9, expected 6",
                    "usually: tokens are often so")
        self.assertNotIn("usually", self.run_check(GOOD.replace("0.25", "0.5")).message)  # no cause is known of a law

    def test_what_the_code_printed_is_shown_with_a_wrong_fact(self):
        self.expect("echo on stdout\necho on stderr >&2\n" + GOOD.replace("14", "12"), checks.FAIL, "on stdout", "on stderr")

    def test_values_are_shown_as_people_write_them(self):
        for got, want, words in ((None, 7, "got nothing, expected 7"), ("stop", "length", 'got "stop", expected "length"'),
                                 ([[1, 2], [3]], [[1, 2], [4]], "number 2 of 2: got 3, expected 4"),
                                 ([1, [2, 3]], [1, [2, 4]], "number 2 of 2: got 2, 3, expected 2, 4"),
                                 ({"stop": 6}, {"stop": 5}, "got stop: 6, expected stop: 5"),
                                 ([], [1], "got nothing, expected 1"), ([1], 1, "got 1, expected 1")):
            self.assertEqual(checks.difference(got, want), words)
        for got, words in ((None, "got NaN, expected 1 "), (1.0000004, "got 1.0000004, expected 1 "), ("x", 'got "x", expected 1 ')):
            self.assertIn(words, checks.difference({"floats": [got, 2.0]}, {"floats": [1.0, 2.0], "tolerance": 1e-9}))

    def test_a_list_says_where_it_differs(self):
        self.expect(GOOD.replace("[5,6,7]", "[5,6,8]"), checks.FAIL, "tokens: number 3 of 3: got 8, expected 7")
        self.expect(GOOD.replace("[5,6,7]", "[5,6]"), checks.FAIL, "tokens: got 2 values, expected 3")

    def test_floats_have_a_tolerance_and_nan_never_passes(self):
        self.expect(GOOD.replace("0.25", "0.2500001"), checks.PASS)
        self.expect(GOOD.replace("0.25", "0.26"), checks.FAIL, "law: number 2 of 2: got 0.26, expected 0.25")
        for wrong in ("null", "NaN", "1e999", '"0.25"x'):
            self.assertNotEqual(self.run_check(GOOD.replace("0.25", wrong)).status, checks.PASS, wrong)

    def test_another_type_is_not_equal(self):
        for wrong in ("14.0", "true", '"14"'):
            self.assertEqual(self.run_check(GOOD.replace("14", wrong)).status, checks.FAIL, wrong)

    def test_facts_that_are_missing_repeated_or_invented_fail(self):
        lines = GOOD.splitlines(True)
        for script in ("".join(lines[:2]), GOOD + lines[2], lines[0] + GOOD, fact("score", 100) + GOOD, ""):
            self.assertEqual(self.run_check(script).status, checks.FAIL, script)

    def test_values_nested_too_deep_are_wrong_and_no_more(self):
        for depth in (checks.DEEPEST + 1, 300, 480, 700):
            deep = fact("length after 3 drafts", 0).replace(":0}", ":" + "[" * depth + "]" * depth + "}")
            self.assertIn("]]]", deep)
            self.expect(deep, checks.FAIL, "nested more than 32 levels deep")
        self.assertEqual(checks.within_depth({"a": [1, {"b": []}]}), {"a": [1, {"b": []}]})

    def test_its_own_stub_is_a_failure_and_anothers_is_not(self):
        stub = "echo 'task 4.{}: x: not done yet, see docs/04_x/3_y.md' >&2; exit 1\n"
        self.expect(stub.format(1), checks.FAIL, "task 4.1: x: not done yet, see docs/04_x/3_y.md")
        self.expect(GOOD.splitlines()[0] + "\n" + stub.format(2), checks.NOT_CHECKED, "needs task 4.2")
        self.expect(stub.format(1) + "\n", checks.FAIL)

    def test_crashes_hangs_and_exit_codes_are_errors(self):
        self.expect("kill -SEGV $$\n", checks.ERROR, "crashed")
        self.expect("sleep 60\n", checks.ERROR, "endless loop")
        self.expect("echo sorry >&2; exit 3\n", checks.ERROR, "exit code 3", "sorry")
        self.expect(GOOD + "exit 3\n", checks.ERROR, "exit code 3")
        self.expect(GOOD.splitlines()[0] + "\nkill -SEGV $$\n", checks.ERROR, "before it printed: tokens")

    def test_a_wrong_fact_before_a_crash_is_what_explains_it(self):
        self.expect(fact("length after 3 drafts", 12) + "kill -ABRT $$\n", checks.FAIL, "got 12, expected 14")

    def test_a_program_that_is_not_there_is_an_error(self):
        result = checks.run(self.checks[0], self.stage, {"0": WANT}, checks.Programs(self.root), self.root)
        self.assertEqual(result.status, checks.ERROR)

    def test_nothing_expected_is_nothing_passed(self):
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)
        result = checks.run(self.checks[0], self.stage, {}, self.programs, self.root)
        self.assertEqual(result.status, checks.ERROR)

    def test_a_failed_task_silences_what_needs_it(self):
        expected = self.root / course.FOLDER / "expected"
        expected.mkdir(parents=True)
        (expected / "04.json").write_text(json.dumps({"first": {"0": WANT}, "second": {"0": WANT}}))
        self.run_check("[ $1 = second ] || exit 3\n" + GOOD)
        results = check.check_stage(self.stage, self.programs, self.root, {}, run_all=False)
        self.assertEqual([r.status for r in results["4.1"] + results["4.2"]], [checks.ERROR, checks.NOT_CHECKED])
        self.assertEqual(results["4.2"][0].needs, "4.1")
        results = check.check_stage(self.stage, self.programs, self.root, {}, run_all=True)
        self.assertEqual(results["4.2"][0].status, checks.PASS)

    def expect_task(self, script, *lines):
        """What is printed of task 4.1, whose two checks run the script with their names."""
        self.checks[1].task, self.checks[1].needs = "4.1", []
        self.stage.tasks.pop()
        expected = self.root / course.FOLDER / "expected"
        expected.mkdir(parents=True, exist_ok=True)
        (expected / "04.json").write_text(json.dumps({"first": {"0": WANT}, "second": {"0": WANT}}))
        self.run_check(script)
        results = check.check_stage(self.stage, self.programs, self.root, {}, run_all=False)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            check.print_task(self.stage.tasks[0], results["4.1"])
        self.assertEqual(output.getvalue().splitlines()[:len(lines)], list(lines))
        return results["4.1"]

    def test_a_stub_is_to_do_and_no_failure(self):
        results = self.expect_task("echo 'task 4.1: x: not done yet' >&2; exit 1\n", "  to do 4.1  title 1")
        self.assertEqual([r.status for r in results], [checks.FAIL, checks.NOT_CHECKED])

    def test_after_a_crash_the_other_checks_of_a_task_do_not_run(self):
        results = self.expect_task("touch $1; kill -SEGV $$\n", "  ERROR 4.1  title 1",
                                   "          first: it crashed (SIGSEGV): an address outside of its memory, before it printed: "
                                   "length after 3 drafts")
        self.assertEqual([(r.status, r.message) for r in results[1:]], [(checks.NOT_CHECKED, "after first")])

    def test_after_a_wrong_fact_they_do(self):
        results = self.expect_task(GOOD.replace("14", "12"), "  FAIL  4.1  title 1")
        self.assertEqual([r.status for r in results], [checks.FAIL, checks.FAIL])

    def test_a_loop_ends_when_its_processor_time_is_used_up(self):
        started = time.monotonic()
        result = self.run_check("while :; do :; done\n")
        self.assertEqual((result.status, result.endless), (checks.ERROR, True))
        self.assertIn("an endless loop", result.message)
        self.assertGreater(time.monotonic() - started, 2)

    def test_the_place_of_a_task_is_its_stub_or_its_function(self):
        task = course.Task("4.1", "t", 10, "a.cpp", "docs/04_x", "int f(int x) {")
        for text, line in (('\nint f(int x) {\n  not_done("task 4.1: t: not done yet");\n}', 3), ("\n\nint f(int x) {\n}\n", 3),
                           ("\nint f(int x) {\n  // [task 4.1: t]\n", 3), ("int g() {\n", None)):
            (self.root / "a.cpp").write_text(text)
            self.assertEqual(check.line_of(self.root, task), f"a.cpp:{line}" if line else "a.cpp")

    def test_what_cannot_be_built_is_an_error_of_its_own(self):
        result = check.one_result(self.checks[0], self.stage, {}, self.programs, self.root,
                                  {"course_probe_04": ["/a.cpp:3:1: error: x"]}, set())
        self.assertEqual((result.status, result.message), (checks.ERROR, "its program cannot be built"))

    def test_what_cannot_be_built_comes_next(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            check.print_next(Path("/x"), self.stage, {}, True, {"p": ["In file", "a.cpp:3:1: error: y"]}, [])
        self.assertIn("Next: fix what does not compile: a.cpp:3.", output.getvalue())

    def test_running_out_of_memory_is_told(self):
        self.expect("echo std::bad_alloc >&2; exit 1\n", checks.ERROR, "it ran out of memory")


class PrintedTask(unittest.TestCase):
    def said(self, *results):
        task = course.Task("4.3", "accept", 25, "a.cpp", "docs/04_x/3_y.md")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            check.print_task(task, [checks.Result(course.Check(name, "4.3", [], {}, "probe", name), *rest) for name, *rest in results])
        return output.getvalue()

    def test_what_waits_says_for_what_and_what_is_right_so_far(self):
        waits = ("b", checks.NOT_CHECKED, "needs task 4.4", "4.4")
        self.assertIn("4.3  accept   not checked: needs task 4.4\n", self.said(waits))
        self.assertIn("4.3  accept   right so far: a; 1 more need task 4.4\n", self.said(("a", checks.PASS), waits))

    def test_what_other_stubs_said_is_left_out(self):
        said = self.said(("a", checks.FAIL, "x: got 1, expected 2", "", ["my own line", "task 4.4: roll back: not done yet, see d"]))
        self.assertIn("| my own line", said)
        self.assertNotIn("4.4", said)


class RewardTest(unittest.TestCase):
    """What is shown when all tasks pass, of a stage whose program is a shell script."""

    def said(self, script):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "bin").mkdir()
            (root / "bin/04_x").write_text("#!/bin/sh\n" + script)
            (root / "bin/04_x").chmod(0o755)
            expected = root / course.FOLDER / "expected"
            expected.mkdir(parents=True)
            (expected / "04.json").write_text(json.dumps({"whole": {"0": [["tokens", [1]], ["stats.rounds", 17]]}}))
            whole = course.Check("whole", "4.1", [], {}, "json", ["--prompt", "x"])
            passed = checks.Result(whole, checks.PASS, facts=[("tokens", [1]), ("stats.rounds", 17)])
            stage = course.Stage(4, "04_x", [], [whole], ["--threads", "2"])
            with tempfile.TemporaryFile("w+") as output, mock.patch.object(reward, "SECONDS", 1):
                saved = os.dup(1)  # the script writes to the real stdout
                os.dup2(output.fileno(), 1)
                try:
                    with os.fdopen(os.dup(1), "w") as stream, contextlib.redirect_stdout(stream):
                        reward.show(root, root, stage, {"4.1": [passed]})
                finally:
                    os.dup2(saved, 1)
                    os.close(saved)
                output.seek(0)
                return output.read()

    def test_it_shows_the_students_run_and_the_counters(self):
        said = self.said("echo round 1; echo $*\n")
        self.assertIn("This is your own code: build/bin/04_x --explain --max-new-tokens 7 --threads 2\n\nround 1\n"
                      "--explain --max-new-tokens 7 --threads 2\n", said)
        self.assertRegex(said, r"\nrounds +17 +17\n")
        self.assertNotIn("tokens   ", said)
        self.assertIn("docs/trace_viewer.html", said)

    def test_it_shows_how_far_the_code_goes(self):
        stage = course.Stage(4, "04_x", [], [])
        for text, shown in (("echo '  4.1  draft'; echo trouble >&2", ["Your code so far\n  4.1  draft\n"]), ("exit 1", []), (None, [])):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
                program = Path(folder, "course", "first_round")
                program.parent.mkdir()
                if text:
                    program.write_text(f"#!/bin/sh\n{text}\n")
                    program.chmod(0o755)
                reward.show_so_far(Path(folder), stage)
            self.assertEqual(output.getvalue().split("\n", 1)[1:], shown)

    def test_a_program_that_does_not_end_is_told(self):
        self.assertIn("it did not finish", self.said("exec sleep 60\n"))


class BuildingTest(unittest.TestCase):
    def test_memory_is_what_is_free_or_what_a_container_allows(self):
        with tempfile.TemporaryDirectory() as folder:
            groups = Path(folder)
            free = building.memory(groups)
            self.assertGreater(free, 64 << 20)
            for name, limit, expected in (("memory.max", 100 << 20, 100 << 20), ("memory.max", "max", free),
                                          ("memory/memory.limit_in_bytes", 50 << 20, 50 << 20)):
                path = groups / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"{limit}\n")
                self.assertAlmostEqual(building.memory(groups), expected, delta=512 << 20 if expected == free else 0)

    def test_compiles_no_more_at_a_time_than_asked(self):
        processors = len(os.sched_getaffinity(0))
        for asked, memory, expected in (("", 1 << 50, processors), ("", 1 << 20, 1), ("1", 1 << 50, 1), ("7", 1, 7),
                                        ("0", 1 << 50, processors), ("many", 1 << 50, processors)):
            with mock.patch.object(building, "memory", lambda memory=memory: memory), \
                    mock.patch.dict(os.environ, JOBS=asked):
                self.assertEqual(building.jobs(), expected, (asked, memory))


class SandboxTest(unittest.TestCase):
    def run_shell(self, script, **limits):
        return sandbox.run(["/bin/sh", "-c", script], sandbox.Limits(**limits))

    def test_output_is_limited(self):
        outcome = self.run_shell("yes", seconds=10, output=1000)
        self.assertLessEqual(len(outcome.stdout), 1000)
        self.assertNotEqual(outcome.code, 0)

    def test_memory_is_limited(self):
        hog = "x=a; while :; do x=$x$x; done"
        outcome = self.run_shell(hog, seconds=20, memory=100 * sandbox.MEGABYTE)
        self.assertNotEqual(outcome.code, 0)
        self.assertFalse(outcome.timed_out)

    def test_nothing_is_left_running(self):
        seconds = f"30.{os.getpid()}"  # nobody else sleeps so long
        self.run_shell(f"(setsid sh -c 'sleep {seconds}; true' &) ; setsid sleep {seconds} & sleep 0.2", seconds=5)
        for _ in range(50):  # who is killed takes a moment to die
            left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if seconds.encode() in _read(p)]
            if not left:
                return
            time.sleep(0.1)
        self.fail(f"still running: {left}")

    def test_the_environment_is_not_ours(self):
        self.assertNotIn("LD_PRELOAD", self.run_shell("env").stdout)


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    unittest.main()
