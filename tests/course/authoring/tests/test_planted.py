"""How planted bugs are read, and that each can be planted."""
import contextlib
import io
import unittest
from pathlib import Path

from authoring import planted
from student import course, regions

ROOT = Path(__file__).resolve().parents[4]
PATH = Path("tests/planted/stage_04.txt")


class Planted(unittest.TestCase):
    def test_a_bug_replaces_lines(self):
        bug = planted.parse("4.6: a title: so\n- one\n- two\n+ three\n- four\n+\n", PATH)
        self.assertEqual((bug.task, bug.title, bug.why_no_effect), ("4.6", "a title: so", ""))
        self.assertEqual(bug.parts, ((["one", "two"], ["three"]), (["four"], [""])))
        bug = planted.parse("4.6: a title\nno effect: because\n- one\n+ two", PATH)
        self.assertEqual(bug.why_no_effect, "because")

    def test_what_is_no_bug_is_told(self):
        for text, words in (("one\n- two\n+ three", "is no title"), ("4.6: x\nabc", "begins with neither"),
                            ("4.6: x\n+ abc", "it replaces nothing"), ("4.6: x\n-abc", "begins with neither")):
            with self.assertRaisesRegex(course.CourseError, words):
                planted.parse(text, PATH)

    def test_what_is_not_there_is_told(self):
        for options, words in ((["--stage", "99"], "there are the stages 0, "), (["--match", "no such words"], "there is no such bug")):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(planted.main(["--root", str(ROOT), *options]), 2)
            self.assertIn(words, said.getvalue())

    def test_lines_stand_once_in_the_task(self):
        for find, places in (("while (true) {", 0), ("break;", 2)):
            with self.assertRaisesRegex(course.CourseError, f"{places} places"):
                planted.source(ROOT, planted.Planted("4.3", "x", (([find], ["x"]),)))

    def test_each_can_be_planted_and_changes_its_task_alone(self):
        tasks = regions.tree_regions(ROOT, "task")
        seen = set()
        for number in course.load(ROOT):
            for bug in planted.load(ROOT, number):
                with self.subTest(f"{bug.task} {bug.title}"):
                    path, text = planted.source(ROOT, bug)
                    before = (ROOT / path).read_text(encoding="utf-8")
                    region = next(r for r in regions.parse(before, path) if r.full_name == f"task {bug.task}")
                    lines = regions.text_of(before, region).splitlines()
                    head, tail = regions.replaced(before, region, ["@"]).split("@")
                    self.assertTrue(text.startswith(head.rstrip()) and text.endswith(tail))
                    self.assertNotEqual(text, regions.replaced(before, region, lines))
                    self.assertNotIn((bug.task, bug.title), seen)
                    seen.add((bug.task, bug.title))
        self.assertEqual({task for task, _ in seen}, set(tasks))
        self.assertGreater(len(seen), 200)


if __name__ == "__main__":
    unittest.main()
