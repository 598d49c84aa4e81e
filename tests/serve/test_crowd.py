"""Many clients at once, of whom a third leave: the others get the tokens of a run alone, and nothing is left of any.

usage: test_crowd.py FOLDER_OF_PROGRAMS CLIENTS
"""
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import unittest

from serving import COMPLETIONS, Server, Stream

from batches import run_lines, write_requests

BIN, CLIENTS = pathlib.Path(sys.argv.pop(1)).resolve(), int(sys.argv.pop(1))
BATCH = BIN / "06_batched_verification"
PROMPTS = ("Once, in the winter, Sunita came to York.", "Snow fell.", "The sun shone. The", "def add(", "What is 12 + 30?")


def requests(dice):
    """As lines of --requests: greedy and sampled, of several K, rules and ends."""
    for i in range(CLIENTS):
        request = {"id": f"{i}", "prompt": dice.choice(PROMPTS) + " And" * dice.randrange(3),
                   "max_new_tokens": dice.randrange(20, 120), "ignore_eos": dice.random() < 0.5}
        if dice.random() < 0.7:
            request |= {"temperature": dice.choice((0.7, 1.0, 1.5)), "seed": dice.randrange(1 << 64)}
            request |= dice.choice(({}, {"top_k": 20}, {"top_p": 0.9}, {"acceptance": "coupled"}))
        request |= dice.choice(({}, {"spec_length": 2}, {"no_speculation": True}, {"stop": ["zebra", " the"]}))
        yield request


def asked(request, **more):
    """The same as a request of HTTP."""
    fields = {name: value for name, value in request.items() if name not in ("id", "max_new_tokens")}
    return {**fields, "max_tokens": request["max_new_tokens"], **more}


def leave(wire, dice):
    """Politely, or with a reset."""
    if dice.random() < 0.5:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


class Crowd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dice = random.Random(CLIENTS)
        cls.requests = list(requests(dice))
        with tempfile.TemporaryDirectory() as folder:
            file = write_requests(pathlib.Path(folder) / "requests.jsonl", cls.requests)
            cls.alone, _ = run_lines(BATCH, "--requests", file, "--max-batch", 1)
        cls.leaving = set(dice.sample(range(CLIENTS), CLIENTS // 3))

    def client(self, server, i, told):
        """Streams, asks for all at once, or leaves after some chunks."""
        dice = random.Random(i)
        if i in self.leaving:
            stream = Stream(server, COMPLETIONS, {**asked(self.requests[i]), "ignore_eos": True, "max_tokens": 1500})
            for _ in zip(range(dice.randrange(6)), stream.chunks()):
                pass
            leave(stream.wire, dice)
        elif i % 4 == 0:
            told[i] = server.complete(**asked(self.requests[i]))
        else:
            told[i] = server.stream(**asked(self.requests[i], rounds=i % 2 == 0), stream_options={"include_usage": True})

    def crowd(self, server):
        """Returns what the others were told."""
        told = {}
        threads = [threading.Thread(target=self.client, args=(server, i, told)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return told

    def expect_alone(self, told):
        self.assertEqual(set(told), set(range(CLIENTS)) - self.leaving)
        for i, one in told.items():
            want = self.alone[i]
            self.assertEqual((one.text, one.finish_reason), (want["text"], want["finish_reason"]), self.requests[i])
            self.assertEqual((one.tokens, one.usage["prompt_tokens"]), (len(want["tokens"]), want["prompt_tokens"]))
            rounds = [line for chunk in one.objects for line in chunk.get("rounds", [])]
            if i % 2 == 0 and i % 4 != 0:
                self.assertEqual(sum(len(line["tokens"]) for line in rounds), one.tokens)

    def serve(self, *options):
        server = Server(BATCH, "--max-queue", CLIENTS, *options)
        try:
            self.expect_alone(self.crowd(server))
            status = server.wait_until_idle()
            self.assertEqual(status["totals"]["requests"], CLIENTS)
            self.assertEqual(status["batch"], {"running": 0, "waiting": 0, "prefilling": 0})
            return status
        finally:
            self.assertEqual(server.stop(), 0)

    def test_those_who_stay_get_the_tokens_of_a_run_alone(self):
        self.serve()

    def test_no_page_leaks(self):
        """In pools so small that requests lose their pages, and without a cache of prefixes that keeps some."""
        status = self.serve("--no-prefix-cache", "--pages", 260, "--draft-pages", 260)
        self.assertEqual((status["pages"]["used"], status["draft_pages"]["used"]), (0, 0))


if __name__ == "__main__":
    unittest.main()
