"""A stage with a number of two digits, made from a copy of stage 0: it is configured, checked and cut as others are."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from student import building, course, predict, regions
from teacher import assignment
from authoring import blocks, table

ROOT = Path(__file__).resolve().parents[4]
OLD, NEW = "00_toy_speculation", "10_toy_again"


def renumbered(text):
    """A text about stage 0 as one about stage 10."""
    text = text.replace(OLD, NEW).replace("specdec_stage00", "specdec_stage10")
    return re.sub(r"(\[(?:end )?(?:task|hint) |<!-- tasks: |\*\*task |\")0(?=\.\d|[ ]-->)", r"\g<1>10", text)


def copied(tree, old, new):
    (tree / new).parent.mkdir(parents=True, exist_ok=True)
    (tree / new).write_text(renumbered((ROOT / old).read_text(encoding="utf-8")), encoding="utf-8")


def make_tree(tree):
    """A small project: stage 0 as the reference has it, its copy, and what both need."""
    assignment.make_tree(ROOT, 0, tree)
    shutil.copy(ROOT / "CMakePresets.json", tree)
    shutil.copytree(ROOT / "tests/course/teacher", tree / "tests/course/teacher")
    for path in sorted((ROOT / "stages" / OLD).iterdir()):
        shutil.copy(path, tree / "stages" / OLD)
        copied(tree, path.relative_to(ROOT), f"stages/{NEW}/{path.name}")
    for page in sorted((ROOT / "docs" / OLD).glob("*.md")):
        shutil.copy(page, tree / "docs" / OLD)
        copied(tree, f"docs/{OLD}/{page.name}", f"docs/{NEW}/{page.name}")
    copied(tree, "tests/course/probes/stage_00.cpp", "tests/course/probes/stage_10.cpp")
    shutil.copy(ROOT / "tests/course/expected/00.json", tree / "tests/course/expected/10.json")
    of_course = json.loads((ROOT / course.FOLDER / "tasks.json").read_text(encoding="utf-8"))
    first = of_course["stages"][0]
    tenth = {**json.loads(renumbered(json.dumps(first))), "stage": 10}
    (tree / course.FOLDER / "tasks.json").write_text(json.dumps({"stages": [first, tenth]}), encoding="utf-8")


class StageTen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        Path(directory.name).chmod(0o755)
        cls.tree, cls.cut = Path(directory.name, "project"), Path(directory.name, "ten")
        make_tree(cls.tree)
        cls.stages = course.load(cls.tree)
        assignment.make_tree(cls.tree, 10, cls.cut)

    def make(self, *words, folder="ten"):
        done = subprocess.run(["make", "--no-print-directory", *words], cwd=self.cut.with_name(folder), text=True,
                              capture_output=True, check=False, env={**os.environ, "SETUP": "no"})
        return done.returncode, done.stdout, done.stderr

    def test_the_table_has_it_and_its_rules_hold(self):
        self.assertEqual(sorted(self.stages), [0, 10])
        self.assertEqual([task.name for task in self.stages[10].tasks], [f"10.{n}" for n in range(1, 6)])
        self.assertEqual(list(table.problems(self.tree, self.stages)), [])

    def test_the_chapters_table_is_made(self):
        text = (self.tree / f"docs/{NEW}/README.md").read_text(encoding="utf-8")
        made = blocks.updated(re.sub(r"<!-- mutants: 0 -->.*?<!-- end mutants -->", "", text, flags=re.DOTALL), self.stages, [])
        self.assertIn(f"| 10.1 | the residual | `stages/{NEW}/toy_speculation.h` |", made)
        self.assertNotIn("| 0.1 | the residual |", made)

    def test_it_is_cut_with_stage_0_as_the_reference(self):
        stubs = "".join(path.read_text(encoding="utf-8") for path in (self.cut / "stages" / NEW).glob("*.h"))
        for task in self.stages[10].tasks:
            self.assertIn(f"task {task.name}: {task.title}: not done yet, see {task.page}", stubs)
        for path in sorted((ROOT / "stages" / OLD).glob("*.h")):
            self.assertEqual(regions.without_markers((self.cut / "stages" / OLD / path.name).read_text(encoding="utf-8")),
                             regions.without_markers(path.read_text(encoding="utf-8")))

    def test_an_assignment_of_stage_0_has_nothing_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder, "zero")
            assignment.make_tree(self.tree, 0, tree)
            self.assertEqual([path for path in tree.rglob("*") if NEW in path.name or path.stem in ("stage_10", "10")], [])
            self.assertEqual(sorted(course.load(tree)), [0])

    def test_its_tools_know_it(self):
        build = self.cut / "pretended"
        build.mkdir()
        programs = building.programs_of(self.stages, 10)
        self.assertLessEqual({"course_probe_10", NEW, "course_probe_00", OLD}, set(programs))
        (build / "build.ninja").write_text("".join(f"build {program}: phony\n" for program in programs))
        code, out, errors = self.make("check", "STAGE=10", "BUILD=pretended")
        self.assertIn("0 of 5 tasks of stage 10 pass. Next: task 10.1", out, errors)
        self.assertEqual(out.count("Stage "), 1)
        code, out, errors = self.make("grade", "STAGE=10", "BUILD=pretended")
        self.assertIn("Stage 10, toy again: 0 of 100 points", out, errors)
        code, out, errors = self.make("hint", "TASK=10.1")
        self.assertIn("Task 10.1: the residual (", out, errors)
        code, out, errors = self.make("hint", "TASK=10.9")
        self.assertEqual(errors.splitlines()[0], "hint: there is no task 10.9; there are 10.1, 10.2, 10.3, 10.4, 10.5")
        done = subprocess.run(["python3", "tests/course", "check", "--stage", "10", "--list"], cwd=self.cut, text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_predict_finds_its_program(self):
        with unittest.mock.patch.object(predict, "REPOSITORY", self.tree):
            self.assertEqual([predict.folder_of(number) for number in (0, 1, 10)], [OLD, None, NEW])

    def test_it_is_configured(self):
        build = self.cut / "build"
        self.assertIsNone(building.configure(self.cut, build))
        done = subprocess.run(["ninja", "-C", build, "-t", "commands", "course_stage_10"], text=True, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        for program in (f"bin/{NEW}", "course/course_probe_10", f"bin/{OLD}", "course/course_probe_00"):
            self.assertIn(f" -o {program} ", done.stdout)

    @unittest.skipUnless(os.environ.get("SPECDEC_FULL"), "builds what two stages need: SPECDEC_FULL=1")
    def test_it_is_built_and_checked(self):
        assignment.make_tree(self.tree, 10, self.cut.with_name("built"))
        code, out, errors = self.make("check", "STAGE=10", folder="built")
        self.assertIn("0 of 5 tasks of stage 10 pass. Next: task 10.1", out, errors)
        self.assertIn("Lower stages are checked when this one passes; make check STAGE=0 checks them now.", out)
        code, out, errors = self.make("check", "STAGE=0", folder="built")
        self.assertIn("5 of 5 tasks of stage 0 pass.", out, errors)
        for path in (self.tree / "stages" / NEW).glob("*.h"):  # as if just written
            shutil.copyfile(path, self.cut.with_name("built") / "stages" / NEW / path.name)
        code, out, errors = self.make("check", "STAGE=10", folder="built")
        self.assertEqual(code, 0, out + errors)
        self.assertIn("5 of 5 tasks of stage 10 pass.", out)
        self.assertIn("Stage 0: 5 tasks pass", out)


if __name__ == "__main__":
    unittest.main()
