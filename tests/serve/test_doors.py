"""Who may come in: the host's name, an origin, a key; and what no request may ask for.

usage: test_doors.py FOLDER_OF_PROGRAMS
"""
import pathlib
import sys
import tempfile
import unittest

from serving import COMPLETIONS, Server, Usual

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
BATCH = BIN / "06_batched_verification"
PROMPT = "Once, in the winter, Sunita came to York."


class Doors(Usual):
    PROGRAM = BATCH

    def test_only_its_own_names(self):
        port = self.server.port
        for host in ("127.0.0.1", f"127.0.0.1:{port}", "localhost", f"localhost:{port}", f"LOCALHOST:{port}"):
            with self.subTest(host):
                self.assertEqual(self.server.get("/health", headers={"Host": host}).status, 200)
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
                     "user@127.0.0.1", "evil.example#127.0.0.1", "[evil.example]"):
            with self.subTest(host):
                for path in ("/", "/health", "/v1/models", "/status", "/metrics"):
                    answer = self.server.get(path, headers={"Host": host})
                    self.assertEqual(answer.status, 403, path)
        self.assertEqual(self.server.get("/health", headers={"Host": None}).status, 400)

    def test_no_page_from_elsewhere(self):
        """A page that some visitor has open cannot ask, not even in the ways that need no permission."""
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{self.server.port + 1}"):
            for kind in ("text/plain", "application/json"):
                answer = self.server.post(COMPLETIONS, {"prompt": PROMPT}, headers={"Origin": origin, "Content-Type": kind})
                self.assertEqual(answer.status, 403, origin)
                self.assertNotIn("access-control-allow-origin", answer.headers)
            answer = self.server.ask("OPTIONS", COMPLETIONS, headers={
                "Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"})
            self.assertNotIn("access-control-allow-origin", answer.headers)
            self.assertGreaterEqual(answer.status, 400)
        own = {"Origin": f"http://127.0.0.1:{self.server.port}", "Host": f"127.0.0.1:{self.server.port}"}
        self.assertEqual(self.server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1}, headers=own).status, 200)

    def test_no_request_opens_a_file_or_chooses_a_device(self):
        for name, value in (("target", "/"), ("draft", "/"), ("device", "cuda"), ("threads", 1000), ("trace", "/tmp/t"),
                            ("report", "/tmp/r"), ("requests", "/etc/passwd"), ("chat_file", "/etc/passwd"),
                            ("draft_text", "/etc/passwd"), ("heads", "/"), ("cost_profile", "/etc/passwd"),
                            ("pages", 100000), ("max_batch", 1000)):
            answer = self.server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1, name: value})
            with self.subTest(name):
                self.assertEqual((answer.status, answer.error["param"]), (400, name))

    def test_a_page_of_its_own(self):
        answer = self.server.get("/")
        self.assertEqual(answer.status, 200)
        self.assertRegex(answer.headers["content-type"], "^text/html")
        self.assertIn("default-src 'none'", answer.headers.get("content-security-policy", "") + answer.body.decode())


class Origins(Usual):
    PROGRAM, OPTIONS = BATCH, ("--allow-origin", "http://lesson.example")

    def test_an_origin_that_is_allowed(self):
        asked = {"Origin": "http://lesson.example"}
        answer = self.server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1}, headers=asked)
        self.assertEqual(answer.headers["access-control-allow-origin"], "http://lesson.example")
        self.assertEqual(self.server.post(COMPLETIONS, {}, headers=asked).headers["access-control-allow-origin"],
                         "http://lesson.example")
        answer = self.server.ask("OPTIONS", COMPLETIONS, headers={
            **asked, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"})
        self.assertIn(answer.status, (200, 204))
        self.assertEqual(answer.headers["access-control-allow-origin"], "http://lesson.example")
        self.assertIn("POST", answer.headers["access-control-allow-methods"])
        self.assertIn("authorization", answer.headers["access-control-allow-headers"].lower())
        self.assertEqual(self.server.post(COMPLETIONS, {"prompt": PROMPT}, headers={"Origin": "http://evil.example"}).status, 403)


class Keys(unittest.TestCase):
    def test_a_key(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("sesame-1234\n")
            file.flush()
            server = Server(BATCH, "--api-key-file", file.name)
        try:
            for path in ("/v1/models", "/status", "/metrics"):
                for headers in ({}, {"Authorization": "Bearer sesame"}, {"Authorization": "Bearer sesame-12345"},
                                {"Authorization": "sesame-1234"}, {"Authorization": "Bearer "}, {"Authorization": "Basic a:b"}):
                    answer = server.get(path, headers=headers)
                    self.assertEqual(answer.status, 401, (path, headers))
                    self.assertTrue(answer.error)
                self.assertEqual(server.get(path, headers={"Authorization": "Bearer sesame-1234"}).status, 200)
            self.assertEqual(server.post(COMPLETIONS, {"prompt": PROMPT}).status, 401)
            answer = server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 1}, headers={"Authorization": "Bearer sesame-1234"})
            self.assertEqual(answer.status, 200)
            self.assertNotIn("sesame", server.said())
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
