"""The tool that runs the pages' commands, on pages made for the purpose."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from authoring import commands


def fenced(text, mark=""):
    return f"{mark}\n```\n{text}\n```\n"


class CommandsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        (self.folder / "bin").mkdir()
        program = self.folder / "bin/program"
        program.write_text("#!/bin/sh\necho \"$*\"; echo took 12.5 ms >&2; exit ${CODE:-0}\n")
        program.chmod(0o755)

    def run_tool(self, text):
        page, output = self.folder / "page.md", io.StringIO()
        page.write_text(text)
        with contextlib.redirect_stdout(output):
            code = commands.main([str(self.folder), str(page)])
        return code, output.getvalue()

    def assert_good(self, text, commands_run=1):
        code, output = self.run_tool(text)
        self.assertEqual(code, 0, output)
        self.assertIn(f"{commands_run} commands of the pages ran, 0 not as shown", output)

    def assert_bad(self, text, words):
        code, output = self.run_tool(text)
        self.assertEqual(code, 1, text)
        self.assertIn(words, output)

    def test_output_as_shown(self):
        for shown in ("one two\ntook 3.1 ms", "one two", "", "...\ntook ... ms", "one ...", "[...]\none two"):
            self.assert_good(fenced(f"$ build/bin/program one two\n{shown}"))

    def test_speedups_are_times(self):
        self.assert_good(fenced("$ build/bin/program 1.82 by formula, 13.92 by the clock\n4.27 by formula, 3.92 by the clock"))

    def test_output_that_differs(self):
        for shown in ("one", "one two three", "took 3.1 ms\none two", "one two\none two"):
            self.assert_bad(fenced(f"$ build/bin/program one two\n{shown}"), "is not printed")

    def test_exit_codes(self):
        self.assert_bad(fenced("$ CODE=1 build/bin/program"), "exit code 1")
        self.assert_bad(fenced("$ CODE=139 build/bin/program x\nx"), "exit code 139")
        self.assert_bad(fenced("build/bin/program x && false"), "exit code 1")
        self.assert_bad(fenced("build/bin/none"), "exit code 127")
        self.assert_good(fenced("$ CODE=2 build/bin/program x\nx"))

    def test_commands_of_several_lines(self):
        self.assert_good(fenced("$ build/bin/program one \\\n    two | tail -1\none two"))
        self.assert_good(fenced("$ for i in 1 2; do\n    build/bin/program $i\n  done\n1\n2"))
        self.assert_good(fenced("$ for i in 1 2; do\n>   build/bin/program $i; done\n1\n2"))
        self.assert_good(fenced("$ cat <<'END'\n$x\nEND\n$x"))
        self.assert_good(fenced("$ a=1\n$ build/bin/program $a\n1"), 2)
        self.assert_good("> ```\n> $ build/bin/program 'a\n> b'\n> a\n> b\n> ```\n")

    def test_the_prompt_is_set(self):
        self.assert_good(fenced("$ build/bin/program $prompt | wc -w\n15"))

    def test_what_is_left_out(self):
        for text in (fenced("$ false", "<!-- not run: reason -->"), fenced("build/bin/program --device cuda"),
                     fenced("build/bin/program --target DIR"), fenced("build/bin/program --check"),
                     fenced("make docs"), fenced("false"), "```cpp\n$ false\n```\n"):
            self.assert_good(text, 0)

    def test_slow_blocks_run_in_full(self):
        text = fenced("$ false", "<!-- slow -->")
        with mock.patch.dict(os.environ):
            os.environ.pop("SPECDEC_FULL", None)
            self.assert_good(text, 0)
            os.environ["SPECDEC_FULL"] = "1"
            self.assert_bad(text, "exit code 1")

    def test_files_and_first_commands(self):
        self.assert_good(fenced("text", "<!-- file: f -->") + fenced("$ cat f\ntext"))
        self.assert_good(fenced("$ cat f\nx", "<!-- first: echo x > f -->"))

    def test_output_of_a_command(self):
        self.assert_good(fenced("a b", "<!-- output of: build/bin/program a b -->"))
        self.assert_bad(fenced("a c", "<!-- output of: build/bin/program a b -->"), "is not printed")

    def test_targets_of_make(self):
        self.assert_good("`make docs`", 0)
        self.assert_bad("`make nothing-like-it`", "no such target")
        self.assert_bad("```\nmake nothing-like-it\n```", "no such target")
        self.assert_good("Twice the tokens\nmake nearly four times the rows.", 0)

    def test_the_last_digits_are_not_compared(self):
        self.assertIsNone(commands.missing(["a 0.86436958"], ["a 0.864369577285"]))
        self.assertIsNotNone(commands.missing(["a 0.864"], ["a 0.865"]))


if __name__ == "__main__":
    unittest.main()
