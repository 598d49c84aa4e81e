#!/usr/bin/env python3
"""Who may include or import whom, what a stage's folder may hold, and that nothing does it in a circle.

usage: test_structure.py ROOT
"""
import ast
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1) if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
sys.path.insert(0, str(ROOT / "tests/course"))
from teacher.assignment import NEEDS  # noqa: E402  a folder of stages/programs -> the last lesson that it builds on

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
SOURCES = (".h", ".cpp", ".cu")
STANDARD = getattr(sys, "stdlib_module_names", ())  # since Python 3.10
# The one import that closes a circle. A function of bench.py makes it, when it is called.
LATE = ("tests/benchmarks/bench.py", "docs/experiments/tables.py")


def includes(folder):
    """Of every source under a folder: the project's files that it includes, all as paths from the root."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in SOURCES:
            names = INCLUDE.findall(path.read_text(encoding="utf-8"))
            found[path.relative_to(ROOT).as_posix()] = [name for name in names if (ROOT / name).is_file()]
    return found


def imported(text):
    """The names that a Python source may import as modules: of `from a import b`, a and a.b."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""  # `from . import b`
            yield from (module, *(f"{module}.{name.name}".lstrip(".") for name in node.names))


def imports(root):
    """Of every Python file: the project's files that it imports, all as paths from the root. Where files share a name,
    it is the one beside the importing file, or else any of them."""
    paths = [path.relative_to(root) for top in ("common", "docs", "golden", "kernels", "stages", "tests")
             for path in sorted((root / top).rglob("*.py"))]
    known = {}
    for path in paths:
        parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
        for first in range(len(parts)):
            known.setdefault(".".join(parts[first:]), []).append(path)
    found = {}
    for path in paths:
        names = sorted(set(imported((root / path).read_text(encoding="utf-8"))))
        candidates = [known.get(name, []) for name in names if name.split(".")[0] not in STANDARD]
        chosen = [[other for other in others if other.parent == path.parent] or others for others in candidates]
        found[path.as_posix()] = sorted({other.as_posix() for others in chosen for other in others if other != path})
    return found


def stage_of(name):
    """4 for stages/04_greedy_speculation/...; None elsewhere."""
    match = re.match(r"stages/(\d\d)_", name)
    return int(match[1]) if match else None


def circle(graph):
    """Nodes that lead back to the first of them; empty where there are none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph.get(node, ())):
            found = visit(other)
            if found:
                return found
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        found = visit(node)
        if found:
            return found
    return []


def limit(name):
    """The last lesson that a file of stages/programs builds on; None elsewhere."""
    match = re.match(r"stages/programs/(\w+)/", name)
    return NEEDS.get(match[1], 0) if match else None


def folders(graph, mains=False):
    """The same graph between folders. A stage's main.cpp is the top floor, apart from its lesson, unless `mains`."""
    result = {}
    for name, others in graph.items():
        if name.endswith("/main.cpp") and not mains:
            continue
        here = Path(name).parent.as_posix()
        result.setdefault(here, set()).update(Path(other).parent.as_posix() for other in others)
        result[here].discard(here)
    return result


class StructureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.product = {**includes("kernels"), **includes("common"), **includes("stages")}
        cls.python = imports(ROOT)

    def expect_none(self, wrong):
        self.assertEqual([f"{name} includes {other}" for name, other in wrong], [])

    def pairs(self):
        return [(name, other) for name, others in self.product.items() for other in others]

    def test_includes_never_point_up(self):
        floor = {"kernels": 0, "common": 1, "stages": 2}
        self.expect_none((name, other) for name, other in self.pairs()
                         if floor.get(other.split("/")[0], 9) > floor[name.split("/")[0]])

    def test_a_stage_includes_lower_stages_alone(self):
        self.expect_none((name, other) for name, other in self.pairs()
                         if stage_of(name) is not None and (stage_of(other) or 0) > stage_of(name))

    def test_lessons_know_no_programs(self):
        self.expect_none((name, other) for name, other in self.pairs()
                         if stage_of(name) is not None and not name.endswith("/main.cpp")
                         and other.startswith("stages/programs/"))

    def test_programs_stand_on_the_lessons_of_their_stage(self):
        self.expect_none((name, other) for name, other in self.pairs() if limit(name) is not None
                         and max(stage_of(other) or 0, limit(other) or 0) > limit(name))

    def test_a_main_includes_the_programs_of_its_stage_and_of_lower_ones(self):
        self.expect_none((name, other) for name, other in self.pairs()
                         if stage_of(name) is not None and (limit(other) or 0) > stage_of(name))

    def test_the_build_knows_the_same_stages_of_programs(self):
        text = (ROOT / "stages/programs/CMakeLists.txt").read_text(encoding="utf-8")
        blocks = re.findall(r"if\(TARGET specdec_stage(\d\d)\)\s+add_library\(specdec_programs_(\w+)", text)
        self.assertEqual({folder: int(stage) for stage, folder in blocks}, NEEDS)

    def test_no_file_and_no_folder_includes_itself_in_a_circle(self):
        self.assertEqual(circle(self.product), [])
        self.assertEqual(circle(folders(self.product)), [])

    def test_a_main_closes_the_only_circles_of_folders(self):
        """It is in its lesson's folder, and includes the programs that include this lesson. Without these lines of
        each main.cpp there is no circle, and with them only those of two folders, one for each folder in NEEDS."""
        graph = folders(self.product, mains=True)
        for folder, stage in NEEDS.items():
            lesson = next(name for name in graph if stage_of(name + "/") == stage)
            self.assertIn(f"stages/programs/{folder}", graph[lesson])
            graph[lesson].remove(f"stages/programs/{folder}")
        self.assertEqual(circle(graph), [])

    def test_a_circle_is_found(self):
        self.assertEqual(circle({"a": ["b"], "b": ["c"], "c": ["b"]}), ["b", "c", "b"])
        self.assertEqual(folders({"a/x.h": ["b/y.h"], "b/z.h": ["a/x.h"]}), {"a": {"b"}, "b": {"a"}})

    def test_python_of_the_product_imports_nothing_of_tests_or_docs(self):
        """And the Python that makes golden files nothing of the project: its numbers are independent."""
        self.expect_none((name, other) for name, others in self.python.items() for other in others
                         if not name.startswith(("tests/", "docs/")) and name.split("/")[0] != other.split("/")[0])

    def test_python_imports_in_no_circle(self):
        self.assertIn(LATE, [(name, other) for name, others in self.python.items() for other in others])
        graph = {name: [other for other in others if (name, other) != LATE] for name, others in self.python.items()}
        self.assertEqual(circle(graph), [])
        self.assertEqual(circle(folders({name: others for name, others in graph.items()
                                         if not name.startswith(("tests/", "docs/"))})), [])

    def test_the_entry_points_of_a_runner_lead_to_the_makefile_and_the_programs(self):
        self.assertIn("\nmake test\n", (ROOT / ".ci/run").read_text(encoding="utf-8"))
        done = subprocess.run([ROOT / ".ci/setup", "nothing"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.split(" ")[:2]), (2, ["usage:", "stages/programs/setup"]))

    def test_imports_are_found(self):
        files = {"stages/programs/demo.py": "import json\nimport tool\ndef f():\n    from student import check\n",
                 "stages/programs/tool.py": "", "tests/tool.py": "import tool, demo\n",
                 "tests/course/student/__init__.py": "", "tests/course/student/check.py": "from tool import run\n"}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text(text, encoding="utf-8")
            found = imports(Path(folder))
        course = ["tests/course/student/__init__.py", "tests/course/student/check.py"]
        self.assertEqual(found["stages/programs/demo.py"], ["stages/programs/tool.py", *course])
        self.assertEqual(found["tests/tool.py"], ["stages/programs/demo.py"])
        self.assertEqual(found["tests/course/student/check.py"], ["stages/programs/tool.py", "tests/tool.py"])

    def test_a_stages_folder_holds_its_lesson(self):
        for folder in sorted((ROOT / "stages").glob("[0-9][0-9]_*")):
            with self.subTest(folder.name):
                names = {path.name for path in folder.iterdir()}
                self.assertLessEqual({"README.md", "CMakeLists.txt", "main.cpp"}, names)
                others = {name for name in names if not name.endswith((".h", ".cpp"))}
                self.assertLessEqual(others, {"README.md", "hints.md", "CMakeLists.txt"})
                lines = (folder / "README.md").read_text(encoding="utf-8").count("\n")
                self.assertTrue(15 <= lines <= 25, f"README.md has {lines} lines; 15 to 25 say where to begin")

    def test_death_tests_of_kernels_start_anew(self):
        # A fixture of KernelTest sets their style: CUDA does not survive a fork.
        for path in (ROOT / "tests/cuda").glob("*.cpp"):
            text = path.read_text(encoding="utf-8")
            if re.search(r"\bEXPECT_(DEATH|EXIT)\(", text):
                self.assertIn(": public KernelTest", text, path)
                self.assertNotIn("\nTEST(", text, path)

    def test_messages_go_through_say(self):
        # Others throw or are lost where stderr is closed or full, and a flush that fails must be seen.
        forbidden = re.compile(r"print\(stderr|std::cerr|std::f(write|puts|flush)\(")
        for folder in ("common", "stages"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in SOURCES and path.name != "streams.cpp":
                    self.assertIsNone(forbidden.search(path.read_text(encoding="utf-8")), path)

    def test_files_are_opened_where_they_are_checked(self):
        # MappedFile takes regular files alone, OutputFile leaves nothing half written; requests may come in a pipe.
        opens = re.compile(r"\b[io]?fstream \w+\(([^,)]*)|\bfopen\(([^,)]*)|(?<!\w)::open\(([^,)]*)")
        places, found = {"mapped_file.cpp", "output_file.cpp", "request_list.cpp"}, set()
        for path in (path for folder in ("common", "stages") for path in (ROOT / folder).rglob("*")):
            for match in opens.finditer(path.read_text(encoding="utf-8")) if path.suffix in SOURCES else ():
                name = match[match.lastindex]
                found.add(path.name)
                self.assertTrue(path.name in places or name.startswith(('"/proc/', '"/dev/')), f"{path} opens {name}")
        self.assertLessEqual(places, found)

    def test_the_vocabulary_is_light(self):
        """What the headers of small types pull in, directly or not."""
        for name, most in (("common/speculation/round.h", 7), ("common/run_stats.h", 7),
                           ("common/generation_request.h", 3), ("common/tensor_kind.h", 0)):
            seen, left = set(), [name]
            while left:
                for other in self.product[left.pop()]:
                    if other not in seen:
                        seen.add(other)
                        left.append(other)
            self.assertLessEqual(len(seen), most, f"{name}: {sorted(seen)}")


if __name__ == "__main__":
    unittest.main()
