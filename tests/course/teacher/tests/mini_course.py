"""A course of three tasks that compiles in a second, for the tests of what grades real ones."""
import base64
import json
import os
import shutil
import subprocess
import unittest.mock

from student import checks, course, emitters

FOLDER = "stages/00_mini"
BODIES = {"one": "return a + b;", "two": "return 2 * a;", "three": "return add(a, -b);"}
FUNCTIONS = {"one": "int add(int a, int b)", "two": "int twice(int a)", "three": "int subtract(int a, int b)"}
PROBE = """#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "stages/00_mini/mini.h"
static void fact(const char* name, int value) {
  std::printf("{\\"fact\\": \\"%s\\", \\"value\\": %d}\\n", name, value);
  std::fflush(stdout);
}
int main(int, char** argv) {
  const int seed = std::atoi(argv[2]);
  try {
    if (!std::strcmp(argv[1], "adds")) { fact("seed + 1", add(seed, 1)); fact("seed + 2", add(seed, 2)); }
    if (!std::strcmp(argv[1], "doubles")) fact("twice the seed", twice(seed));
    if (!std::strcmp(argv[1], "subtracts")) fact("seed - 1", subtract(seed, 1));
  } catch (...) { return 1; }
}
"""
STAGE = """#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "stages/00_mini/mini.h"
int main(int, char** argv) {
  const int length = std::strlen(argv[2]);
  try {
    std::printf("{\\"tokens\\": [%d, %d], \\"stats\\": {\\"target_forwards\\": 1}}\\n", twice(length), twice(1));
  } catch (...) { return 1; }
}
"""
HEADER = "#pragma once\n" + "".join(f"{function};\n" for function in FUNCTIONS.values())
TABLE = {"stages": [{
    "stage": 0, "folder": "00_mini",
    "tasks": [{"id": "0.1", "points": 50}, {"id": "0.2", "points": 30},
              {"id": "0.3", "points": 20}],
    "checks": [
        {"name": "adds", "task": "0.1", "probe": "adds", "seeds": [1, 2], "causes": {"": "a sum"}, "seconds": 2},
        {"name": "doubles", "task": "0.2", "probe": "doubles", "seeds": [1, 2], "causes": {"": "a product"}, "seconds": 2},
        {"name": "text", "task": "0.2", "json": ["--prompt", "Once"], "facts": ["tokens", "stats.target_forwards"],
         "causes": {"": "a text"}, "seconds": 2},
        {"name": "subtracts", "task": "0.3", "needs": ["0.1"], "probe": "subtracts", "seeds": [3],
         "causes": {"": "a difference"}, "seconds": 2}]}]}
NINJA = """rule compile
  command = c++ -I {root} -MD -MF $out.d -c $in -o $out
rule library
  command = rm -f $out && ar qc $out $in
rule link
  command = : && c++ $in -o $out libmini.a && :
build one.o: compile {root}/stages/00_mini/one.cpp
build two.o: compile {root}/stages/00_mini/two.cpp
build three.o: compile {root}/stages/00_mini/three.cpp
build libmini.a: library one.o two.o three.o
build probe.o: compile {root}/tests/course/probes/stage_00.cpp
build stage.o: compile {root}/stages/00_mini/main.cpp
build course/course_probe_00: link probe.o | libmini.a
build bin/00_mini: link stage.o | libmini.a
build course_probe_00: phony course/course_probe_00
build 00_mini: phony bin/00_mini
"""


def source(name, body=None, before=""):
    """The text of one.cpp, two.cpp or three.cpp: the reference's, or with another body."""
    region = f"0.{list(BODIES).index(name) + 1}"
    return (f'#include "{FOLDER}/mini.h"\n{before}\n{FUNCTIONS[name]} {{\n  // [task {region}: write {name}]\n'
            f"  {BODIES[name] if body is None else body}\n  // [end task {region}]\n}}\n")


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def make(root):
    """Writes, builds and records the course; returns the build folder."""
    for name in BODIES:
        write(root, f"{FOLDER}/{name}.cpp", source(name))
    write(root, f"{FOLDER}/mini.h", HEADER)
    write(root, f"{FOLDER}/main.cpp", STAGE)
    write(root, "CMakePresets.json", "{}")
    write(root, "tests/course/probes/stage_00.cpp", PROBE)
    write(root, "tests/course/tasks.json", json.dumps(TABLE))
    write(root, "golden/draft_text.txt", "".join(f"Dog {i} went to the river and found a small boat.\n" for i in range(99)))
    write(root, "build/build.ninja", NINJA.format(root=root))
    (root / "common").mkdir()
    (root / "kernels").mkdir()
    (root / "tests/course/expected").mkdir()
    for folder in [root, *root.parents[:1]]:
        folder.chmod(0o755)
    subprocess.run(["ninja", "-C", root / "build", "course_probe_00", "00_mini"], check=True, capture_output=True)
    checks.record(course.load(root)[0], checks.Programs(root / "build"), root)
    return root / "build"


def submission(folder, **bodies):
    """Writes a submission with all three files, some with other texts; returns its folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in BODIES:
        text = bodies.get(name, source(name))
        if text is not None:
            write(folder, f"{FOLDER}/{name}.cpp", text)
    return folder


def emitted(record):
    """Format -> what it says of a record, as Classroom 50's runner would have it, and without GitHub's base64."""
    with unittest.mock.patch.dict(os.environ, dict.fromkeys(emitters.CLASSROOM50.values(), "something")):
        texts = {name: emit(record) for name, emit in emitters.FORMATS.items()}
    return {**texts, "github": base64.b64decode(texts["github"].partition("=")[2]).decode()}
