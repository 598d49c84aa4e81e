"""Tests of predict.py: what it counts, what it says of a prediction, and what it refuses.

usage: python3 tests/course test_predict BUILD_DIRECTORY
"""
import contextlib
import io
import random
import sys
import unittest
import unittest.mock

import tool
from student import predict

# What the programs count, the same on every machine. Speedups are measured, so none stands here.
COUNTED = {
    0: {"emitted": 2.665},
    1: {"rows": 29.5},
    2: {"rows": 1.225},
    3: {"rows": 1.225, "pages": 13},
    4: {"forwards": 0.31},
    5: {"forwards": 0.28},
    6: {"forwards": 0.085, "rows": 1.4275},
    7: {"forwards": 0.27, "rows": 1.62},
    8: {"forwards": 0.29, "rows": 4.73},
    9: {"forwards": 0.55, "rows": 3.39},
    10: {"forwards": 0.3, "rows": 4.28},
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
        self.assertRegex(text, r"rows per token +1\.200 +1\.225 +1\.225\n")
        self.assertRegex(text, r"pages of 4 +10\.000 +13\.000 +13\.000\n")
        self.assertIn("ROWS: close\n", text)
        self.assertIn("PAGES: too low by a factor of 1.30: most often because the prompt was left out", text)


class Verdicts(unittest.TestCase):
    def test_every_quantity_of_every_stage_has_a_reason_on_both_sides(self):
        for stage, (wanted, _, _) in predict.STAGES.items():
            for name in wanted:
                for predicted, side in ((2, "high"), (0.5, "low")):
                    words = predict.verdict(stage, name, predicted, 1)
                    self.assertTrue(words.startswith(f"too {side} by a factor of 2.00: most often because "), words)

    def test_a_guess_of_alpha_and_a_time_have_more_room(self):
        self.assertEqual(predict.verdict(2, "rows", 1.04, 1), "close")
        self.assertNotEqual(predict.verdict(2, "rows", 1.1, 1), "close")
        self.assertEqual(predict.verdict(4, "forwards", 1.1, 1), "close")
        self.assertNotEqual(predict.verdict(4, "forwards", 0.8, 1), "close")
        self.assertEqual(predict.verdict(4, "speedup", 1.19, 1), "close")
        self.assertNotEqual(predict.verdict(4, "speedup", 0.8, 1), "close")


def made_up_run(chance, true_speedup):
    """What a noisy machine would show: each time is stretched by up to a half, now and then by much more. The medians
    behind the accounting are good to 4 %."""
    def stretched(seconds):
        return seconds * (1 + chance.random() / 2) * (chance.uniform(1.5, 4) if chance.random() < 0.1 else 1)
    clock = [stretched(true_speedup) / stretched(1) for _ in range(predict.TIMED_RUNS)]
    return predict.Speedup(clock, true_speedup * chance.uniform(0.96, 1.04))


class Times(unittest.TestCase):
    def test_an_odd_number_of_runs_has_a_median_that_was_measured(self):
        self.assertEqual(predict.TIMED_RUNS % 2, 1)
        self.assertEqual(predict.Speedup([3, 1, 2], 2).median, 2)

    def test_plain_and_speculative_runs_take_turns(self):
        order = []
        predict.in_turn(lambda: order.append("plain"), lambda: order.append("speculative"))
        self.assertEqual(order, ["plain", "speculative"] * predict.TIMED_RUNS)

    def test_are_close_to_any_value_that_was_measured(self):
        measured = predict.Speedup([1, 1.5, 2], 1.5)
        for predicted, words in ((0.82, "too low by a factor of 1.83: "), (0.84, "close"), (1.5, "close"), (2.39, "close"),
                                 (2.41, "too high by a factor of 1.61: ")):
            said_of_it = predict.verdict_of_time(4, predicted, measured)
            self.assertTrue(said_of_it.startswith(words), (predicted, said_of_it))

    def test_have_no_verdict_where_clock_and_accounting_disagree(self):
        for accounting, is_left_out in ((1.5, False), (1.31, False), (1.29, True), (1.72, False), (1.74, True)):
            words = predict.verdict_of_time(4, 5, predict.Speedup([1.4, 1.5, 1.6], accounting))
            self.assertEqual(words.startswith("no verdict: the machine is busy with something else"), is_left_out, words)

    def test_noise_never_makes_one_prediction_too_high_and_too_low(self):
        chance = random.Random(7)
        for true_speedup in (0.8, 1.5):
            runs = [made_up_run(chance, true_speedup) for _ in range(3000)]
            for predicted in (true_speedup * factor / 20 for factor in range(10, 41)):
                words = [predict.verdict_of_time(4, predicted, run) for run in runs]
                sides = {word.split(" by ")[0] for word in words if word.startswith("too ")}
                self.assertLessEqual(len(sides), 1, predicted)
                if predicted == true_speedup:
                    self.assertEqual(sides, set())
            self.assertGreater(sum(not run.is_busy() for run in runs), len(runs) / 2)

    def test_the_table_shows_the_spread(self):
        run = predict.Run("program", {"forwards": 0.3}, {"speedup": 1.5}, speedup=predict.Speedup([1.25, 1.5, 1.75], 1.5))
        text = "\n".join(predict.table(4, run, {"forwards": 0.3, "speedup": 1.5}))
        self.assertRegex(text, r"\* +1\.500 +1\.500 +1\.500\n")
        self.assertIn("the median of 3 pairs of runs, which range from 1.25 to 1.75", text)


class Refusals(unittest.TestCase):
    def test_a_stage_that_is_none_is_told_in_one_line(self):
        for stage, words in (("", "STAGE= is missing"), ("11", "from 0 to 10"), ("four", "make predict STAGE=10")):
            code, text = said("--stage", stage, "--make", "--build", "/dev/null/nowhere")
            self.assertEqual((code, text.count("\n")), (2, 1), text)
            self.assertIn(words, text)

    def test_a_stage_that_an_assignment_has_not(self):
        with unittest.mock.patch.object(predict, "folder_of", lambda n: "folder" if n < 4 else None):
            self.assertEqual(said("--stage", "5"), (2, "stage 5 is not in this assignment\n"))
            self.assertIn("from 0 to 3", said("--stage", "11")[1])

    def test_nothing_is_built_before_the_numbers_are_there(self):
        with unittest.mock.patch.object(predict, "make") as make:
            self.assertEqual(said("--stage", "4", "--make")[0], 2)
            make.assert_not_called()

    def test_missing_numbers_are_asked_for(self):
        code, text = said("--stage", "4", "--forwards", "0.3")
        self.assertEqual(code, 2)
        self.assertIn("usage: make predict STAGE=4 FORWARDS=... SPEEDUP=...\n", text)
        self.assertIn("docs/04_greedy_speculation/", text)

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

    def test_alpha_of_a_round_is_accepted_over_tested(self):
        result = predict.output_of(BUILD, "00_toy_speculation", ["--spec-length", "2"])
        rows = result["target_probs"], result["draft_probs"]
        self.assertAlmostEqual(predict.accepted_of_tested(*rows, 3, 2), 1.665 / 2)
        self.assertAlmostEqual(predict.accepted_of_tested(*rows, 3, 1), 1)  # after "." both rows are equal
        self.assertAlmostEqual(predict.accepted_of_tested(*rows, 0, 1), 0.65)
        self.assertIn("accepted / tested, 0.8325, it gives 2.526", said("--build", BUILD, "--stage", "0", "--emitted", "2")[1])

    def test_every_chapter_exists(self):
        for _, chapter, _ in predict.STAGES.values():
            page = predict.REPOSITORY / predict.page_of(chapter)
            self.assertTrue(page.is_file() and page.parent.name == chapter, chapter)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
