"""Requests with bytes that are wrong, missing or twice there: no answer of 500, and a server that goes on.

usage: test_noise.py FOLDER_OF_PROGRAMS REQUESTS
"""
import pathlib
import random
import select
import socket
import sys
import unittest

from serving import CHAT, COMPLETIONS, Usual
from wire import Closed, Connection, request_bytes

BIN, REQUESTS = pathlib.Path(sys.argv.pop(1)).resolve(), int(sys.argv.pop(1))
BATCH = BIN / "06_batched_verification"
GOOD = [
    request_bytes("POST", COMPLETIONS, {"prompt": "Snow fell.", "max_tokens": 3, "temperature": 0.5, "seed": 1, "stop": ["a"]}),
    request_bytes("POST", COMPLETIONS, {"prompt": "Snow", "max_tokens": 2, "stream": True, "logprobs": 2, "rounds": True,
                                        "stream_options": {"include_usage": True}}),
    request_bytes("POST", CHAT, {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
                                 "max_completion_tokens": 2, "logprobs": True, "top_logprobs": 3, "n": 1}),
    request_bytes("POST", COMPLETIONS, headers={"Transfer-Encoding": "chunked"}) + b'10\r\n{"prompt": "Snow\r\n2\r\n"}\r\n0\r\n\r\n',
    *(request_bytes("GET", path) for path in ("/", "/health", "/status", "/metrics", "/v1/models")),
    request_bytes("OPTIONS", CHAT, headers={"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}),
]
PIECES = [b"\r\n", b"\r\n\r\n", b"\n", b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"}", b"[" * 300, b'"', b"null", b"-1", b"1e999", b"true",
          b"18446744073709551616", b"\\ud800", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: evil\r\n",
          b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"%00", b"/../", b"HTTP/1.0", b"ffffffffffffffff\r\n", b" " * 5000]


def noisy(dice):
    """A good request with one to four changes."""
    data = bytearray(dice.choice(GOOD))
    for _ in range(dice.randrange(1, 5)):
        at, size = dice.randrange(len(data) + 1), dice.randrange(1, 20)
        change = dice.randrange(5)
        if change == 0:
            data[at:at] = dice.choice(PIECES)
        elif change == 1:
            data[at:at + size] = b""
        elif change == 2:
            data[at:at] = data[at:at + size]
        elif change == 3:
            data[at:at + size] = dice.choice(PIECES)
        elif at < len(data):
            data[at] = dice.randrange(256)
    return bytes(data)


class Noise(Usual):
    PROGRAM = BATCH

    def test_no_request_is_an_error_of_the_server(self):
        dice = random.Random(REQUESTS)
        statuses = {}
        for number in range(REQUESTS):
            data = noisy(dice)
            with Connection(self.server.port) as wire:
                try:
                    wire.send(data)
                    if not select.select([wire.socket], [], [], 0.03)[0]:  # it waits for more, or is busy
                        wire.socket.shutdown(socket.SHUT_WR)
                    status, _ = wire.head()
                except (Closed, OSError):
                    status = None
            statuses[status] = statuses.get(status, 0) + 1
            # 501 and 505: a method and a version that are unknown. 429 cannot be: the queue is never full.
            self.assertTrue(status is None or status < 500 and status != 429 or status in (501, 505), (number, status, data))
        self.assertGreater(statuses.get(200, 0), REQUESTS / 100, statuses)
        self.assertGreater(statuses.get(400, 0), REQUESTS / 20, statuses)
        self.expect_service()
        self.server.wait_until_idle()


if __name__ == "__main__":
    unittest.main()
