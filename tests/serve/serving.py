"""What the tests of --serve share: a server in a process of its own, and clients of it."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from wire import PATIENCE, Connection, request_bytes

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
# A model that takes half a minute or more for a long text, for one client at a time.
SLOW = ("--inflate-target", "134m", "--no-speculation", "--max-batch", 1)


class Server:
    """A program that serves, on a port that was free."""
    def __init__(self, program, *options, address="127.0.0.1:0"):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program, "--serve", address, *map(str, options)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"Serving (.+) at http://(.+):(\d+)/\n", line)
        if not found:
            self.process.kill()
        assert found, f"{line!r}, exit code {self.process.wait()}: {self.said()}"
        self.model, self.host, self.port = found[1], found[2], int(found[3])

    def said(self):
        """On stderr so far."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def stop(self, how=signal.SIGINT):
        """Returns the exit code; shows what the server has said if it is not 0."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(timeout=PATIENCE)
            if code != 0:
                print(self.said(), file=sys.stderr)
            return code
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.errors.close()

    def ask(self, method, path, body=None, headers=(), **connection):
        with Connection(self.port, **connection) as wire:
            return wire.ask(method, path, body, headers)

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def complete(self, **fields):
        """The text, its reason and its usage, not streamed."""
        answer = self.post(COMPLETIONS, fields)
        assert answer.status == 200, answer.body
        return Told([answer.json])

    def stream(self, path=COMPLETIONS, **fields):
        with Stream(self, path, fields) as stream:
            return Told(list(stream.chunks()))

    def status(self):
        return self.get("/status").json

    def wait_for(self, condition):
        """Until it holds of /status, which is returned."""
        end = time.monotonic() + PATIENCE
        while not condition(status := self.status()):
            assert time.monotonic() < end, status
            time.sleep(0.02)
        return status

    def wait_until_idle(self):
        return self.wait_for(lambda status: not status["requests"])


class Stream:
    """A request whose answer comes in chunks."""
    def __init__(self, server, path, fields, **connection):
        self.wire = Connection(server.port, **connection)
        self.wire.send(request_bytes("POST", path, {"stream": True, **fields}))
        self.status, self.headers = self.wire.head()
        assert self.status == 200, (self.status, self.wire.buffer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def chunks(self):
        """The objects, up to [DONE], after which nothing follows."""
        done = False
        for data in self.wire.events():
            assert not done, f"after [DONE]: {data}"
            if data == "[DONE]":
                done = True
            else:
                yield json.loads(data)
        assert done, "no [DONE]"


class Told:
    """What the chunks of a stream, or a single answer, say of their only choice."""
    def __init__(self, objects):
        self.objects = objects
        self.choices = [choice for one in objects for choice in one["choices"]]
        self.text = "".join(map(self.text_of, self.choices))
        self.finish_reason = self.choices[-1]["finish_reason"]
        self.usage = next((one["usage"] for one in objects if one.get("usage")), None)
        self.tokens = self.usage and self.usage["completion_tokens"]

    @staticmethod
    def text_of(choice):
        if "text" in choice:
            return choice["text"]
        return choice.get("delta", choice.get("message")).get("content") or ""

    def __eq__(self, other):
        return (self.text, self.finish_reason, self.usage) == (other.text, other.finish_reason, other.usage)

    def __repr__(self):
        return repr((self.text, self.finish_reason, self.usage))


class Usual(unittest.TestCase):
    """A server for all tests of a class."""
    PROGRAM, OPTIONS = None, ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.PROGRAM, *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, code

    def expect_service(self):
        """A usual client is served."""
        told = self.server.complete(prompt="Snow fell.", max_tokens=5, ignore_eos=True)
        self.assertEqual(told.tokens, 5)
