"""Stage 0 from outside: options, output, exit codes, messages. usage: test_toy.py PROGRAM"""
import sys
import unittest

from programs import ProgramTest, run_program, run_program_json


def run(*arguments):
    return run_program(PROGRAM, *arguments)


def run_json(*arguments):
    return run_program_json(PROGRAM, *arguments)


class ToyTest(ProgramTest):
    def test_shows_tables_rounds_and_the_proof(self):
        code, text, errors = run()
        self.assertEqual((code, errors), (0, ""))
        for words in ("target_probs", "draft_probs", "round 3, text so far", "rejected", "norm(max(0, p - q))",
                      "target alone   speculation", "residual skipped", "residual not clamped",
                      "bonus from the draft"):
            self.assertIn(words, text)
        self.assertNotIn("\x1b", text, "no colours where there is no terminal")

    def test_both_laws_are_printed_side_by_side(self):
        lines = run()[1].split("target alone   speculation\n")[1].split("\n\n")[0].splitlines()
        pairs = [line.split()[-2:] for line in lines]
        self.assertEqual(len(pairs), 16, "texts of two tokens")
        self.assertTrue(all(target == speculation for target, speculation in pairs))
        self.assertAlmostEqual(sum(float(target) for target, _ in pairs), 1)

    def test_the_laws_are_equal_and_the_controls_are_not(self):
        for spec_length in range(1, 7):
            result = run_json("--spec-length", str(spec_length))
            self.assertLessEqual(result["largest_difference"], 1e-12)
            self.assertEqual(result["law_length"], spec_length + 2)
            self.assertEqual(len(result["wrong_rules"]), 3)
            for wrong in result["wrong_rules"]:
                self.assertGreater(wrong["largest_difference"], 1e-3, wrong["name"])
            self.assertTrue(1 < result["mean_emitted"] <= spec_length + 1)

    def test_every_round_obeys_its_own_uniforms(self):
        ends = set()
        for seed in range(40):
            result = run_json("--seed", str(seed))
            text = [3]
            for record in result["rounds"]:
                self.assertEqual(record["before"], text)
                text += record["emitted"]
                ends.add(self.check_round(record, result))
            self.assertEqual(result["tokens"], text[1:])
        self.assertEqual(ends, {0, 1, 2, 3}, "every number of accepted drafts occurs")

    def test_stats_count_the_rounds(self):
        for seed in range(10):
            result = run_json("--seed", str(seed))
            stats, rounds = result["stats"], result["rounds"]
            self.assertEqual(stats["rounds"], 3)
            self.assertEqual(stats["accepted"], sum(record["accepted"] for record in rounds))
            self.assertEqual(stats["emitted"], len(result["tokens"]))
            self.assertEqual(stats["tested"], sum(draft["tested"] for record in rounds for draft in record["drafts"]))

    def check_round(self, record, result):
        """Follows a round through the tables; returns how many drafts it accepted."""
        context, accepted = record["before"][-1], record["accepted"]
        self.assertEqual(len(record["drafts"]), result["spec_length"])
        self.assertEqual(len(record["emitted"]), accepted + 1)
        for i, draft in enumerate(record["drafts"]):
            self.assertEqual(draft["tested"], i <= accepted)
            self.assertEqual(draft["target_prob"], result["target_probs"][context][draft["token"]])
            self.assertEqual(draft["draft_prob"], result["draft_probs"][context][draft["token"]])
            self.assertGreater(draft["draft_prob"], 0)
            if i < accepted:
                self.assertEqual(draft["token"], record["emitted"][i])
            if draft["tested"]:
                ratio = draft["target_prob"] / draft["draft_prob"]
                self.assertEqual(draft["accepted"], draft["uniform"] < ratio)
                self.assertEqual(draft["accepted"], i < accepted)
            if i == accepted:
                owed = result["target_probs"][context][record["emitted"][i]] \
                       - result["draft_probs"][context][record["emitted"][i]]
                self.assertGreater(owed, 0, "a correction is a token of which the target has more")
            context = draft["token"]
        return accepted

    def test_the_seed_decides_the_text(self):
        self.assertEqual(run("--seed", "7"), run("--seed", "7"))
        self.assertGreater(len({run("--quiet", "--seed", str(seed))[1] for seed in range(8)}), 4)

    def test_quiet_prints_the_text_alone(self):
        for seed in ("0", "18446744073709551615"):
            code, text, errors = run("--quiet", "--seed", seed)
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual(text, run_json("--seed", seed)["text"] + "\n")
            self.assertLessEqual(set(text.split()), {"the", "cat", "saw", "."})

    def test_check_passes_and_says_what_it_checked(self):
        for spec_length in ("1", "3", "6"):
            code, text, errors = run("--check", "--spec-length", spec_length)
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual(text.count("ok  "), 4)
            self.assertEqual(text.count("control that must differ"), 3)
            self.assertIn("4 of 4 checks passed", text)

    def test_help_and_version_are_good(self):
        self.expect_help_and_version(PROGRAM, "--spec-length K")


class BadInputTest(ProgramTest):
    def expect_error(self, words, *arguments):
        self.expect_bad_input(words, PROGRAM, *arguments)

    def test_wrong_options(self):
        self.expect_error("--nonsense", "--nonsense")
        self.expect_error("stray", "stray")
        self.expect_error("--output", "--output", "xml")
        self.expect_error("--spec-length", "--spec-length")
        for number in ("0", "7", "-1", "x", "1.5", ""):
            self.expect_error("--spec-length", "--spec-length", number)
        for number in ("-1", "x", "1.5", "99999999999999999999999"):
            self.expect_error("--seed", "--seed", number)

    def test_options_of_later_stages_name_the_stage(self):
        self.expect_error("this stage has no --target; 01_naive_decoder has it", "--target", "x")
        self.expect_error("this stage has no --draft; 04_greedy_speculation has it", "--draft", "x")
        self.expect_error("this stage has no --temperature; 05_rejection_sampling has it", "--temperature=1")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
