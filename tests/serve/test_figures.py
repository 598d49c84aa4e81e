"""What a server tells of itself: /metrics, /status, and the rounds of a request. And that every stage serves.

usage: test_figures.py FOLDER_OF_PROGRAMS
"""
import pathlib
import sys
import threading
import unittest

from exposition import parse
from serving import CHAT, COMPLETIONS, Server, Stream, Usual

from programs import run_program_json

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
BATCH = BIN / "06_batched_verification"
PROMPT = "Once, in the winter, Sunita came to York."
KINDS = ("accepted", "correction", "bonus", "plain")
VERDICTS = ("accepted", "rejected", "not tested", "not reached")


def rounds_of(told):
    return [line for chunk in told.objects for line in chunk.get("rounds", [])]


class Rounds:
    @staticmethod
    def depth_of(drafts):
        """The levels of a tree; of a chain, its length."""
        depths = []
        for draft in drafts:
            depths.append(1 + (depths[draft["parent"]] if draft["parent"] >= 0 else 0))
        return max(depths, default=0)

    def check_rounds(self, told, figures):
        """Rounds that add up to the text and to the figures."""
        rounds = rounds_of(told)
        self.assertEqual(len(rounds), figures["rounds"])
        drafts = [self.depth_of(line["drafts"]) for line in rounds]  # of a round that the text's end cut, not all count
        self.assertTrue(sum(drafts[:-1]) <= figures["drafted"] <= sum(drafts), (drafts, figures))
        self.assertEqual(sum(len(line["tokens"]) for line in rounds), told.tokens)
        self.assertEqual("".join(token["text"] for line in rounds for token in line["tokens"] if "\ufffd" not in token["text"]),
                         told.text)
        for line in rounds:
            kinds = [token["kind"] for token in line["tokens"]]
            self.assertTrue(set(kinds) <= set(KINDS) and set(kinds[:-1]) <= {"accepted"}, kinds)
            self.assertTrue({draft["verdict"] for draft in line["drafts"]} <= set(VERDICTS))
            self.assertTrue(all(-1 <= draft["parent"] < i for i, draft in enumerate(line["drafts"])))
            if line["last"]:
                self.assertEqual({"text": line["last"]["text"], "kind": line["last"]["kind"]}, line["tokens"][-1])
            else:
                self.assertEqual(kinds[-1], "accepted")


class Figures(Rounds, Usual):
    PROGRAM = BATCH

    def metrics(self):
        answer = self.server.get("/metrics")
        self.assertRegex(answer.headers["content-type"], r"^text/plain; version=0\.0\.4(; charset=utf-8)?$")
        return parse(answer.body.decode())

    def family(self, families, ending):
        [found] = [family for name, family in families.items() if name.endswith(ending)]
        return found

    def test_metrics_count_what_a_request_did(self):
        before = self.metrics()
        told = self.server.stream(prompt=PROMPT, max_tokens=60, ignore_eos=True, spec_length=3,
                                  stream_options={"include_usage": True})
        after = self.metrics()
        figures = told.objects[-1]["speculation"]
        grown = {ending: self.family(after, ending).value() - self.family(before, ending).value() for ending in (
            "_num_drafts_total", "_num_draft_tokens_total", "_num_accepted_tokens_total",
            "_num_accepted_tokens_per_pos_total", "generation_tokens_total", "prompt_tokens_total")}
        self.assertEqual(grown["generation_tokens_total"], 60)
        self.assertEqual(grown["prompt_tokens_total"], told.usage["prompt_tokens"])
        self.assertEqual(grown["_num_draft_tokens_total"], figures["drafted"])
        self.assertEqual(grown["_num_accepted_tokens_total"], figures["accepted"])
        self.assertEqual(grown["_num_accepted_tokens_per_pos_total"], figures["accepted"])
        self.assertLessEqual(grown["_num_drafts_total"], figures["rounds"])
        positions = self.family(after, "_num_accepted_tokens_per_pos_total").samples
        self.assertEqual([labels["position"] for _, labels, _ in positions], [str(i) for i in range(len(positions))])

    def test_metrics_that_never_go_down(self):
        before = self.metrics()
        with Stream(self.server, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True}) as stream:
            next(stream.chunks())
        self.server.wait_until_idle()
        self.server.post(COMPLETIONS, {"prompt": 3})
        after = self.metrics()
        self.assertLessEqual(set(before), set(after))
        for name, family in before.items():
            if family.type != "gauge":
                now = {(sample, *sorted(labels.items())): value for sample, labels, value in after[name].samples}
                for sample, labels, value in family.samples:
                    self.assertLessEqual(value, now[(sample, *sorted(labels.items()))], name)

    def test_histograms_of_times(self):
        for _ in range(2):
            self.server.complete(prompt=PROMPT, max_tokens=5, ignore_eos=True)
        families = self.metrics()
        for ending in ("time_to_first_token_seconds", "time_per_output_token_seconds", "request_queue_time_seconds"):
            family = self.family(families, ending)
            self.assertEqual(family.type, "histogram")
            self.assertGreaterEqual(family.value("_count"), 2, ending)

    def test_status(self):
        idle = self.server.wait_until_idle()
        self.assertEqual((idle["model"], idle["stage"], idle["max_batch"]), (self.server.model, BATCH.name, 16))
        self.assertEqual(idle["batch"], {"running": 0, "waiting": 0, "prefilling": 0})
        with Stream(self.server, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True}) as stream:
            chunks = stream.chunks()
            first = next(chunks)
            busy = self.server.status()
            for request in busy["requests"]:  # none, on a machine that is quicker than we are
                self.assertEqual(request["id"], first["id"])
                self.assertIn(request["state"], ("waiting", "prefilling", "running"))
                self.assertLessEqual(request["accepted"], request["drafted"])
                self.assertGreater(busy["pages"]["used"], 0)
        told = self.server.complete(prompt=PROMPT, max_tokens=40)
        after = self.server.wait_until_idle()
        figures = told.objects[0]["speculation"]
        self.assertGreaterEqual(after["totals"]["tokens"] - idle["totals"]["tokens"], told.tokens)
        self.assertEqual(after["totals"]["requests"] - idle["totals"]["requests"], 2)
        self.assertAlmostEqual(figures["acceptance_rate"], figures["accepted"] / figures["drafted"])
        self.assertAlmostEqual(figures["tokens_per_pass"], told.tokens / figures["rounds"])
        want = run_program_json(BIN / "05_rejection_sampling", "--prompt", PROMPT, "--max-new-tokens", "40")["stats"]
        self.assertEqual([figures[name] for name in ("rounds", "drafted", "accepted", "accepted_per_position")],
                         [want[name] for name in ("rounds", "drafted", "accepted", "accepted_per_position")])

    def test_rounds_on_request(self):
        fields = {"prompt": PROMPT, "max_tokens": 40, "ignore_eos": True, "stream_options": {"include_usage": True}}
        self.assertEqual(rounds_of(self.server.stream(**fields)), [])
        for more in ({}, {"no_speculation": True}, {"temperature": 0.9, "seed": 4}, {"spec_length": 1}):
            told = self.server.stream(**fields, rounds=True, **more)
            with self.subTest(more):
                self.check_rounds(told, told.objects[-1]["speculation"])
        chat = self.server.stream(CHAT, messages=[{"role": "user", "content": "What is 12 + 30?"}], max_tokens=9, rounds=True)
        self.assertEqual(sum(len(line["tokens"]) for line in rounds_of(chat)), 9)


class Stages(Rounds, unittest.TestCase):
    """Each of them serves what its command line prints, to clients at the same time."""
    REQUESTS = [{}, {"temperature": 0.9, "seed": 5}, {"temperature": 0.7, "seed": 6, "top_k": 30}]

    def serve(self, program, *options, requests):
        server, told = Server(BIN / program, *options), {}
        try:
            def client(i, fields):
                told[i] = server.stream(prompt=PROMPT, max_tokens=50, rounds=True, stream_options={"include_usage": True}, **fields)
            threads = [threading.Thread(target=client, args=each) for each in enumerate(requests)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.assertEqual(server.stop(), 0)
        for i, fields in enumerate(requests):
            more = [text for name, value in fields.items() for text in ("--" + name.replace("_", "-"), str(value))]
            want = run_program_json(BIN / program, "--prompt", PROMPT, "--max-new-tokens", "50", *options, *more)
            self.assertEqual((told[i].text, told[i].tokens, told[i].finish_reason),
                             (want["text"], len(want["tokens"]), want["finish_reason"]), fields)
            self.check_rounds(told[i], told[i].objects[-1]["speculation"])

    def test_adaptive_drafting(self):
        self.serve("07_adaptive_drafting", requests=[*self.REQUESTS, {"spec_length": 2}])

    def test_token_trees(self):
        self.serve("08_token_trees", requests=[*self.REQUESTS, {"tree": "top:2x1"}, {"tree": "top:6", "temperature": 0.9, "seed": 8}])

    def test_trees_that_the_server_has_no_room_for(self):
        server = Server(BIN / "08_token_trees", "--tree", "top:3x2")
        try:
            self.assertIn("tree", server.status()["options"])
            for tree, words in (("top:10", "tree top:10: 10 drafted tokens"), ("top:3x3", "tree top:3x3: 12 drafted tokens, and there is room for the 9 of"),
                                ("bush", "no such shape"), (3, "tree is 3; it must be a string")):
                answer = server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 3, "tree": tree})
                self.assertEqual((answer.status, answer.error["param"]), (400, "tree"), answer.body)
                self.assertIn(words, answer.error["message"])
            self.assertEqual(server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 3, "tree": "top:8"}).status, 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_self_drafting(self):
        self.serve("09_self_drafting", requests=self.REQUESTS)


if __name__ == "__main__":
    unittest.main()
