#!/usr/bin/env python3
"""Tests of programs.py on real runs: it looks at counts, which are the same on every machine, never at times.

    test_programs.py BUILD
"""
import math
import pathlib
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
import bench  # noqa: E402
import programs  # noqa: E402
import run  # noqa: E402
from programs import Programs, Setting, StageSweep, STAGES, TextSweep  # noqa: E402

PLAIN = STAGES[4], ("--no-speculation",)
BUILT = Programs(BUILD)


def counters(run, against=PLAIN, tokens=16, texts=("stories-0",), **fields):
    sweep = TextSweep(BUILT, [Setting({"benchmark": "a", **fields}, run, against, texts)], tokens)
    return sweep.one_round(0)[0]


class Texts(unittest.TestCase):
    def has_numbers(self, found, *names):
        for name in names:
            self.assertTrue(isinstance(found[name], (int, float)) and math.isfinite(found[name]), (name, found))

    def test_greedy_speculation(self):
        found = counters((STAGES[4], ("--spec-length", "3")))
        self.assertAlmostEqual(found["alpha"], 11 / 14)
        self.assertAlmostEqual(found["emitted_per_round"], 16 / 6)
        self.has_numbers(found, "tokens_per_second", "plain_tokens_per_second", "gain", "mean_spec_length", "c", "v",
                         "predicted_formula", "predicted_accounting", "gain_over_accounting")

    def test_rejection_sampling_may_write_other_texts(self):
        sampled = ("--temperature", "1")
        found = counters((STAGES[5], ("--spec-length", "3", *sampled)), (STAGES[5], ("--no-speculation", *sampled)), T=1)
        self.has_numbers(found, "alpha", "gain", "predicted_accounting")

    def test_synthetic_drafts_are_as_right_as_is_asked(self):
        for asked, alpha, emitted in (("1", 1, 4), ("0", 0, 1)):
            found = counters((programs.SYNTHETIC, (asked, "--spec-length", "3")))
            self.assertEqual((found["alpha"], found["emitted_per_round"]), (alpha, emitted))
            self.has_numbers(found, "gain", "c", "v", "predicted_formula")

    def test_ways_to_draft(self):
        with tempfile.TemporaryDirectory() as folder:
            costs = ("--cost-profile", f"{folder}/costs.json")
            for way in (("--draft-length", "entropy"), ("--fallback", "lookup,llama", "--draft-of-draft", "bigram",
                                                        "--draft-length", "gain")):
                found = counters((STAGES[7], (*way, *costs)), tokens=12)
                self.has_numbers(found, "gain", "c", "v", "alpha", "emitted_per_round", "predicted_accounting")

    def test_trees(self):
        found = counters((STAGES[8], ("--tree", "top:4", "--spec-length", "1")), (STAGES[4], ("--spec-length", "3")), 12)
        self.assertEqual(found["emitted_per_round"], 2)
        self.assertEqual(found["nodes_per_round"], 4)
        self.has_numbers(found, "gain", "tokens_per_second", "plain_tokens_per_second")

    def test_another_text_ends_the_run(self):
        class Changed(Programs):
            def decode(self, name, words, prompt, tokens):
                return {**super().decode(name, words, prompt, tokens), "tokens": [len(words)]}
        sweep = TextSweep(Changed(BUILD), [Setting({}, (STAGES[4], ("--spec-length", "3")), PLAIN, ("code-3",))], 4)
        with self.assertRaisesRegex(SystemExit, "code-3: --spec-length 3: this is not the text of plain decoding"):
            sweep.one_round(0)

    def test_a_text_is_decoded_plainly_once_for_settings_in_a_row(self):
        class Counted(Programs):
            calls = []

            def decode(self, name, words, prompt, tokens):
                self.calls.append((len(prompt), words))
                return {"device": "CPU", "tokens": [1], "stats": {"emitted": 1, "decode_seconds": 1, "accepted": 0, "tested": 0,
                                                                  "rounds": 1, "mean_spec_length": 0}}
        settings = [Setting({}, (STAGES[4], ("--spec-length", K)), PLAIN, ("code-3", "poems-1")) for K in "13"]
        sweep = TextSweep(Counted(BUILD), settings, 4)
        sweep.one_round(0)
        self.assertEqual([words for _, words in Counted.calls], 2 * [PLAIN[1], ("--spec-length", "1"), ("--spec-length", "3")])
        self.assertEqual(len({length for length, _ in Counted.calls[:3]}), 1)
        self.assertEqual([identity["text"] for identity in sweep.identities], ["code", "code", "poems", "poems"])


class Batches(unittest.TestCase):
    def test_a_batch(self):
        sweep = programs.batches_of(BUILT, [("embedded", "embedded")], [2], [0, 3], 12)
        plain, found = sweep.one_round(0)
        self.assertAlmostEqual(found["alpha"], 18 / 19)
        self.assertEqual((found["rows"], plain["rows"], plain["gain"], plain["v"]), (8, 2, 1, 1))
        self.assertTrue(all(math.isfinite(found[name]) for name in ("tokens_per_second", "gain", "c", "v", "emitted_per_round")))
        with self.assertRaisesRegex(SystemExit, "no step had rounds of 3 requests"):
            programs.full_batch({"decode_steps_by_batch_size": [{"requests": 2}]}, 3)

    def test_the_stages_write_the_same_texts(self):
        sweep = StageSweep(BUILT, [("embedded", "embedded", 1)], ("code-3", "stories-0"), 8)
        found = sweep.one_round(0)
        self.assertEqual([identity["stage"] for identity in sweep.identities], [1, 2, 3, 4, 5, 6])
        self.assertNotIn("gain", found[0])
        self.assertTrue(all(entry["tokens_per_second"] > 0 and entry["gain"] > 0 for entry in found[1:]))


class Settings(unittest.TestCase):
    def test_what_bench_measures(self):
        for full, count in ((False, 12), (True, 119)):
            settings = bench.speculation_settings(full, pathlib.Path("folder"))
            self.assertEqual(len({tuple(setting.fields.items()) for setting in settings}), count)
        self.assertEqual(programs.draft_words("self_int8"), ["--draft-weights", "int8", "--draft-kind", "self"])
        self.assertEqual(programs.draft_words("14m"), ["--inflate-draft", "14m"])
        with self.assertRaisesRegex(SystemExit, "make build"):
            run.program(pathlib.Path("/nowhere"), STAGES[4])


if __name__ == "__main__":
    unittest.main()
