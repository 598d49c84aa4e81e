"""Clients that people use: the package openai, curl, a parser of Prometheus' text, an agent of many short turns.

usage: test_clients.py FOLDER_OF_PROGRAMS BUILD

The packages come into an environment in BUILD/serve. Without a network: exit code 77 (NOT CHECKED).
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import COMPLETIONS, SLOW, Server, Usual

BIN, BUILD = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "stages/programs/real"))
import package_index  # noqa: E402

try:
    package_index.install(BUILD / "serve", HERE / "requirements.txt")
except SystemExit as why:
    print(f"NOT CHECKED: {why}")
    sys.exit(77)
sys.path.insert(0, str(package_index.site_packages(BUILD / "serve")))  # before what this Python has itself
import openai  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

BATCH = BIN / "06_batched_verification"
PROMPT = "Once, in the winter, Sunita came to York."
MESSAGES = [{"role": "user", "content": "What is 12 + 30?"}]


def client_of(server, **options):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="unused", **options)


class OpenAi(Usual):
    PROGRAM = BATCH

    def setUp(self):
        self.client = client_of(self.server)
        self.addCleanup(self.client.close)
        self.model = self.client.models.list().data[0].id

    def test_whole_and_streamed(self):
        whole = self.client.completions.create(model=self.model, prompt=PROMPT, max_tokens=40, seed=3, temperature=0.8)
        streamed = list(self.client.completions.create(model=self.model, prompt=PROMPT, max_tokens=40, seed=3, temperature=0.8,
                                                       stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(chunk.choices[0].text for chunk in streamed[:-1]), whole.choices[0].text)
        self.assertEqual(streamed[-1].usage, whole.usage)
        self.assertEqual(streamed[-2].choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertGreater(whole.model_extra["speculation"]["rounds"], 0)

    def test_chats(self):
        asked = {"model": self.model, "messages": MESSAGES, "max_completion_tokens": 30}
        whole = self.client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
        self.assertEqual(len(whole.choices[0].logprobs.content), whole.usage.completion_tokens)
        with self.client.chat.completions.create(**asked, stream=True) as stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(whole.choices[0].message.role, "assistant")

    def test_the_helper_that_collects_a_stream(self):
        with self.client.chat.completions.stream(model=self.model, messages=MESSAGES) as stream:
            for _ in stream:
                pass
            whole = stream.get_final_completion()
        self.assertEqual(whole.choices[0].finish_reason, "stop")

    def test_our_own_options(self):
        answer = self.client.completions.create(model=self.model, prompt=PROMPT, max_tokens=20,
                                                extra_body={"spec_length": 2, "acceptance": "coupled", "rounds": True},
                                                stream=True)
        self.assertTrue(any(chunk.model_extra.get("rounds") for chunk in answer))

    def test_errors_have_classes_of_their_own(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model=self.model, prompt=PROMPT, temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertTrue(caught.exception.request_id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="gpt-4", prompt=PROMPT)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError):
            self.client.chat.completions.create(model=self.model, messages=MESSAGES, n=2)

    def test_many_at_once_without_threads_of_their_own(self):
        import asyncio

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=str(self.client.base_url), api_key="unused") as client:
                async def one(i):
                    stream = await client.completions.create(model=self.model, prompt=PROMPT, seed=i % 4, temperature=0.9,
                                                             max_tokens=30, stream=True)
                    return "".join([chunk.choices[0].text async for chunk in stream])
                return await asyncio.gather(*map(one, range(24)))

        texts = asyncio.run(all_of_them())
        self.assertEqual(texts, texts[:4] * 6, "the same seed, the same text")

    def test_an_agent_of_many_short_turns(self):
        """Whose chat grows: each prompt begins as the one before, and is found in the prefix cache."""
        messages = [{"role": "system", "content": "You are a calculator."}]
        for turn in range(25):
            messages.append({"role": "user", "content": f"What is {turn} + 1?"})
            answer = self.client.chat.completions.create(model=self.model, messages=messages, max_completion_tokens=12, seed=turn)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content or "."})
        self.assertEqual(self.server.wait_until_idle()["batch"]["running"], 0)


class Slow(Usual):
    """A model that takes half a minute for a text, one request that runs and one that waits."""
    PROGRAM, OPTIONS = BATCH, (*SLOW, "--max-queue", 1)
    LONG = {"prompt": PROMPT, "max_tokens": 1900, "stream": True, "extra_body": {"ignore_eos": True}}

    def setUp(self):
        self.client = client_of(self.server, max_retries=0)
        self.addCleanup(self.client.close)
        self.model = self.client.models.list().data[0].id

    def begin(self):
        return self.client.completions.create(model=self.model, **self.LONG)

    def test_breaking_off_cancels(self):
        before = self.server.status()["totals"]["tokens"]
        for _ in range(3):
            stream = self.begin()
            next(iter(stream))
            stream.close()
        status = self.server.wait_until_idle()
        self.assertLess(status["totals"]["tokens"] - before, 1900)

    def test_a_full_queue_is_tried_again(self):
        running, over = self.begin(), threading.Event()

        def wait_in_line():
            with self.begin():
                over.wait()

        waiting = threading.Thread(target=wait_in_line)
        waiting.start()
        self.server.wait_for(lambda status: len(status["requests"]) == 2)
        with self.assertRaises(openai.RateLimitError):
            self.client.completions.create(model=self.model, prompt=PROMPT)
        threading.Timer(1, lambda: (running.close(), over.set())).start()  # then there is room
        with client_of(self.server, max_retries=1000) as patient:
            self.assertTrue(patient.completions.create(model=self.model, prompt=PROMPT, max_tokens=3).choices)
        waiting.join()


class Keys(unittest.TestCase):
    def test_a_key(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("sesame\n")
            file.flush()
            server = Server(BATCH, "--api-key-file", file.name)
        try:
            with self.assertRaises(openai.AuthenticationError), client_of(server) as client:
                client.models.list()
            with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="sesame") as client:
                self.assertEqual(len(client.models.list().data), 1)
        finally:
            self.assertEqual(server.stop(), 0)


class Others(Usual):
    PROGRAM = BATCH

    def test_a_parser_of_prometheus(self):
        self.server.complete(prompt=PROMPT, max_tokens=20)
        families = {family.name: family for family in
                    text_string_to_metric_families(self.server.get("/metrics").body.decode())}
        [drafted] = [family for name, family in families.items() if name.endswith("_num_draft_tokens")]
        self.assertEqual(drafted.type, "counter")
        self.assertGreater(drafted.samples[0].value, 0)
        self.assertIn("histogram", {family.type for family in families.values()})

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_curl(self):
        url = f"http://127.0.0.1:{self.server.port}"

        def curl(*arguments):
            done = subprocess.run(["curl", "--silent", "--show-error", *arguments], capture_output=True, check=True, text=True)
            return done.stdout

        body = json.dumps({"prompt": PROMPT, "max_tokens": 10})
        want = self.server.complete(prompt=PROMPT, max_tokens=10).text
        for more in ([], ["--http1.0"], ["--header", "Expect: 100-continue"], ["--http2"]):
            answer = json.loads(curl(*more, "--json", body, url + COMPLETIONS))
            self.assertEqual(answer["choices"][0]["text"], want, more)
        streamed = curl("--no-buffer", "--json", json.dumps({**json.loads(body), "stream": True}), url + COMPLETIONS)
        self.assertTrue(streamed.endswith("data: [DONE]\n\n"))
        self.assertEqual(curl("--output", "/dev/null", "--write-out", "%{http_code}", "--head", url + "/"), "200")


if __name__ == "__main__":
    unittest.main()
