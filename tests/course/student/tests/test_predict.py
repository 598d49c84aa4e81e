"""Tests of predict.py: what it counts, what it says of a prediction, and what it refuses.

usage: python3 tests/course test_predict BUILD_DIRECTORY
"""
import contextlib
import io
import sys
import unittest
import unittest.mock

from student import predict, tool

# What the programs count, the same on every machine. Speed-ups are measured, so none stands here.
COUNTED = {
    0: {"emitted": 2.665},
    1: {"rows": 29.5},
    2: {"rows": 1.225},
    3: {"rows": 1.225, "pages": 13},
    4: {"forwards": 0.31},
    5: {"forwards": 0.28},
    6: {"forwards": 0.085, "rows": 1.4275},
}
FORMULA = {1: {"rows": 29.5}, 2: {"rows": 1.225}, 3: {"rows": 1.225, "pages": 13}}


def said(*arguments):
    """The exit code, and everything that was printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            code = predict.main(list(arguments))
        except SystemExit as exit_:
            code = exit_.code
        except tool.Trouble as trouble:
            code = 2
            print(trouble)
    return code, text.getvalue()


class Counts(unittest.TestCase):
    def test_are_the_same_on_every_machine(self):
        with unittest.mock.patch.object(predict, "TIMED_RUNS", 1):
            for stage, (wanted, _, run) in predict.STAGES.items():
                with self.subTest(stage=stage):
                    result = run(BUILD)
                    self.assertEqual(set(result.counted), set(wanted))
                    for name, value in COUNTED[stage].items():
                        self.assertAlmostEqual(result.counted[name], value, places=9)
                    for name, value in FORMULA.get(stage, {}).items():
                        self.assertAlmostEqual(result.formula[name], value, places=9)
                    self.assertGreater(result.counted.get("speedup", 1), 0)

    def test_stand_beside_the_prediction(self):
        code, text = said("--build", BUILD, "--stage", "3", "--rows", "1.2", "--pages", "10")
        self.assertEqual(code, 0)
        self.assertRegex(text, r"rows a token +1\.200 +1\.225 +1\.225\n")
        self.assertRegex(text, r"pages of 4 +10\.000 +13\.000 +13\.000\n")
        self.assertIn("ROWS: close\n", text)
        self.assertIn("PAGES: too low by a factor 1.30: most often because the prompt was left out", text)


class Verdicts(unittest.TestCase):
    def test_every_quantity_of_every_stage_has_a_reason_on_both_sides(self):
        for stage, (wanted, _, _) in predict.STAGES.items():
            for name in wanted:
                for predicted, side in ((2, "high"), (0.5, "low")):
                    words = predict.verdict(stage, name, predicted, 1)
                    self.assertTrue(words.startswith(f"too {side} by a factor 2.00: most often because "), words)

    def test_a_guess_of_alpha_and_a_time_have_more_room(self):
        self.assertEqual(predict.verdict(2, "rows", 1.04, 1), "close")
        self.assertNotEqual(predict.verdict(2, "rows", 1.1, 1), "close")
        self.assertEqual(predict.verdict(4, "forwards", 1.1, 1), "close")
        self.assertNotEqual(predict.verdict(4, "forwards", 0.8, 1), "close")
        self.assertEqual(predict.verdict(4, "speedup", 1.19, 1), "close")
        self.assertNotEqual(predict.verdict(4, "speedup", 0.8, 1), "close")


class Refusals(unittest.TestCase):
    def test_missing_numbers_are_asked_for(self):
        code, text = said("--stage", "4", "--forwards", "0.3")
        self.assertEqual(code, 2)
        self.assertIn("usage: make predict STAGE=4 FORWARDS=... SPEEDUP=...\n", text)
        self.assertIn("docs/04_greedy_speculation.md", text)

    def test_a_number_of_another_stage(self):
        code, text = said("--stage", "2", "--rows", "1.2", "--emitted", "3")
        self.assertEqual(code, 2)
        self.assertIn("usage: make predict STAGE=2 ROWS=...\n", text)

    def test_what_is_no_number(self):
        for number in ("0", "-1", "nan", "inf", "many"):
            code, text = said("--stage", "2", "--rows", number)
            self.assertEqual(code, 2)
            self.assertIn("--rows", text)

    def test_programs_that_are_not_there(self):
        code, text = said("--build", "/nowhere", "--stage", "2", "--rows", "1.2")
        self.assertEqual(code, 2)
        self.assertIn("is not built: make build", text)

    def test_a_program_that_fails(self):
        with unittest.mock.patch.object(predict, "PROMPT", ""):
            code, text = said("--build", BUILD, "--stage", "2", "--rows", "1.2")
        self.assertEqual(code, 2)
        self.assertIn("02_contiguous_kv_cache failed:\n", text)

    def test_every_chapter_exists(self):
        for _, chapter, _ in predict.STAGES.values():
            text = (predict.REPOSITORY / "docs" / chapter).read_text(encoding="utf-8")
            self.assertTrue("\n## Predict, then measure\n" in text, chapter)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
