#!/usr/bin/env python3
"""Beam search from the command line: what users give and what they see.

usage: test_beams.py FOLDER_OF_PROGRAMS
"""
import json
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

    # What drafts for a text of its own in stage 9, for one beam and for several.
    HEADS = ("blockwise", "medusa", "mtp", "eagle3", "eagle", "parallel")

    def test_heads_draft_for_one_beam_as_for_a_text(self):
        for heads in self.HEADS:
            options = ["--heads", heads, "--spec-length", "3", "--ignore-eos"]
            want = run_program_json(PROGRAMS / "09_self_drafting", *PROMPT, *options, "--tree", "top:1x1x1")
            got = self.run_json("--beams", "1", "--draft-beams", "1", *options)
            with self.subTest(heads=heads):
                self.assertEqual(got["tokens"], want["tokens"])
                self.assertEqual(got["stats"]["rounds"], want["stats"]["rounds"])

    def test_heads_draft_for_beams(self):
        want = self.run_json(*PLAIN, "--num-return", "4")
        lines = [{**request, "max_new_tokens": 24} for request in self.REQUESTS]
        alone = [self.alone(request) for request in lines]
        for heads in self.HEADS:
            with self.subTest(heads=heads):
                got = self.run_json("--num-return", "4", "--heads", heads, "--draft-beams", "8")
                self.assertEqual(got["hypotheses"], want["hypotheses"])
                self.assertLess(got["stats"]["rounds"], got["stats"]["steps"], "some steps need no pass")
                results, summary = self.run_batch(lines, "--heads", heads, "--pages", "18")
                self.assertGreater(summary["preemptions"], 0)
                for got, of_one in zip(results, alone, strict=True):
                    self.assertEqual((got["tokens"], got.get("hypotheses")), (of_one["tokens"], of_one.get("hypotheses")))

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

    def test_a_trace_has_each_step_and_what_became_of_its_candidates(self):
        file = self.folder / "beams.json"
        got = self.run_json("--spec-length", "3", "--trace", str(file), "--num-return", "2")
        trace = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual((trace["format"], trace["beams"], trace["draft_beams"]), ("specdec-trace-3", 4, 6))
        self.assertEqual(trace["hypotheses"][:2], got["hypotheses"])
        self.assertEqual((trace["tokens"], trace["text"]), (got["tokens"], got["text"]))
        self.assertEqual(len(trace["rounds"]), got["stats"]["rounds"])
        prompt, beams, hypotheses, steps = trace["prompt_ids"], [([], 0.0)], [], 0
        for round in trace["rounds"]:
            tree = round["tree"]
            self.assertEqual(round["start"], steps)
            self.assertEqual(round["rows"], sum(node["kind"] != "kept" for node in tree))

            def text_to(node):
                return text_to(tree[node]["parent"]) + [tree[node]["token"]] if node >= 0 else []
            common = (prompt + beams[0][0])[:round["text"]]
            for beam, (tokens, score) in zip(round["beams"], beams, strict=True):
                self.assertEqual(tree[beam["node"]]["kind"], "beam")
                self.assertEqual(common + text_to(beam["node"]), prompt + tokens)
                self.assertEqual(beam["score"], score)
            for step in round["steps"]:
                steps += 1
                running = [c for c in step["candidates"] if c.pop("fate") == "runs on"]
                self.assertEqual(running, [{k: b[k] for k in ("beam", "token", "score")} for b in step["beams"]])
                for beam in step["beams"]:
                    if beam["node"] is not None:
                        self.assertEqual(tree[beam["node"]]["token"], beam["token"])
                self.assertEqual(step["undrafted"], sum(beam["node"] is None for beam in step["beams"]))
                beams = [(beams[b["beam"]][0] + [b["token"]], b["score"]) for b in step["beams"]]
                self.assertTrue(all(str(c["token"]) in trace["pieces"] for c in step["candidates"]))
            if not round["finished"]:
                self.assertTrue(round["steps"][-1]["undrafted"] > 0 or len(round["steps"]) == round["levels"] + 1)
        self.assertTrue(trace["rounds"][-1]["finished"])
        self.assertEqual(steps, got["stats"]["steps"])

    # ---- in a batch

    def file_of(self, *requests):
        file = self.folder / "requests.jsonl"
        file.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
        return file

    def run_batch(self, requests, *options):
        code, text, errors = run_program(PROGRAMS / STAGE, "--requests", self.file_of(*requests), "--output", "json", *options)
        self.assertEqual(code, 0, errors)
        *results, summary = map(json.loads, text.splitlines())
        return results, summary["summary"]

    REQUESTS = [{"prompt": "def add(a, b):", "max_new_tokens": 24, "beams": 4, "num_return": 4},
                {"prompt": "Once", "max_new_tokens": 30},
                {"chat": "I need the word moon in French.", "beams": 2, "length_penalty": 2, "early_stopping": "never",
                 "max_new_tokens": 40, "num_return": 2},
                {"prompt": "Once, in the winter,", "max_new_tokens": 20, "beams": 3, "draft_beams": 3, "early_stopping": True},
                {"prompt": "Once", "max_new_tokens": 30, "beams": 1, "draft_beams": 1},
                {"prompt": "Two dogs", "max_new_tokens": 16, "beams": 5, "no_speculation": True}]

    def alone(self, request):
        options = []
        for field, value in request.items():
            name = "--" + field.replace("_", "-")
            options += [name] if value is True and field == "no_speculation" else [name, str(value).lower() if value is True else str(value)]
        return run_program_json(PROGRAMS / (STAGE if "beams" in request else GREEDY), *options)

    def test_in_a_batch_each_search_finds_what_it_finds_alone(self):
        alone = [self.alone(request) for request in self.REQUESTS]
        for options in ([], ["--pages", "16", "--draft-pages", "18"], ["--cache", "contiguous"], ["--page-size", "1", "--max-batch", "2"],
                        ["--draft-kind", "lookup"], ["--draft-kind", "ngram"], ["--draft-kind", "bigram"], ["--no-prefix-cache"]):
            results, summary = self.run_batch(self.REQUESTS, *options)
            with self.subTest(options=options):
                for request, got, want in zip(self.REQUESTS, results, alone, strict=True):
                    self.assertEqual((got["tokens"], got["text"]), (want["tokens"], want["text"]))
                    self.assertEqual(got["finish_reason"], want["finish_reason"])
                    self.assertEqual("hypotheses" in got, "beams" in request)
                    self.assertEqual(got.get("hypotheses"), want.get("hypotheses"))
                    if not options:
                        self.assertEqual(got["stats"]["rounds"], want["stats"]["rounds"])
                if "--pages" in options:
                    self.assertGreater(summary["preemptions"], 0)

    def test_a_batch_in_text_shows_all_texts(self):
        want = self.alone(self.REQUESTS[0])["hypotheses"]
        code, text, errors = run_program(PROGRAMS / STAGE, "--requests", self.file_of(*self.REQUESTS[:2]))
        self.assertEqual(code, 0, errors)
        others = "".join(f"[{i}] {found['score']:.4f}\n{found['text']}\n" for i, found in enumerate(want, 1) if i > 1)
        self.assertTrue(text.startswith(f"== 0\n{want[0]['text']}\n{others}== 1\n"), text)

    def test_beams_for_a_whole_workload(self):
        results, summary = [], None
        code, text, errors = run_program(PROGRAMS / STAGE, "--workload", "poisson:rate=inf,n=5", "--beams", "2", "--output", "json")
        self.assertEqual(code, 0, errors)
        *results, summary = map(json.loads, text.splitlines())
        self.assertEqual([len(result["hypotheses"]) for result in results], [1] * 5)

    def test_bad_lines_of_a_batch(self):
        for words, line, *options in (
                ("--draft-beams 2 is less than --beams 3", {"prompt": "a", "beams": 3, "draft_beams": 2}),
                ("--num-return 3: a search with --beams 2 finds 2 texts", {"prompt": "a", "beams": 2, "num_return": 3}),
                ("--num-return goes with --beams", {"prompt": "a", "num_return": 3}),
                ("9 beams and 9 x 5 drafts are 54 rows, and a pass has 40: raise --token-budget",
                 {"prompt": "a", "beams": 9, "draft_beams": 9}, "--token-budget", "40", "--max-batch", "1"),
                ("pages of 16, and there are 4: raise --pages", {"prompt": "a", "beams": 9, "max_new_tokens": 60}, "--pages", "4")):
            file = self.file_of(line, {"prompt": "Once", "max_new_tokens": 3})
            code, text, errors = run_program(PROGRAMS / STAGE, "--requests", file, "--quiet", *options)
            self.assertEqual(code, 2)
            self.assertIn(words, errors)
            self.assertTrue(text.strip(), "the other request is served")
        for words, line in (("beams is 0; it takes a whole number from 1", {"prompt": "a", "beams": 0}),
                            ("temperature", {"prompt": "a", "beams": 2, "temperature": 1}),
                            ("early_stopping is \"maybe\"", {"prompt": "a", "beams": 2, "early_stopping": "maybe"})):
            code, _, errors = run_program(PROGRAMS / STAGE, "--requests", self.file_of(line))
            self.assertEqual(code, 2)
            self.assertIn(words, errors)

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
                ("this stage has no --self-draft lookahead; 09_self_drafting has it", "--self-draft", "lookahead"),
                ("9 drafts in a row, but", "--draft-kind", "heads", "--self-draft", "medusa", "--spec-length", "9"),
                ("--heads medusa belongs to --draft-kind heads, not to llama", "--draft-kind", "llama", "--heads", "medusa"),
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
