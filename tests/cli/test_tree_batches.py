"""Stage 8 from outside, for many requests: each comes out as if its trees were the only ones.

usage: test_tree_batches.py FOLDER_OF_PROGRAMS
"""
import json
import pathlib
import sys
import unittest

import batches
from batches import PROMPT
from programs import ProgramTest, run_program

TREES = "08_token_trees"
# Rules and K are options of the whole run here.
REQUESTS = [{"max_new_tokens": 30, **request} for request in batches.REQUESTS if request["id"] in (
    "greedy", "same beginning", "sampled", "filtered", "penalty", "plain sampling", "stops", "tight")] + [
    {"id": "own draft temperature", "prompt": "Snow fell.", "draft_temperature": 0.7, "max_new_tokens": 25}]
MODELS = pathlib.Path(__file__).parents[2] / "golden" / "models"
SEVERAL = ("--draft", MODELS / "draft_small", "--draft", MODELS / "draft")
COUNTERS = ("rounds", "drafted", "tested", "accepted", "emitted", "alpha", "acceptance_rate", "mean_round_acceptance",
            "accepted_per_position", "rounds_by_drafted")


def run(*arguments):
    return run_program(PROGRAMS / TREES, *map(str, arguments))


def run_lines(*arguments):
    return batches.run_lines(PROGRAMS / TREES, *arguments)


def alone(request, *more):
    return batches.run_alone(PROGRAMS / TREES, request, *more)


class TreeBatchesTest(ProgramTest):
    def file_of(self, requests):
        return batches.write_requests(self.folder / "requests.jsonl", requests)

    def expect_alone(self, results, wanted, what):
        self.assertEqual(len(results), len(wanted))
        for result, want in zip(results, wanted):
            for field in ("tokens", "text", "finish_reason", "prompt_tokens"):
                self.assertEqual(result[field], want[field], (what, result["id"], field))
            for counter in COUNTERS if result["spec_length"] > 0 else ():
                self.assertEqual(result["stats"][counter], want["stats"][counter], (what, result["id"], counter))

    def test_every_request_is_a_run_of_its_own(self):
        drawn = [request for request in REQUESTS
                 if {"temperature", "draft_temperature", "no_speculation"} & set(request)]
        for requests, *tree in ((REQUESTS, "--tree", "top:3x2x1"),
                                (REQUESTS, "--tree", "top:2x1x1x1x1x1x1"),
                                (REQUESTS, "--tree", "best:8", "--siblings", "sample-and-match"),
                                (REQUESTS, "--tree", "grow:10", "--siblings", "at-least"),
                                (REQUESTS, "--tree", "grow:10", "--draft-kind", "lookup"),
                                (REQUESTS, "--tree", "chains:1", "--siblings", "block"),
                                (REQUESTS, "--tree", "chains:2", *SEVERAL),
                                (drawn, "--tree", "chains:3", *SEVERAL),
                                (drawn, "--tree", "chains:3"),
                                (drawn, "--tree", "chains:2", "--siblings", "k-sequential", "--draft-kind", "bigram"),
                                (drawn, "--tree", "distinct:2x2", "--siblings", "coupled", "--spec-length", 2)):
            wanted = [alone(request, *tree) for request in requests]
            for more in (["--max-batch", 3], ["--max-batch", 4, "--page-size", 3, "--draft-page-size", 1],
                         ["--max-batch", 2, "--cache", "contiguous", "--prefill-chunk", 2]):
                results, summary = run_lines("--requests", self.file_of(requests), *tree, *more)
                self.expect_alone(results, wanted, (tree, more))
                self.assertEqual(summary["peak_rounds"], more[1], "they really ran together")
                self.assertEqual(summary["nodes"], summary["round_rows"] - summary["rounds"])

    def test_in_a_pool_so_small_that_they_lose_their_pages(self):
        wanted = [alone(request) for request in REQUESTS]
        results, summary = run_lines("--requests", self.file_of(REQUESTS), "--pages", 40, "--page-size", 3,
                                     "--draft-pages", 40, "--draft-page-size", 3)
        self.expect_alone(results, wanted, "few pages")
        self.assertGreater(summary["preemptions"], 0)
        self.assertLessEqual(summary["target_pool"]["peak"], 40)

    def test_several_draft_models_lose_their_pages_together(self):
        words = [*SEVERAL, "--tree", "chains:2"]
        wanted = [alone(request, *words) for request in REQUESTS]
        results, summary = run_lines("--requests", self.file_of(REQUESTS), "--pages", 40, "--page-size", 3, *words)
        self.expect_alone(results, wanted, "few pages")
        self.assertGreater(summary["preemptions"], 0)
        one, memory = run_lines("--requests", self.file_of(REQUESTS), "--tree", "chains:1", *SEVERAL[:2])[1]["memory"], summary["memory"]
        other = run_lines("--requests", self.file_of(REQUESTS), "--tree", "chains:1", *SEVERAL[2:])[1]["memory"]
        self.assertEqual(memory["draft_weights"], one["draft_weights"] + other["draft_weights"])
        self.assertGreater(memory["draft_cache"], one["draft_cache"] + other["draft_cache"])

    def test_at_the_end_of_both_contexts(self):
        """Places behind the positions: for the nodes of the last trees."""
        requests = [{"prompt_ids": [3840, 71, 5 + i], "max_new_tokens": 2045, "ignore_eos": True} for i in range(2)]
        for more in (["--cache", "paged"], ["--cache", "contiguous"]):
            results, _ = run_lines("--requests", self.file_of(requests), "--tree", "grow:12", *more)
            self.expect_alone(results, [alone(request, "--tree", "grow:12", *more) for request in requests], more)

    def test_what_people_see(self):
        trace = self.folder / "trace.json"
        code, text, errors = run("--requests", self.file_of(REQUESTS[:2]), "--tree", "top:2x2", "--explain",
                                 "--trace", trace)
        self.assertEqual(code, 0, errors)
        self.assertEqual(text, "".join(f"== {request['id']}\n{alone(request, '--tree', 'top:2x2')['text']}\n"
                                       for request in REQUESTS[:2]))
        self.assertRegex(errors, r"step \d+: 0 keeps \d of 2 \[\d+\], 1 keeps \d of 2 \[\d+\]; 14 rows;")
        self.assertRegex(errors, r"\n\d+ rounds of [56]\.\d nodes\n")
        steps = json.loads(trace.read_text())["steps"]
        self.assertEqual(sum(part["emitted"] for step in steps for part in step["rounds"]), 70)

    def test_what_cannot_work(self):
        bad = lambda words, *arguments: self.expect_bad_input(words, PROGRAMS / TREES, *map(str, arguments))
        one = self.file_of([{"prompt": "a"}])
        spec = "poisson:rate=inf,n=3"
        bad("--write-tree-profile", "--requests", one, "--write-tree-profile", self.folder / "profile.json")
        bad("all drafts would be the same", "--workload", spec, "--tree", "chains:3")
        bad("use --tree chains:1", "--workload", spec, "--siblings", "block")
        bad("drafts one chain", "--requests", one, "--draft-kind", "random")
        bad("--draft-pages is for one drafter", "--requests", one, "--fallback", "lookup,llama", "--draft-pages", 9)
        bad("a round of 3 requests with 15 drafts each takes 48 rows", "--workload", spec, "--token-budget", 47)
        for field, words in ({"spec_length": 3}, "spec_length belongs to the whole run"), \
                            ({"acceptance": "coupled"}, "acceptance belongs to the whole run"):
            bad(words, "--requests", self.file_of([{"prompt": "a"} | field]))

    def test_requests_with_trees_of_their_own(self):
        """Side by side, with what each gets alone."""
        for shapes, *run_of in ((("chains:2", "distinct:2x2", "top:4x2", "grow:4", "chains:1", None), "--tree", "chains:4"),
                                (("top:2", "best:5", "top:1x1x1", "top:6", None), "--tree", "top:3x2x1"),
                                (("best:3", "top:4", None), "--tree", "top:3x2x1", "--draft-kind", "lookup"),
                                (("top:2x1", None), "--tree", "top:3x2x1", "--fallback", "lookup,llama"),
                                (("grow:3", "best:5", None), "--tree", "grow:8")):
            requests = [{"id": f"{shape} {i}", "prompt": PROMPT, "max_new_tokens": 30, "temperature": 0.8, "seed": i}
                        | ({"tree": shape} if shape else {}) for i, shape in enumerate(shapes)]
            levels = {"chains:4": 5, "top:3x2x1": 3, "grow:8": 5}[run_of[1]]
            wanted = [alone({name: value for name, value in request.items() if name != "tree"},
                            "--tree", request.get("tree", run_of[1]), "--spec-length", levels, *run_of[2:])
                      for request in requests]
            for more in (["--max-batch", 9, "--page-size", 3, "--draft-page-size", 1],
                         ["--max-batch", 3, "--cache", "contiguous"]):
                results, summary = run_lines("--requests", self.file_of(requests), *run_of, *more)
                self.expect_alone(results, wanted, (run_of, more))
                self.assertEqual(summary["nodes"], summary["round_rows"] - summary["rounds"])

    def test_trees_of_their_own_that_cannot_be(self):
        for tree, words, *run_of in (
                ("top:8x8", "--tree top:8x8: 72 drafted tokens, and there is room for the 15 of --tree top:3x2x1"),
                ("top:2x1x1x1", "--tree top:2x1x1x1: 4 levels, and there is room for the 3 of --tree top:3x2x1"),
                ("chains:1", "--tree chains:1: 3 distributions to draw from, and there is room for the 0 of --tree top:3x2x1"),
                ("bush:3", "--tree bush:3: no such shape; there are"),
                ("top:2", "--tree top:2: this run drafts --tree chains:1 for every request, because of its chains",
                 "--tree", "chains:1"),
                ("grow:3", "--tree grow:3: this run drafts --tree grow:8 for every request, because of its suffix drafts",
                 "--tree", "grow:8", "--draft-kind", "suffix"),
                ("top:2", "--tree top:2: --siblings k-sequential needs drafts that are drawn from one distribution",
                 "--tree", "chains:3", "--siblings", "k-sequential", "--temperature", 1)):
            path = self.file_of([{"prompt": PROMPT, "tree": tree}, {"prompt": PROMPT, "max_new_tokens": 3}])
            code, _, errors = run("--requests", path, *run_of, "--output", "json")
            self.assertEqual((code, errors.count("\n")), (2, 1), errors)
            self.assertIn(f"request 0 ({path}:1) is refused: {words}", errors)

    def test_a_bad_request_is_refused_and_the_others_run(self):
        requests = [{"prompt": PROMPT}, {"prompt": PROMPT, "temperature": 1}, {"prompt": PROMPT, "no_speculation": True}]
        path = self.file_of(requests)
        words = ["--tree", "chains:2", "--max-new-tokens", "20"]
        code, text, errors = run("--requests", path, "--output", "json", *words)
        self.assertEqual((code, errors.count("\n")), (2, 1), errors)
        self.assertIn(f"request 0 ({path}:1) is refused: --tree chains:2 at --draft-temperature 0: all drafts", errors)
        results = [json.loads(line) for line in text.splitlines()][1:-1]
        self.expect_alone(results, [alone(request, *words) for request in requests[1:]], words)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
