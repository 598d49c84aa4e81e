"""The marks of every stage, for what is handed in from its assignment.

    test_marks.py BUILD

A starter as it is cut gets none, the reference all; the reference without a task loses just the points of the
checks that need that task. (Of the tasks of a stage one is left out, which changes with the sources; with
SPECDEC_FULL=1 each of them.)
"""
import os
import sys
import tempfile
import unittest
from pathlib import Path

from student import course
from teacher import assignment, grade_submission, sample, stubs

ROOT = Path(__file__).resolve().parents[4]
BUILD = Path(sys.argv.pop(1)).resolve()
STAGES = course.load(ROOT)


def points_without(stage, missing):
    """What is left where a task is a stub: of each task's points the share of its checks that do not need that one."""
    def share(task):
        own = [check for check in stage.checks if check.task == task.name]
        return sum(missing not in (check.task, *check.needs) for check in own) / len(own)
    return sum(round(task.points * share(task), 2) for task in stage.tasks)


class Marks(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = Path(directory.name)

    def earned(self, stage, submission):
        record = grade_submission.grade(ROOT, BUILD, stage.number, submission)
        self.assertEqual(record["points"], 100)
        return record["earned"]

    def handed_in(self, name, files):
        """A folder with these files of a submission."""
        for path, text in files.items():
            (self.folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name / path).write_text(text, encoding="utf-8")
        return self.folder / name

    def test_a_starter_gets_nothing_and_the_reference_everything(self):
        for number, stage in STAGES.items():
            with self.subTest(stage=number):
                assignment.make_tree(ROOT, number, self.folder / f"cut{number}")
                self.assertEqual(self.earned(stage, self.folder / f"cut{number}"), 0)
                files = {task.path: (ROOT / task.path).read_text(encoding="utf-8") for task in stage.tasks}
                self.assertEqual(self.earned(stage, self.handed_in(f"reference{number}", files)), 100)

    def test_a_task_left_out_costs_what_needs_it(self):
        for number, stage in STAGES.items():
            for task in stage.tasks if os.environ.get("SPECDEC_FULL") else sample.some(stage.tasks, 1, ROOT):
                with self.subTest(task=task.name):
                    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in {t.path for t in stage.tasks}}
                    files.update(stubs.stubbed_sources(ROOT, stage, {task.name}))
                    files = {path: text for path, text in files.items() if path != str(stubs.HEADER_PLACE)}
                    self.assertAlmostEqual(self.earned(stage, self.handed_in(task.name, files)), points_without(stage, task.name))


if __name__ == "__main__":
    unittest.main()
