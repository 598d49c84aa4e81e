"""Stage 6 from outside: many requests, each of which must come out as if it were alone.

usage: test_batch.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER
"""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import batches
from batches import REQUESTS, run_alone, write_requests
from programs import ProgramTest, run_program, with_nan, without_advice

ALONE, BATCH, ADAPTIVE = "05_rejection_sampling", "06_batched_verification", "07_adaptive_drafting"
TREES = "08_token_trees"
FEW = ("--max-new-tokens", "4", "--ignore-eos")
COUNTERS = ("rounds", "drafted", "tested", "accepted", "emitted", "alpha", "acceptance_rate", "mean_round_acceptance",
            "mean_accepted_length", "accepted_per_position", "alpha_by_probability")


def run(*arguments, program=BATCH):
    return run_program(PROGRAMS / program, *map(str, arguments))


def run_lines(*arguments, program=BATCH):
    return batches.run_lines(PROGRAMS / program, *arguments)


def alone(request, *more):
    """What stage 5 makes of the same options."""
    return run_alone(PROGRAMS / ALONE, request, *more)


class BatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.file = write_requests(cls.folder / "requests.jsonl", REQUESTS)
        cls.alone = [alone(request) for request in REQUESTS]

    def expect_alone(self, results):
        self.assertEqual([result["id"] for result in results], [request["id"] for request in REQUESTS])
        for result, want in zip(results, self.alone):
            for field in ("tokens", "text", "finish_reason", "prompt_tokens", "model"):
                self.assertEqual(result[field], want[field], (result["id"], field))
            if result["spec_length"] > 0:
                for counter in COUNTERS:
                    self.assertEqual(result["stats"][counter], want["stats"][counter], (result["id"], counter))

    def test_sixteen_requests_at_once_are_sixteen_runs(self):
        for arguments in ([], ["--cache", "contiguous"], ["--page-size", 3, "--draft-page-size", 1], ["--threads", 1]):
            results, summary = run_lines("--requests", self.file, *arguments)
            self.expect_alone(results)
            self.assertGreaterEqual(summary["peak_rounds"], 14, "they really ran together")
            self.assertEqual(summary["stats"]["emitted"], sum(len(result["tokens"]) for result in results))

    def test_a_cache_of_bf16(self):
        arguments = ("--requests", self.file, "--kv-dtype", "bf16")
        want, summary = run_lines(*arguments, "--max-batch", 1)
        self.assertEqual(summary["model"]["kv_dtype"], "bf16")
        for more in ([], ["--page-size", 3, "--draft-page-size", 1], ["--pages", 62, "--page-size", 3, "--draft-pages", 13],
                     ["--cache", "contiguous", "--threads", 1]):
            results, _ = run_lines(*arguments, *more)
            for result, alone in zip(results, want):
                for field in ("tokens", "text", "finish_reason"):
                    self.assertEqual(result[field], alone[field], (result["id"], field, more))

    def test_in_a_pool_so_small_that_they_lose_their_pages(self):
        results, summary = run_lines("--requests", self.file, "--pages", 62, "--page-size", 3, "--draft-pages", 13)
        self.expect_alone(results)
        self.assertGreater(summary["preemptions"], 0)
        self.assertLessEqual(summary["target_pool"]["peak"], 62)

    def test_chunks_budgets_and_batch_sizes_change_nothing(self):
        for arguments in (["--prefill-chunk", 1], ["--max-batch", 1], ["--max-batch", 3, "--token-budget", 18],
                          ["--no-prefix-cache"]):
            results, summary = run_lines("--requests", self.file, *arguments)
            self.expect_alone(results)
            if "--no-prefix-cache" in arguments:
                self.assertEqual(summary["prefix_tokens"], 0)

    def test_a_request_that_fails_on_its_way_says_why(self):
        """Also with --quiet, and where it is the only one."""
        model = with_nan(GOLDEN / "checkpoints" / "untied", "model.embed_tokens.weight", 7, self.folder / "model")
        requests = self.folder / "spoilt.jsonl"
        requests.write_text('{"prompt_ids": [1, 2]}\n{"prompt_ids": [7, 2], "id": "spoilt"}\n')
        good = run("--target", model, "--draft-kind", "lookup", "--prompt-ids", "1,2", "--quiet", *FEW)[1]
        for program in (BATCH, ADAPTIVE, TREES):
            for how in ([], ["--quiet"], ["--output", "json"]):
                code, text, errors = run("--target", model, "--draft-kind", "lookup", "--requests", requests, *FEW, *how,
                                         program=program)
                with self.subTest(program=program, how=how):
                    self.assertEqual(code, 2)
                    self.assertEqual(errors.count(f"{program}: request spoilt ({requests}:2) has failed: "), 1, errors)
                    self.assertEqual(errors.count("\n") == 1, how != [], errors)
                    if how != ["--output", "json"]:
                        self.assertEqual(text, f"== 0\n{good}== spoilt\n\n")
        code, text, errors = run("--target", model, "--draft-kind", "lookup", "--prompt-ids", "7,2", "--quiet", *FEW)
        self.assertEqual((code, text), (2, "\n"))
        self.assertIn("request 0 (the prompt) has failed: ", errors)

    def test_texts_stream(self):
        """A text comes out step by step: between the lines of --explain, in one pipe with them."""
        done = subprocess.run([PROGRAMS / BATCH, "--prompt", "Once, in the winter,", "--max-new-tokens", "40", "--ignore-eos",
                               "--explain"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        between = re.split(rb"step \d+: [^\n]*\n", done.stdout)
        self.assertGreater(sum(len(piece) > 0 for piece in between[1:-1]), 5)

    def test_a_profile_of_a_full_batch_is_measured_and_kept(self):
        profile = self.folder / "measured.json"
        for _ in range(2):
            results, summary = run_lines("--requests", self.file, "--spec-length", "auto", "--cost-profile", profile,
                                         "--max-batch", 3, program=ADAPTIVE)
            self.assertEqual(summary["cost_profile"], json.loads(profile.read_text()))
        self.assertIn("auto: c ", run("--requests", self.file, "--spec-length", "auto", "--cost-profile", profile, "--max-batch", 3,
                                      program=ADAPTIVE)[2])
        self.assertEqual(summary["cost_profile"]["measured_for"]["requests"], 3)
        for result, want in zip(results, self.alone):
            if result["id"] in ("greedy", "penalty", "chat", "stops"):
                self.assertEqual(result["tokens"], want["tokens"], result["id"])

    def test_beginnings_are_found(self):
        _, summary = run_lines("--requests", self.file, "--page-size", 1, "--draft-page-size", 1, "--max-batch", 2)
        self.assertGreater(summary["prefix_tokens"], 40)
        self.assertGreater(summary["draft_pool"]["prefix_cache"]["tokens_found"], 0)

    def test_no_speculation_is_plain_decoding(self):
        results, summary = run_lines("--requests", self.file, "--no-speculation")
        for request, result, want in zip(REQUESTS, results, self.alone):
            if "temperature" not in request:
                self.assertEqual(result["tokens"], want["tokens"], result["id"])
        self.assertEqual(summary["stats"]["draft_forwards"], 0)
        self.assertIsNone(summary["draft_pool"])
        self.assertIsNone(summary["stats"]["alpha"])

    def test_every_draft_kind(self):
        for kind in ("self", "random", "unigram", "bigram", "lookup"):
            code, text, errors = run("--output", "json", "--requests", self.file, "--draft-kind", kind)
            self.assertEqual(code, 0, errors)
            results = [json.loads(line) for line in text.splitlines()][:-1]
            for request, result, want in zip(REQUESTS, results, self.alone):
                if "temperature" not in request:
                    self.assertEqual(result["tokens"], want["tokens"], (kind, result["id"]))

    def test_int8_drafts_leave_the_text_and_say_so(self):
        for kind in ("llama", "self"):
            results, summary = run_lines("--requests", self.file, "--draft-kind", kind, "--draft-weights", "int8")
            for request, result, want in zip(REQUESTS, results, self.alone):
                self.assertEqual(result["draft"]["weights"], "int8")
                if "temperature" not in request:
                    self.assertEqual(result["tokens"], want["tokens"], (kind, result["id"]))
            self.assertGreater(summary["memory"]["draft_weights"], 0)

    def test_an_int8_target_writes_what_it_writes_alone(self):
        weights = ("--target-weights", "int8", "--draft-weights", "int8")
        results, _ = run_lines("--requests", self.file, *weights)
        for request, result in zip(REQUESTS, results):
            want = alone(request, *weights)
            self.assertEqual((result["tokens"], result["model"]), (want["tokens"], want["model"]), result["id"])
            self.assertEqual(result["model"]["weights"], "int8")

    def test_arrivals_decide_when_not_what(self):
        path = self.folder / "arrivals.jsonl"
        late = [dict(request, arrival=0.02 * (len(REQUESTS) - i)) for i, request in enumerate(REQUESTS)]
        path.write_text("\n".join(map(json.dumps, late)))
        results, summary = run_lines("--requests", path)
        self.expect_alone(results)
        arrived = [result["stats"]["arrived"] for result in results]
        self.assertEqual(arrived, [request["arrival"] for request in late])
        for result in results:
            self.assertGreaterEqual(result["stats"]["time_to_first_token"], 0)
            self.assertLessEqual(result["stats"]["arrived"], result["stats"]["finished"])
        self.assertGreaterEqual(summary["seconds"], late[0]["arrival"])

    def test_what_the_authors_recommend_is_said_once(self):
        for requests, said in ((REQUESTS, 1), (REQUESTS[:1], 0)):
            path = self.folder / "advice.jsonl"
            path.write_text("\n".join(map(json.dumps, requests)))
            _, _, errors = run("--requests", path)
            self.assertEqual(errors.count("generation_config.json recommends temperature 0.6 and top_p 0.9"), said)
        lines = [{"prompt": "One two"}, {"prompt": "One two", "temperature": 0}]
        path.write_text("\n".join(map(json.dumps, lines)))
        advised, given = run_lines("--requests", path, "--generation-config", "--seed", 3)[0]
        _, _, errors = run("--requests", path, "--generation-config")
        self.assertNotIn("recommends", errors, "all of it is applied")
        sampled = run_lines("--prompt", "One two", "--temperature", 0.6, "--top-p", 0.9, "--seed", 3)[0][0]
        greedy = run_lines("--prompt", "One two")[0][0]
        self.assertEqual([advised["text"], given["text"]], [sampled["text"], greedy["text"]])
        self.assertNotEqual(advised["text"], given["text"])

    def test_requests_from_stdin(self):
        done = subprocess.run([PROGRAMS / BATCH, "--requests", "-", "--quiet"], capture_output=True, check=False,
                              input=json.dumps(REQUESTS[0]).encode())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout.decode(), self.alone[0]["text"] + "\n")

    def test_one_prompt_is_a_batch_of_one(self):
        results, _ = run_lines("--prompt", REQUESTS[0]["prompt"], "--max-new-tokens", 40)
        self.assertEqual(results[0]["tokens"], self.alone[0]["tokens"])
        code, text, errors = run("--prompt", REQUESTS[0]["prompt"], "--max-new-tokens", 40)
        self.assertEqual((code, text), (0, self.alone[0]["text"] + "\n"))
        for words in ("weights: target", "in all", "1 request,", "alpha", "time to first token: p50", "time per output token: p50", "pages: at most"):
            self.assertIn(words, errors)

    def test_text_comes_in_the_order_of_the_input(self):
        code, text, errors = run("--requests", self.file)
        self.assertEqual(code, 0, errors)
        self.assertEqual(text, "".join(f"== {want['id']}\n{result['text']}\n" for want, result in
                                       zip(REQUESTS, self.alone)))
        for request in REQUESTS:
            self.assertIn(f"{request['id']}: ", errors)
        self.assertNotIn("\x1b", text + errors, "neither colours nor progress where there is no terminal")

    def test_a_bad_request_is_refused_and_the_others_run(self):
        path = self.folder / "bad.jsonl"
        bad = [dict(REQUESTS[0], id="long", max_new_tokens=3000), {"id": "none", "prompt_ids": [4096]},
               dict(REQUESTS[0], id="never fits", max_new_tokens=400)]
        path.write_text("\n".join(map(json.dumps, [*bad, *REQUESTS])))
        code, text, errors = run("--requests", path, "--output", "json", "--pages", 20)
        self.assertEqual(code, 2)
        *results, _ = [json.loads(line) for line in text.splitlines()]
        self.expect_alone(results[len(bad):])
        for result, words in zip(results, ("need 3012 positions", "4096 is outside", "26 pages of 16, and there are 20")):
            self.assertEqual((result["finish_reason"], result["tokens"]), ("error", []))
            self.assertIn(words, result["error"])
            self.assertIn(words, errors)
        self.assertEqual(without_advice(errors).count("\n"), len(bad))
        self.assertIn(f"request none ({path}:2) is refused: ", errors)

    def test_report_trace_and_explain(self):
        report, trace = self.folder / "report.jsonl", self.folder / "trace.json"
        code, _, errors = run("--requests", self.file, "--report", report, "--trace", trace, "--explain", "--quiet")
        self.assertEqual(code, 0, errors)
        *results, last = [json.loads(line) for line in report.read_text().splitlines()]
        self.expect_alone(results)
        steps = json.loads(trace.read_text())["steps"]
        self.assertEqual(len(steps), last["summary"]["steps"])
        self.assertEqual(errors.count("\n"), len(steps), "a line a step")
        self.assertEqual(sum(part["emitted"] for step in steps for part in step["rounds"]),
                         last["summary"]["stats"]["emitted"])
        self.assertEqual(sum(step["ended"] < step["started"] for step in steps), 0)

    def test_progress_on_a_terminal(self):
        master, slave = pty.openpty()
        done = subprocess.run([PROGRAMS / BATCH, "--workload", "poisson:rate=40,n=12"], stdout=subprocess.DEVNULL,
                              stderr=slave, check=False)
        os.close(slave)
        shown = b""
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:
            pass  # the terminal is gone
        os.close(master)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(shown.decode(), r"\d+ waiting, \d+ running, \d+ of 12 done; \d+ tokens/s; pages \d+ of \d+")
        self.assertTrue(shown.endswith(b"preemptions\r\n"), "no progress stays behind")


class WorkloadTest(unittest.TestCase):
    def test_the_same_spec_gives_the_same_requests(self):
        spec = ["--workload", "poisson:rate=inf,n=12,sampled=0.5", "--max-new-tokens", 24]
        first, summary = run_lines(*spec, "--max-batch", 12)
        second, _ = run_lines(*spec, "--max-batch", 3, "--page-size", 3)
        self.assertEqual([result["tokens"] for result in first], [result["tokens"] for result in second])
        self.assertEqual(len(first), 12)
        self.assertGreater(summary["prefix_tokens"], 0, "its prompts share beginnings")

    def test_without_anything_there_is_a_workload(self):
        results, summary = run_lines("--max-new-tokens", 8)
        self.assertEqual(len(results), summary["requests"])
        self.assertGreater(len(results), 8)


class BadInputTest(ProgramTest):
    def expect_error(self, words, *arguments):
        self.expect_bad_input(words, PROGRAMS / BATCH, *map(str, arguments))

    def test_options(self):
        self.expect_help_and_version(PROGRAMS / BATCH, "--requests FILE")
        self.expect_error("a round of 16 requests with 5 drafts each takes 96 rows", "--token-budget", 95)
        self.expect_error("poisson", "--workload", "rain")

    def test_prompts(self):
        self.expect_error("the prompt is empty", "--prompt", "")
        self.expect_error("prompt id 4096 is outside the vocabulary", "--prompt-ids", "1,4096")
        self.expect_error("beyond the model's 2048 positions", "--max-context", 4096)
        self.expect_error("no tokenizer.json", "--target", GOLDEN / "checkpoints" / "untied", "--prompt", "a")

    def test_files(self):
        self.expect_error("/nowhere", "--requests", "/nowhere")
        self.expect_error("/nowhere", "--target", "/nowhere")
        self.expect_error("/nowhere", "--check", "--goldens", "/nowhere")
        self.expect_error("is not the model", "--check", "--goldens", GOLDEN / "goldens" / "draft")
        self.expect_error("only the target has a tokenizer", "--draft", GOLDEN / "checkpoints" / "untied", "--max-new-tokens", 4)


if __name__ == "__main__":
    PROGRAMS, GOLDEN = map(pathlib.Path, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
