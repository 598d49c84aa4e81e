"""The three packages: who imports whom, and the one door to their tools."""
import ast
import re
import subprocess
import unittest
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
ROOT = COURSE.parents[1]
MAY = {"student": {"student"}, "teacher": {"student", "teacher"}, "authoring": {"student", "teacher", "authoring"}}


def imports(path):
    """The modules of the course that a file imports: `student.checks`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [name.name for name in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            inside = (COURSE / node.module.replace(".", "/")).is_dir()
            names = [f"{node.module}.{name}" for name in names] if inside else [node.module]
        yield from (name for name in names if name.split(".")[0] in MAY)


def course(*arguments):
    return subprocess.run(["python3", COURSE, *arguments], text=True, capture_output=True, check=False, cwd="/")


class Packages(unittest.TestCase):
    def test_each_imports_only_what_it_may(self):
        for package, allowed in MAY.items():
            paths = sorted((COURSE / package).rglob("*.py"))
            self.assertGreater(len(paths), 5)
            for path in paths:
                self.assertLessEqual({name.split(".")[0] for name in imports(path)}, allowed, path)

    def test_modules_import_each_other_in_no_circle(self):
        left = {f"{package}.{path.stem}": set(imports(path)) for package in MAY for path in (COURSE / package).glob("*.py")}
        self.assertIn("student.regions", left["student.course"])
        while left:
            free = {name for name, used in left.items() if not used & set(left)}
            self.assertTrue(free, f"a circle among {sorted(left)}")
            left = {name: used for name, used in left.items() if name not in free}

    def test_names_are_unique_for_a_tool_is_known_by_its_name(self):
        names = [path.stem for package in MAY for path in (COURSE / package).rglob("*.py") if path.stem != "__init__"]
        self.assertEqual(len(names), len(set(names)))

    def test_the_list_names_each_tool_with_what_it_does(self):
        done = course()
        self.assertEqual(done.returncode, 0, done.stderr)
        for tool in ("check", "assignment", "prove"):
            self.assertRegex(done.stdout, rf"(?m)^{tool} +\S.{{20}}")
        self.assertNotIn("test_", done.stdout.split("Without a tool")[1])

    def test_a_tool_that_is_none_is_told(self):
        done = course("chekc")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "course: there is no tool chekc; python3 tests/course lists them\n")

    def test_a_tool_runs_from_anywhere_with_its_options_and_its_exit_code(self):
        done = course("check", "--stage", "99", "--root", str(ROOT))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("check: STAGE is a number from 0 to", done.stderr)

    def test_the_makefiles_ask_for_tools_that_there_are(self):
        known = {path.stem for package in MAY for path in (COURSE / package).glob("*.py")}
        for makefile in (ROOT / "Makefile", COURSE / "teacher/starter/Makefile.in"):
            asked = re.findall(r"\$\(COURSE\) (\S+)", makefile.read_text(encoding="utf-8"))
            self.assertGreaterEqual(len(asked), 4)
            self.assertLessEqual(set(asked), known)


if __name__ == "__main__":
    unittest.main()
