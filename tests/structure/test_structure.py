#!/usr/bin/env python3
"""Who may include whom, what a stage's folder may hold, and that nothing includes in a circle.

usage: test_structure.py ROOT
"""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1) if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
SOURCES = (".h", ".cpp", ".cu")
# A folder of stages/programs stands on the lessons up to this stage.
FIRST_STAGE = {"cache": 3, "speculation": 4, "sampling": 5, "batch": 6, "adaptive": 7, "trees": 8}


def includes(folder):
    """Of every source under a folder: the project's files that it includes, all as paths from the root."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in SOURCES:
            names = INCLUDE.findall(path.read_text(encoding="utf-8"))
            found[path.relative_to(ROOT).as_posix()] = [name for name in names if (ROOT / name).is_file()]
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


def folders(graph):
    """The same graph between folders. A stage's main.cpp is the top floor, apart from its lesson."""
    result = {}
    for name, others in graph.items():
        if name.endswith("/main.cpp"):
            continue
        here = Path(name).parent.as_posix()
        result.setdefault(here, set()).update(Path(other).parent.as_posix() for other in others)
        result[here].discard(here)
    return result


class StructureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.product = {**includes("kernels"), **includes("common"), **includes("stages")}

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
        def limit(name):
            match = re.match(r"stages/programs/(\w+)/", name)
            return FIRST_STAGE.get(match[1], 0) if match else None

        self.expect_none((name, other) for name, other in self.pairs() if limit(name) is not None
                         and max(stage_of(other) or 0, limit(other) or 0) > limit(name))

    def test_no_file_and_no_folder_includes_itself_in_a_circle(self):
        self.assertEqual(circle(self.product), [])
        self.assertEqual(circle(folders(self.product)), [])

    def test_a_circle_is_found(self):
        self.assertEqual(circle({"a": ["b"], "b": ["c"], "c": ["b"]}), ["b", "c", "b"])
        self.assertEqual(folders({"a/x.h": ["b/y.h"], "b/z.h": ["a/x.h"]}), {"a": {"b"}, "b": {"a"}})

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
