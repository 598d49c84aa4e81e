"""Tests of the mutants' files and of how they are proved. usage: python3 tests/course test_mutants"""
import tempfile
import types
import unittest
from pathlib import Path

from authoring import mutants

ROOT = Path(__file__).resolve().parents[4]
HEADER = """bug: The draft is rolled back
  too far.
classic: 2
stage: 4
symptom: slow
file: stages/04_x/a.cpp
caught-by: ctest some_test Suite.Case
says: too far
"""
CHANGE = """
--- find
  truncate(length);
--- replace
  truncate(start);
---
"""
SOURCE = """void f() {
  // [task 4.1: roll back]
  truncate(length);
  // [end task 4.1]
  g();
}
"""


class Tree(unittest.TestCase):
    """A tree with one source and one mutant."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("stages/04_x/a.cpp", SOURCE)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def mutant(self, text, name="04_too_far"):
        self.write(f"tests/mutants/{name}.mutant", text)
        return mutants.load(self.root)[0]

    def assert_refused(self, words, text, name="04_too_far"):
        with self.assertRaisesRegex(mutants.MutantError, words):
            self.mutant(text, name)


class Reading(Tree):
    def test_header_and_change(self):
        mutant = self.mutant(HEADER + "task: 4.1\nlossless: yes\n" + CHANGE)
        self.assertEqual(mutant.bug, "The draft is rolled back too far.")
        self.assertEqual((mutant.classic, mutant.stage, mutant.task, mutant.lossless), (2, 4, "4.1", True))
        self.assertEqual(mutant.case, mutants.Case("ctest", "some_test", ("--gtest_filter=Suite.Case",)))
        self.assertIn("  truncate(start);\n", mutant.planted(SOURCE))

    def test_several_parts_and_nothing_in_place(self):
        change = CHANGE.replace("  truncate(start);\n", "") + "--- find\n  g();\n--- replace\n  h();\n---\n"
        mutant = self.mutant(HEADER + change)
        self.assertEqual(mutant.planted(SOURCE),
                         SOURCE.replace("  truncate(length);\n", "").replace("g()", "h()"))

    def test_other_checks(self):
        for text, shown in (("check rolls_back", "`rolls_back`"), ("program 04_x --check", "`04_x --check`")):
            header = HEADER.replace("ctest some_test Suite.Case", text)
            self.assertEqual(self.mutant(header + "task: 4.1\n" + CHANGE).case.shown(), shown)

    def test_bad_headers(self):
        for old, new, words in (
                ("bug: The draft is rolled back\n  too far.\n", "", "lacks 'bug:'"),
                ("says: too far", "says:", "lacks 'says:'"),
                ("says:", "sais:", "'sais: too far' is no line of a header"),
                ("says: too far", "too far", "'too far' is no line of a header"),
                ("says: too far", "says: too far\nsays: too", "'says:' stands there twice"),
                ("classic: 2", "classic: 19", "classic is a number"),
                ("stage: 4", "stage: four", "stage one of one or two digits"),
                ("stage: 4", "stage: 10", "begins with 10_"),
                ("stage: 4", "stage: 5", "begins with 05_"),
                ("says: too far", "says: too far\nlossless: no", "'lossless:' is yes"),
                ("ctest some_test Suite.Case", "ctest some_test", "is none of: ctest PROGRAM CASE"),
                ("ctest some_test Suite.Case", "make test", "is none of: ctest PROGRAM CASE")):
            self.assertIn(old, HEADER)
            self.assert_refused(words, HEADER.replace(old, new) + "task: 4.1\n" + CHANGE)

    def test_bad_changes(self):
        for change in ("", CHANGE.replace("---\n", "", 1), CHANGE[:-4], CHANGE + "more\n",
                       CHANGE.replace("--- find", "--- replace")):
            self.assert_refused("after the header come `--- find`", HEADER + change)
        for change in (CHANGE.replace("start", "length"), CHANGE.replace("  truncate(length);\n", "")):
            self.assert_refused("finds nothing, or changes nothing", HEADER + change)

    def test_sources_that_changed(self):
        self.write("stages/04_x/a.cpp", SOURCE.replace("(length)", "(size)"))
        self.assert_refused("a.cpp has none of these lines, not one; has the source changed", HEADER + CHANGE)
        self.write("stages/04_x/a.cpp", SOURCE.replace("  g();\n", "  truncate(length);\n"))
        self.assert_refused("a.cpp has 2 of these lines, not one", HEADER + CHANGE)
        self.write("stages/04_x/a.cpp", SOURCE.replace("  truncate(length);", "    truncate(length);"))
        self.assert_refused("has none of these lines", HEADER + CHANGE)
        (self.root / "stages/04_x/a.cpp").unlink()
        self.assert_refused("there is no stages/04_x/a.cpp", HEADER + CHANGE)

    def test_stages_have_two_digits_in_names_and_must_be_there(self):
        header = HEADER.replace("stage: 4", "stage: 10").replace("04_x", "10_x")
        self.assert_refused("there is no stage 10", header + CHANGE, "10_too_far")
        self.write("stages/10_x/a.cpp", SOURCE.replace("task 4.1", "task 10.1"))
        mutant = self.mutant(header + "task: 10.1\n" + CHANGE, "10_too_far")
        self.assertEqual((mutant.stage, mutant.task), (10, "10.1"))

    def test_the_task_is_the_one_around_the_change(self):
        self.assert_refused("it says 'no task', and the change lies in '4.1'", HEADER + CHANGE)
        self.assert_refused("it says '4.2', and the change lies in '4.1'", HEADER + "task: 4.2\n" + CHANGE)
        outside = CHANGE.replace("truncate(length)", "g()")
        self.assert_refused("it says '4.1', and the change lies in 'no task'",
                            HEADER + "task: 4.1\n" + outside)
        self.assertEqual(self.mutant(HEADER + outside).task, "")

    def test_shown_as_a_table_and_as_a_patch(self):
        mutant = self.mutant(HEADER + "task: 4.1\n" + CHANGE)
        self.assertEqual(mutants.table([mutant], 4),
                         "| bug | symptom | caught by |\n|---|---|---|\n"
                         "| The draft is rolled back too far. | slow | `Suite.Case` |\n")
        self.assertNotIn("rolled", mutants.table([mutant], 5))
        self.assertIn("-  truncate(length);\n+  truncate(start);\n", mutants.diff(self.root, mutant))


class Proving(Tree):
    """What a check says is faked by a program that prints it, in place of a build."""

    def survivors(self, good, bad, header=HEADER, lossless=("[1]", "[1]")):
        mutant = self.mutant(header + "task: 4.1\n" + CHANGE)
        for folder, case, tokens in (("good", good, lossless[0]), ("bad", bad, lossless[1])):
            self.script(f"{folder}/some_test", *case)
            self.script(f"{folder}/04_x", f'{{"tokens": {tokens}}}', 0)
        prover = types.SimpleNamespace(root=self.root, build=self.root, controls={}, stages={})
        with Replaced(mutants, "built", lambda prover: lambda name: self.root / "good" / name), \
                Replaced(mutants.overlay, "Overlay", lambda *_: types.SimpleNamespace(
                    program=lambda name: self.root / "bad" / name)):
            return "\n".join(mutants.survivors(prover, mutant))

    def script(self, path, output, code):
        self.write(path, f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {code}\n")
        (self.root / path).chmod(0o755)

    GOOD = ("[ RUN      ] Suite.Case\n[  PASSED  ] 1 test.", 0)
    BAD = ("[ RUN      ] Suite.Case\nrolled back too far\n[  FAILED  ] 1 test", 1)

    def test_caught(self):
        self.assertEqual(self.survivors(self.GOOD, self.BAD), "")

    def test_not_seen(self):
        self.assertIn("`Suite.Case` does not see it", self.survivors(self.GOOD, self.GOOD))

    def test_not_said(self):
        other = (self.BAD[0].replace("too far", "wrongly"), 1)
        self.assertIn("does not say 'too far'", self.survivors(self.GOOD, other))

    def test_failed_elsewhere(self):
        self.assertIn("was not reached", self.survivors(self.GOOD, ("too far", 1)))

    def test_never_ending(self):
        endless = (self.BAD[0] + "\nEND\nexec sleep 9\ncat <<'END'", 1)
        with Replaced(mutants, "SECONDS", 1):
            self.assertIn("was still running after 1 s", self.survivors(self.GOOD, endless))

    def test_control_must_pass_and_run_one_case(self):
        self.assertIn("the control", self.survivors(self.BAD, self.BAD))
        none = ("[  PASSED  ] 0 tests.", 0)
        self.assertIn("the control", self.survivors(none, self.BAD))

    def test_lossless(self):
        header = HEADER + "lossless: yes\n"
        self.assertEqual(self.survivors(self.GOOD, self.BAD, header), "")
        self.assertIn("it says that it is lossless, but 04_x writes [[2]], not [[1]]",
                      self.survivors(self.GOOD, self.BAD, header, ("[1]", "[2]")))


class Replaced:
    """Something of a module is something else for a while."""

    def __init__(self, module, name, value):
        self.module, self.name, self.value = module, name, value

    def __enter__(self):
        self.old = getattr(self.module, self.name)
        setattr(self.module, self.name, self.value)

    def __exit__(self, *_):
        setattr(self.module, self.name, self.old)


class OfThisTree(unittest.TestCase):
    def test_each_can_be_planted(self):
        self.assertGreaterEqual(len(mutants.load(ROOT)), 28)

    def test_every_stage_and_every_classic_bug_has_some(self):
        found = mutants.read(ROOT)
        for stage in range(11):
            self.assertGreaterEqual(sum(mutant.stage == stage for mutant in found), 3, f"stage {stage}")
        self.assertEqual({mutant.classic for mutant in found} - {0}, set(range(1, 19)))

    def test_the_slow_ones_are_lossless(self):
        for mutant in mutants.read(ROOT):
            if mutant.classic in (1, 2):
                self.assertTrue(mutant.lossless, mutant.name)


if __name__ == "__main__":
    unittest.main()
