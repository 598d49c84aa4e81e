#!/usr/bin/env python3
"""Self-drafting from the command line: what users give and what they see.

usage: test_self_drafting.py PROGRAMS ROOT
"""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import ProgramTest, run_program, run_program_json

STAGE, PLAIN = "09_self_drafting", "03_paged_kv_cache"
KINDS = ("blockwise", "medusa")
SHAPES = (["--tree", "chains:1"], ["--tree", "top:2x2x1"], ["--tree", "grow:8"])
PROMPT = ["--prompt", "def add(a, b):", "--max-new-tokens", "24"]


class SelfDraftingTest(ProgramTest):
    def run_json(self, *options):
        return run_program_json(PROGRAMS / STAGE, *options)

    def test_greedy_text_is_plain_decodings(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for kind in KINDS:
            for shape in SHAPES:
                with self.subTest(kind=kind, shape=shape):
                    got = self.run_json(*PROMPT, "--self-draft", kind, *shape)
                    self.assertEqual(got["tokens"], want)
                    self.assertEqual(got["draft"]["self_draft"], kind)
                    stats = got["stats"]
                    self.assertGreater(stats["accepted"], 0)
                    # All heads are one forward.
                    self.assertEqual(stats["draft_forwards"], stats["drafted_rounds"])
                    self.assertEqual(stats["target_forwards"], stats["rounds"])

    def test_an_inflated_target_accepts_the_same(self):
        for kind in KINDS:
            plain, large = (self.run_json(*PROMPT, "--self-draft", kind, *shape)
                            for shape in ([], ["--inflate-target", "134m"]))
            self.assertEqual(plain["tokens"], large["tokens"])
            self.assertEqual(plain["stats"]["accepted_per_position"], large["stats"]["accepted_per_position"])

    def test_a_batch_gives_each_request_what_it_has_alone(self):
        lines = [{"id": str(seed), "prompt": "Once upon a time", "max_new_tokens": 12, "temperature": 0.9, "seed": seed}
                 for seed in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "requests.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            code, text, errors = run_program(PROGRAMS / STAGE, "--requests", path, "--output", "json")
        self.assertEqual(code, 0, errors)
        for line, got in zip(lines, map(json.loads, text.splitlines())):
            alone = self.run_json("--prompt", line["prompt"], "--max-new-tokens", "12", "--temperature", "0.9", "--seed",
                                  line["id"])
            self.assertEqual((got["id"], got["tokens"]), (line["id"], alone["tokens"]))

    def test_other_drafters_work_as_before(self):
        for kind in ("llama", "lookup"):
            before, now = (run_program_json(PROGRAMS / stage, *PROMPT, "--draft-kind", kind)
                           for stage in ("08_token_trees", STAGE))
            self.assertEqual(before["tokens"], now["tokens"])
            self.assertEqual(before["stats"]["accepted"], now["stats"]["accepted"])

    def test_bad_input(self):
        heads = ROOT / "golden" / "heads" / "medusa"
        with tempfile.TemporaryDirectory() as place:
            cut = pathlib.Path(place) / "cut"
            shutil.copytree(heads, cut)
            data = (cut / "model.safetensors").read_bytes()
            (cut / "model.safetensors").write_bytes(data[:1000])
            for words, *options in (
                    ("config.json: cannot be opened", "--heads", "/nowhere"),
                    ("model.safetensors", "--heads", cut),
                    ("6 drafts in a row, but", "--tree", "top:1x1x1x1x1x1"),
                    ("the embedded heads belong to the embedded target", "--target", ROOT / "golden/models/draft"),
                    ("hidden_size is 192, and the target's is 128", "--target", ROOT / "golden/models/draft", "--heads", heads),
                    ("belongs to --draft-kind heads, not to lookup", "--heads", heads, "--draft-kind", "lookup"),
                    ("not for heads yet", "--spec-length", "auto"),
                    ("nothing can draft for them", "--draft-of-draft", "lookup", "--tree", "chains:1"),
                    ("{blockwise,medusa", "--self-draft", "nothing")):
                self.expect_bad_input(words, PROGRAMS / STAGE, *options, *PROMPT)
        self.expect_bad_input("09_self_drafting has it", PROGRAMS / "08_token_trees", "--heads", heads)


if __name__ == "__main__":
    PROGRAMS, ROOT = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    unittest.main()
