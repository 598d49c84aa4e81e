"""Hidden cases on a course made for the purpose: what follows from the secret, and what they see."""
import json
import pathlib
import tempfile
import unittest

from teacher import grade_submission, hidden
from teacher.tests import mini_course


class Hidden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.root = pathlib.Path(cls.directory.name, "course")
        cls.build = mini_course.make(cls.root)
        cls.text = hidden.make(cls.root, cls.build, 0, "word", "after_published")
        cls.file = pathlib.Path(cls.directory.name, "00.json")
        cls.file.write_text(cls.text, encoding="utf-8")

    def graded(self, **bodies):
        folder = mini_course.submission(pathlib.Path(self.directory.name, "submission"), **bodies)
        return grade_submission.grade(self.root, self.build, 0, folder, self.file)

    def test_the_file_follows_from_the_secret(self):
        self.assertEqual(hidden.make(self.root, self.build, 0, "word", "after_published"), self.text)
        other = json.loads(hidden.make(self.root, self.build, 0, "words", "after_published"))
        own = json.loads(self.text)
        self.assertEqual([check["name"] for check in own["checks"]],
                         ["hidden_adds", "hidden_doubles", "hidden_text", "hidden_subtracts"])
        for one, two in zip(own["checks"], other["checks"]):
            self.assertNotEqual(one.get("seeds", one.get("json")), two.get("seeds", two.get("json")))
        self.assertNotEqual(own["checks"][2]["json"], ["--prompt", "Once"])

    def test_the_file_holds_no_answers(self):
        for seeds in json.loads(self.text)["expected"].values():
            for facts in seeds.values():
                for _, value in facts:
                    self.assertEqual(set(value), {"digest", "salt"})

    def test_the_reference_passes(self):
        record = self.graded()
        self.assertEqual((record["earned"], record["points"]), (100, 100))
        self.assertEqual([(t["task"], t["points"], t["visibility"]) for t in record["tests"]],
                         [(task, points / 2, visibility) for task, points in (("0.1", 50), ("0.2", 30), ("0.3", 20))
                          for visibility in ("visible", "after_published")])

    def test_a_table_of_the_public_answers_does_not(self):
        table = mini_course.source("one", "return a <= 3 ? a + b : 0;")
        record = self.graded(one=table)
        earned = {(t["task"], t["visibility"]): t["earned"] for t in record["tests"]}
        self.assertEqual([earned["0.1", kind] for kind in ("visible", "after_published")], [25, 0])
        said = record["tests"][1]["checks"][0]["message"]
        self.assertRegex(said, "seed \\+ 1: 0 is wrong")
        wanted = str(1 + json.loads(self.text)["checks"][0]["seeds"][0])
        for text in mini_course.emitted(record).values():
            self.assertNotIn(wanted, text)

    def test_floats_are_kept_with_their_tolerance_and_not_shown(self):
        kept = hidden.kept({"floats": [1.0, 2.0], "tolerance": 1e-5}, "salt")
        self.assertEqual(hidden.checks.difference({"floats": [1.0, 2.000001]}, kept), "")
        third = hidden.kept({"floats": [1 / 3], "tolerance": 1e-12}, "salt")
        self.assertEqual(hidden.checks.difference({"floats": [1 / 3]}, third), "")
        said = hidden.checks.difference({"floats": [1.0, 3.0]}, kept)
        self.assertRegex(said, "^all 2 together: relative error 4.5e-01, at most 1e-05$")


if __name__ == "__main__":
    unittest.main()
