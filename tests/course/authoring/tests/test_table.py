"""The rules that the course's table keeps."""
import unittest
from pathlib import Path

from student import course
from authoring import table

ROOT = Path(__file__).resolve().parents[4]


class TableTest(unittest.TestCase):
    def test_the_table_keeps_its_rules_and_breaking_one_is_told(self):
        self.assertEqual(list(table.problems(ROOT, course.load(ROOT))), [])
        for change, words in (
                (lambda stage: setattr(stage.tasks[0], "points", 99), "points of stage 4"),
                (lambda stage: setattr(stage.tasks[0], "page", stage.chapter), "no page of docs/0"),
                (lambda stage: stage.checks[0].needs.append("4.9"), "names task 4.9"),
                (lambda stage: stage.checks[0].causes.clear(), "names no cause for 'drafts asked for: "),
                (lambda stage: stage.checks[0].causes.update(other="x"), "of which no fact speaks"),
                (lambda stage: stage.checks[0].causes.update({"drafts asked for": "so " * 40}), "a cause of 40 words"),
                (lambda stage: stage.checks.append(stage.checks[0]), "stands twice"),
                (lambda stage: stage.tasks.__delitem__(slice(3, None)), "has 3 tasks"),
                (lambda stage: stage.checks.clear(), "has no check")):
            stages = course.load(ROOT)
            change(stages[4])
            self.assertIn(words, "\n".join(table.problems(ROOT, stages)))


if __name__ == "__main__":
    unittest.main()
