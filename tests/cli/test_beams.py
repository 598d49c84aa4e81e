#!/usr/bin/env python3
"""Beam search from the command line: what users give and what they see.

usage: test_beams.py FOLDER_OF_PROGRAMS
"""
import pathlib
import sys
import unittest

from programs import ProgramTest, run_program, run_program_json

STAGE, GREEDY = "10_beam_search", "04_greedy_speculation"
PROMPT = ["--prompt", "def add(a, b):", "--max-new-tokens", "24"]
PLAIN = ["--no-speculation"]


class BeamsTest(ProgramTest):
    def run_json(self, *options):
        return run_program_json(PROGRAMS / STAGE, *PROMPT, *options)

    def test_every_draft_and_cache_finds_the_plain_hypotheses(self):
        want = self.run_json(*PLAIN, "--num-return", "4")
        self.assertEqual(len(want["hypotheses"]), 4)
        self.assertEqual(want["stats"]["rounds"], want["stats"]["steps"])
        for i, kind in enumerate(("llama", "random", "unigram", "bigram", "lookup", "ngram")):
            for cache in (["--cache", "contiguous"], ["--page-size", "1", "--draft-page-size", "3"]):
                with self.subTest(kind=kind, cache=cache):
                    got = self.run_json("--num-return", "4", "--draft-kind", kind, "--spec-length", str(1 + i % 3),
                                        "--draft-beams", str(4 + i), *cache)
                    self.assertEqual(got["hypotheses"], want["hypotheses"])
                    self.assertEqual((got["tokens"], got["text"]), (want["tokens"], want["text"]))
                    self.assertEqual(got["stats"]["steps"], want["stats"]["steps"])
                    self.assertLessEqual(got["stats"]["target_forwards"], got["stats"]["steps"])

    def test_one_beam_is_greedy_speculation(self):
        want = run_program_json(PROGRAMS / GREEDY, *PROMPT)
        got = self.run_json("--beams", "1", "--draft-beams", "1")
        self.assertEqual(got["tokens"], want["tokens"])
        self.assertEqual(got["stats"]["rounds"], want["stats"]["rounds"])

    def test_rules(self):
        best = {}
        for penalty in ("0", "1", "2"):
            for stop in ("false", "true", "never"):
                rules = ["--length-penalty", penalty, "--early-stopping", stop, "--num-return", "3", "--beams", "3"]
                plain, got = self.run_json(*rules, *PLAIN), self.run_json(*rules)
                self.assertEqual(got["hypotheses"], plain["hypotheses"])
                scores = [hypothesis["score"] for hypothesis in got["hypotheses"]]
                self.assertEqual(scores, sorted(scores, reverse=True))
                for found in got["hypotheses"]:
                    self.assertAlmostEqual(found["score"], found["sum"] / len(found["tokens"]) ** float(penalty))
                best[penalty, stop] = got["hypotheses"][0]["score"]
        for stop in ("false", "true"):  # "never" finds the best text, or one as good
            self.assertLessEqual(best["0", stop], best["0", "never"])

    def test_an_inflated_pair_finds_the_same(self):
        small = self.run_json("--num-return", "2")
        large = self.run_json("--num-return", "2", "--inflate-target", "134m", "--inflate-draft", "14m")
        self.assertEqual([found["tokens"] for found in small["hypotheses"]], [found["tokens"] for found in large["hypotheses"]])
        self.assertEqual(small["stats"]["rounds"], large["stats"]["rounds"])

    def test_text(self):
        want = self.run_json("--num-return", "3")["hypotheses"]
        code, text, errors = run_program(PROGRAMS / STAGE, *PROMPT)
        self.assertEqual((code, text), (0, want[0]["text"] + "\n"), errors)
        self.assertRegex(errors, r"6 draft beams: 24 steps in \d+ passes of the target")
        code, text, _ = run_program(PROGRAMS / STAGE, *PROMPT, "--num-return", "3", "--quiet")
        self.assertEqual(text, "".join(f"[{i}] {found['score']:.4f}\n{found['text']}\n" for i, found in enumerate(want, 1)))

    def test_explain_says_which_beams_died(self):
        _, _, errors = run_program(PROGRAMS / STAGE, *PROMPT, "--explain", "--spec-length", "2")
        self.assertIn("round 1: 2 levels of drafts", errors)
        self.assertRegex(errors, r"beam \d dies: its best continuation has rank \d+, \d+\.\d+ below the first")
        self.assertRegex(errors, r"\d of 4 not drafted, so the pass has no more steps")
        self.assertIn("  step 24:\n    all end here\n", errors)

    def test_bad_input(self):
        for words, *options in (
                ("--draft-beams 3 is less than --beams 8", "--beams", "8", "--draft-beams", "3"),
                ("the vocabulary has 4096 tokens", "--beams", "5000"),
                ("40 beams and 60 x 5 drafts are 340 rows, and a pass has 256", "--beams", "40", "--draft-beams", "60"),
                ("300 beams and 300 x 0 drafts are 300 rows", "--beams", "300", "--no-speculation"),
                ("3 pages of 16 cannot hold", "--pages", "3"),
                ("--num-return 9: a search with --beams 4 finds 4 texts", "--num-return", "9"),
                ("this stage has no --temperature; 09_self_drafting has it", "--temperature", "1"),
                ("this stage has no --spec-length auto; 09_self_drafting has it", "--spec-length", "auto"),
                ("this stage has no --draft-kind heads; 09_self_drafting has it", "--draft-kind", "heads"),
                ("this stage has no --stop; 09_self_drafting has it", "--stop", "x"),
                ("this stage has no --tree; 09_self_drafting has it", "--tree", "top:2"),
                ("--beams is \"0\"; it takes a whole number from 1", "--beams", "0"),
                ("--length-penalty is nan; it takes a number of at least -16 and at most 16", "--length-penalty", "nan"),
                ("{false,true,never}", "--early-stopping", "maybe")):
            self.expect_bad_input(words, PROGRAMS / STAGE, *PROMPT, *options)
        self.expect_bad_input("this stage has no --beams; 10_beam_search has it", PROGRAMS / "09_self_drafting", "--beams", "2")


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
