"""All tools in surroundings that no tool can work in: one line, exit code 2, and no traceback."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
ROOT = COURSE.parents[1]
SCRIPTS = {"doctor": "stages/programs/doctor.py", "demo": "stages/programs/demo.py", "real": "stages/programs/real/get_model.py",
           "bench": "tests/benchmarks/bench.py", "cuda_bench": "tests/benchmarks/cuda_bench.py", "embed_trace": "docs/interactive/embed_trace.py",
           "interactive_trace": "docs/interactive/interactive_trace.py"}


def tools():
    """name -> the words that start it."""
    listed = subprocess.run([sys.executable, COURSE], text=True, capture_output=True, check=True).stdout
    names = re.findall(r"(?m)^(\w+) +\S", listed.split("the list of them")[1])
    return {**{name: [COURSE, name] for name in names}, **{name: [ROOT / path] for name, path in SCRIPTS.items()}}


def shell(words, script, **more):
    """Runs `script`, a shell's, in which "$@" starts a tool; returns exit code, stdout and stderr."""
    done = subprocess.run(["/bin/bash", "-c", script, "bash", sys.executable, *words], text=True, capture_output=True,
                          check=False, timeout=120, **more)
    return done.returncode, done.stdout, done.stderr


# What a user may do to any tool -> (the shell's words, words of the one line).
TROUBLES = {
    "the working directory is gone": ('cd "$(mktemp -d)" && rmdir "$PWD" && "$@" --help', "the working directory is gone"),
    "stdout is closed": ('"$@" --help >&-', "stdout is closed"),
    "an option has an empty value": ('"$@" --report ""', "--report has no value"),
    "another spelling of it": ('"$@" --build=', "--build has no value"),
}
SPEAKS_AS = {"grade_submission": "grade", "watch": "check"}  # where a tool is another one with more around it
NO_HELP = ("doctor", "blocks", "commands", "links", "snippets", "spelling", "style")  # they print none on stdout


class Tools(unittest.TestCase):
    def setUp(self):
        self.tools = tools()
        self.assertGreaterEqual(len(self.tools), 20)

    def expect_line(self, name, words, code, said):
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertTrue(said.startswith(f"{name}: "), said)
        self.assertIn(words, said)

    def test_each_says_in_one_line_why_it_cannot_work(self):
        for name, start in self.tools.items():
            for what, (script, words) in TROUBLES.items():
                with self.subTest(name, what=what):
                    code, text, said = shell(start, script)
                    self.expect_line(name, words, code, said)
                    self.assertEqual(text, "")

    def test_a_full_stdout_is_told_and_a_reader_that_goes_away_is_not(self):
        for name, start in self.tools.items():
            if name in NO_HELP:
                continue
            with self.subTest(name):
                code, _, said = shell(start, '"$@" --help >/dev/full')
                self.expect_line(name, "No space left", code, said)
                code, _, said = shell(start, '"$@" --help | true; exit "${PIPESTATUS[0]}"')
                self.assertEqual((code, said), (0, ""))

    def test_long_output_into_a_reader_that_goes_away(self):
        code, _, said = shell(self.tools["check"], 'cd "$ROOT" && "$@" --stage 6 --list | head -1 >/dev/null; '
                              'exit "${PIPESTATUS[0]}"', env={**os.environ, "ROOT": str(ROOT)})
        self.assertEqual((code, said), (0, ""))

    def test_unknown_options_are_told_in_one_line(self):
        for name, start in self.tools.items():
            if name not in NO_HELP:
                with self.subTest(name):
                    code, _, said = shell(start, '"$@" --nonsense 7')
                    self.expect_line(name, "", code, said)

    def test_what_a_line_quotes_is_fit_for_a_terminal(self):
        for name, start in self.tools.items():
            if name not in NO_HELP:
                with self.subTest(name):
                    code, _, said = shell(start, '"$@" --nonsense "$(printf "\\033[2J%.0s" {1..5000})"')
                    self.expect_line(name, "", code, said)
                    self.assertNotIn("\033", said)
                    self.assertLess(len(said), 2000)

    def test_a_git_that_fails_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "git").write_text("#!/bin/sh\necho 'fatal: unable to access /root/.config/git' >&2\nexit 128\n")
            Path(folder, "git").chmod(0o755)
            tree = Path(folder, "tree")
            for path in ("stages", "common", "kernels", ".git"):
                (tree / path).mkdir(parents=True)
            (tree / "tests/course").mkdir(parents=True)
            (tree / "tests/course/tasks.json").write_text('{"stages": [{"stage": 0, "folder": "f", '
                                                          '"tasks": [], "checks": []}]}')
            code, _, said = shell(self.tools["assignment"], '"$@" --stage 0 --root "$TREE"',
                                  env={**os.environ, "TREE": str(tree), "PATH": f"{folder}:{os.environ['PATH']}"})
            self.expect_line("assignment", "fatal: unable to access", code, said)

    def test_a_stage_that_make_passes_empty_is_asked_for(self):
        for makefile in (ROOT / "Makefile", COURSE / "teacher/starter/Makefile.in"):
            for name in re.findall(r"\$\(COURSE\) (\w+)[^\n]*--stage '\$\(STAGE\)'", makefile.read_text(encoding="utf-8")):
                if name != "hidden":  # which makes those of all stages
                    with self.subTest(name):
                        code, _, said = shell(self.tools[name], 'cd "$ROOT" && "$@" --stage ""',
                                              env={**os.environ, "ROOT": str(ROOT)})
                        self.expect_line(SPEAKS_AS.get(name, name), "STAGE is a number from 0", code, said)


if __name__ == "__main__":
    unittest.main()
