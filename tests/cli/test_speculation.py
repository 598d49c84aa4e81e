"""Stages 4 and 5 from outside: speculation, its counters, traces, drafts that do not fit.

usage: test_speculation.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER
"""
import json
import pathlib
import shutil
import sys
import unittest

from programs import ProgramTest, read_tensors, run_program, run_program_json

CONTIGUOUS, PLAIN, GREEDY, SAMPLING = ("02_contiguous_kv_cache", "03_paged_kv_cache", "04_greedy_speculation",
                                       "05_rejection_sampling")
STAGES = [GREEDY, SAMPLING]
ADAPTIVE = "07_adaptive_drafting"
KINDS = ["llama", "self", "random", "unigram", "bigram", "lookup"]
RULES = ["rejection", "at-least", "non-iterative", "sample-and-match", "one-hot", "coupled"]


def run(stage, *arguments):
    return run_program(PROGRAMS / stage, *map(str, arguments))


def run_json(stage, *arguments):
    return run_program_json(PROGRAMS / stage, *map(str, arguments))


def run_warned(stage, *arguments):
    """As run_json, where a warning is expected: (result, warning)."""
    code, text, errors = run(stage, "--output", "json", *arguments)
    assert code == 0, errors
    return json.loads(text), errors


class GreedyTest(unittest.TestCase):
    def test_the_text_is_plain_decodings_for_every_draft_and_k(self):
        want = run_json(PLAIN, "--max-new-tokens", 60)
        for stage in STAGES:
            for kind in KINDS:
                for K in (1, 5, 32):
                    result, _ = run_warned(stage, "--max-new-tokens", 60, "--draft-kind", kind, "--spec-length", K)
                    self.assertEqual(result["tokens"], want["tokens"], (stage, kind, K))
                    self.assertEqual(result["finish_reason"], want["finish_reason"])

    def test_stage_5_at_temperature_0_is_stage_4(self):
        greedy, sampling = [run_json(stage, "--max-new-tokens", 50)["stats"] for stage in STAGES]
        for counter in ("rounds", "target_forwards", "draft_forwards", "drafted", "tested", "accepted", "emitted",
                        "accepted_per_position", "target_rows", "alpha_by_probability"):
            self.assertEqual(greedy[counter], sampling[counter], counter)

    def test_counters_agree_with_each_other(self):
        result = run_json(GREEDY, "--max-new-tokens", 50, "--spec-length", 4)
        stats = result["stats"]
        self.assertEqual(stats["emitted"], len(result["tokens"]))
        self.assertEqual(stats["rounds"], stats["target_forwards"])
        self.assertEqual(stats["alpha"], stats["accepted"] / stats["tested"])
        self.assertEqual(stats["acceptance_rate"], stats["accepted"] / stats["drafted"])
        self.assertEqual(stats["tokens_per_target_forward"], stats["emitted"] / stats["target_forwards"])
        self.assertGreaterEqual(stats["emitted"], stats["accepted"] + stats["rounds"] - 1)
        self.assertEqual(len(stats["accepted_per_position"]), 4)
        positions = stats["accepted_per_position"]
        self.assertEqual(positions, sorted(positions, reverse=True))

    def test_a_self_draft_is_always_right(self):
        result, warning = run_warned(GREEDY, "--draft-kind", "self", "--max-new-tokens", 61, "--ignore-eos")
        self.assertIn("no speedup", warning)
        self.assertEqual(result["stats"]["alpha"], 1)
        self.assertEqual(result["stats"]["target_forwards"], 11, "ten rounds of six, and one that the length cuts")

    def test_no_speculation_is_plain_decoding(self):
        plain = run_json(PLAIN, "--max-new-tokens", 20)
        for stage in STAGES:
            result = run_json(stage, "--max-new-tokens", 20, "--no-speculation")
            self.assertEqual(result["tokens"], plain["tokens"])
            self.assertEqual(result["stats"]["rounds"], 0)
            self.assertEqual(result["stats"]["target_forwards"], 20)
            self.assertEqual(result["stats"]["target_rows"], plain["stats"]["target_rows"])
            self.assertIsNone(result["stats"]["alpha"])
            self.assertIsNone(result["draft"])

    def test_caches_threads_and_pages_change_nothing(self):
        for stage, sampling in ((GREEDY, []), (SAMPLING, ["--temperature", 0.9, "--top-p", 0.95, "--seed", 5])):
            want = run_json(stage, "--max-new-tokens", 40, *sampling)
            for arguments in (["--cache", "contiguous"], ["--page-size", 1, "--draft-page-size", 3],
                              ["--page-size", 3, "--threads", 1], ["--threads", 3], ["--draft-page-size", 256]):
                result = run_json(stage, "--max-new-tokens", 40, *sampling, *arguments)
                self.assertEqual(result["tokens"], want["tokens"], arguments)
                self.assertEqual(result["stats"]["accepted"], want["stats"]["accepted"])

    def test_models_without_a_tokenizer(self):
        model = GOLDEN / "checkpoints" / "untied"
        arguments = ("--target", model, "--prompt-ids", "1,2,3", "--max-new-tokens", 9)
        want = run_json(PLAIN, *arguments)["tokens"]
        for kind in (["--draft", model], ["--draft-kind", "lookup"], ["--draft-kind", "random"]):
            result, _ = run_warned(GREEDY, *arguments, *kind)
            self.assertEqual(result["tokens"], want)

    def test_swapped_models_work_and_warn(self):
        target, draft = GOLDEN / "models" / "target", GOLDEN / "models" / "draft"
        want = run_json(PLAIN, "--target", draft, "--max-new-tokens", 20)["tokens"]
        result, warning = run_warned(GREEDY, "--target", draft, "--draft", target, "--max-new-tokens", 20)
        self.assertEqual(result["tokens"], want)
        self.assertIn("speculation cannot pay", warning)


class RoundedTest(unittest.TestCase):
    """Weights as int8 or q4: another draft, or another target, and the target's text all the same."""
    PROMPTS = ["Once, in the winter, Sunita came to York.", "To make the soup, first", "12 + 30 =", "def add(a, b):"]
    FORMATS = {"int8": (0.5, 0.53), "q4": (0.3125, 0.45)}  # bytes, of bf16, with the scales and an embedding of int8

    def test_a_rounded_draft_leaves_the_targets_text(self):
        for prompt in self.PROMPTS:
            arguments = ("--prompt", prompt, "--max-new-tokens", 60, "--ignore-eos")
            want = run_json(PLAIN, *arguments)
            for stage in STAGES:
                for kind, directory, weights in (("llama", "draft", "int8"), ("self", "target", "int8"),
                                                 ("llama", "draft", "q4"), ("self", "target", "q4")):
                    result = run_json(stage, *arguments, "--draft-kind", kind, "--draft-weights", weights)
                    self.assertEqual(result["tokens"], want["tokens"], (stage, kind, prompt))
                    self.assertEqual(result["model"], want["model"])
                    draft = result["draft"]
                    self.assertEqual((draft["kind"], draft["weights"]), (kind, weights))
                    self.assertEqual(draft["directory"], str(GOLDEN / "models" / directory))
                    self.assertGreater(result["stats"]["accepted"], 0)

    def test_a_rounded_target_writes_one_text(self):
        for prompt in self.PROMPTS:
            arguments = ("--prompt", prompt, "--max-new-tokens", 60, "--ignore-eos")
            stored = run_json(PLAIN, *arguments)
            for weights, (least, most) in self.FORMATS.items():
                rounded = (*arguments, "--target-weights", weights)
                want = run_json(PLAIN, *rounded)
                self.assertEqual((stored["model"]["weights"], want["model"]["weights"]), ("stored", weights))
                share = want["stats"]["target_weight_bytes"] / stored["stats"]["target_weight_bytes"]
                self.assertTrue(least < share < most, f"{weights}: {share}")
                for stage, *draft in ((CONTIGUOUS,), (GREEDY,), (GREEDY, "--draft-weights", weights), (SAMPLING,)):
                    result = run_json(stage, *rounded, *draft)
                    self.assertEqual(result["tokens"], want["tokens"], (stage, draft, prompt))
                    self.assertEqual(result["model"], want["model"])

    def test_the_bytes_of_the_draft_shrink(self):
        stored, *others = [run_json(GREEDY, "--max-new-tokens", 5, "--draft-weights", weights)["draft"]
                           for weights in ("stored", *self.FORMATS)]
        for rounded, (weights, (least, most)) in zip(others, self.FORMATS.items()):
            self.assertEqual((stored["weights"], rounded["weights"]), ("stored", weights))
            self.assertTrue(least < rounded["weight_bytes"] / stored["weight_bytes"] < most, weights)

    def test_a_self_draft_is_the_target_in_its_format_or_a_copy_in_another(self):
        for rounded in self.FORMATS:
            arguments = (GREEDY, "--draft-kind", "self", "--max-new-tokens", 100, "--ignore-eos", "--target-weights", rounded)
            for weights in ("stored", rounded):
                result, warning = run_warned(*arguments, "--draft-weights", weights)
                self.assertIn("no speedup", warning)
                self.assertEqual(result["stats"]["alpha"], 1)
                self.assertNotIn("weights", result["draft"], "none of its own")

    def test_people_are_told(self):
        for stage in (PLAIN, *STAGES):
            for weights, told in (("stored", False), ("int8", True)):
                _, _, errors = run(stage, "--max-new-tokens", 5, "--target-weights", weights)
                self.assertEqual("int8 weights" in errors, told)


class SamplingTest(unittest.TestCase):
    ARGUMENTS = ("--temperature", 1, "--max-new-tokens", 40)

    def test_the_seed_decides(self):
        texts = {run_json(SAMPLING, *self.ARGUMENTS, "--seed", seed)["text"] for seed in (1, 1, 2, 2**64 - 1)}
        self.assertEqual(len(texts), 3)

    def test_every_rule_says_whether_it_is_lossless(self):
        for rule in RULES:
            result = run_json(SAMPLING, *self.ARGUMENTS, "--acceptance", rule)
            self.assertEqual((result["acceptance"], result["lossless"]), (rule, True))
        result = run_json(SAMPLING, *self.ARGUMENTS, "--acceptance", "residual-skipped")
        self.assertFalse(result["lossless"])
        for sampling in (self.ARGUMENTS, ("--max-new-tokens", 40)):
            result = run_json(SAMPLING, *sampling, "--lenience", 0.3)
            self.assertEqual((result["acceptance"], result["lossless"]), ("lenient", False))

    def test_lenience_accepts_more(self):
        alphas = [run_json(SAMPLING, "--temperature", 1, "--seed", 1, "--lenience", lenience, "--ignore-eos",
                           "--max-new-tokens", 300, "--draft-kind", "bigram")["stats"]["alpha"]
                  for lenience in (1, 0.1)]
        self.assertLess(alphas[0] + 0.05, alphas[1])

    def test_the_draft_has_its_own_temperature(self):
        stats = [run_json(SAMPLING, "--temperature", 1, "--ignore-eos", "--max-new-tokens", 200, "--draft-temperature",
                          temperature)["stats"] for temperature in (1, 8)]
        self.assertGreater(stats[0]["alpha"], stats[1]["alpha"] + 0.3)


class TraceTest(ProgramTest):
    def trace(self, stage, *arguments):
        path = self.folder / "trace.json"
        result = run_json(stage, "--trace", path, "--max-new-tokens", 40, *arguments)
        return result, json.loads(path.read_text())

    def test_a_trace_tells_the_whole_run(self):
        for stage, sampling in ((GREEDY, []), (SAMPLING, ["--temperature", 1, "--seed", 2])):
            result, trace = self.trace(stage, *sampling)
            self.assertEqual(trace["format"], "specdec-trace-1")
            self.assertEqual(trace["tokens"], result["tokens"])
            self.assertEqual([token for record in trace["rounds"] for token in record["emitted"]], result["tokens"])
            self.assertEqual(sum(record["accepted"] for record in trace["rounds"]), result["stats"]["accepted"])
            for token in trace["prompt_ids"] + trace["tokens"]:
                self.assertIn(str(token), trace["pieces"])
            length = len(trace["prompt_ids"]) - 1
            for record in trace["rounds"]:
                self.assertEqual(record["start"], length)
                length += len(record["emitted"])
                self.check_caches(record)

    def check_caches(self, record):
        start, accepted, K = record["start"], record["accepted"], record["drafted"]
        self.assertEqual(record["before"]["target"]["length"], start)
        self.assertEqual(record["after"]["target"]["length"], start + accepted + 1)
        self.assertEqual(record["after"]["draft"]["length"], min(start + K, start + accepted + 1))
        self.assertEqual(len(record["after"]["target"]["pages"]), -(-(start + accepted + 1) // 16))

    def test_verdicts_follow_from_the_numbers(self):
        verdicts = set()
        for seed in range(4):
            _, trace = self.trace(SAMPLING, "--temperature", 1, "--seed", seed)
            for record in trace["rounds"]:
                for i, draft in enumerate(record["drafts"]):
                    verdicts.add(draft["verdict"])
                    self.assertEqual(draft["position"], record["start"] + 1 + i)
                    if draft["verdict"] == "not tested":
                        self.assertIsNone(draft["target_prob"])
                        continue
                    self.assertAlmostEqual(draft["ratio"], draft["target_prob"] / draft["draft_prob"])
                    self.assertEqual(draft["verdict"] == "accepted", draft["accept_uniform"] < draft["ratio"])
                    self.check_distributions(draft)
        self.assertEqual(verdicts, {"accepted", "rejected", "not tested"})

    def check_distributions(self, draft):
        shown = draft["distributions"]
        for column in (1, 2):
            total = sum(entry[column] for entry in shown["tokens"]) + shown["rest"][column - 1]
            self.assertAlmostEqual(total, 1)
        own = next(entry for entry in shown["tokens"] if entry[0] == draft["token"])
        self.assertEqual(own[1:3], [draft["target_prob"], draft["draft_prob"]])

    def test_explain_shows_every_round(self):
        code, _, errors = run(SAMPLING, "--temperature", 1, "--seed", 1, "--explain", "--max-new-tokens", 30)
        self.assertEqual(code, 0)
        for words in ("round 2,", "accepted", "correction", "p/q", "u 0.", "cached     target", "alpha", "by the clock"):
            self.assertIn(words, errors)
        self.assertNotIn("\x1b", errors, "no colours where there is no terminal")

    def test_dumped_logits_are_plain_decodings(self):
        tensors = []
        for stage in (CONTIGUOUS, PLAIN, GREEDY, SAMPLING):
            path = self.folder / stage
            code, _, errors = run(stage, "--dump-logits", path, "--max-new-tokens", 30, "--ignore-eos", "--quiet")
            self.assertEqual(code, 0, errors)
            tensors.append(read_tensors(path))
        self.assertEqual(tensors[0]["logits"][0], [30, 4096])
        self.assertEqual(tensors[1:], tensors[:1] * 3, "bit for bit")


class AutoTest(ProgramTest):
    """--spec-length auto, by profiles made by hand: nothing here depends on a clock."""

    def profile(self, draft_step, rows, **fields):
        """Of passes over 1, 2, ... rows; the unit of seconds does not matter."""
        path = self.folder / f"{draft_step}-{rows[1]}.json"
        path.write_text(json.dumps({"format": "specdec-cost-profile-1", "target_pass_seconds": rows,
                                    "draft_step_seconds": draft_step, "draft_round_seconds": 0, **fields}))
        return path

    def profiles(self):
        flat, steep = [1] * 17, [1 + 0.4 * row for row in range(17)]
        return {"cheap": self.profile(0.02, flat), "dear": self.profile(0.55, flat), "steep": self.profile(0.2, steep),
                "hopeless": self.profile(1.1, flat)}

    def auto(self, stage, profile, *arguments):
        return run_json(stage, "--spec-length", "auto", "--cost-profile", profile, *arguments)

    def test_the_text_is_plain_decodings_for_every_profile(self):
        want = run_json(PLAIN, "--max-new-tokens", 120, "--ignore-eos")
        means = {}
        for name, profile in self.profiles().items():
            result = self.auto(ADAPTIVE, profile, "--max-new-tokens", 120, "--ignore-eos")
            self.assertEqual(result["tokens"], want["tokens"], name)
            self.assertEqual(result["spec_length"], "auto")
            self.assertEqual(result["cost_profile"], json.loads(profile.read_text()) | {"measured_for": None})
            stats = result["stats"]
            self.assertEqual(sum(stats["rounds_by_drafted"]), stats["rounds"])
            means[name] = stats["mean_spec_length"]
        self.assertGreater(means["cheap"], 4)
        self.assertLess(means["dear"], means["cheap"] / 2)
        self.assertGreater(means["steep"], 0)
        self.assertEqual(means["hopeless"], 0)

    def test_the_same_seed_and_profile_give_the_same_text_and_rounds(self):
        for name, profile in self.profiles().items():
            runs = [self.auto(ADAPTIVE, profile, "--temperature", 0.9, "--seed", 7, "--max-new-tokens", 80, "--threads", n)
                    for n in (1, 2)]
            self.assertEqual(runs[0]["tokens"], runs[1]["tokens"], name)
            self.assertEqual(runs[0]["stats"]["rounds_by_drafted"], runs[1]["stats"]["rounds_by_drafted"], name)

    def test_drafts_that_are_bad_are_given_up(self):
        profile = self.profiles()["dear"]
        stats = self.auto(ADAPTIVE, profile, "--draft-kind", "random", "--max-new-tokens", 120, "--ignore-eos")["stats"]
        self.assertGreater(stats["rounds_by_drafted"][0], 100)
        self.assertEqual(stats["rounds_by_drafted"][1:], [5, 1], "hope at first, then probes")
        code, _, errors = run(ADAPTIVE, "--spec-length", "auto", "--cost-profile", profile, "--draft-kind", "random",
                              "--max-new-tokens", 60, "--ignore-eos")
        self.assertEqual(code, 0)
        for words in ("auto: c 0.550, v(2) 1.00, v(6) 1.00, v(17) 1.00", "first K 2", "auto: rounds by K: ",
                      "speculation cannot pay here: at alpha 0."):
            self.assertIn(words, errors)

    def test_traces_and_no_speculation(self):
        trace = self.folder / "trace.json"
        result = self.auto(ADAPTIVE, self.profiles()["steep"], "--trace", trace, "--max-new-tokens", 60, "--ignore-eos")
        record = json.loads(trace.read_text())
        self.assertEqual(record["spec_length"], "auto")
        drafted = [r["drafted"] for r in record["rounds"]]
        histogram = [drafted.count(K) for K in range(max(drafted) + 1)]
        self.assertEqual(result["stats"]["rounds_by_drafted"], histogram)
        self.assertGreater(len(set(drafted)), 1, "it adapts")
        plain = run_json(ADAPTIVE, "--spec-length", "auto", "--no-speculation", "--max-new-tokens", 5)
        self.assertEqual(plain["spec_length"], 0)
        self.assertNotIn("cost_profile", plain)

    def test_a_profile_is_measured_once_and_kept(self):
        path = self.folder / "new.json"
        first = self.auto(ADAPTIVE, path, "--max-new-tokens", 30)
        kept = path.read_text()
        again = self.auto(ADAPTIVE, path, "--max-new-tokens", 30)
        self.assertEqual(path.read_text(), kept)
        self.assertEqual(first["cost_profile"], json.loads(kept))
        self.assertEqual(first["stats"]["rounds_by_drafted"], again["stats"]["rounds_by_drafted"])
        profile = json.loads(kept)
        self.assertEqual(len(profile["target_pass_seconds"]), 17)
        self.assertEqual(profile["target_pass_seconds"], sorted(profile["target_pass_seconds"]))
        self.assertEqual(profile["measured_for"]["requests"], 1)
        code, _, errors = run(ADAPTIVE, "--spec-length", "auto", "--cost-profile", path, "--threads", "1", "--max-new-tokens",
                              "5", "--quiet")
        self.assertEqual(code, 0)
        self.assertIn("note: ", errors)
        self.assertIn("was measured for device", errors)

    def test_it_is_kept_beside_the_programs(self):
        (self.folder / "bin").mkdir()
        shutil.copy(PROGRAMS / ADAPTIVE, self.folder / "bin")
        program, arguments = self.folder / "bin" / ADAPTIVE, ("--spec-length", "auto", "--max-new-tokens", "8")
        run_program_json(program, *arguments)
        files = list((self.folder / "profiles").iterdir())
        self.assertEqual(len(files), 1)
        kept = files[0].read_text()
        run_program_json(program, *arguments)
        self.assertEqual(files[0].read_text(), kept)
        shutil.rmtree(self.folder / "profiles")
        (self.folder / "profiles").write_text("in the way")
        code, text, errors = run_program(program, *arguments, "--quiet")
        self.assertEqual((code, errors.count("\n")), (0, 1), errors)
        self.assertIn("the cost profile is not kept", errors)
        self.assertTrue(text)

    def test_a_fixed_k_is_the_stage_before(self):
        for more in ([], ["--temperature", 0.9, "--seed", 7]):
            want, got = [run_json(stage, "--max-new-tokens", 60, *more) for stage in (SAMPLING, ADAPTIVE)]
            self.assertEqual(got["tokens"], want["tokens"])
            self.assertEqual(got["stats"]["rounds_by_drafted"], want["stats"]["rounds_by_drafted"])
            self.assertEqual(got["spec_length"], 5)
            self.assertNotIn("cost_profile", got)


class BadInputTest(ProgramTest):
    def expect_error(self, words, stage, *arguments):
        self.expect_bad_input(words, PROGRAMS / stage, *map(str, arguments))

    def test_numbers(self):
        for option, value in (("--temperature", "nan"), ("--seed", "-1"), ("--seed", "1.5")):
            self.expect_error(option, SAMPLING, f"{option}={value}")
        self.expect_error("--lenience belongs to --acceptance rejection", SAMPLING, "--lenience", "0.5", "--acceptance",
                          "coupled")

    def test_drafts_that_do_not_fit(self):
        for stage in STAGES:
            self.expect_error("no such directory", stage, "--draft", "/nowhere")
            self.expect_error("only the target has a tokenizer.json", stage, "--draft", GOLDEN / "checkpoints" / "untied")
        folder = shutil.copytree(GOLDEN / "models" / "draft", self.folder / "draft")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            text = (folder / name).read_text()
            (folder / name).write_text(text.replace("<|eot_id|>", "<|done|>"))
        self.expect_error("token 3849 is ", GREEDY, "--draft", folder)
        self.expect_error("<|done|>", GREEDY, "--draft", folder)
        # A target of one's own, and no word about its draft.
        for stage in (*STAGES, "06_batched_verification", "07_adaptive_drafting"):
            self.expect_error(f"the embedded draft does not fit {folder}: give --draft DIR", stage, "--target", folder,
                              "--prompt", "Once")
            code, _, errors = run(stage, "--target", folder, "--prompt", "Once", "--max-new-tokens", 2, "--draft-kind",
                                  "lookup")
            self.assertEqual(code, 0, errors)

    def test_weights(self):
        for stage in STAGES:
            self.expect_error("--draft-weights", stage, "--draft-weights", "int4")
            for kind in ("random", "unigram", "bigram", "lookup"):
                self.expect_error(f"--draft-weights int8 belongs to --draft-kind llama or self; {kind} has no weights",
                                  stage, "--draft-kind", kind, "--draft-weights", "int8")
            for option in ("--target-weights", "--draft-weights"):
                self.expect_error("--check: the golden texts were made with stored weights", stage, "--check", option, "int8")

    def test_files(self):
        for stage in STAGES:
            self.expect_error("/nowhere", stage, "--draft-kind", "bigram", "--draft-text", "/nowhere")
            self.expect_error("pages", stage, "--pages", "2", "--max-new-tokens", "60")


if __name__ == "__main__":
    PROGRAMS, GOLDEN = map(pathlib.Path, sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
