#!/usr/bin/env python3
"""Self-drafting from the command line: what users give and what they see.

usage: test_self_drafting.py PROGRAMS ROOT
"""
import json
import math
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import unittest

from programs import ProgramTest, run_program, run_program_json

STAGE, PLAIN = "09_self_drafting", "03_paged_kv_cache"
KINDS = ("blockwise", "medusa", "lookahead", "parallel")
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
                    ("no medusa heads come with this target", "--target", ROOT / "golden/models/draft"),
                    ("hidden_size is 192, and the target's is 128", "--target", ROOT / "golden/models/draft", "--heads", heads),
                    ("belongs to --draft-kind heads, not to lookup", "--heads", heads, "--draft-kind", "lookup"),
                    ("--self-draft belongs to --draft-kind heads, not to llama", "--draft-kind", "llama"),
                    ("only the target hands out rows", "--draft-of-draft", "heads", "--tree", "chains:1"),
                    ("nothing can draft for them", "--draft-of-draft", "lookup", "--tree", "chains:1")):
                self.expect_bad_input(words, PROGRAMS / STAGE, "--self-draft", "medusa", *options, *PROMPT)
        self.expect_bad_input("{blockwise,medusa", PROGRAMS / STAGE, "--self-draft", "nothing")
        self.expect_bad_input("09_self_drafting has it", PROGRAMS / "08_token_trees", "--heads", heads)
        for fallback in ("lookup,heads", "heads,lookup"):
            self.expect_bad_input("--fallback heads: there is no such drafter; there are llama", PROGRAMS / "07_adaptive_drafting",
                                  "--fallback", fallback, *PROMPT)

    def test_medusa_heads_as_they_were_published(self):
        shapes = {f"{i}.{name}": shape for i in range(2)
                  for name, shape in (("0.linear.weight", [192, 192]), ("0.linear.bias", [192]), ("1.weight", [4096, 192]))}
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place) / "published"
            write_heads(folder, {"medusa_num_layers": 1}, shapes)
            chain = [*PROMPT, "--heads", folder, "--tree", "chains:1", "--spec-length", "2"]
            plain, large = self.run_json(*chain), self.run_json(*chain, "--inflate-target", "134m")
            self.expect_bad_input("published are of the kind medusa", PROGRAMS / STAGE, *chain, "--self-draft", "blockwise")
        self.assertEqual(plain["draft"]["self_draft"], "medusa")
        self.assertEqual(plain["tokens"], run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"])
        self.assertEqual(plain["stats"]["accepted_per_position"], large["stats"]["accepted_per_position"])

    def test_each_published_layout_drafts_for_a_random_target(self):
        checkpoints = ROOT / "golden" / "checkpoints"
        target = ("--target", checkpoints / "sharded", "--prompt-ids", "3,5,8,13,21,34", "--max-new-tokens", "12")
        want = self.run_json(*target, "--no-speculation")["tokens"]
        for folder in sorted((checkpoints / "heads").iterdir()):
            for tree in ("top:1x1", "top:2x2"):  # the fewest modules in a file are two
                with self.subTest(folder=folder.name, tree=tree):
                    got = self.run_json(*target, "--heads", folder, "--tree", tree)
                    self.assertEqual(got["tokens"], want)
                    self.assertGreater(got["stats"]["drafted"], 0)
        beams = lambda *options: run_program_json(PROGRAMS / "10_beam_search", *target, "--beams", "3", *options)["hypotheses"]
        for name in ("peagle", "mtp_modules", "mtp_next_modules", "medusa_two"):
            got = beams("--heads", checkpoints / "heads" / name, "--spec-length", "2")
            self.assertEqual(got, beams("--no-speculation"), name)
        for name, words in (("mtp_modules", "3 modules"), ("mtp_next_modules", "2 modules"), ("medusa_two", "4 heads")):
            self.expect_bad_input(f"5 drafts in a row, but {checkpoints / 'heads' / name} has {words}", PROGRAMS / STAGE, *target,
                                  "--heads", checkpoints / "heads" / name, "--tree", "top:1x1x1x1x1")

    def test_a_name_tells_the_kind_and_heads_fall_back(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for name in ("blockwise", "eagle", "parallel"):
            got = self.run_json(*PROMPT, "--heads", name)
            self.assertEqual(got["tokens"], want)
            self.assertTrue(got["draft"]["directory"].endswith(name))
        for fallback in ("lookup,heads", "heads,llama", "llama,heads"):
            got = self.run_json(*PROMPT, "--fallback", fallback, "--self-draft", "medusa")
            self.assertEqual((got["tokens"], got["fallback"]), (want, fallback))
            self.assertGreater(got["stats"]["accepted"], 0)
        self.expect_bad_input("--self-draft parallel is not among", PROGRAMS / STAGE, "--fallback", "lookup,heads",
                              "--self-draft", "parallel", *PROMPT)

    def test_a_layer_that_is_fallen_back_on_switches_the_prefix_cache_off(self):
        """Or the target would compute each prompt again, for the rows that a hit lacks."""
        prompt = [5 + i % 50 for i in range(40)]
        file = self.folder / "requests.jsonl"
        file.write_text("".join(json.dumps({"id": str(i), "prompt_ids": prompt}) + "\n" for i in range(2)), encoding="utf-8")
        for drafter, words in (("medusa", ["--fallback", "lookup,heads"]), ("feature", ["--fallback", "lookup,heads"]),
                               ("feature", ["--fallback", "heads,lookup"]), ("feature", ["--draft-kind", "heads"])):
            with self.subTest(drafter=drafter, words=words):
                code, text, errors = run_program(PROGRAMS / STAGE, "--requests", file, "--max-batch", "1", "--max-new-tokens", "8",
                                                 "--output", "json", "--tree", "chains:1", "--self-draft", drafter, *words)
                self.assertEqual(code, 0, errors)
                found = [json.loads(line)["stats"]["prefix_tokens"] for line in text.splitlines()[:-1]]
                self.assertEqual(found, [0, 0 if drafter == "feature" else 32])


def write_heads(folder: pathlib.Path, config: dict, shapes: dict):
    """Random tensors of these shapes, by name."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    numbers, tensors, data = random.Random(1), {}, b""
    for name, shape in shapes.items():
        begin = len(data)
        data += b"".join(struct.pack("<f", numbers.gauss(0, 0.1)) for _ in range(math.prod(shape)))
        tensors[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)


def write_lookahead(folder: pathlib.Path, tokens: int, width: int):
    config = {"model_type": "lookahead", "hidden_size": width, "num_lookahead_tokens": tokens}
    write_heads(folder, config, {"lookahead.weight": [tokens, width]})


def write_masked_layer(folder: pathlib.Path):
    """The embedded layer of EAGLE-3, with random numbers for rows that a mask lacks."""
    shutil.copytree(ROOT / "golden/heads/eagle3", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "pard_token": 4095}), encoding="utf-8")
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors, numbers = json.loads(data[8:8 + size]), random.Random(2)
    begin = len(data) - 8 - size
    tensors["mask_hidden"] = {"dtype": "F32", "shape": [1, 576], "data_offsets": [begin, begin + 4 * 576]}
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + data[8 + size:] + b"".join(struct.pack("<f", numbers.gauss(0, 1)) for _ in range(576)))


def write_markov(folder: pathlib.Path, rank: int):
    write_heads(folder, {"model_type": "markov", "rank": rank}, {f"{of}.weight": [4096, rank] for of in ("before", "after")})


def write_parallel(folder: pathlib.Path, mask):
    """The embedded draft model as one that drafts in parallel, though it was not trained for it."""
    shutil.copytree(ROOT / "golden/models/draft", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": mask}), encoding="utf-8")


class FeatureLayerTest(ProgramTest):
    """One layer on the target's rows, in the three layouts."""

    LAYERS = ("mtp", "eagle3", "eagle")

    def run_json(self, layer, *options):
        return run_program_json(PROGRAMS / STAGE, "--self-draft", "feature", "--heads", layer, *options)

    def test_greedy_text_is_plain_decodings(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for layer in self.LAYERS:
            for shape in SHAPES:
                with self.subTest(layer=layer, shape=shape):
                    got = self.run_json(layer, *PROMPT, *shape, "--cache", "contiguous")
                    self.assertEqual(got["tokens"], want)
                    self.assertTrue(got["draft"]["directory"].endswith(layer))
                    self.assertGreater(got["stats"]["accepted"], 0)
                    self.assertGreater(got["stats"]["draft_forwards"], got["stats"]["drafted_rounds"])

    def test_an_inflated_target_accepts_the_same(self):
        for layer in self.LAYERS:
            plain, large = (self.run_json(layer, *PROMPT, *shape) for shape in ([], ["--inflate-target", "134m"]))
            self.assertEqual(plain["tokens"], large["tokens"])
            self.assertEqual(plain["stats"]["accepted_per_position"], large["stats"]["accepted_per_position"])

    def test_a_batch_gives_each_request_what_it_has_alone(self):
        lines = [{"id": str(seed), "prompt": "Once upon a time, there was", "max_new_tokens": 12, "temperature": 0.9,
                  "seed": seed} for seed in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "requests.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            for more in ([], ["--max-batch", "2", "--prefill-chunk", "3"]):
                code, text, errors = run_program(PROGRAMS / STAGE, "--self-draft", "feature", "--requests", path,
                                                 "--output", "json", *more)
                self.assertEqual(code, 0, errors)
                for line, got in zip(lines, map(json.loads, text.splitlines())):
                    alone = self.run_json("mtp", "--prompt", line["prompt"], "--max-new-tokens", "12",
                                          "--temperature", "0.9", "--seed", line["id"])
                    self.assertEqual((got["id"], got["tokens"]), (line["id"], alone["tokens"]))

    def test_bad_input(self):
        heads = ROOT / "golden" / "heads"
        with tempfile.TemporaryDirectory() as place:
            wrong = pathlib.Path(place) / "wrong"
            shutil.copytree(heads / "eagle3", wrong)
            config = json.loads((wrong / "config.json").read_text(encoding="utf-8"))
            config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2, 3, 4]
            (wrong / "config.json").write_text(json.dumps(config), encoding="utf-8")
            for words, *options in (
                    ("has 5 entries; it must have 1 to 4", "--heads", wrong),
                    ("medusa are of the kind medusa", "--heads", heads / "medusa"),
                    ("hidden_size is 192, and the target's is 128", "--heads", "mtp", "--target", ROOT / "golden/models/draft"),
                    ("so nothing can draft for them", "--draft-of-draft", "lookup", "--tree", "chains:1"),
                    ("heads are kept as their files have them", "--draft-weights", "int8"),
                    ("config.json: cannot be opened", "--heads", "/nowhere")):
                self.expect_bad_input(words, PROGRAMS / STAGE, "--self-draft", "feature", *options, *PROMPT)


class OnePassTest(ProgramTest):
    """Drafters that say all drafts of a round in one pass."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folders = {kind: pathlib.Path(cls.place.name) / kind for kind in ("lookahead", "parallel")}
        write_lookahead(cls.folders["lookahead"], tokens=4, width=192)
        write_parallel(cls.folders["parallel"], mask=4090)
        (cls.folders["parallel"] / "tokenizer.json").unlink()  # it has the target's
        cls.markov = pathlib.Path(cls.place.name) / "markov"
        write_markov(cls.markov, rank=4)
        cls.layer = pathlib.Path(cls.place.name) / "layer"
        write_masked_layer(cls.layer)

    def run_json(self, kind, *options):
        return run_program_json(PROGRAMS / STAGE, "--self-draft", kind, "--heads", self.folders[kind], *options)

    def test_greedy_text_is_plain_decodings(self):
        plain = run_program_json(PROGRAMS / PLAIN, *PROMPT)
        for kind in self.folders:
            for shape in SHAPES:
                with self.subTest(kind=kind, shape=shape):
                    got = self.run_json(kind, *PROMPT, *shape)
                    self.assertEqual(got["tokens"], plain["tokens"])
                    self.assertEqual(got["draft"]["self_draft"], kind)
                    stats = got["stats"]
                    self.assertEqual(stats["draft_forwards"], stats["drafted_rounds"])
                    self.assertEqual(stats["target_forwards"], stats["rounds"])
                    if kind == "lookahead":
                        self.assertEqual(stats["accepted_per_position"][0], 1)

    def test_a_markov_head_keeps_the_text(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for kind, folder in (*self.folders.items(), ("parallel", self.layer)):
            for shape in SHAPES:
                got = run_program_json(PROGRAMS / STAGE, "--self-draft", kind, "--heads", folder, *PROMPT, *shape, "--markov",
                                       self.markov)
                self.assertEqual(got["tokens"], want)
                self.assertEqual(got["draft"]["markov"], str(self.markov))

    def test_a_layer_with_masks_drafts_in_one_pass_or_one_by_one(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for shape in SHAPES:
            for kind, words in (("parallel", ()), ("parallel", ("--inflate-target", "134m")), ("feature", ("--self-draft", "feature"))):
                got = run_program_json(PROGRAMS / STAGE, "--heads", self.layer, *words, *PROMPT, *shape)
                self.assertEqual((got["tokens"], got["draft"]["self_draft"]), (want, kind))
                stats = got["stats"]
                self.assertGreater(stats["accepted"], 0)  # first drafts, which have the target's rows
                self.assertEqual(stats["draft_forwards"] == stats["drafted_rounds"], kind == "parallel")
        one_by_one = run_program_json(PROGRAMS / STAGE, "--heads", "eagle3", *PROMPT)
        self.assertEqual((got["tokens"], got["stats"]["accepted"]), (one_by_one["tokens"], one_by_one["stats"]["accepted"]))

    def test_a_round_of_look_ahead_tokens_reads_the_target_twice(self):
        plain = run_program_json(PROGRAMS / PLAIN, *PROMPT)["stats"]
        of_step = plain["target_weight_bytes"] / (plain["target_forwards"] + 1)  # and the prefill
        stats = self.run_json("lookahead", *PROMPT, "--tree", "chains:1")["stats"]
        passes = stats["target_forwards"] + stats["draft_forwards"]
        self.assertAlmostEqual(stats["target_weight_bytes"] / of_step, passes + 1, delta=0.5)

    def test_a_batch_gives_each_request_what_it_has_alone(self):
        lines = [{"id": str(seed), "prompt": "Once upon a time", "max_new_tokens": 12, "temperature": 0.9, "seed": seed}
                 for seed in range(4)]
        for kind, folder in self.folders.items():
            with tempfile.TemporaryDirectory() as place:
                path = pathlib.Path(place) / "requests.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
                code, text, errors = run_program(PROGRAMS / STAGE, "--requests", path, "--output", "json", "--self-draft",
                                                 kind, "--heads", folder)
            self.assertEqual(code, 0, errors)
            for line, got in zip(lines, map(json.loads, text.splitlines())):
                alone = self.run_json(kind, "--prompt", line["prompt"], "--max-new-tokens", "12", "--temperature", "0.9",
                                      "--seed", line["id"])
                self.assertEqual((got["id"], got["tokens"]), (line["id"], alone["tokens"]))
                for counter in ("draft_forwards", "drafted", "accepted"):
                    self.assertEqual(got["stats"][counter], alone["stats"][counter], counter)

    def test_bad_input(self):
        place = pathlib.Path(self.place.name)
        write_parallel(place / "no_token", mask=4096)
        write_parallel(place / "no_mask", mask=None)
        lookahead, parallel = self.folders["lookahead"], self.folders["parallel"]
        for words, kind, *options in (
                ("6 drafts in a row, but", "lookahead", "--heads", lookahead, "--tree", "top:1x1x1x1x1x1"),
                ("look-ahead tokens draft 5 tokens in a row, and it verifies 2", "lookahead", "--heads", lookahead, "--tree",
                 "grow:2"),
                ("medusa are of the kind medusa", "lookahead", "--heads", ROOT / "golden/heads/medusa"),
                ("pard_token is missing", "parallel", "--heads", place / "no_mask"),
                ("pard_token is missing", "parallel", "--draft-kind", "llama"),
                ("pard_token is 4096, and the vocabulary has 4096 rows", "parallel", "--heads", place / "no_token"),
                ("--markov belongs to --self-draft parallel or lookahead", "medusa", "--markov", self.markov),
                ("eagle3 are of the kind feature", "parallel", "--heads", ROOT / "golden/heads/eagle3"),
                ("model_type is not markov", "parallel", "--heads", parallel, "--markov", ROOT / "golden/heads/medusa"),
                ("/nowhere/config.json: cannot be opened", "parallel", "--heads", "/nowhere")):
            self.expect_bad_input(words, PROGRAMS / STAGE, "--self-draft", kind, *options, *PROMPT)


class AdaptiveTest(ProgramTest):
    """Stage 7's ways to choose K."""

    HEADS = ("blockwise", "medusa", "lookahead", "mtp", "eagle3", "eagle", "parallel")
    POLICIES = ("gain", "entropy", "confidence", "schedule", "survival")
    COSTS = {"format": "specdec-cost-profile-1", "target_pass_seconds": [1 + 0.01 * rows for rows in range(17)],
             "draft_step_seconds": 0.02, "draft_round_seconds": 0.3}

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.costs = pathlib.Path(cls.place.name) / "costs.json"
        cls.costs.write_text(json.dumps(cls.COSTS), encoding="utf-8")

    def run_json(self, heads, *options):
        return run_program_json(PROGRAMS / STAGE, "--heads", heads, *PROMPT, *options)

    def test_greedy_text_is_plain_decodings(self):
        want = run_program_json(PROGRAMS / PLAIN, *PROMPT)["tokens"]
        for heads in self.HEADS:
            for policy in self.POLICIES:
                for tree in ("chains:1", "grow:8")[:1 if policy == "schedule" else 2]:
                    with self.subTest(heads=heads, policy=policy, tree=tree):
                        got = self.run_json(heads, "--draft-length", policy, "--tree", tree, "--cost-profile", self.costs)
                        self.assertEqual((got["tokens"], got["draft_length"]), (want, policy))
                        self.assertGreater(got["stats"]["accepted"], 0)

    def test_heads_draft_no_more_than_they_have(self):
        """Five heads, four look-ahead tokens for one draft more, and up to 16 where there is no limit."""
        for heads, most in (("medusa", 5), ("blockwise", 5), ("lookahead", 5), ("mtp", 16), ("parallel", 16)):
            got = self.run_json(heads, "--spec-length", "auto", "--tree", "chains:1", "--cost-profile", self.costs)
            self.assertEqual(got["largest_spec_length"], most)
            self.assertLessEqual(len(got["stats"]["rounds_by_drafted"]), most + 1)
        self.expect_bad_input("6 drafts in a row, but", PROGRAMS / STAGE, "--heads", "medusa", "--draft-length", "gain",
                              "--spec-length", "6", "--tree", "chains:1", *PROMPT)

    def test_costs_are_measured_once(self):
        for heads in self.HEADS:
            path = pathlib.Path(self.place.name) / f"{heads}.json"
            arguments = ("--spec-length", "auto", "--tree", "chains:1", "--temperature", "0.8", "--cost-profile", path)
            first = self.run_json(heads, *arguments)
            measured = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(first["cost_profile"], measured)
            self.assertIn(heads, measured["measured_for"]["draft"])
            self.assertGreater(measured["draft_round_seconds"] + measured["draft_step_seconds"], 0)
            self.assertEqual(self.run_json(heads, *arguments)["tokens"], first["tokens"])
        medusa = json.loads((pathlib.Path(self.place.name) / "medusa.json").read_text(encoding="utf-8"))
        self.assertGreater(medusa["draft_round_seconds"], 0)  # all heads at once

    def test_a_batch_gives_each_request_what_it_has_alone(self):
        lines = [{"id": str(seed), "prompt": "Once upon a time, there was", "max_new_tokens": 12, "temperature": 0.9,
                  "seed": seed, "draft_length": self.POLICIES[seed]} for seed in range(4)]
        requests = pathlib.Path(self.place.name) / "requests.jsonl"
        requests.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for heads in ("medusa", "lookahead", "mtp", "parallel"):
            options = ("--heads", heads, "--tree", "chains:1", "--spec-length", "4", "--cost-profile", self.costs)
            code, text, errors = run_program(PROGRAMS / STAGE, "--requests", requests, "--output", "json", *options)
            self.assertEqual(code, 0, errors)
            for line, got in zip(lines, map(json.loads, text.splitlines())):
                alone = run_program_json(PROGRAMS / STAGE, *options, "--prompt", line["prompt"], "--max-new-tokens", "12",
                                         "--temperature", "0.9", "--seed", line["id"], "--draft-length",
                                         line["draft_length"])
                self.assertEqual((heads, got["tokens"]), (heads, alone["tokens"]))
            measured = pathlib.Path(self.place.name) / f"batch_{heads}.json"  # for two requests at once
            code, _, errors = run_program(PROGRAMS / STAGE, "--requests", requests, "--max-batch", "2", *options[:-1],
                                          measured)
            self.assertEqual((code, measured.exists()), (0, True), errors)


if __name__ == "__main__":
    PROGRAMS, ROOT = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    unittest.main()
