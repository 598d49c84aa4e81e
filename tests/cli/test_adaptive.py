"""Stage 7 from outside: how long to draft, who drafts, alone and in a batch.

usage: test_adaptive.py FOLDER_OF_PROGRAMS
"""
import itertools
import json
import math
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import ProgramTest, run_program, run_program_json

PLAIN, ADAPTIVE = "03_paged_kv_cache", "07_adaptive_drafting"
LENGTHS = [["--draft-length", how] for how in ("fixed", "gain", "entropy", "confidence", "schedule", "survival")]
DRAFTERS = [[], ["--draft-kind", "ngram"], ["--fallback", "lookup,llama"], ["--fallback", "llama,ngram"],
            ["--fallback", "ngram,bigram"], ["--draft-of-draft", "bigram"], ["--draft-of-draft", "ngram"],
            ["--draft-of-draft", "bigram", "--draft-of-draft", "lookup", "--inner-spec-length", "2"],
            ["--fallback", "lookup,llama", "--draft-of-draft", "lookup"],
            ["--draft-kind", "ngram", "--ngram-fill", "3"], ["--fallback", "ngram,llama", "--ngram-fill", "2"],
            ["--draft-kind", "suffix"], ["--fallback", "suffix,llama", "--suffix-match", "3"], ["--draft-of-draft", "suffix"]]
# Rounds that nearly always pay, so that no policy pauses for long.
COSTS = {"format": "specdec-cost-profile-1", "target_pass_seconds": [1 + 0.01 * rows for rows in range(17)], "draft_step_seconds": 0.02}
PROMPT = "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat."


def run(*arguments):
    return run_program_json(PROGRAMS / ADAPTIVE, *map(str, arguments))


class AdaptiveTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.profile = cls.folder / "costs.json"
        cls.profile.write_text(json.dumps(COSTS))
        cls.rows_profile = cls.folder / "rows.json"
        cls.rows_profile.write_text(json.dumps(COSTS | {"passes_by_rows": [[1, 1], [4, 1.3], [8, 1.9], [24, 6]],
                                                        "first_drafts_by_requests": [[1, 0.02], [4, 0.03]],
                                                        "next_drafts_by_requests": [[1, 0.02], [4, 0.03]]}))

    def expect_bad(self, words, *arguments):
        self.expect_bad_input(words, PROGRAMS / ADAPTIVE, "--max-new-tokens", "2", *arguments)

    def test_greedy_text_is_plain_decodings(self):
        want = run_program_json(PROGRAMS / PLAIN, "--prompt", PROMPT, "--max-new-tokens", "50")["tokens"]
        differ = set()
        for length, drafter in itertools.product(LENGTHS, DRAFTERS):
            cache = ["paged", "contiguous"][(LENGTHS.index(length) + DRAFTERS.index(drafter)) % 2]
            got = run("--prompt", PROMPT, "--max-new-tokens", 50, "--cache", cache, "--cost-profile", self.profile,
                           *length, *drafter)
            self.assertEqual(got["tokens"], want, (length, drafter, cache))
            differ.add(tuple(got["stats"]["rounds_by_drafted"]))
        self.assertGreater(len(differ), 15, "they go different ways to the same text")

    def test_alone_and_together(self):
        lines = [{"id": str(i), "prompt": prompt, "seed": i, "temperature": temperature, "max_new_tokens": 25}
                 for i, (prompt, temperature) in enumerate(((PROMPT, 0.9), ("There was a fox", 0), ("One day", 1.2)))]
        for n, drafter in enumerate(DRAFTERS):
            for line, length in zip(lines, itertools.islice(itertools.cycle(LENGTHS), n, n + 3)):
                line["draft_length"] = length[1]
            file = self.folder / "requests.jsonl"
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            code, text, errors = run_program(PROGRAMS / ADAPTIVE, "--requests", file, "--output", "json",
                                             "--cost-profile", self.profile, "--page-size", "4", *drafter)
            self.assertEqual(code, 0, errors)
            for line, got in zip(lines, map(json.loads, text.splitlines())):
                want = run(*(word for key, value in line.items() if key != "id"
                                  for word in ("--" + key.replace("_", "-"), value)),
                                "--cost-profile", self.profile, *drafter)
                self.assertEqual(got["tokens"], want["tokens"], (line, drafter))
                for counter in ("rounds", "drafted", "tested", "accepted", "alpha", "rounds_by_drafted"):
                    self.assertEqual(got["stats"][counter], want["stats"][counter], (line, drafter, counter))

    def test_passes_of_the_draft_model(self):
        """K from the first place is known before the last pass; a threshold needs one pass more to say no."""
        for words, refuses in ((["--draft-length", "entropy"], False), (["--draft-length", "confidence"], True),
                               (["--draft-length", "survival"], True)):
            for temperature in (0, 0.8):
                with self.subTest(words=words, temperature=temperature):
                    stats = run("--prompt", PROMPT, "--max-new-tokens", 50, "--temperature", temperature,
                                "--cost-profile", self.profile, *words)["stats"]
                    drafted = sum(K * rounds for K, rounds in enumerate(stats["rounds_by_drafted"]))
                    self.assertEqual(stats["draft_forwards"], drafted + stats["refused"])
                    self.assertEqual(stats["refused"] > 0, refuses)

    def test_what_is_reported(self):
        got = run("--draft-length", "confidence", "--confidence", 0.6, "--fallback", "lookup,llama",
                       "--draft-of-draft", "bigram", "--cost-profile", self.profile)
        self.assertEqual((got["draft_length"], got["fallback"]), ("confidence", "lookup,llama"))
        self.assertEqual((got["draft_of_draft"], got["inner_spec_length"]), (["bigram"], 4))
        self.assertNotIn("ngram_fill", got)
        self.assertEqual(run("--draft-kind", "ngram", "--ngram-fill", 3)["ngram_fill"], 3)
        # Where nothing is given, the best K for alpha 0.9: the most of (1 - 0.9^(K + 1)) / (0.1 (1 + 0.12 K)).
        dear = self.folder / "dear.json"
        dear.write_text(json.dumps(COSTS | {"target_pass_seconds": [1 + 0.02 * rows for rows in range(17)],
                                            "draft_step_seconds": 0.1}))
        short = self.folder / "short.json"
        short.write_text(json.dumps(COSTS | {"target_pass_seconds": [1, 1.01, 1.02, 1.03]}))
        for words, costs, most in (([], dear, 9), (["--spec-length", 7], dear, 7), (["--min-spec-length", 12], dear, 12),
                                   (["--min-spec-length", 12], short, 3), (["--spec-length", 12], short, 3)):
            got = run("--draft-length", "schedule", "--cost-profile", costs, *words)
            self.assertEqual(got["largest_spec_length"], most)

    def test_an_unsure_draft_ends_a_round(self):
        drafted = [run("--prompt", PROMPT, "--draft-length", "confidence", "--confidence", threshold,
                            "--cost-profile", self.profile)["stats"]["drafted"] for threshold in (0, 0.5, 0.9, 1)]
        self.assertEqual(drafted, sorted(drafted, reverse=True))
        self.assertGreater(drafted[0], 2 * drafted[2])

    def test_the_notes_of_a_round(self):
        trace = self.folder / "trace.json"
        for how, names in (("entropy", {"entropy", "K", "emitted per cost"}), ("gain", {"alpha"}),
                           ("confidence", {"confidence", "emitted per cost"}),
                           ("schedule", {"next K", "emitted per cost"}), ("survival", {"survival", "emitted per cost"})):
            run("--prompt", PROMPT, "--draft-length", how, "--trace", trace, "--cost-profile", self.profile,
                "--max-new-tokens", 20, "--spec-length", 16)
            for played in json.loads(trace.read_text())["rounds"]:
                self.assertEqual(set(played["notes"]), names)
                if how == "entropy" and played["drafted"] > 0:
                    self.assertEqual(round(16 - played["notes"]["entropy"] * 15), played["notes"]["K"])
                    self.assertLessEqual(played["drafted"], played["notes"]["K"])
        code, _, errors = run_program(PROGRAMS / ADAPTIVE, "--draft-length", "entropy", "--explain", "--cost-profile",
                                      self.profile, "--max-new-tokens", "8")
        self.assertEqual(code, 0)
        self.assertRegex(errors, r"\n  policy     entropy 0\.\d+, K \d+, emitted per cost ")

    def test_estimates_and_what_came_true(self):
        lines = [{"id": str(i), "prompt": prompt, "seed": i, "temperature": temperature, "max_new_tokens": 60}
                 for i, (prompt, temperature) in enumerate(itertools.product((PROMPT, "There was a fox", "One day"), (0, 0.8)))]
        total = {}
        for line in lines:
            got = run(*(word for key, value in line.items() if key != "id" for word in ("--" + key.replace("_", "-"), value)),
                      "--draft-length", "survival", "--cost-profile", self.profile)
            survival, stats = got["survival"], got["stats"]
            for name in ("margin", "entropy", "confidence"):
                self.assertEqual(sum(survival[name]["places"]), stats["tested"], (line, name))
                self.assertEqual(sum(survival[name]["accepted"]), stats["accepted"], (line, name))
            self.assertEqual(sum(survival["survival"]["places"]), stats["drafted"])
            self.assertEqual(sum(survival["survival"]["accepted"]), stats["accepted"])
            for name in ("margin", "entropy", "confidence", "survival"):
                for column in ("places", "accepted"):
                    total[name, column] = [a + b for a, b in zip(total.get((name, column), [0] * 20), survival[name][column])]
        file = self.folder / "survival.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, text, errors = run_program(PROGRAMS / ADAPTIVE, "--requests", file, "--output", "json", "--draft-length",
                                         "survival", "--cost-profile", self.profile)
        self.assertEqual(code, 0, errors)
        together = json.loads(text.splitlines()[-1])["summary"]["survival"]
        for (name, column), counts in total.items():  # a batch does not count the rounds that end its requests
            missing = [alone - counted for alone, counted in zip(counts, together[name][column])]
            self.assertTrue(min(missing) >= 0 and sum(missing) <= 16 * len(lines), (name, column, missing))
        for name in ("margin", "survival"):  # untested places that count as rejected would lower both
            bins, width = together[name], together["log_odds_per_bin"]
            for i, (places, mean) in enumerate(zip(bins["places"], bins["mean_estimates"])):
                lowest, highest = (1 / (1 + math.exp(-together["first_log_odds"] - width * bin)) for bin in (i, i + 1))
                if places and 0 < i < 19:
                    self.assertTrue(lowest - 1e-6 <= mean <= highest + 1e-6, (name, i, mean))
            expected = sum(places * mean for places, mean in zip(bins["places"], bins["mean_estimates"]) if places)
            self.assertLess(abs(expected - sum(bins["accepted"])), 0.1 * sum(bins["places"]), name)
        self.assertNotIn("survival", run("--draft-length", "gain", "--cost-profile", self.profile))

    def test_all_places_and_the_oracle(self):
        arguments = ("--prompt", PROMPT, "--all-places", "--ignore-eos", "--max-new-tokens", 60, "--cost-profile",
                     self.profile)
        for more in ([], ["--temperature", 0.8, "--seed", 3]):
            got = run(*arguments, "--draft-length", "gain", *more)["stats"]
            self.assertEqual(got["places"], 60)
            oracle = got["oracle"]
            self.assertGreaterEqual(60, oracle["drafted"])
            if not more:  # sampled texts differ from what an oracle's rounds would write
                self.assertLessEqual(oracle["target_forwards"], got["target_forwards"])
                self.assertAlmostEqual(got["alpha_all_places"] * 60, round(got["alpha_all_places"] * 60), 9)
            self.assertGreater(oracle["speedup"], 1)
        code, text, _ = run_program(PROGRAMS / ADAPTIVE, *map(str, arguments), "--draft-kind", "self", "--output", "json")
        self.assertEqual((code, json.loads(text)["stats"]["alpha_all_places"]), (0, 1))  # with a warning
        self.assertIsNone(run(*arguments)["stats"]["oracle"]["speedup"], "no costs are known")

    def test_bad_input(self):
        for words, *arguments in (
                ("nonsense not in {fixed,gain,entropy,confidence,schedule,survival}", "--draft-length", "nonsense"),
                ("--min-spec-length is 20; it must not exceed --spec-length, 16", "--draft-length", "entropy",
                 "--min-spec-length", "20"),
                ("--min-spec-length is 4; it must not exceed --spec-length, 3", "--draft-length", "schedule",
                 "--min-spec-length", "4", "--spec-length", "3"),
                ("--spec-length auto is --draft-length gain", "--spec-length", "auto", "--draft-length", "entropy"),
                ("it takes two kinds", "--fallback", "lookup"), ("no such drafter", "--fallback", "lookup,"),
                ("lookup cannot fall back on itself", "--fallback", "lookup,lookup"),
                ("--draft-kind excludes --fallback", "--fallback", "lookup,llama", "--draft-kind", "llama"),
                ("a draft cannot be its own draft", "--draft-of-draft", "llama"),
                ("a draft cannot be its own draft", "--draft-kind", "bigram", "--draft-of-draft", "bigram"),
                ("the target costs more", "--draft-of-draft", "self"),
                ("lookup makes no passes", "--draft-kind", "lookup", "--draft-of-draft", "bigram"),
                ("ngram makes no passes", "--draft-of-draft", "ngram", "--draft-of-draft", "bigram"),
                ("/nowhere: no such directory", "--draft-of-draft", "/nowhere"),
                ("ngram does not draft for the target", "--ngram-fill", "3"),
                ("ngram does not draft for the target", "--ngram-fill", "3", "--draft-of-draft", "ngram"),
                ("ngram does not draft for the target", "--ngram-fill", "3", "--fallback", "lookup,llama"),
                ("it takes a whole number from 0 to 64", "--ngram-fill", "65", "--draft-kind", "ngram"),
                ("suffix does not draft for the target", "--suffix-memory", "9"),
                ("suffix does not draft for the target", "--suffix-match", "2", "--fallback", "lookup,llama"),
                ("it takes a whole number from 1 to 7", "--suffix-match", "8", "--draft-kind", "suffix"),
                ("/nowhere", "--draft-kind", "suffix", "--draft-text", "/nowhere"),
                ("--draft-of-draft is empty", "--draft-of-draft", ""),
                ("--inner-spec-length", "--inner-spec-length", "0"),
                ("--draft-pages is for one drafter", "--fallback", "lookup,llama", "--draft-pages", "9", "--workload",
                 "poisson:n=2,rate=inf")):
            self.expect_bad(words, *arguments)

    def test_bad_lines(self):
        file = self.folder / "bad.jsonl"
        for words, field in (("draft_length is \"long\"; it takes one of fixed, gain", {"draft_length": "long"}),
                             ("confidence is 2", {"confidence": 2}), ("draft_length", {"draft_length": 3}),
                             ("min_spec_length is 17", {"draft_length": "entropy", "min_spec_length": 17}),
                             ("fallback belongs to the whole run", {"fallback": "lookup,llama"})):
            file.write_text(json.dumps({"prompt": "Once"} | field) + "\n")
            self.expect_bad(words, "--requests", str(file))

    def test_memory_of_other_texts(self):
        """Drafts from texts that ended: other rounds, the same text; refused where the text would depend on them."""
        again = [{"id": str(i), "prompt": PROMPT, "max_new_tokens": 40, "arrival": i / 1000} for i in range(4)]
        passes, texts = [], []
        for memory in "0", "2000":
            lines = self.requests(again, "--draft-kind", "suffix", "--suffix-memory", memory, "--max-batch", "1")
            passes.append([line["stats"]["rounds"] for line in lines])
            texts.append([line["tokens"] for line in lines])
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(passes[0][0], passes[1][0])
        self.assertLess(max(passes[1][1:]), min(passes[0]) - 5, "the same text was said before")
        sampled = [{"prompt": PROMPT, "temperature": 1}]
        arguments = ("--draft-kind", "suffix", "--suffix-memory", "2000")
        self.requests(sampled, *arguments, "--acceptance", "coupled")
        self.requests(sampled, *arguments, "--acceptance", "rejection", expect="would depend on its neighbours")
        self.requests([{"prompt": PROMPT, "lenience": 0.5}], *arguments, expect="would depend on its neighbours")

    def requests(self, lines, *arguments, expect=None, place=0, stage=ADAPTIVE):
        file = self.folder / "memory.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, text, errors = run_program(PROGRAMS / stage, "--requests", str(file), "--output", "json", "--quiet", *arguments)
        *results, last = map(json.loads, text.splitlines())
        self.results, self.summary = results, last["summary"]
        if expect:
            self.assertIn(expect, results[place]["error"])
        else:
            self.assertEqual(code, 0, errors)
        return results

    def test_a_budget_of_rows(self):
        """Other rounds than without one, the same texts, and never more rows than the budget has."""
        lines = [{"id": str(i), "prompt": prompt, "seed": i, "max_new_tokens": 25, **rule} for i, (prompt, rule) in enumerate(
            ((PROMPT, {}), ("There was a fox", {"acceptance": "coupled", "temperature": 0.9}), ("One day", {}),
             ("def f(", {"acceptance": "sample-and-match", "temperature": 1.2})))]
        for drafter in DRAFTERS:
            self.requests(lines, "--cost-profile", self.rows_profile, *drafter)
            usual = self.results
            for rows in "0", "3", "500", "auto":
                got = self.requests(lines, "--cost-profile", self.rows_profile, "--rows", rows, *drafter)
                self.assertEqual([line["tokens"] for line in got], [line["tokens"] for line in usual], (drafter, rows))
                counts, summary = self.summary["rows"], self.summary
                self.assertEqual(sum(counts["steps_by_given"]), counts["steps"])
                self.assertEqual(sum(n * steps for n, steps in enumerate(counts["steps_by_given"])), counts["given"])
                self.assertEqual(counts["given"], summary["round_rows"] - summary["rounds"], (drafter, rows))
                if rows == "auto":
                    self.assertEqual(counts["budget"], "auto")
                    continue
                self.assertLess(len(counts["steps_by_given"]), int(rows) + 2, "no step has more")
                if rows == "500":
                    self.assertEqual([line["stats"]["rounds"] for line in got], [line["stats"]["rounds"] for line in usual])
                    self.assertEqual(counts["given"], counts["offered"])
                if rows == "0":
                    self.assertEqual(summary["stats"]["drafted"], 0)

    def test_a_budget_measures_costs(self):
        """With as few drafts as there can be, too, where the first draft is the last."""
        for spec_length in "1", "2":
            profile = self.folder / f"of_{spec_length}.json"
            self.requests([{"id": "0", "prompt": PROMPT, "max_new_tokens": 4}], "--cost-profile", profile, "--rows", "auto",
                          "--spec-length", spec_length)
            costs = json.loads(profile.read_text())
            for name in "passes_by_rows", "first_drafts_by_requests", "next_drafts_by_requests":
                self.assertTrue(all(seconds > 0 for _, seconds in costs[name]), (spec_length, name))

    def test_a_budget_of_rows_for_other_drafters(self):
        """Chains of later stages, whose drafters may have cached more than was verified."""
        lines = [{"id": str(i), "prompt": prompt, "max_new_tokens": 30} for i, prompt in enumerate((PROMPT, "There was a fox", "def f("))]
        for stage, drafter in (("08_token_trees", []), ("09_self_drafting", []), ("09_self_drafting", ["--self-draft", "medusa"])):
            words = ["--tree", "chains:1", "--spec-length", "3", *drafter]
            want = [line["tokens"] for line in self.requests(lines, *words, stage=stage)]
            for rows in "1", "4":
                got = self.requests(lines, *words, "--rows", rows, stage=stage)
                self.assertEqual([line["tokens"] for line in got], want, (stage, drafter, rows))
                self.assertLess(self.summary["rows"]["given"], self.summary["rows"]["offered"])

    def test_where_rows_would_change_a_text(self):
        sampled = [{"id": str(i), "prompt": PROMPT, "temperature": 1, "seed": i} for i in range(3)]
        refused = "a request's text would depend on its neighbours"
        self.requests(sampled, "--rows", "2", expect=refused)
        self.requests([{"prompt": PROMPT, "lenience": 0.5}], "--rows", "2", expect=refused)
        got = self.requests(sampled, "--rows", "2", "--rows-change-texts")
        alone = self.requests(sampled[1:2], "--rows", "2", "--rows-change-texts")
        self.assertNotEqual(got[1]["tokens"], alone[0]["tokens"])
        self.requests([sampled[0], sampled[0] | {"id": "again"}], "--rows", "2", "--rows-change-texts", place=1,
                      expect="seed 0: another request has it, too")

    def test_bad_rows(self):
        lines = self.folder / "memory.jsonl"
        lines.write_text(json.dumps({"prompt": PROMPT}) + "\n")
        for words, *arguments in (("--rows is for a batch", "--rows", "3"),
                                  ("it takes a whole number from 0 to", "--rows", "-1", "--requests", str(lines)),
                                  ("--rows-change-texts requires --rows", "--rows-change-texts", "--requests", str(lines)),
                                  ("has no passes_by_rows", "--rows", "auto", "--requests", str(lines), "--cost-profile", str(self.profile))):
            self.expect_bad(words, *arguments)
        for stage in "08_token_trees", "09_self_drafting":
            self.expect_bad_input("use --tree chains:1", PROGRAMS / stage, "--rows", "3", "--requests", str(lines), "--draft-kind", "llama")

    def test_earlier_outputs(self):
        text = run("--prompt", PROMPT, "--max-new-tokens", 50, "--draft-kind", "suffix")
        file = self.folder / "earlier.txt"
        file.write_text(PROMPT + text["text"])
        got = run("--prompt", PROMPT, "--max-new-tokens", 50, "--draft-kind", "suffix", "--draft-text", file)
        self.assertEqual(got["tokens"], text["tokens"])
        self.assertGreater(got["stats"]["tokens_per_target_forward"], 4)
        self.assertLess(text["stats"]["tokens_per_target_forward"], 3)

    def test_stages_before_name_this_one(self):
        self.expect_bad_input(ADAPTIVE, PROGRAMS / "04_greedy_speculation", "--draft-kind", "ngram")


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
