"""One chain is a tree: stage 8 with --tree chains:1 does what stage 5 does, draw by draw, and a batch what stage 6 does.

usage: test_one_road.py FOLDER_OF_PROGRAMS [DEVICE]
"""
import itertools
import json
import pathlib
import sys
import tempfile
import unittest

from batches import run_lines, write_requests
from programs import run_program_json

CHAIN, BATCH, ADAPTIVE, TREES = ("05_rejection_sampling", "06_batched_verification", "07_adaptive_drafting",
                                 "08_token_trees")
COSTS = {"format": "specdec-cost-profile-1", "target_pass_seconds": [1 + 0.01 * rows for rows in range(17)],
         "draft_step_seconds": 0.02}
RULES = ("rejection", "at-least", "non-iterative", "sample-and-match", "coupled")
PROMPTS = ("Once, in the winter, Sunita came to York.", "class Shop:\n    def", "What is 12 + 35?")
SAMPLING = (["--temperature", "0"], ["--temperature", "1"], ["--temperature", "0.7", "--top-k", "20"],
            ["--temperature", "1.1", "--top-p", "0.9"], ["--temperature", "0.9", "--repetition-penalty", "1.3"],
            ["--temperature", "0", "--repetition-penalty", "1.2"], ["--temperature", "1", "--draft-temperature", "0.5"],
            ["--temperature", "0", "--draft-temperature", "1"], ["--temperature", "0.8", "--draft-temperature", "0"])
CACHES = (["--cache", "contiguous"], ["--page-size", "1", "--draft-page-size", "3"], ["--page-size", "3"],
          ["--page-size", "16", "--draft-page-size", "1"])
ENDS = ([], ["--stop", "e t"], ["--stop", "zebra", "--stop", "."], ["--ignore-eos"],
        ["--ignore-eos", "--max-context", "40"])  # the last: the text ends with its context
COUNTS = ("rounds", "drafted", "tested", "accepted", "emitted", "alpha", "accepted_per_position", "target_forwards",
          "draft_forwards")
COUNTS_OF_A_BATCH = tuple(name for name in COUNTS if not name.endswith("_forwards"))


def outcome(result, counts=COUNTS):
    return {"tokens": result["tokens"], "finish_reason": result["finish_reason"],
            **{name: result["stats"].get(name) for name in counts}}


class OneRoadTest(unittest.TestCase):
    def both(self, arguments, rule):
        """The outcome of a chain, and of a tree that is one."""
        arguments = ["--device", DEVICE, "--max-new-tokens", "24", *arguments]
        chain = run_program_json(PROGRAMS / CHAIN, "--acceptance", rule, *arguments)
        tree = run_program_json(PROGRAMS / TREES, "--siblings", rule, "--tree", "chains:1", *arguments)
        return outcome(chain), outcome(tree)

    def test_single_runs(self):
        """Every pair of a rule with a way to sample; caches, ends, prompts and K change along."""
        accepted = {rule: 0 for rule in RULES}
        pairs = list(itertools.product(RULES, SAMPLING))
        for i, (rule, sampling) in enumerate(pairs if DEVICE == "cpu" else pairs[::4]):
            arguments = ["--prompt", PROMPTS[i % len(PROMPTS)], "--seed", str(i), "--spec-length", str(1 + i % 6),
                         *sampling, *CACHES[i % len(CACHES)], *ENDS[i % len(ENDS)]]
            with self.subTest(rule=rule, arguments=arguments):
                want, got = self.both(arguments, rule)
                self.assertEqual(got, want)
                accepted[rule] += want["accepted"]
        counts = accepted.values() if DEVICE == "cpu" else [sum(accepted.values())]
        self.assertTrue(all(count > 10 for count in counts), accepted)

    def test_the_ends_of_both_contexts(self):
        """The draft's context ends before the target's, and plain steps follow."""
        with tempfile.TemporaryDirectory() as folder:
            draft = pathlib.Path(folder) / "draft"
            draft.mkdir()
            for file in (GOLDEN / "models" / "draft").iterdir():
                (draft / file.name).write_bytes(file.read_bytes())
            config = json.loads((draft / "config.json").read_text())
            (draft / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 29}))
            for K, rule in ((3, "rejection"), (5, "sample-and-match")):
                for temperature in "0", "1":
                    arguments = ["--prompt", PROMPTS[0], "--draft", str(draft), "--temperature", temperature,
                                 "--ignore-eos", "--spec-length", str(K), "--max-context", "36"]
                    with self.subTest(K=K, rule=rule, temperature=temperature):
                        want, got = self.both(arguments, rule)
                        self.assertEqual(got, want)

    def test_drafts_of_other_kinds(self):
        for kind, rule, temperature in itertools.product(("unigram", "bigram", "lookup"), ("rejection", "sample-and-match"), "01"):
            arguments = ["--prompt", PROMPTS[2], "--draft-kind", kind, "--temperature", temperature, "--seed", "5"]
            with self.subTest(kind=kind, rule=rule, temperature=temperature):
                want, got = self.both(arguments, rule)
                self.assertEqual(got, want)

    def test_ways_to_draft(self):
        """Stage 7's policies and drafters, and stage 5's lenience."""
        ways = (*(["--draft-length", how] for how in ("gain", "entropy", "confidence", "schedule", "survival")),
                ["--fallback", "lookup,llama"], ["--fallback", "lookup,ngram"], ["--draft-kind", "ngram"], ["--draft-kind", "suffix"],
                ["--draft-of-draft", "bigram"], ["--lenience", "0.5"], ["--draft-length", "entropy", "--lenience", "0.5"],
                ["--draft-length", "schedule", "--fallback", "lookup,llama"])
        with tempfile.TemporaryDirectory() as folder:
            costs = pathlib.Path(folder) / "costs.json"
            costs.write_text(json.dumps(COSTS))
            for way, temperature in itertools.product(ways, "01"):
                arguments = ["--prompt", PROMPTS[2] * 2, *way, "--temperature", temperature, "--seed", "3",
                             "--cost-profile", str(costs), "--device", DEVICE, "--max-new-tokens", "32"]
                with self.subTest(way=way, temperature=temperature):
                    want = outcome(run_program_json(PROGRAMS / ADAPTIVE, *arguments))
                    self.assertEqual(outcome(run_program_json(PROGRAMS / TREES, "--tree", "chains:1", *arguments)), want)
                    self.assertGreater(want["drafted"], 0)

    def test_batches(self):
        """Requests of all kinds, with pages for all of them, and with so few that some are preempted."""
        requests = [{"id": str(i), "prompt": prompt, "temperature": i % 3 / 2, "seed": i, "max_new_tokens": 20 + i,
                     "top_p": 0.9 if i % 2 else 1.0, "stop": ["zebra"] if i == 4 else []}
                    for i, prompt in enumerate(PROMPTS * 2)]
        with tempfile.TemporaryDirectory() as folder:
            file = write_requests(pathlib.Path(folder) / "requests.jsonl", requests)
            for rule, more in itertools.product(RULES, ([], ["--pages", "18", "--page-size", "4"])):
                with self.subTest(rule=rule, more=more):
                    self.compare_batches(["--requests", str(file), "--spec-length", "3", *more], rule, bool(more))

    def compare_batches(self, arguments, rule, preempted):
        outcomes = []
        for program, *words in ((BATCH, "--acceptance", rule), (TREES, "--siblings", rule, "--tree", "chains:1")):
            results, summary = run_lines(PROGRAMS / program, "--device", DEVICE, *words, *arguments)
            self.assertEqual(summary["preemptions"] > 0, preempted)
            outcomes.append([outcome(result, COUNTS_OF_A_BATCH) for result in results])
        self.assertEqual(*outcomes)


if __name__ == "__main__":
    PROGRAMS, GOLDEN = pathlib.Path(sys.argv.pop(1)), pathlib.Path(__file__).parents[2] / "golden"
    DEVICE = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "cpu"
    unittest.main()
