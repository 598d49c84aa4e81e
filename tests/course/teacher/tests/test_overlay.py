"""A program of three sources, built with some of them replaced: what is seen of a change, however it is built."""
import pathlib
import subprocess
import tempfile
import unittest

from teacher import overlay

SOURCES = {
    "CMakePresets.json": "{}",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(three CXX)
include_directories(${PROJECT_SOURCE_DIR})
add_library(lib library/lib.cpp)
add_executable(program programs/main.cpp programs/other.cpp)
target_link_libraries(program lib)
set_target_properties(program PROPERTIES UNITY_BUILD ${UNITY})
""",
    "library/header.h": "inline int in_header() { return 1; }",
    "library/lib.cpp": '#include "library/header.h"\nint in_library() { return 10 * in_header(); }',
    "programs/other.cpp": "int in_other() { return 100; }",
    "programs/main.cpp": """#include "library/header.h"
int in_library();
int in_other();
int main() { return in_header() + in_library() + in_other(); }
""",
}
CHANGES = {
    "library/header.h": "inline int in_header() { return 2; }",
    "library/lib.cpp": "int in_library() { return 30; }",
    "programs/other.cpp": "int in_other() { return 200; }",
}


class Overlay(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        self.root = self.folder / "tree"
        self.root.mkdir()
        for name, text in SOURCES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")

    def built(self, unity):
        build = self.root / "build"
        subprocess.run(["cmake", "-G", "Ninja", "-B", build, "-S", self.root, "-D", f"UNITY={unity}"],
                       check=True, capture_output=True)
        subprocess.run(["ninja", "-C", build], check=True, capture_output=True)
        return build

    def results(self, build):
        """What the program returns with nothing replaced, and with each of CHANGES."""
        for i, replaced in enumerate(({}, *({name: text} for name, text in CHANGES.items()))):
            (self.folder / str(i)).mkdir()
            program = overlay.Overlay(self.root, build, replaced, self.folder / str(i)).program("program")
            yield subprocess.run([program], check=False).returncode

    def test_a_changed_header_reaches_all_that_include_it(self):
        self.assertEqual(list(self.results(self.built("OFF"))), [111, 122, 131, 211])

    def test_and_in_a_unity_build(self):
        self.assertEqual(list(self.results(self.built("ON"))), [111, 122, 131, 211])


if __name__ == "__main__":
    unittest.main()
