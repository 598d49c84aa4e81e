"""--inflate-target and --inflate-draft from outside: the same text from every stage, labelled, at the larger cost.

usage: test_inflation.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER
"""
import json
import os
import pathlib
import pty
import resource
import shutil
import subprocess
import sys
import unittest

from programs import ProgramTest, read_safetensors, run_program, write_safetensors

CONTIGUOUS, PAGED = "02_contiguous_kv_cache", "03_paged_kv_cache"
GREEDY, SAMPLING, BATCH = "04_greedy_speculation", "05_rejection_sampling", "06_batched_verification"
TARGET_SIZES = {"hidden_size": 256, "intermediate_size": 801, "num_hidden_layers": 7, "num_attention_heads": 6,
                "num_key_value_heads": 2, "vocab_size": 4500}
DRAFT_SIZES = {"hidden_size": 160, "intermediate_size": 300, "num_hidden_layers": 3, "num_attention_heads": 8,
               "num_key_value_heads": 2, "vocab_size": 5000}


def run(stage, *arguments):
    return run_program(PROGRAMS / stage, *map(str, arguments))


def run_json(stage, *arguments):
    """The result, also where there is a warning."""
    code, text, errors = run(stage, "--output", "json", *arguments)
    assert code == 0, errors
    return json.loads(text)


def run_lines(*arguments):
    """Stage 6: the objects of the requests, and the summary."""
    code, text, errors = run(BATCH, "--output", "json", *arguments)
    assert code == 0, errors
    *results, last = [json.loads(line) for line in text.splitlines()]
    return results, last["summary"]


def on_terminal(stage, *arguments):
    """stderr, where it is a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([PROGRAMS / stage, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert done.wait() == 0, text
    return text.decode()


class InflationTest(ProgramTest):
    def setUp(self):
        self.target = self.shape("target", TARGET_SIZES)
        self.draft = self.shape("draft", DRAFT_SIZES)
        self.both = ("--inflate-target", self.target, "--inflate-draft", self.draft)

    def shape(self, model, sizes):
        config = json.loads((GOLDEN / "models" / model / "config.json").read_text())
        config.update(sizes)
        path = self.folder / f"{model}.json"
        path.write_text(json.dumps(config))
        return path


class SameTextTest(InflationTest):
    def test_plain_decoding(self):
        want = run_json(CONTIGUOUS, "--max-new-tokens", 60)
        for stage in (CONTIGUOUS, PAGED):
            result = run_json(stage, "--max-new-tokens", 60, "--inflate-target", self.target)
            self.assertEqual(result["tokens"], want["tokens"])
            self.assertEqual(result["model"]["inflated"], str(self.target))
            self.assertEqual(result["model"]["directory"], want["model"]["directory"])
            self.assertEqual([result["model"][size] for size in ("d_model", "d_ff", "n_layers", "n_heads", "vocab_size")],
                             [256, 801, 7, 6, 4500])
            self.assertGreater(result["stats"]["target_weight_bytes"], 1.9 * want["stats"]["target_weight_bytes"])
            self.assertEqual(result["stats"]["target_rows"], want["stats"]["target_rows"])
        self.assertNotIn("inflated", want["model"])

    def test_speculation_accepts_the_same_drafts(self):
        want = run_json(GREEDY, "--max-new-tokens", 60)
        self.assertNotIn("inflated", want["draft"])
        for stage in (GREEDY, SAMPLING):
            for arguments in (self.both, self.both[:2], self.both[2:]):
                result = run_json(stage, "--max-new-tokens", 60, *arguments)
                self.assertEqual(result["tokens"], want["tokens"], arguments)
                for counter in ("rounds", "drafted", "tested", "accepted", "target_rows"):
                    self.assertEqual(result["stats"][counter], want["stats"][counter], (stage, counter, arguments))
                inflated = {"--inflate-" + name: result[part].get("inflated")
                            for name, part in (("target", "model"), ("draft", "draft"))}
                for option, shape in zip(self.both[::2], self.both[1::2]):
                    self.assertEqual(inflated[option], str(shape) if option in arguments else None)

    def test_every_draft_kind_fits_an_inflated_target(self):
        want = run_json(PAGED, "--max-new-tokens", 30)["tokens"]
        for kind in ("self", "random", "unigram", "bigram", "lookup"):
            for stage in (GREEDY, SAMPLING):
                result = run_json(stage, "--max-new-tokens", 30, "--draft-kind", kind, "--inflate-target", self.target)
                self.assertEqual(result["tokens"], want, kind)

    def test_rules_that_let_the_target_draw_write_its_plain_text(self):
        for filters in ([], ["--top-k", 20, "--top-p", 0.9, "--repetition-penalty", 1.2]):
            arguments = ("--temperature", 1, "--max-new-tokens", 40, "--seed", 7, *filters)
            for inflated in (self.both, self.both[:2], self.both[2:]):
                for rule in ("coupled", "sample-and-match"):
                    plain = run_json(SAMPLING, *arguments, *inflated, "--acceptance", rule, "--no-speculation")
                    result = run_json(SAMPLING, *arguments, *inflated, "--acceptance", rule)
                    self.assertEqual(result["tokens"], plain["tokens"], (rule, inflated))
                self.assertGreater(result["stats"]["accepted"], 0)

    def test_penalties_at_temperature_0(self):
        arguments = ("--repetition-penalty", 1.3, "--max-new-tokens", 40)
        want = run_json(SAMPLING, *arguments)
        for inflated in (self.both, self.both[:2], self.both[2:]):
            result = run_json(SAMPLING, *arguments, *inflated)
            self.assertEqual(result["tokens"], want["tokens"])
            self.assertEqual(result["stats"]["accepted"], want["stats"]["accepted"])

    def test_a_batch(self):
        requests = self.folder / "requests.jsonl"
        requests.write_text("".join(json.dumps({"prompt": prompt, "max_new_tokens": 30}) + "\n"
                                    for prompt in ("Snow fell. The", "def add(", "What is 12 + 30?")))
        want, plain = run_lines("--requests", requests)
        for arguments in (self.both, self.both[:2], self.both[2:]):
            results, summary = run_lines("--requests", requests, *arguments)
            for result, alike in zip(results, want, strict=True):
                self.assertEqual(result["tokens"], alike["tokens"])
                self.assertEqual(result["stats"]["accepted"], alike["stats"]["accepted"])
                self.assertEqual((result["model"], result["draft"]), (summary["model"], summary["draft"]))
            self.assertEqual(summary["model"].get("inflated"), str(self.target) if self.target in arguments else None)
            self.assertEqual(summary["draft"].get("inflated"), str(self.draft) if self.draft in arguments else None)
            self.assertGreater(summary["memory"]["total"], plain["memory"]["total"])

    def test_without_a_tokenizer(self):
        model = GOLDEN / "checkpoints" / "untied"
        config = json.loads((model / "config.json").read_text())
        for size in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"):
            config[size] += 3
        shape = self.folder / "untied.json"
        shape.write_text(json.dumps(config))
        arguments = ("--target", model, "--prompt-ids", "1,2,3", "--max-new-tokens", 20)
        want = run_json(PAGED, *arguments)["tokens"]
        self.assertEqual(run_json(PAGED, *arguments, "--inflate-target", shape)["tokens"], want)
        for inflated in (["--inflate-target", shape], ["--inflate-draft", shape]):
            for stage in (GREEDY, SAMPLING):
                result = run_json(stage, *arguments, "--draft", model, *inflated)
                self.assertEqual(result["tokens"], want, inflated)
                self.assertEqual(result["stats"]["alpha"], 1)


class LabelTest(InflationTest):
    def test_summaries(self):
        note = f"; the target is inflated to {self.target}"
        _, _, errors = run(PAGED, "--max-new-tokens", 2, *self.both[:2])
        self.assertIn(note + "\n", errors)
        for stage in (GREEDY, SAMPLING, BATCH):
            prompt = ("--prompt", "Snow", "--max-new-tokens", 2)
            _, _, errors = run(stage, *prompt, *self.both)
            self.assertIn(f"{note}, the draft to {self.draft}\n", errors)
            _, _, errors = run(stage, *prompt, *self.both[2:])
            self.assertIn(f"; the draft is inflated to {self.draft}\n", errors)
            _, _, errors = run(stage, *prompt, *self.both, "--no-speculation")
            self.assertIn(note + "\n", errors)
            _, _, errors = run(stage, *prompt)
            self.assertNotIn("inflated", errors)

    def test_traces(self):
        path = self.folder / "trace.json"
        for stage in (GREEDY, BATCH):
            code, _, errors = run(stage, "--prompt", "Snow", "--max-new-tokens", 2, *self.both, "--trace", path, "--quiet")
            self.assertEqual(code, 0, errors)
            trace = json.loads(path.read_text())
            self.assertEqual(trace["inflated_target"], str(self.target))
            draft = trace["inflated_draft"] if stage == GREEDY else trace["draft"]["inflated"]
            self.assertEqual(draft, str(self.draft))

    def test_a_terminal_shows_what_is_done(self):
        errors = on_terminal(GREEDY, "--max-new-tokens", 2, *self.both)
        self.assertIn(f"\rinflating the target to {self.target}:   3%", errors)
        self.assertIn(f"\rinflating the target to {self.target}: 100%\r\x1b[K", errors)
        self.assertIn(f"\rinflating the draft to {self.draft}: 100%\r\x1b[K", errors)


class BadInputTest(InflationTest):
    def expect_error(self, words, stage, *arguments):
        self.expect_bad_input(words, PROGRAMS / stage, *map(str, arguments))

    def test_checks_are_about_models_as_they_are(self):
        for stage in (CONTIGUOUS, PAGED, GREEDY, SAMPLING, BATCH):
            self.expect_error("--inflate-target excludes --check", stage, "--check", "--inflate-target", "134m")
        for stage in (GREEDY, SAMPLING, BATCH):
            self.expect_error("--inflate-draft excludes --check", stage, "--check", "--inflate-draft", "14m")

    def test_shapes(self):
        for stage in (CONTIGUOUS, PAGED, GREEDY, SAMPLING, BATCH):
            self.expect_error("--inflate-target 14m: the shape cannot hold the model: its head_dim is 64, the model's 128",
                              stage, "--inflate-target", "14m")
        for stage in (GREEDY, SAMPLING, BATCH):
            self.expect_error("--inflate-draft 134m: the shape cannot hold the model: its head_dim is 128, the model's 64",
                              stage, "--inflate-draft", "134m")

    def test_too_little_memory(self):
        """Wherever it runs out: one line and no crash."""
        def with_memory(megabytes):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            words = [PROGRAMS / CONTIGUOUS, "--inflate-target", "134m", "--max-new-tokens", "1", "--threads", "2"]
            return subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=False)

        if with_memory(4096).returncode != 0:
            self.skipTest("a sanitizer reserves the address space")
        for megabytes in range(200, 480, 40):
            done = with_memory(megabytes)
            self.assertIn(done.returncode, (0, 2), f"{megabytes} MB: {done.stderr}")
        self.assertEqual(with_memory(200).returncode, 2)
        self.assertIn("the target's weights need 265.8 MB, but there is not enough memory", with_memory(200).stderr)

    def test_drafts_without_a_model(self):
        for kind in ("self", "random", "bigram", "lookup"):
            self.expect_error(f"--draft-kind is {kind}", GREEDY, "--draft-kind", kind, "--inflate-draft", "14m")

    def test_a_draft_with_fewer_rows_than_tokens(self):
        folder = self.folder / "draft"
        shutil.copytree(GOLDEN / "models" / "draft", folder)
        config = json.loads((folder / "config.json").read_text())
        config["vocab_size"] = 4000
        (folder / "config.json").write_text(json.dumps(config))
        tensors = read_safetensors(folder / "model.safetensors")
        dtype, (rows, width), data = tensors["model.embed_tokens.weight"]
        tensors["model.embed_tokens.weight"] = dtype, [4000, width], data[:len(data) // rows * 4000]
        write_safetensors(folder / "model.safetensors", tensors)
        for stage in (GREEDY, SAMPLING, BATCH):
            self.expect_error("this draft has 4000 rows for its tokenizer's 4096 entries", stage, "--draft", folder)


if __name__ == "__main__":
    PROGRAMS, GOLDEN = map(pathlib.Path, sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
