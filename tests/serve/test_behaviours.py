"""The twenty behaviours that clients need of a server, each a test by name.

usage: test_behaviours.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER
"""
import json
import math
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from serving import CHAT, COMPLETIONS, SLOW, Server, Stream, Told, Usual
from wire import Connection, request_bytes

from programs import read_safetensors, read_tensors, run_program_json, write_safetensors

BIN, GOLDEN = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
BATCH, ALONE = BIN / "06_batched_verification", BIN / "05_rejection_sampling"
PROMPT = "Once, in the winter, Sunita came to York."
MESSAGES = [{"role": "user", "content": "What is 12 + 30?"}]
# Bytes at random, most of which are no characters.
WILD = {"prompt": PROMPT, "temperature": 5, "seed": 7, "max_tokens": 150, "ignore_eos": True}


def alone(prompt, *options):
    """What stage 5 prints for a prompt."""
    return run_program_json(ALONE, "--prompt", prompt, *map(str, options))


def untied(model, out):
    """A copy of a model, whose head is a tensor of its own."""
    shutil.copytree(model, out)
    tensors = read_safetensors(out / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    write_safetensors(out / "model.safetensors", tensors)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    (out / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}), encoding="utf-8")
    return out


def spoil(model, token):
    """Whatever reads this token computes NaN from then on."""
    file = model / "model.safetensors"
    tensors = read_safetensors(file)
    dtype, shape, data = tensors["model.embed_tokens.weight"]
    assert dtype == "BF16", dtype
    row = 2 * shape[1]
    data = data[:row * token] + struct.pack("<H", 0x7fc0) * shape[1] + data[row * (token + 1):]
    tensors["model.embed_tokens.weight"] = dtype, shape, data
    write_safetensors(file, tensors)


class Behaviours(Usual):
    PROGRAM, OPTIONS = BATCH, ("--max-batch", 4)

    def both(self):
        """A request of each endpoint: path and fields."""
        for path, fields in ((COMPLETIONS, {"prompt": PROMPT}), (CHAT, {"messages": MESSAGES})):
            with self.subTest(path):
                yield path, {**fields, "max_tokens": 20}

    def refused(self, status, param, path, fields):
        answer = self.server.post(path, fields)
        self.assertEqual(answer.status, status, (fields, answer.body))
        self.assertEqual(answer.error["param"], param, (fields, answer.body))
        return answer

    def test_01_events_have_their_type_and_a_blank_line(self):
        for path, fields in self.both():
            with Stream(self.server, path, fields) as stream:
                self.assertRegex(stream.headers["content-type"], r"^text/event-stream(; charset=utf-8)?$")
                self.assertEqual(stream.headers.get("cache-control"), "no-cache")
                self.assertGreater(len(list(stream.wire.events())), 2)  # which reads them strictly

    def test_02_the_last_event_is_done(self):
        for path, fields in self.both():
            with Stream(self.server, path, fields) as stream:
                *others, last = stream.wire.events()
            self.assertEqual(last, "[DONE]")
            self.assertFalse([data for data in others if data.startswith("[DONE]")])

    def test_03_characters_are_never_split(self):
        whole = self.server.complete(**WILD)
        self.assertRegex(whole.text, "[^\x00-\x7f]", "characters of several bytes")
        with Stream(self.server, COMPLETIONS, WILD) as stream:
            streamed = Told(list(stream.chunks()))  # each event is read as strict UTF-8
        self.assertEqual(streamed.text, whole.text)
        self.assertEqual(whole.text, alone(PROMPT, "--temperature", 5, "--seed", 7, "--max-new-tokens", 150,
                                           "--ignore-eos")["text"])

    def test_04_an_error_inside_a_stream_is_an_event(self):
        """A row of NaN that is met after some tokens."""
        with tempfile.TemporaryDirectory() as folder:
            model = untied(GOLDEN / "models/target", pathlib.Path(folder) / "model")
            options = ("--target", model, "--no-speculation")
            good = run_program_json(BIN / "03_paged_kv_cache", "--target", str(model), "--prompt", PROMPT,
                                    "--max-new-tokens", "20")["tokens"]
            place = next(i for i in range(4, len(good)) if good.index(good[i]) == i)
            spoil(model, good[place])
            server = Server(BATCH, *options)
            try:
                for path, fields in self.both():
                    with Stream(server, path, {"prompt": PROMPT} if path == COMPLETIONS else fields) as stream:
                        events = list(stream.wire.events())
                    if path == CHAT and "error" not in events[-2]:
                        continue  # whose text may not have this token
                    *chunks, error, done = events
                    self.assertEqual(done, "[DONE]")
                    self.assertEqual(set(json.loads(error)), {"error"})
                    self.assertEqual(set(json.loads(error)["error"]), {"message", "type", "param", "code"})
                    self.assertFalse([chunk for chunk in chunks if json.loads(chunk).get("error")])
                    self.assertTrue(all(choice["finish_reason"] is None for chunk in chunks
                                        for choice in json.loads(chunk)["choices"]))
                answer = server.post(COMPLETIONS, {"prompt": PROMPT})
                self.assertEqual(answer.status, 500)
                self.assertIn("nan", answer.error["message"])
            finally:
                self.assertEqual(server.stop(), 0)

    def test_05_errors_have_a_status_and_an_object(self):
        self.refused(400, "max_tokens", COMPLETIONS, {"prompt": PROMPT, "max_tokens": -1})
        for option in self.server.status()["options"]:
            for path, fields in self.both():
                self.refused(400, option, path, {**fields, option: {"of": ["a", "wrong", "type"]}})
        self.refused(404, "model", COMPLETIONS, {"prompt": PROMPT, "model": "gpt-4"})
        self.assertEqual(self.server.get("/v1/nothing").status, 404)
        self.assertTrue(self.server.get("/v1/nothing").error)
        answer = self.server.get(COMPLETIONS)
        self.assertEqual((answer.status, answer.headers["allow"]), (405, "POST"))
        self.assertTrue(answer.error)

    def test_06_bad_input_is_never_a_5xx(self):
        """Nor 408, 409 or 429: clients send such a request again."""
        for path in (COMPLETIONS, CHAT):
            for body in (b"", b"{", b"[]", b"null", b"3", b'"text"', b"{}", b'{"prompt": 3}', b'{"messages": 3}',
                         b'{"messages": []}', b'{"messages": [3]}', b'{"messages": [{}]}', b'\xff\xfe', b'{"a": 1, "a": 2}',
                         b"[" * 5000, b'{"prompt": "\\ud800"}', b'{"prompt": "a", "seed": 1e400}'):
                with self.subTest(path=path, body=body[:30]):
                    answer = self.server.ask("POST", path, body)
                    self.assertEqual(answer.status, 400, answer.body)
                    self.assertTrue(answer.error)

    def test_07_every_answer_has_an_id(self):
        ids = [self.server.get(path).headers["x-request-id"] for path in ("/health", "/v1/models", "/v1/nothing")]
        with Stream(self.server, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 3}) as stream:
            ids.append(stream.headers["x-request-id"])
            list(stream.chunks())
        ids.append(self.server.post(COMPLETIONS, {}).headers["x-request-id"])
        self.assertEqual(len(set(ids)), len(ids), ids)
        self.assertTrue(all(ids))

    def test_08_chunks_have_the_fields_that_clients_read(self):
        for path, fields in self.both():
            told = self.server.stream(path, **fields)
            kind = "text_completion" if path == COMPLETIONS else "chat.completion.chunk"
            self.assertEqual({one["object"] for one in told.objects}, {kind})
            for field, type_ in (("id", str), ("created", int), ("model", str)):
                values = {one[field] for one in told.objects}
                self.assertEqual(len(values), 1, f"{field} is constant")
                self.assertIsInstance(values.pop(), type_)
            self.assertEqual({choice["index"] for choice in told.choices}, {0})
            self.assertEqual({len(one["choices"]) for one in told.objects}, {1})

    def test_09_the_first_delta_has_the_role_and_the_last_is_empty(self):
        told = self.server.stream(CHAT, messages=MESSAGES, max_tokens=20)
        deltas = [choice["delta"] for choice in told.choices]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertFalse(any("role" in delta for delta in deltas[1:]))
        self.assertEqual(deltas[-1], {})
        self.assertIn(told.finish_reason, ("stop", "length"))

    def test_10_the_reason_is_null_until_the_end(self):
        for path, fields in self.both():
            told = self.server.stream(path, **fields)
            reasons = [choice["finish_reason"] for choice in told.choices]  # it is never absent
            self.assertEqual(set(reasons[:-1]), {None})
            self.assertIsInstance(reasons[-1], str)

    def test_11_length_is_told_from_stop(self):
        ended = self.server.complete(prompt=PROMPT, max_tokens=400)
        self.assertEqual(ended.finish_reason, "stop")
        self.assertLess(ended.tokens, 400)
        cut = self.server.complete(prompt=PROMPT, max_tokens=ended.tokens - 1)
        self.assertEqual((cut.finish_reason, cut.tokens), ("length", ended.tokens - 1))
        self.assertEqual(self.server.complete(prompt=PROMPT, max_tokens=ended.tokens).finish_reason, "stop")
        self.assertEqual(self.server.complete(prompt=PROMPT, max_tokens=400, ignore_eos=True).finish_reason, "length")
        self.assertEqual(self.server.complete(prompt=PROMPT, stop="the").finish_reason, "stop")

    def test_12_usage_in_a_stream_only_if_asked(self):
        for path, fields in self.both():
            for options in ({}, {"stream_options": None}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}):
                told = self.server.stream(path, **fields, **options)
                self.assertTrue(all(one["choices"] for one in told.objects), options)
                self.assertIsNone(told.usage)
            told = self.server.stream(path, **fields, stream_options={"include_usage": True})
            self.assertEqual(told.objects[-1]["choices"], [])
            self.assertTrue(all(one["choices"] and one.get("usage") is None for one in told.objects[:-1]))
            self.assertEqual(told, Told([self.server.post(path, fields).json]))
            self.assertGreater(told.objects[-1]["speculation"]["rounds"], 0)

    def test_13_no_stream_unless_asked(self):
        for path, fields in self.both():
            for more in ({}, {"stream": False}, {"stream": None}):
                answer = self.server.post(path, {**fields, **more})
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.json["object"], "text_completion" if path == COMPLETIONS else "chat.completion")
        self.refused(400, "stream", COMPLETIONS, {"prompt": PROMPT, "stream": "yes"})

    def test_14_usage_counts_the_tokens(self):
        usage = self.server.complete(prompt=PROMPT, max_tokens=20).usage
        command = alone(PROMPT, "--max-new-tokens", 20)
        self.assertEqual(usage["prompt_tokens"], command["prompt_tokens"])
        self.assertEqual(usage["completion_tokens"], len(command["tokens"]))
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    def test_15_models_are_listed_and_others_unknown(self):
        models = self.server.get("/v1/models").json
        self.assertEqual(models["object"], "list")
        [model] = models["data"]
        self.assertEqual(set(model), {"id", "object", "created", "owned_by"})
        self.assertEqual((model["id"], model["object"]), (self.server.model, "model"))
        self.assertIsInstance(model["created"], int)
        for path, fields in self.both():
            answer = self.server.post(path, {**fields, "model": model["id"]})
            self.assertEqual((answer.status, answer.json["model"]), (200, model["id"]))
            self.assertEqual(self.refused(404, "model", path, {**fields, "model": "other"}).error["code"], "model_not_found")

    def test_16_health(self):
        self.assertEqual(self.server.get("/health").status, 200)

    def test_17_closing_the_connection_cancels(self):
        """Within a text that takes half a minute, whether the client has read of it or not."""
        server = Server(BATCH, *SLOW)
        try:
            for path, fields in self.both():
                fields |= {"max_tokens": 1500, "ignore_eos": True}
                with Stream(server, path, fields) as stream:
                    next(stream.chunks())
                with Connection(server.port) as wire:
                    wire.send(request_bytes("POST", path, fields))  # and never reads the answer
                    server.wait_for(lambda status: status["requests"])
                status = server.wait_until_idle()
                self.assertLess(status["totals"]["tokens"], 1500)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_18_a_stop_inside_a_round_cuts_everything(self):
        """Every text that may stop it, wherever in a round that is; and an end token."""
        whole = alone(PROMPT, "--max-new-tokens", 40, "--ignore-eos")
        self.assertLess(whole["stats"]["rounds"], 30, "rounds of several tokens")
        words = whole["text"].split()
        for word in dict.fromkeys(words[:8]):
            want = alone(PROMPT, "--max-new-tokens", 40, "--ignore-eos", "--stop", word)
            for stop in (word, [word], [word, "zebra"]):
                fields = {"prompt": PROMPT, "max_tokens": 40, "ignore_eos": True, "stop": stop, "logprobs": 0}
                for told in (self.server.complete(**fields),
                             self.server.stream(**fields, stream_options={"include_usage": True})):
                    self.assertEqual((told.text, told.tokens, told.finish_reason),
                                     (want["text"], len(want["tokens"]), "stop"), stop)
                    self.assertEqual(len(self.logprobs_of(told)), told.tokens)
        ended = self.server.complete(prompt=PROMPT, max_tokens=400)
        want = alone(PROMPT, "--max-new-tokens", 400)
        self.assertEqual((ended.text, ended.tokens), (want["text"], len(want["tokens"])))
        self.refused(400, "stop", COMPLETIONS, {"prompt": PROMPT, "stop": 3})
        self.refused(400, "stop", COMPLETIONS, {"prompt": PROMPT, "stop": ["a"] * 17})

    def test_19_both_names_of_the_limit_and_no_silent_field(self):
        for name in ("max_tokens", "max_completion_tokens"):
            told = Told([self.server.post(CHAT, {"messages": MESSAGES, name: 3, "ignore_eos": True}).json])
            self.assertEqual((told.tokens, told.finish_reason), (3, "length"))
        for path, fields in self.both():
            nothing = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": None, "user": "me"}
            self.assertEqual(self.server.post(path, {**fields, **nothing}).status, 200)
            for name, value in (("frequency_penalty", 0.5), ("presence_penalty", -1), ("n", 2),
                                ("logit_bias", {"50": 100})):
                self.refused(400, name, path, {**fields, name: value})
        self.refused(400, "best_of", COMPLETIONS, {"prompt": PROMPT, "best_of": 3})
        self.refused(400, "echo", COMPLETIONS, {"prompt": PROMPT, "echo": True})
        self.refused(400, "suffix", COMPLETIONS, {"prompt": PROMPT, "suffix": "end"})
        self.refused(400, "response_format", CHAT, {"messages": MESSAGES, "response_format": {"type": "json_object"}})
        self.refused(400, "tools", CHAT, {"messages": MESSAGES, "tools": [{"type": "function", "function": {"name": "f"}}]})

    @staticmethod
    def logprobs_of(told):
        """Of a completion: (text, logprob, {text: logprob}) for each token."""
        return [entry for choice in told.choices if choice.get("logprobs")
                for entry in zip(*(choice["logprobs"][name] for name in ("tokens", "token_logprobs", "top_logprobs")))]

    def test_20_logprobs_of_every_token_and_a_seed_that_holds(self):
        fields = {"prompt": PROMPT, "max_tokens": 30, "logprobs": 3}
        plain = self.server.complete(**fields, no_speculation=True)
        for told in (self.server.complete(**fields), self.server.stream(**fields, stream_options={"include_usage": True})):
            entries = self.logprobs_of(told)
            self.assertEqual(len(entries), told.tokens)
            self.assertEqual(entries, self.logprobs_of(plain), "of the row that judged it, to the last bit")
        self.check_first_logprobs(*entries[0][1:])
        for text, logprob, top in entries:
            self.assertEqual(len(top), 3)
            self.assertEqual(max(top.values()), logprob, "greedy")
            self.assertIn(text, top)
        self.check_logprobs_of_chats()
        sampled = {"prompt": PROMPT, "temperature": 0.9, "seed": 11, "max_tokens": 40}
        want = alone(PROMPT, "--temperature", 0.9, "--seed", 11, "--max-new-tokens", 40)
        for _ in range(2):
            told = self.server.complete(**sampled)
            self.assertEqual((told.text, told.tokens), (want["text"], len(want["tokens"])))
        self.assertNotEqual(self.server.complete(**{**sampled, "seed": 12}).text, want["text"])
        without = [self.server.complete(**{**sampled, "seed": None}).text for _ in range(3)]
        self.assertGreater(len(set(without)), 1, "without a seed, texts differ")

    def check_first_logprobs(self, logprob, top):
        """Against the softmax of the logits that stage 2 dumps."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "prompt.safetensors"
            run_program_json(BIN / "02_contiguous_kv_cache", "--prompt", PROMPT, "--max-new-tokens", "1", "--dump", str(file))
            (_, vocabulary), data = read_tensors(file)["logits"]
        logits = struct.unpack(f"<{vocabulary}f", data[-4 * vocabulary:])
        total = math.log(sum(math.exp(value - max(logits)) for value in logits)) + max(logits)
        want = sorted((value - total for value in logits), reverse=True)[:3]
        for got, expected in zip([logprob, *sorted(top.values(), reverse=True)], [want[0], *want]):
            self.assertAlmostEqual(got, expected, delta=1e-5)

    def check_logprobs_of_chats(self):
        fields = {"messages": MESSAGES, "max_tokens": 20, "logprobs": True, "top_logprobs": 2}
        whole = Told([self.server.post(CHAT, fields).json])
        streamed = self.server.stream(CHAT, **fields)
        contents = [[entry for choice in told.choices if choice.get("logprobs") for entry in choice["logprobs"]["content"]]
                    for told in (whole, streamed)]
        self.assertEqual(*contents)
        self.assertEqual(len(contents[0]), whole.tokens)
        for entry in contents[0]:
            self.assertEqual(set(entry), {"token", "logprob", "bytes", "top_logprobs"})
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["logprob"], entry["top_logprobs"][0]["logprob"])
        text = bytes(byte for entry in contents[0] for byte in entry["bytes"] or []).decode()
        self.assertTrue(text.startswith(whole.text), (text, whole.text))
        self.refused(400, "top_logprobs", CHAT, {"messages": MESSAGES, "top_logprobs": 2})
        self.refused(400, "top_logprobs", CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 21})


if __name__ == "__main__":
    unittest.main()
