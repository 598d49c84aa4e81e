"""The course's tools.

usage: python3 tests/course TOOL [OPTION]...
A tool is a module of the packages student (what an assignment contains), teacher or authoring, and
is known by its name; so are their tests, test_NAME. Without a tool: the list of them.
"""
import runpy
import sys
from pathlib import Path

import student  # noqa: F401  it knows where the next one is
import tool  # noqa: E402

HERE = Path(__file__).resolve().parent
PACKAGES = ("student", "teacher", "authoring")


def modules():
    """Name -> module of what can be run, in the order of the packages."""
    paths = [path for package in PACKAGES for folder in (package, f"{package}/tests")
             for path in sorted((HERE / folder).glob("*.py"))
             if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")]
    return {path.stem: ".".join(path.relative_to(HERE).with_suffix("").parts) for path in paths}


def listing(known):
    """A line for each tool, with what its docstring begins with."""
    for name, module in known.items():
        if not name.startswith("test_"):
            words = (HERE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8").split('"""')[1]
            yield f"{name:18}{words.splitlines()[0]}"


def main(name, known):
    if name in ("-h", "--help"):
        print(__doc__, *listing(known), sep="\n")
        return
    if name not in known:
        sys.exit(f"course: there is no tool {name}; python3 tests/course lists them")
    sys.path[0] = str(HERE)
    sys.argv = sys.argv[1:]
    runpy.run_module(known[name], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else "--help"
    tools = modules()
    sys.exit(tool.run(asked if asked in tools else "course", lambda: main(asked, tools)))
