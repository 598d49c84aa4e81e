"""The parser of regions on sources made for the purpose."""
import pathlib
import tempfile
import unittest

from student import regions

SOURCE = """int f() {
  // [snippet one]
  int a = 1;
  // [task 4.2: roll the caches back]
  a++;

  if (a) a--;
  // [end task 4.2]
  return a;
  // [end snippet one]
}
# [snippet two]
x = [1]
# [end snippet two]
<!-- [hint 4.2.1] -->
Look at [the chapter](x).
<!-- [end hint 4.2.1] -->
"""


def by_name(text):
    return {region.full_name: region for region in regions.parse(text, "s")}


class RegionsTest(unittest.TestCase):
    def test_names_titles_and_text(self):
        found = by_name(SOURCE)
        self.assertEqual(list(found), ["snippet one", "task 4.2", "snippet two", "hint 4.2.1"])
        self.assertEqual(found["task 4.2"].title, "roll the caches back")
        self.assertEqual(regions.text_of(SOURCE, found["task 4.2"]), "a++;\n\nif (a) a--;\n")
        self.assertEqual(regions.text_of(SOURCE, found["snippet two"]), "x = [1]\n")
        self.assertEqual(regions.text_of(SOURCE, found["hint 4.2.1"]), "Look at [the chapter](x).\n")

    def test_no_text_has_the_markers_of_others(self):
        snippet = regions.text_of(SOURCE, by_name(SOURCE)["snippet one"])
        self.assertEqual(snippet, "int a = 1;\na++;\n\nif (a) a--;\nreturn a;\n")

    def test_a_region_is_replaced_with_its_markers_and_keeps_its_indentation(self):
        stub = regions.replaced(SOURCE, by_name(SOURCE)["task 4.2"], ["stub();", "", "more();"])
        self.assertIn("  int a = 1;\n  stub();\n\n  more();\n  return a;\n", stub)
        self.assertNotIn("task", stub)
        self.assertEqual(list(by_name(stub)), ["snippet one", "snippet two", "hint 4.2.1"])

    def test_stages_beyond_9_have_tasks_and_hints(self):
        found = by_name(SOURCE.replace("4.2", "10.12"))
        self.assertEqual(list(found), ["snippet one", "task 10.12", "snippet two", "hint 10.12.1"])

    def test_lines_that_only_look_like_markers_are_text(self):
        for line in ("// [n, V]", "int a[task];  // [task 1.1: x]", "// [tasks]", "[hint 1.1.1]"):
            self.assertEqual(regions.parse(line + "\n", "s"), [], line)

    def test_wrong_regions_are_errors_that_say_where(self):
        begin, end = "// [task {}: x]\n", "// [end task {}]\n"
        snippet, snippet_end = "// [snippet s]\n", "// [end snippet s]\n"
        one, two = begin.format("1.1"), begin.format("1.2")
        for text, words in (
                (one, "s:1: task 1.1 is never closed"),
                (end.format("1.1"), "s:1: the end of task 1.1 closes no open region"),
                (one + two + end.format("1.2"), "s:2: task 1.2 begins inside task 1.1"),
                (one + end.format("1.2"), "s:2: .* closes no open region; task 1.1 is open"),
                (one + snippet + end.format("1.1") + snippet_end, "s:3: .* snippet s is open"),
                (2 * (one + end.format("1.1")), "s:3: task 1.1 is already defined above"),
                ("// [task 1.1]\n", "s:1: .* is not a marker"),
                ("// [task one: x]\n", "is not a marker"),
                ("# [hint 4.2]\n", "is not a marker"),
                ("// [end task 4.2: x]\n", "is not a marker"),
                ("<!-- [snippet a b] -->\n", "is not a marker")):
            with self.assertRaisesRegex(regions.RegionError, words, msg=text):
                regions.parse(text, "s")

    def test_a_tree_knows_each_task_once(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("a", "b"):
                (root / "stages" / name).mkdir(parents=True)
            (root / "stages" / "a" / "a.cpp").write_text(SOURCE)
            found = regions.tree_regions(root, "task")
            self.assertEqual([str(found["4.2"][0]), found["4.2"][1].begin], ["stages/a/a.cpp", 3])
            (root / "stages" / "b" / "b.h").write_text(SOURCE)
            with self.assertRaisesRegex(regions.RegionError, "b.h:4: task 4.2 is already defined in .*a.cpp"):
                regions.tree_regions(root, "task")


if __name__ == "__main__":
    unittest.main()
