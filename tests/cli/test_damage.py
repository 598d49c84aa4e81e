"""Models whose weights are damaged: a draft's NaN costs speed alone, a target's ends the request that meets it.

usage: test_damage.py BIN GOLDEN DEVICE
"""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import run_program, with_nan

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOOD = pathlib.Path(sys.argv.pop(1)).resolve() / "checkpoints" / "untied"  # random: any token may follow any other
DEVICE = ["--device", sys.argv.pop(1)]
SINGLE = {"04_greedy_speculation": [[]], "05_rejection_sampling": [[]],
          "07_adaptive_drafting": [[], ["--draft-length", "entropy"], ["--fallback", "lookup,llama"],
                                   ["--draft-of-draft", "lookup"]],
          "08_token_trees": [["--tree", tree] for tree in ("top:3x2x1", "best:8", "grow:8")],
          "10_beam_search": [["--beams", "1", "--draft-beams", beams] for beams in ("1", "3")]}
BATCHED = {"06_batched_verification": [[]], "07_adaptive_drafting": [[]],
           "08_token_trees": [["--tree", "top:3x2x1"]]}
PROMPT = ["--prompt-ids", "5,2,3", "--max-new-tokens", "24", "--ignore-eos"]


class DamageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.text = cls.run_json("04_greedy_speculation", "--no-speculation", *PROMPT)["tokens"]
        cls.late = cls.text[8]  # it is met in the middle of the text
        assert cls.late not in cls.text[:8] + [5, 2, 3]
        cls.everywhere = with_nan(GOOD, "model.norm.weight", 0, cls.place / "everywhere")
        cls.after_one = with_nan(GOOD, "model.embed_tokens.weight", cls.late, cls.place / "after_one")

    @classmethod
    def run_lines(cls, stage, *options):
        """The objects that a good run prints, and what it says on stderr."""
        code, text, errors = run_program(BIN / stage, "--target", GOOD, *DEVICE, "--output", "json", *options)
        assert code == 0, (stage, options, errors)
        said = [line for line in errors.splitlines() if "warning: the draft reads" not in line]
        return [json.loads(line) for line in text.splitlines()], said

    @classmethod
    def run_json(cls, stage, *options):
        return cls.run_lines(stage, *options)[0][0]

    def expect_note(self, said, draft):
        self.assertEqual(len(said), 1, said)
        self.assertIn(f": note: {draft}: the draft's l", said[0])
        self.assertIn("the text goes on without its drafts", said[0])

    def test_a_damaged_draft_changes_no_greedy_text(self):
        for stage, variants in SINGLE.items():
            for options in variants:
                with self.subTest(stage=stage, options=options):
                    for draft, drafts in ((self.everywhere, False), (self.after_one, True)):
                        lines, said = self.run_lines(stage, "--draft", draft, *PROMPT, *options)
                        self.assertEqual(lines[0]["tokens"], self.text)
                        self.expect_note(said, draft)
                        if "--fallback" not in options:
                            self.assertEqual(lines[0]["stats"]["drafted"] > 0, drafts)

    def test_a_damaged_draft_changes_no_hypothesis(self):
        options = ["--beams", "3", "--num-return", "3", *PROMPT]
        want = self.run_json("10_beam_search", *options, "--no-speculation")["hypotheses"]
        for draft in (self.everywhere, self.after_one):
            lines, said = self.run_lines("10_beam_search", "--draft", draft, *options)
            self.assertEqual(lines[0]["hypotheses"], want)
            self.expect_note(said, draft)

    def test_a_damaged_draft_changes_no_sampled_text(self):
        """By rules whose text is plain sampling's, whatever the drafts."""
        coupled = {("05_rejection_sampling", "--acceptance"), ("07_adaptive_drafting", "--acceptance"),
                   ("08_token_trees", "--tree", "chains:3", "--siblings"),
                   ("08_token_trees", "--tree", "distinct:3x2", "--siblings")}
        for stage, *rule in coupled:
            for seed in map(str, range(6)):
                options = [*PROMPT, "--temperature", "0.7", "--seed", seed, *rule, "coupled"]
                want = self.run_json(stage, *options, "--no-speculation")["tokens"]
                for draft in (self.everywhere, self.after_one):
                    with self.subTest(stage=stage, seed=seed, draft=draft.name):
                        lines, _ = self.run_lines(stage, *options, "--draft", draft)
                        self.assertEqual(lines[0]["tokens"], want)

    def test_an_inner_draft_is_named(self):
        for options, damaged in ((["--draft", GOOD, "--draft-of-draft", self.after_one], self.after_one),
                                 (["--draft", self.after_one, "--draft-of-draft", GOOD], self.after_one)):
            lines, said = self.run_lines("07_adaptive_drafting", *PROMPT, *options)
            self.assertEqual(lines[0]["tokens"], self.text)
            self.expect_note(said, damaged)

    def requests(self):
        path = self.place / "requests.jsonl"
        prompts = [[5, 2, 3], [5, self.late, 3], [9, 8], [5, 2, 4], [self.late], [7, 7, 7, 7]]
        lines = [{"id": f"{i}", "prompt_ids": ids, "max_new_tokens": 12, "ignore_eos": True}
                 for i, ids in enumerate(prompts)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return ["--requests", path]

    def test_a_damaged_draft_changes_no_text_of_a_batch(self):
        for stage, variants in BATCHED.items():
            for options in variants:
                options = [*self.requests(), *options]
                want = {line["id"]: line["tokens"] for line in self.run_lines(stage, *options, "--no-speculation")[0]
                        if "id" in line}
                self.assertEqual(len(want), 6)
                with self.subTest(stage=stage, options=options):
                    lines, said = self.run_lines(stage, *options, "--draft", self.after_one)
                    got = {line["id"]: line for line in lines if "id" in line}
                    self.assertEqual({name: line["tokens"] for name, line in got.items()}, want)
                    self.expect_note(said, self.after_one)
                    self.assertGreater(got["2"]["stats"]["drafted"], 0)
                    self.assertEqual(got["4"]["stats"]["drafted"], 0)

    def test_a_damaged_target_chooses_no_token(self):
        for stage in ("01_naive_decoder", "02_contiguous_kv_cache", "03_paged_kv_cache"):
            options = ["--target", self.everywhere, *PROMPT, *(DEVICE if stage > "02" else [])]
            code, text, errors = run_program(BIN / stage, *options)
            self.assertEqual((code, text), (2, ""))
            self.assertIn(f"{stage}: the target's logits are not numbers", errors)

    def test_a_damaged_target_ends_the_run_and_is_named(self):
        for stage, variants in SINGLE.items():
            for temperature in ("0", "0.7") if "05" < stage < "10" else ([],):
                for options in variants:
                    with self.subTest(stage=stage, options=options, temperature=temperature):
                        sampling = ["--temperature", temperature] if temperature else []
                        code, _, errors = run_program(BIN / stage, "--target", self.everywhere, "--draft", GOOD,
                                                      *DEVICE, "--quiet", *PROMPT, *options, *sampling)
                        self.assertEqual(code, 2)
                        self.assertRegex(errors.splitlines()[-1], f"^{stage}: the target's logit.*damaged$")

    def test_a_damaged_target_ends_the_requests_that_meet_it(self):
        for stage in BATCHED:
            with self.subTest(stage=stage):
                code, text, errors = run_program(BIN / stage, "--target", self.after_one, "--draft", GOOD, *DEVICE,
                                                 "--output", "json", *self.requests())
                got = {line["id"]: line for line in map(json.loads, text.splitlines()) if "id" in line}
                self.assertEqual(len(got), 6, (code, errors))
                for name in ("1", "4"):
                    self.assertEqual(got[name]["finish_reason"], "error")
                    self.assertIn("the target's logit", got[name]["error"])
                self.assertGreater(sum(line["finish_reason"] != "error" for line in got.values()), 0)


if __name__ == "__main__":
    unittest.main()
