"""Stage 8 from outside: trees of every shape, judged by every rule.

usage: test_trees.py FOLDER_OF_PROGRAMS
"""
import json
import pathlib
import sys
import unittest

from programs import ProgramTest, run_program, run_program_json

PLAIN, TREES, SAMPLING = "03_paged_kv_cache", "08_token_trees", "05_rejection_sampling"
MODELS = pathlib.Path(__file__).parents[2] / "golden" / "models"
SMALL, DRAFT = MODELS / "draft_small", MODELS / "draft"
MATCHING = ("sample-and-match", "coupled")  # these rules emit the text of plain sampling
PROMPT = "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat."


def run(*arguments):
    return run_program_json(PROGRAMS / TREES, "--prompt", PROMPT, *map(str, arguments))


class TreesTest(ProgramTest):
    def expect_bad(self, words, *arguments):
        self.expect_bad_input(words, PROGRAMS / TREES, "--max-new-tokens", "2", *arguments)

    def test_greedy_text_is_plain_decodings(self):
        want = run_program_json(PROGRAMS / PLAIN, "--prompt", PROMPT, "--max-new-tokens", "50")["tokens"]
        for draft in (["--draft-kind", "llama"], ["--draft-kind", "bigram"],
                      ["--draft-kind", "lookup"], ["--no-speculation"]):
            for shape in ("top:3x2x1", "best:12", "grow:10", "chains:1"):
                for cache in ("paged", "contiguous"):
                    got = run("--max-new-tokens", 50, "--tree", shape, "--cache", cache, *draft)
                    self.assertEqual(got["tokens"], want, (draft, shape, cache))

    def test_counts_add_up(self):
        stats = run("--max-new-tokens", 60, "--ignore-eos", "--tree", "top:3x2x1")["stats"]
        self.assertEqual(stats["emitted"], 60)
        self.assertEqual(sum(stats["accepted_by_rank"]), stats["accepted"])
        self.assertEqual(stats["nodes"], stats["trials"])
        self.assertEqual(stats["target_forwards"], stats["rounds"])
        self.assertLess(stats["rounds"], 60)
        chains = run("--max-new-tokens", 40, "--tree", "chains:3", "--temperature", 1, "--seed", 1)["stats"]
        self.assertLess(chains["nodes"], chains["trials"], "chains that begin alike share nodes")

    def test_the_drafts_temperature_counts_where_the_target_has_none(self):
        want = run("--max-new-tokens", 40, "--no-speculation")["tokens"]
        drawn = ["--max-new-tokens", 40, "--draft-temperature", 1, "--seed", 2]
        got = run(*drawn, "--tree", "chains:3")
        self.assertEqual(got["tokens"], want)
        self.assertGreater(got["stats"]["nodes"], got["stats"]["drafted"], "the three chains differ")
        chain, stage_five = run(*drawn, "--tree", "chains:1"), run_program_json(
            PROGRAMS / SAMPLING, "--prompt", PROMPT, *map(str, drawn))
        for count in ("rounds", "drafted", "accepted", "tested"):
            self.assertEqual(chain["stats"][count], stage_five["stats"][count], count)

    def test_every_rule_samples(self):
        for rule in ("rejection", "at-least", "non-iterative", "k-sequential"):
            got = run("--tree", "chains:2", "--siblings", rule, "--temperature", 1, "--max-new-tokens", 20)
            self.assertEqual(got["siblings"], rule)
        got = run("--tree", "chains:1", "--siblings", "block", "--temperature", 1, "--max-new-tokens", 20)
        self.assertEqual(got["siblings"], "block")

    def test_several_draft_models_share_a_tree(self):
        several = ["--draft", SMALL, "--draft", DRAFT, "--max-new-tokens", 40]
        want = run("--max-new-tokens", 40, "--no-speculation")["tokens"]
        for cache in ("paged", "contiguous"):
            got = run(*several, "--tree", "chains:2", "--cache", cache)
            self.assertEqual(got["tokens"], want, cache)
            self.assertGreater(got["stats"]["nodes"], got["stats"]["drafted"], "the two chains differ")
        drafts = [got["draft"], *got["draft"]["beside"]]
        self.assertEqual([pathlib.Path(draft["directory"]) for draft in drafts], [SMALL, DRAFT])
        self.assertEqual([draft["weight_bytes"] for draft in drafts], [786_432, 1_769_472])
        passes = got["stats"]["rounds"] * 2 * 5
        self.assertLessEqual(got["stats"]["draft_forwards"], passes, "each model makes one pass per level")
        self.assertGreater(got["stats"]["draft_forwards"], passes * 0.8)
        drawn = ["--max-new-tokens", 40, "--temperature", 1, "--seed", 5]
        plain = {rule: run(*drawn, "--no-speculation", "--siblings", rule)["tokens"] for rule in MATCHING}
        for rule in ("rejection", "at-least", "non-iterative", *MATCHING):
            for count, order in ((2, [SMALL, DRAFT]), (3, [DRAFT, SMALL])):
                result, trace = self.trace(*drawn, "--draft", order[0], "--draft", order[1], "--tree", f"chains:{count}",
                                           "--siblings", rule)
                for record in trace["rounds"]:
                    self.check_tree(record)
                first = [trial for trial in trace["rounds"][0]["tree"]["trials"]
                         if trace["rounds"][0]["tree"]["nodes"][trial["node"]]["parent"] < 0]
                self.assertEqual(len(first), count, "each chain is tried")
                if rule in MATCHING:
                    self.assertEqual(result["tokens"], plain[rule], rule)

    def test_several_draft_models_need_chains_and_a_rule_for_them(self):
        several = ["--draft", str(SMALL), "--draft", str(DRAFT)]
        for words, *options in (
                ("2 times: each drafts chains of its own, so use --tree chains:2",),
                ("so use --tree chains:2", "--tree", "chains:1"),
                ("--siblings k-sequential needs drafts that are drawn from one distribution", "--tree", "chains:2", "--siblings",
                 "k-sequential"),
                ("no other drafter drafts beside them", "--tree", "chains:2", "--draft-kind", "bigram"),
                ("no other drafter drafts beside them", "--tree", "chains:2", "--fallback", "lookup,llama"),
                ("no other drafter drafts beside them", "--tree", "chains:1", "--draft-of-draft", "bigram"),
                ("K is fixed", "--tree", "chains:2", "--spec-length", "auto"),
                ("--draft-pages is for one", "--tree", "chains:2", "--workload", "requests:2", "--draft-pages", "9"),
                ("all chains of a draft would be the same; use chains:2", "--tree", "chains:3"),
                ("--check decodes with one draft", "--tree", "chains:2", "--check"),
                ("--draft is empty", "--draft", "")):
            self.expect_bad(words, *several, *options)
        for stage in ("04_greedy_speculation", "07_adaptive_drafting", "09_self_drafting"):
            self.expect_bad_input("--draft is given 2 times, and this stage takes one; 08_token_trees takes several",
                                  PROGRAMS / stage, *several)

    def test_explains_each_node(self):
        code, _, errors = run_program(PROGRAMS / TREES, "--prompt", PROMPT, "--max-new-tokens", "8", "--explain",
                                      "--tree", "top:2x2")
        self.assertEqual(code, 0)
        self.assertIn("round 1, ", errors)
        self.assertIn("6 nodes for 6 drafts on 2 levels", errors)
        for words in ("accepted", "not reached", "cached      target"):
            self.assertIn(words, errors)

    def test_lookup_copies_as_many_continuations_as_the_shape_has_nodes_per_level(self):
        self.assertIn("lookup copies as many continuations as the tree has nodes per level, at least 1",
                      run_program(PROGRAMS / TREES, "--help")[1])
        text = "one two three four, one two five six, one two seven eight, one two nine ten, one two"
        for shape, most in (("top:1x1x1", 1), ("top:1x2x2", 2), ("top:2x2", 3), ("chains:2", 2), ("best:3", 1)):
            path = self.folder / "trace.json"
            run_program_json(PROGRAMS / TREES, "--prompt", text, "--draft-kind", "lookup", "--tree", shape, "--trace",
                             str(path), "--max-new-tokens", "1", "--spec-length", "4")
            nodes = json.loads(path.read_text())["rounds"][0]["tree"]["nodes"]
            parents = {entry["parent"] for entry in nodes}
            leaves = [i for i in range(len(nodes)) if i not in parents]
            self.assertEqual(len(leaves), most, shape)

    def trace(self, *arguments):
        path = self.folder / "trace.json"
        result = run("--trace", path, *arguments)
        return result, json.loads(path.read_text())

    def check_tree(self, record):
        """What its fields promise. Returns the tokens that the text went along, from the verdicts alone."""
        nodes, trials = record["tree"]["nodes"], record["tree"]["trials"]
        path, node = [], -1
        for i, entry in enumerate(nodes):
            self.assertLess(entry["parent"], i)
            self.assertEqual(entry["depth"], 0 if entry["parent"] < 0 else nodes[entry["parent"]]["depth"] + 1)
            self.assertEqual(entry["drafts"], sum(trial["node"] == i for trial in trials))
        self.assertEqual(record["drafted"], max((entry["depth"] + 1 for entry in nodes), default=0))
        for trial in trials:
            parent = nodes[trial["node"]]["parent"]
            if trial["verdict"] == "accepted" and trial["node"] != node:
                self.assertEqual(parent, node, "what is accepted continues what was accepted")
                path.append(node := trial["node"])
            if trial["verdict"] in ("accepted", "rejected", "not tested"):
                self.assertTrue(parent < 0 or nodes[parent]["verdict"] == "accepted")
            self.assertEqual(trial["target_prob"] is None, trial["verdict"] in ("not tested", "not reached"))
        self.assertEqual([i for i, entry in enumerate(nodes) if entry["verdict"] == "accepted"], path)
        self.assertEqual(record["tree"]["path"], path)
        return [nodes[i]["token"] for i in path]

    def test_a_trace_tells_the_whole_run(self):
        for words in (["--tree", "top:3x2x1"], ["--tree", "grow:9", "--draft-kind", "lookup"], ["--no-speculation"],
                      *(["--temperature", 1, "--seed", 4, "--tree", "chains:3", "--siblings", rule]
                        for rule in ("rejection", "sample-and-match", "k-sequential"))):
            result, trace = self.trace("--max-new-tokens", 40, *words)
            self.assertEqual(trace["format"], "specdec-trace-2")
            self.assertEqual(trace["tokens"], result["tokens"])
            tokens, length = [], len(trace["prompt_ids"]) - 1
            for record in trace["rounds"]:
                emitted = self.check_tree(record) + ([record["last"]["token"]] if record["last"] else [])
                self.assertEqual(emitted, record["emitted"])
                self.assertEqual(record["start"], length)
                length = record["after"]["target"]["length"]
                tokens += emitted
            self.assertEqual(tokens, result["tokens"], words)
            self.assertEqual("".join(trace["pieces"][str(token)] for token in tokens), result["text"])
            verdicts = [trial["verdict"] for record in trace["rounds"] for trial in record["tree"]["trials"]]
            self.assertEqual(len(verdicts), result["stats"].get("trials", 0))
            if "--siblings" in words:  # of merged trials, only the one that was accepted
                self.assertEqual(verdicts.count("accepted"), result["stats"]["accepted"])
                tested = verdicts.count("accepted") + verdicts.count("rejected")
                self.assertEqual(tested, result["stats"]["trials_tested"])

    def test_a_trace_of_greedy_decoding_shows_the_likeliest(self):
        _, trace = self.trace("--max-new-tokens", 40, "--tree", "top:3x2x1")
        for record in trace["rounds"]:
            nodes, trials = record["tree"]["nodes"], record["tree"]["trials"]
            for kept in (trial for trial in trials if trial["verdict"] == "accepted"):
                siblings = [trial["target_prob"] for trial in trials
                            if nodes[trial["node"]]["parent"] == nodes[kept["node"]]["parent"]]
                self.assertEqual(kept["target_prob"], max(siblings))

    def test_a_trace_of_one_chain_has_stage_fives_numbers(self):
        words = ["--max-new-tokens", "40", "--temperature", "0.9", "--repetition-penalty", "1.1", "--seed", "7",
                 "--spec-length", "4", "--ignore-eos"]
        path = self.folder / "chain.json"
        run_program_json(PROGRAMS / SAMPLING, "--prompt", PROMPT, "--trace", str(path), *words)
        chains = json.loads(path.read_text())
        _, trees = self.trace("--tree", "chains:1", *words)
        self.assertEqual((chains["format"], trees["tree"]), ("specdec-trace-1", "chains:1"))
        self.assertEqual(len(trees["rounds"]), len(chains["rounds"]))
        for tree, chain in zip(trees["rounds"], chains["rounds"]):
            nodes = tree["tree"]["nodes"]
            tried = [(nodes[trial["node"]]["token"], trial["draft_prob"], trial["target_prob"],
                      trial["verdict"].replace("reached", "tested")) for trial in tree["tree"]["trials"]]
            self.assertEqual(tried, [(draft["token"], draft["draft_prob"], draft["target_prob"], draft["verdict"])
                                     for draft in chain["drafts"]])
            for name in ("token", "kind", "prob", "position"):
                self.assertEqual((tree["last"] or {}).get(name), (chain["last"] or {}).get(name), name)
            for name in ("start", "drafted", "accepted", "tested", "end", "emitted", "before", "after"):
                self.assertEqual(tree[name], chain[name], name)

    def profile(self, *arguments):
        path = self.folder / "profile.json"
        result = run("--tree", "top:4x2", "--write-tree-profile", path, "--max-new-tokens", 60, *arguments)
        self.assertEqual(result["tree_profile"], json.loads(path.read_text()))
        return path, result["tree_profile"]

    def test_a_profile_counts_what_the_trace_tells(self):
        for words in ([], ["--draft-kind", "bigram"], ["--temperature", 1, "--seed", 5]):
            trace = self.folder / "trace.json"
            _, profile = self.profile("--trace", trace, *words)
            levels = [{"places": 0, "accepted": [0] * width} for width in (4, 2)]
            for record in json.loads(trace.read_text())["rounds"]:
                nodes, ranks = record["tree"]["nodes"], {}
                for i, entry in enumerate(nodes):
                    ranks[i] = sum(other["parent"] == entry["parent"] for other in nodes[:i])
                path = record["tree"]["path"]
                for depth, level in enumerate(levels):
                    level["places"] += depth < record["tested"]
                    if depth < len(path):
                        level["accepted"][ranks[path[depth]]] += 1
            self.assertEqual(profile["levels"], levels, words)
            self.assertEqual(profile["format"], "specdec-tree-profile-1")
            self.assertGreater(levels[0]["accepted"][0], 0)

    def test_profiles_add_up(self):
        path, once = self.profile()
        _, twice = self.profile("--tree-profile", path)
        for one, two in zip(once["levels"], twice["levels"], strict=True):
            self.assertEqual(two["places"], 2 * one["places"])
            self.assertEqual(two["accepted"], [2 * count for count in one["accepted"]])

    def test_the_best_shape_follows_the_profile(self):
        def nodes_per_level(*levels):
            path = self.folder / "made.json"
            path.write_text(json.dumps({"format": "specdec-tree-profile-1", "levels": [
                {"places": 100, "accepted": accepted} for accepted in levels]}))
            result, trace = self.trace("--tree", "best:6", "--spec-length", 3, "--tree-profile", path,
                                       "--max-new-tokens", 30)
            self.assertEqual(result["tokens"], plain)
            self.assertEqual(result["tree_profile"], json.loads(path.read_text()) | {"measured_for": None})
            depths = [entry["depth"] for entry in trace["rounds"][0]["tree"]["nodes"]]
            return [depths.count(depth) for depth in range(max(depths) + 1)]

        plain = run("--no-speculation", "--max-new-tokens", 30)["tokens"]
        self.assertEqual(nodes_per_level([20, 18, 16, 14, 12, 10]), [6])
        self.assertEqual(nodes_per_level([90, 9]), [2, 3, 1])
        self.assertEqual(nodes_per_level([40, 30, 20, 10], [90], [10]), [3, 3])
        path, _ = self.profile()
        self.expect_bad("was measured for top_k 0, here 5", "--top-k", "5", "--tree-profile", str(path),
                        "--write-tree-profile", str(path))

    def test_bad_input(self):
        path = self.folder / "bad.json"
        path.write_text("{}")
        self.expect_bad("no tree profile", "--tree", "best:6", "--tree-profile", str(path))
        self.expect_bad("--draft-kind lookup has none", "--write-tree-profile", str(path), "--draft-kind", "lookup")
        self.expect_bad("excludes", "--write-tree-profile", str(path), "--no-speculation")
        for shape in ("top", "top:", "top:0x2", "top:3x", "top:3,2", "grow:0", "grow:2x2", "chains:-1", "tree:3"):
            self.expect_bad("no such shape", "--tree", shape)
        self.expect_bad("more than 255 nodes", "--tree", "top:99x99")
        self.expect_bad("more than 255 nodes", "--tree", "chains:200")
        self.expect_bad("all drafts would be the same", "--tree", "chains:2")
        self.expect_bad("use --tree chains:1", "--siblings", "block")
        self.expect_bad("use --tree chains:N", "--siblings", "k-sequential", "--temperature", "1")
        self.expect_bad("--siblings best: there is no such rule", "--siblings", "best")
        self.expect_bad("--draft-kind random drafts one chain: use --tree chains:1", "--draft-kind", "random")
        self.expect_bad("--draft-of-draft drafts one chain: use --tree chains:1", "--draft-of-draft", "bigram")
        self.expect_bad("give one of them", "--acceptance", "at-least", "--siblings", "coupled")
        self.expect_bad("--acceptance one-hot: there is no such rule for siblings", "--acceptance", "one-hot")
        self.expect_bad("--lenience belongs to --siblings rejection, not to coupled", "--siblings", "coupled",
                        "--lenience", "0.5")
        self.expect_bad("with --fallback some may be copied", "--siblings", "k-sequential", "--tree", "chains:2",
                        "--temperature", "1", "--fallback", "lookup,llama")
        self.expect_bad("must not exceed --spec-length", "--draft-length", "schedule", "--spec-length", "2",
                        "--min-spec-length", "3")
        self.expect_bad("07_adaptive_drafting has it", "--ngram-fill", "4")


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
