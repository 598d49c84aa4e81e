"""The snippet tool on chapters and sources made for the purpose."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest

from authoring import snippets
from student import regions

SOURCE = """int before;
  // [snippet one]
  int a;
    int b;
  // [end snippet one]
# [snippet two]
x = 1
# [end snippet two]
"""
CHAPTER = "Text\n<!-- snippet: s.cpp#one -->\n```cpp\n{}```\nmore\n"


class SnippetsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)
        pathlib.Path("s.cpp").write_text(SOURCE)
        self.chapter = pathlib.Path("c.md")

    def run_tool(self, mode, text):
        self.chapter.write_text(text)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = snippets.main([mode, "c.md"])
        return code, output.getvalue()

    def test_equal_blocks_pass(self):
        code, output = self.run_tool("--check", CHAPTER.format("int a;\n  int b;\n"))
        self.assertEqual(code, 0, output)
        self.assertIn("1 code blocks", output)

    def test_a_different_block_fails_and_shows_the_difference(self):
        code, output = self.run_tool("--check", CHAPTER.format("int a;\n  int c;\n"))
        self.assertEqual(code, 1)
        self.assertIn("-  int c;\n+  int b;\n", output)

    def test_update_mends_it(self):
        self.assertEqual(self.run_tool("--update", CHAPTER.format("stale\n"))[0], 0)
        self.assertEqual(self.chapter.read_text(), CHAPTER.format("int a;\n  int b;\n"))

    def test_a_whole_file_without_its_markers(self):
        whole = "int before;\n  int a;\n    int b;\nx = 1\n"
        text = "<!-- snippet: s.cpp -->\n```cpp\n" + whole + "```\n"
        self.assertEqual(self.run_tool("--check", text)[0], 0)

    def test_wrong_references_are_errors(self):
        chapter = CHAPTER.format("x\n")
        pathlib.Path("bad.cpp").write_text("// [snippet one]\n")
        for text, words in ((chapter.replace("#one", "#none"), "has no snippet none"),
                            (chapter.replace("s.cpp", "t.cpp"), "t.cpp: No such file"),
                            (chapter.replace("s.cpp", "bad.cpp"), "bad.cpp:1: snippet one is never"),
                            ("<!-- snippet: s.cpp#one -->\nno block\n", "not followed by a code")):
            code, output = self.run_tool("--check", text)
            self.assertEqual(code, 2, text)
            self.assertIn(words, output)


class RegionsTest(unittest.TestCase):
    def test_a_page_shows_each(self):
        root = pathlib.Path(__file__).resolve().parents[4]
        pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("stages/**/*.md")]
        shown = {(match["path"], match["name"]) for page in pages for match in snippets.BLOCK.finditer(page.read_text(encoding="utf-8"))}
        for folder in ("common", "kernels", "stages", "tests/benchmarks", "tests/cuda"):
            for source in (path for suffix in ("h", "cpp", "cu") for path in sorted(root.glob(f"{folder}/**/*.{suffix}"))):
                name = source.relative_to(root).as_posix()
                for region in regions.parse(source.read_text(encoding="utf-8"), name):
                    if region.kind == "snippet":
                        self.assertTrue((name, region.name) in shown, f"{name}: no page shows {region.name}")


if __name__ == "__main__":
    unittest.main()
