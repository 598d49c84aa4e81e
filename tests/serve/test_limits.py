"""What a server does at its limits, and with clients that are slow, rude or elsewhere.

usage: test_limits.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER

In each of these a usual client is served all the while.
"""
import contextlib
import json
import pathlib
import re
import select
import signal
import socket
import sys
import threading
import time
import unittest

from serving import CHAT, COMPLETIONS, SLOW, Server, Stream, Usual
from wire import PATIENCE, Closed, Connection, request_bytes

from programs import ProgramTest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
BATCH = BIN / "06_batched_verification"
PROMPT = "Once, in the winter, Sunita came to York."
LONG = {"prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True}


class Sizes(Usual):
    PROGRAM = BATCH
    BODY = 1 << 20  # the most bytes of a body

    def test_a_body_that_is_too_large(self):
        for body in ({"prompt": "a" * self.BODY}, {"prompt": PROMPT, "user": "b" * 3 * self.BODY}):
            answer = self.server.post(COMPLETIONS, body)
            self.assertEqual(answer.status, 413)
            self.assertIn(str(self.BODY), answer.error["message"])
        with Connection(self.server.port) as wire:  # refused by its announcement, or once there is too much
            wire.send(request_bytes("POST", COMPLETIONS, headers={"Content-Length": "9" * 15}))
            self.send_too_much(wire, b" " * 4096)
        self.expect_service()

    def send_too_much(self, wire, piece):
        """Until the server hangs up, or answers with 413."""
        try:
            while not select.select([wire.socket], [], [], 0)[0]:
                wire.send(piece)
            self.assertEqual(wire.answer().status, 413)
        except (Closed, ConnectionError):
            pass

    def test_chunks_count_as_much(self):
        with Connection(self.server.port) as wire:
            wire.send(request_bytes("POST", COMPLETIONS, headers={"Transfer-Encoding": "chunked"}))
            self.send_too_much(wire, b"1000\r\n" + b" " * 4096 + b"\r\n")
        body = json.dumps({"prompt": PROMPT, "max_tokens": 3}).encode()
        with Connection(self.server.port) as wire:
            wire.send(request_bytes("POST", COMPLETIONS, headers={"Transfer-Encoding": "chunked"}))
            for byte in body:
                wire.send(b"1\r\n%c\r\n" % byte)
            wire.send(b"0\r\n\r\n")
            self.assertEqual(wire.answer().status, 200)

    def test_headers_that_are_too_large(self):
        for headers in ({"X-Long": "a" * 100_000}, {f"X-{i}": "a" * 50 for i in range(2000)}):
            with Connection(self.server.port) as wire:
                try:
                    wire.send(request_bytes("GET", "/health", headers=headers))
                    self.assertIn(wire.answer().status, (413, 431))
                except (Closed, ConnectionError):
                    pass
        with Connection(self.server.port) as wire:
            try:
                wire.send(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                self.assertIn(wire.head()[0], (404, 413, 414, 431))
            except (Closed, ConnectionError):
                pass
        self.expect_service()

    def test_a_prompt_that_does_not_fit(self):
        answer = self.server.post(COMPLETIONS, {"prompt": "a b " * 1000, "max_tokens": 1500})
        self.assertEqual(answer.status, 400, answer.body)
        self.assertIn("2048", answer.error["message"])
        answer = self.server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1 << 40})
        self.assertEqual((answer.status, answer.error["param"]), (400, "max_tokens"))

    def test_lines_that_are_no_http(self):
        for data in (b"\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
                     b"GET /health HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n", b"GET\x00/health HTTP/1.1\r\n\r\n",
                     b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"):
            with self.subTest(data), Connection(self.server.port) as wire:
                wire.send(data)
                wire.socket.shutdown(socket.SHUT_WR)
                try:
                    status, _ = wire.head()
                    self.assertTrue(400 <= status < 500 or status == 505, status)
                except (Closed, ConnectionError):
                    pass
        self.expect_service()


class Connections(Usual):
    PROGRAM, OPTIONS = BATCH, ("--max-connections", 12)

    @staticmethod
    def is_served(wire):
        """A connection above the limits is closed."""
        try:
            return wire.ask("GET", "/health").status == 200
        except (Closed, ConnectionError):
            return False

    def wait_for_room(self):
        end = time.monotonic() + PATIENCE
        while True:
            with Connection(self.server.port, source="127.0.0.2") as wire:
                if self.is_served(wire):
                    return
            self.assertLess(time.monotonic(), end)

    def test_one_address_cannot_take_all(self):
        held = [Connection(self.server.port, source="127.0.0.2") for _ in range(12)]
        self.assertEqual(sum(map(self.is_served, held)), 6, "half of them")
        self.expect_service()  # from another address
        for wire in held:
            wire.close()
        self.wait_for_room()

    def test_all_addresses_wait_when_there_are_too_many(self):
        held = [Connection(self.server.port, source=f"127.0.0.{2 + i % 4}") for i in range(12)]
        self.assertTrue(all(map(self.is_served, held)))
        with Connection(self.server.port) as late:
            late.send(request_bytes("GET", "/health"))
            self.assertFalse(select.select([late.socket], [], [], 0.2)[0], "it is served, too")
            for wire in held:
                wire.close()
            self.assertEqual(late.answer().status, 200)
        self.wait_for_room()


class Patience(Usual):
    """A request must be there in half a minute. The slow ones begin first, and are looked at last."""
    PROGRAM = BATCH

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        head = request_bytes("POST", COMPLETIONS, headers={"Content-Length": "100"})
        cls.slow = []
        for data in (b"", b"GET /hea", head[:-2], head, head + b'{"prompt": "a'):
            cls.slow.append(Connection(cls.server.port))
            cls.slow[-1].send(data)

    def test_z_a_request_that_never_ends(self):
        """A letter now and then does not keep it alive."""
        for wire in self.slow:
            with contextlib.suppress(ConnectionError):
                while not select.select([wire.socket], [], [], 1)[0]:
                    wire.send(b"a")
            self.assertTrue(wire.is_closed())
            wire.close()
        self.expect_service()

    def test_half_of_a_connection(self):
        """A client that has said all: it is answered, or hung up on."""
        for fields in ({"prompt": PROMPT, "max_tokens": 5}, {"prompt": PROMPT, "max_tokens": 5, "stream": True}):
            with Connection(self.server.port) as wire:
                wire.send(request_bytes("POST", COMPLETIONS, fields))
                wire.socket.shutdown(socket.SHUT_WR)
                try:
                    self.assertEqual(wire.answer().status, 200)
                except Closed:
                    pass
        self.expect_service()
        self.server.wait_until_idle()

    def test_half_of_a_request(self):
        """It is given up at once, not when time is up: before a slow one that began earlier."""
        head = request_bytes("POST", COMPLETIONS, headers={"Content-Length": "100"})
        for data in (b"\r\n", b"GET /hea", head[:-2], head, head + b'{"prompt": "a'):
            with self.subTest(data), Connection(self.server.port) as slow, Connection(self.server.port) as half:
                slow.send(data)
                time.sleep(0.1)
                half.send(data)
                half.socket.shutdown(socket.SHUT_WR)
                self.assertIn(half.socket, select.select([slow.socket, half.socket], [], [])[0])
        self.expect_service()

    def test_a_reader_that_never_reads(self):
        """Its request is cancelled when too much of the answer waits. The others get all of theirs meanwhile."""
        fields = {**LONG, "rounds": True, "logprobs": 5}
        deaf = [Stream(self.server, COMPLETIONS, fields, receive_buffer=2048) for _ in range(3)]
        for _ in range(5):
            self.expect_service()
        want = self.server.complete(prompt=PROMPT, max_tokens=60)
        self.assertEqual(self.server.stream(prompt=PROMPT, max_tokens=60).text, want.text)
        self.server.wait_until_idle()
        cancelled = re.search(r'finished_reason="cancelled"} (\d+)', self.server.get("/metrics").body.decode())
        self.assertGreaterEqual(int(cancelled[1]), len(deaf))
        for stream in deaf:
            stream.wire.close()


class Queue(Usual):
    PROGRAM, OPTIONS = BATCH, (*SLOW, "--max-queue", 2)

    def test_a_full_queue_and_its_order(self):
        """One request runs and two wait; a fourth is told when to come again. Those that leave make room."""
        streams = []
        for waiting in range(3):
            streams.append(Connection(self.server.port))
            streams[-1].send(request_bytes("POST", COMPLETIONS, {**LONG, "stream": True}))
            self.server.wait_for(lambda status, n=waiting + 1: len(status["requests"]) == n)
        status = self.server.wait_for(lambda status: status["batch"]["running"] + status["batch"]["prefilling"] == 1)
        self.assertEqual(status["batch"]["waiting"], 2)
        for path, fields in ((COMPLETIONS, LONG), (CHAT, {"messages": [{"role": "user", "content": "Hi"}], "stream": True})):
            answer = self.server.post(path, fields)
            self.assertEqual(answer.status, 429)
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
            self.assertNotEqual(answer.headers.get("x-should-retry"), "false")
            self.assertTrue(answer.error)
        self.assertEqual(self.server.get("/health").status, 200)
        self.assertEqual(self.server.post(COMPLETIONS, {"prompt": 3}).status, 400, "bad input is told first")
        streams[1].close()  # which was waiting
        self.server.wait_for(lambda status: len(status["requests"]) == 2)
        streams[0].close()  # which was running
        self.server.wait_for(lambda status: [one["state"] for one in status["requests"]] == ["running"])
        streams[2].head()
        streams[2].close()
        self.server.wait_until_idle()
        self.assertLess(self.server.status()["totals"]["tokens"], 3 * LONG["max_tokens"])


class Ends(unittest.TestCase):
    def test_ctrl_c(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how):
                self.assertEqual(Server(BATCH).stop(how), 0)
                server = Server(BATCH, *SLOW)
                with Stream(server, COMPLETIONS, LONG) as stream, Connection(server.port) as waiting:
                    waiting.send(request_bytes("POST", COMPLETIONS, LONG))
                    server.wait_for(lambda status: len(status["requests"]) == 2)
                    next(stream.wire.events())
                    codes = []
                    stopper = threading.Thread(target=lambda: codes.append(server.stop(how)))
                    stopper.start()
                    try:
                        events = list(stream.wire.events())
                        self.assertEqual(events[-1], "[DONE]")  # after a finish, or an error
                    except Closed:
                        pass
                    try:
                        self.assertIn(waiting.answer().status, (200, 503))
                    except Closed:
                        pass
                    stopper.join()
                    self.assertEqual(codes, [0])

    def test_a_loading_server_is_not_ready(self):
        """It refuses, or says 503 and when to come again."""
        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
        server, answers = [], []
        starter = threading.Thread(target=lambda: server.append(Server(BATCH, *SLOW, address=f"127.0.0.1:{port}")))
        starter.start()
        while starter.is_alive():
            try:
                with Connection(port) as wire:
                    answers.append(wire.ask("GET", "/health"))
            except (Closed, OSError):
                time.sleep(0.01)
        self.assertEqual(server[0].get("/health").status, 200)
        self.assertEqual(server[0].stop(), 0)
        for answer in answers:
            self.assertIn(answer.status, (200, 503))
            if answer.status == 503:
                self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)


class Addresses(ProgramTest):
    def refuse(self, words, address, *options):
        self.expect_bad_input(words, BATCH, "--serve", address, *map(str, options))

    def test_addresses_that_cannot_be_served(self):
        for address in ("", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1",
                        "256.0.0.1:80", "127.0.0.1:80:80", "no such host:80"):
            with self.subTest(address):
                self.refuse("--serve", address)
        self.refuse("192.0.2.1", "192.0.2.1:0")  # which no machine has
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.refuse(port, f"127.0.0.1:{port}")

    def test_options_that_contradict_serving(self):
        for options in (("--prompt", "a"), ("--requests", "-"), ("--workload", "poisson:rate=1,n=1"), ("--check",)):
            with self.subTest(options):
                self.refuse("--serve", "127.0.0.1:0", *options)
        for options in (("--api-key-file", "k"), ("--allow-origin", "http://a.example"), ("--max-queue", "3")):
            with self.subTest(options):
                self.expect_bad_input("--serve", BATCH, "--prompt", "a", *options)

    def test_files_of_keys(self):
        self.refuse("missing", "127.0.0.1:0", "--api-key-file", self.folder / "missing")
        for i, text in enumerate(("", "\n", "two words\n", "a\0b\n")):
            file = self.folder / f"key{i}"
            file.write_text(text)
            self.refuse(f"key{i}", "127.0.0.1:0", "--api-key-file", file)


if __name__ == "__main__":
    unittest.main()
