"""Assignments cut from the real tree: what is in them, and what is not."""
import io
import json
import os
import re
import subprocess
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from student import course, emitters, hint, regions
from teacher import assignment, autograder

ROOT = Path(__file__).resolve().parents[4]


def run(main, *arguments):
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main(["--root", str(ROOT), *map(str, arguments)])
    return code, output.getvalue()


def make(tree, *words):
    """`make` in a tree, as a reader types it: (exit code, stdout, stderr)."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *words], cwd=tree, text=True, capture_output=True, check=False,
                          env={**env, "SETUP": "no"})
    return done.returncode, done.stdout, done.stderr


class AssignmentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tree = Path(cls.folder.name) / "four"
        cls.stages = course.load(ROOT)
        code, output = run(assignment.main, "--stage", 4, "--out", cls.tree)
        assert code == 0, output

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_built_quickly_and_for_debuggers_with_lines(self):
        presets = {preset["name"]: preset.get("cacheVariables", {})
                   for preset in json.loads(self.text("CMakePresets.json"))["configurePresets"]}
        self.assertEqual(presets["base"]["SPECDEC_OPTIMIZE"], "-O1 -DNDEBUG")
        self.assertIn("-g", presets["asan"]["SPECDEC_OPTIMIZE"])

    def text(self, path):
        return (self.tree / path).read_text(encoding="utf-8")

    def test_each_task_is_a_stub_that_says_what_and_where(self):
        for task in self.stages[4].tasks:
            stub = f'::specdec::not_done("{task.not_done()}");'
            self.assertEqual(self.text(task.path).count(stub), 1, task.name)
        self.assertIn("task 4.4: roll the caches back: not done yet, see docs/04_greedy_speculation/",
                      self.text("stages/04_greedy_speculation/draft_and_verify.cpp"))

    def test_lower_stages_are_the_reference(self):
        for number in range(4):
            for task in self.stages[number].tasks:
                self.assertEqual(regions.without_markers(self.text(task.path)),
                                 regions.without_markers((ROOT / task.path).read_text(encoding="utf-8")))

    def test_nothing_of_later_stages_is_there(self):
        names = [str(path.relative_to(self.tree)) for path in self.tree.rglob("*")]
        for number in (5, 6, 7, 8):
            self.assertEqual([name for name in names if f"0{number}" in name and not name.startswith("golden")], [])
        self.assertEqual([name for name in names if "mutant" in name or "oracle" in name or ".git/" in name], [])
        self.assertEqual([e["stage"] for e in json.loads(self.text(course.FOLDER / "tasks.json"))["stages"]],
                         [0, 1, 2, 3, 4])

    def test_its_own_tools_understand_it(self):
        stages = course.load(self.tree)
        self.assertEqual([(t.name, t.title, t.path) for t in stages[4].tasks],
                         [(t.name, t.title, t.path) for t in self.stages[4].tasks])
        done = subprocess.run(["make", "--no-print-directory", "hint", "TASK=4.4"], cwd=self.tree, text=True,
                              capture_output=True, check=False)
        self.assertIn("Task 4.4: roll the caches back", done.stdout, done.stderr)

    def test_it_has_the_tools_of_students_and_no_others(self):
        there = self.tree / course.FOLDER
        tools = sorted(path.relative_to(there).as_posix() for path in there.rglob("*.py"))
        students = sorted(f"student/{path.name}" for path in (ROOT / course.FOLDER / "student").glob("*.py"))
        self.assertEqual(tools, ["__main__.py", *students])
        self.assertGreaterEqual(len(tools), 12)

    def test_its_tools_have_all_that_they_import(self):
        for tool in sorted((self.tree / course.FOLDER / "student").glob("*.py")):
            done = subprocess.run(["python3", "-c", f"import student.{tool.stem}"], cwd=self.tree / course.FOLDER, text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_make_knows_the_stage(self):
        for words, stage in ((["check"], 4), (["grade"], 4), (["predict"], 4), (["check", "STAGE=2"], 2)):
            self.assertIn(f"--stage '{stage}'", make(self.tree, "-n", *words)[1])
        for words, stage in (([], 4), (["STAGE=3"], 3)):
            code, said, asked = make(self.tree, "predict", *words)
            self.assertEqual((code, said, asked.splitlines()[0].split("=")[:2]),
                             (2, "", ["usage: make predict STAGE", f"{stage} {'ROWS' if stage == 3 else 'FORWARDS'}"]))

    def test_make_lists_its_targets_with_all_of_their_words(self):
        for tree in (self.tree, ROOT):
            said = make(tree)[1]
            lines = [line for line in (tree / "Makefile").read_text(encoding="utf-8").splitlines()
                     if " ## " in line and not line.startswith("\t")]
            self.assertGreaterEqual(len(lines), 8)
            for line in lines:
                self.assertRegex(said, rf"(?m)^  make {line.split(':')[0]} +{re.escape(line.split('## ')[1])}$")
            self.assertIn(f"[FORMAT={'|'.join(sorted(emitters.FORMATS))}]", said)

    def test_make_adds_one_line_to_the_tools_own(self):
        for tree, words, said in ((self.tree, ["hint", "TASK=4.9"], "hint: there is no task 4.9"),
                                  (self.tree, ["check", "STAGE=10"], "check: STAGE is a number from 0 to 4"),
                                  (self.tree, ["-j2", "-k", "grade", "STAGE=10"], "grade: STAGE is a number from 0 to 4"),
                                  (self.tree, ["predict", "STAGE=11"], "predict: STAGE is a number from 0 to 4"),
                                  (ROOT, ["predict"], "predict: STAGE= is missing; STAGE is a number from 0 to 10"),
                                  (ROOT, ["hint", "TASK=9.9"], "hint: there is no task 9.9"),
                                  (ROOT, ["check"], "check: STAGE= is missing"),
                                  (ROOT, ["grade"], "grade: STAGE is a number from 0"),
                                  (ROOT, ["autograder"], "STAGE is a number"),
                                  (ROOT, ["assignment"], "assignment: STAGE is a number")):
            with self.subTest(words):
                code, printed, line = make(tree, *words)
                self.assertEqual((code, printed), (2, ""), line)
                tools, makes = line.splitlines()
                self.assertIn(said, tools)
                self.assertRegex(makes, r"^make: \*\*\* .* Error \d$")

    def test_make_succeeds_where_the_tool_does(self):
        code, said, wrong = make(self.tree, "hint", "TASK=4.4")
        self.assertEqual((code, wrong), (0, ""))
        self.assertIn("Task 4.4: roll the caches back", said)

    def test_links_between_its_pages_lead_somewhere_or_to_later_chapters(self):
        self.assertIn("| 4.4 | roll the caches back |", self.text("README.md"))
        self.assertNotIn("{", self.text("README.md").replace("${", ""))

    def test_a_students_own_lower_stages_are_kept(self):
        own = self.tree / self.stages[4].tasks[0].path
        mine = Path(self.folder.name) / "mine" / self.stages[4].tasks[0].path
        mine.parent.mkdir(parents=True)
        mine.write_text(own.read_text(encoding="utf-8") + "// mine\n", encoding="utf-8")
        five = Path(self.folder.name) / "five"
        code, output = run(assignment.main, "--stage", 5, "--out", five, "--keep", Path(self.folder.name) / "mine")
        self.assertEqual(code, 0, output)
        self.assertIn(f"kept {self.stages[4].tasks[0].path}", output)
        self.assertTrue((five / self.stages[4].tasks[0].path).read_text(encoding="utf-8").endswith("// mine\n"))

    def test_what_an_earlier_assignment_left_out_is_not_kept(self):
        folder = Path(self.folder.name)
        for number, keep in ((3, None), (5, folder / "3")):
            code, output = run(assignment.main, "--stage", number, "--out", folder / str(number), *(["--keep", keep] if keep else []))
            self.assertEqual(code, 0, output)
        self.assertIn("kept stages/03_paged_kv_cache/", output)
        self.assertNotIn("round.cpp", output)
        self.assertEqual(regions.without_markers((folder / "5/common/speculation/count_round.cpp").read_text(encoding="utf-8")),
                         regions.without_markers((ROOT / "common/speculation/count_round.cpp").read_text(encoding="utf-8")))

    def test_wrong_use_is_told_in_one_line(self):
        for arguments, words in ((["--stage", "11"], "from 0 to 10"), (["--stage", ""], "STAGE=10"), (["--stage", "²"], "from 0 to 10"),
                                 (["--stage", "4", "--out", self.tree], "exists"),
                                 (["--stage", "4", "--out", Path(self.folder.name) / "new", "--keep", "/dev"], "/dev")):
            code, output = run(assignment.main, *arguments)
            self.assertEqual((code, output.count("\n")), (2, 1), output)
            self.assertIn(words, output)


class GraderTest(unittest.TestCase):
    def test_run_autograder_grades_for_gradescope_unless_told_otherwise(self):
        with tempfile.TemporaryDirectory() as here:
            autograder.write_recipe(ROOT, Path(here), "run_autograder", course.load(ROOT)[4])
            tool = Path(here, "source/project/tests/course/__main__.py")
            tool.parent.mkdir(parents=True)
            tool.write_text("import sys\nprint(*sys.argv[1:])\n", encoding="utf-8")
            for settings, wanted in (
                    ({}, f"--submission {here}/submission --format gradescope --output {here}/results/results.json"),
                    ({"SUBMISSION": "a", "FORMAT": "github", "OUTPUT": "b"}, "--submission a --format github --output b"),
                    ({"FORMAT": "autolab", "OUTPUT": ""}, f"--submission {here}/submission --format autolab")):
                env = {name: value for name, value in os.environ.items() if name not in ("SUBMISSION", "FORMAT", "OUTPUT")}
                done = subprocess.run(["sh", f"{here}/run_autograder"], text=True, capture_output=True, check=True,
                                      env={**env, "AUTOGRADER": here, **settings})
                project = f"{here}/source/project"
                self.assertEqual(done.stdout,
                                 f"grade_submission --root {project} --build {project}/build --stage 4 {wanted}\n")


class HintTest(unittest.TestCase):
    def test_the_second_comes_after_the_first(self):
        code, first = run(hint.main, "--task", "4.4")
        self.assertEqual(code, 0)
        self.assertIn("HINT=2", first)
        code, both = run(hint.main, "--task", "4.4", "--hint", "2")
        self.assertEqual(code, 0)
        self.assertGreater(len(both), len(first))

    def test_unknown_tasks_are_told(self):
        code, output = run(hint.main, "--task", "4.9")
        self.assertEqual(code, 2)
        self.assertIn("there is no task 4.9", output)


if __name__ == "__main__":
    unittest.main()
