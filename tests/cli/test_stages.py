"""Stages 1 to 5 from outside: what all have in common, and the caches of 1 to 3. Options, output, exit codes, messages.

usage: test_stages.py FOLDER_OF_PROGRAMS GOLDEN_FOLDER
"""
import json
import pathlib
import shutil
import sys
import unittest

from programs import ProgramTest, read_tensors, run_program, run_program_json

STAGES = ["01_naive_decoder", "02_contiguous_kv_cache", "03_paged_kv_cache"]
ALL = STAGES + ["04_greedy_speculation", "05_rejection_sampling"]


def run(stage, *arguments):
    return run_program(PROGRAMS / stage, *arguments)


def run_json(stage, *arguments):
    return run_program_json(PROGRAMS / stage, *arguments)


def copy_of_the_target(test):
    return shutil.copytree(GOLDEN / "models" / "target", test.folder / "target")


class StagesTest(ProgramTest):
    def test_all_stages_write_the_same(self):
        results = [run_json(stage, "--max-new-tokens", "24") for stage in ALL]
        for result in results:
            self.assertEqual(result["tokens"], results[0]["tokens"])
            self.assertEqual(result["text"], results[0]["text"])

    def test_counts_are_those_of_the_lesson(self):
        arguments = ("--prompt-ids", "3840,71,305,9,11", "--max-new-tokens", "10", "--ignore-eos")
        rows = [run_json(stage, *arguments)["stats"]["target_rows"] for stage in STAGES]
        self.assertEqual(rows[0], sum(5 + i for i in range(10)), "recomputing")
        self.assertEqual(rows[1:], [5 + 10 - 1] * 2, "every token once, the last one never")

    def test_json_has_the_fields_of_the_contract(self):
        for stage in ALL:
            result = run_json(stage, "--max-new-tokens", "3")
            self.assertLessEqual({"tokens", "text", "finish_reason", "stats", "model", "device"}, set(result))
            self.assertLessEqual(
                {"rounds", "target_forwards", "draft_forwards", "drafted", "tested", "accepted", "emitted", "alpha",
                 "acceptance_rate", "mean_round_acceptance", "accepted_per_position", "prefill_seconds",
                 "decode_seconds", "tokens_per_second"}, set(result["stats"]))
            self.assertEqual(result["finish_reason"], "length")
            self.assertEqual(result["stats"]["emitted"], 3)
            if stage in STAGES:
                self.assertEqual(result["stats"]["target_forwards"], 3)

    def test_text_streams_to_stdout_alone(self):
        for stage in ALL:
            want = run_json(stage, "--max-new-tokens", "12")["text"]
            code, text, errors = run(stage, "--max-new-tokens", "12", "--quiet")
            self.assertEqual((code, text, errors), (0, want + "\n", ""))
            code, text, errors = run(stage, "--max-new-tokens", "12")
            self.assertEqual(text, want + "\n")
            self.assertIn("tokens/s", errors)
            self.assertNotIn("\x1b", text + errors, "no colours where there is no terminal")

    def test_a_stop_text_ends_the_text_before_it(self):
        whole = run_json(STAGES[1], "--max-new-tokens", "30")["text"]
        stop = whole[10:14]
        for stage in ALL:
            result = run_json(stage, "--max-new-tokens", "30", "--stop", "not there", "--stop", stop)
            self.assertEqual(result["text"], whole[:whole.index(stop)])
            self.assertEqual(result["finish_reason"], "stop")

    def test_a_chat_ends_with_an_eos(self):
        for stage in ALL:
            result = run_json(stage, "--chat", "What is 12 + 30?", "--max-new-tokens", "200")
            self.assertEqual(result["finish_reason"], "stop")
            self.assertIn(result["tokens"][-1], result["model"]["eos_ids"])
            self.assertNotIn("<|", result["text"])

    def test_chats_of_several_turns(self):
        path = self.folder / "chat.json"
        path.write_text(json.dumps([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]))
        for stage in ALL:
            texts = {run(stage, *chat, "--max-new-tokens", "8", "--quiet")[1]
                     for chat in (["--chat-file", path], ["--chat", "Hi", "--system", "S"])}
            self.assertEqual(len(texts), 1)
        turns = [("user", "What is 12 + 30?"), ("assistant", "42"), ("user", "And 5 more?")]
        path.write_text(json.dumps([{"role": role, "content": content} for role, content in turns]))
        counts = {run_json(stage, "--chat-file", path, "--max-new-tokens", "8")["prompt_tokens"] for stage in ALL}
        self.assertEqual(counts, {58})

    def test_what_the_authors_recommend(self):
        target = copy_of_the_target(self)
        path = target / "generation_config.json"
        path.write_text(json.dumps({"do_sample": True, "temperature": 0.7, "top_k": 20, "suppress_tokens": [7]}))
        chat = ["--target", target, "--chat", "Hi", "--max-new-tokens", "8"]
        for number, stage in enumerate(ALL, 1):
            code, _, errors = run(stage, *chat)
            self.assertEqual((code, errors.count("recommends")), (0, 1), errors)
            self.assertEqual(run(stage, *chat, "--quiet")[2], "")
            self.assertIn(f"{stage}: {path} recommends temperature 0.7, top_k 20 and suppress_tokens [7]; not applied (",
                          errors)
            self.assertIn("--generation-config applies temperature and top_k", errors)
            self.assertEqual("05_rejection_sampling and later" in errors, number < 5)
            self.assertNotIn("recommends", run(stage, "--target", target, "--prompt", "Hi", "--max-new-tokens", "2")[2])
        texts = set()
        for seed in ("1", "2", "3"):
            sampled = run(ALL[4], *chat, "--temperature", "0.7", "--top-k", "20", "--seed", seed)
            advised = run(ALL[4], *chat, "--generation-config", "--seed", seed)
            self.assertEqual(advised[:2], sampled[:2])
            self.assertNotIn("--generation-config", sampled[2], "both numbers are given")
            texts.add(advised[1])
        self.assertGreater(len(texts), 1, "sampled")
        self.assertIn(f"{ALL[4]}: {path} recommends suppress_tokens [7]; not applied, since no option does that\n",
                      advised[2])
        self.assertEqual(run(ALL[4], *chat, "--generation-config", "--temperature", "0")[1], run(ALL[4], *chat)[1],
                         "what is given wins")
        good = run(ALL[0], *chat)
        path.write_text(json.dumps({"repetition_penalty": 0}))
        code, text, errors = run(ALL[0], *chat)
        self.assertEqual((code, text), good[:2], "the text is good all the same")
        self.assertIn(f"{path}: --repetition-penalty is 0; ", errors)
        self.assertIn("; what this file recommends is not applied\n", errors)
        path.unlink()
        self.assertNotIn("recommends", run(ALL[0], *chat)[2])
        self.expect_bad_input(str(path), PROGRAMS / ALL[4], *chat, "--generation-config")

    def test_a_prompt_of_one_token(self):
        results = [run_json(stage, "--prompt-ids", "3840", "--max-new-tokens", "5") for stage in ALL]
        self.assertEqual(len({json.dumps(result["tokens"]) for result in results}), 1)

    def test_models_without_a_tokenizer(self):
        target = GOLDEN / "checkpoints" / "untied"
        outputs = {run(stage, "--target", target, "--prompt-ids", "1,2,3", "--max-new-tokens", "5", "--quiet")
                   for stage in STAGES}
        self.assertEqual(len(outputs), 1)
        code, text, errors = outputs.pop()
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(len(text.split(",")), 5)

    def test_caches_threads_and_pages_change_nothing(self):
        want = run_json(STAGES[1], "--max-new-tokens", "40")["tokens"]
        for arguments in (["--cache", "contiguous"], ["--page-size", "1"], ["--page-size", "3", "--threads", "1"],
                          ["--page-size", "256"], ["--threads", "3"], ["--max-context", "200"]):
            self.assertEqual(run_json(STAGES[2], "--max-new-tokens", "40", *arguments)["tokens"], want, arguments)

    def test_a_cache_of_bf16(self):
        of_f32 = run_json(STAGES[1], "--max-new-tokens", "40")
        want = run_json(STAGES[1], "--max-new-tokens", "40", "--kv-dtype", "bf16")
        self.assertEqual([result["model"]["kv_dtype"] for result in (of_f32, want)], ["f32", "bf16"])
        for part, name in (("stats", "cache_bytes"), ("model", "cache_bytes_per_token")):
            self.assertEqual(2 * want[part][name], of_f32[part][name])
        for stage, arguments in ((2, ["--cache", "contiguous"]), (2, ["--page-size", "3", "--threads", "1"]),
                                 (3, ["--page-size", "1", "--draft-page-size", "3"]), (3, ["--draft-kind", "bigram"]),
                                 (4, ["--draft-kind", "lookup"])):
            result = run_json(ALL[stage], "--max-new-tokens", "40", "--kv-dtype", "bf16", *arguments)
            self.assertEqual(result["tokens"], want["tokens"], arguments)
            self.assertEqual(result["model"], want["model"], arguments)
        self.assertIn("bytes in bf16", run(STAGES[1], "--max-new-tokens", "2", "--kv-dtype", "bf16")[2])

    def test_a_check_of_what_is_rounded_counts_the_texts_that_differ(self):
        for option, value, texts in ("--kv-dtype", "bf16", 1), ("--target-weights", "q4", 37):
            code, text, errors = run(STAGES[2], "--check", option, value)
            self.assertEqual((code, errors), (0, ""))
            self.assertTrue(text.endswith(f"\n{texts} of 64 greedy texts differ from those without rounding\n"), text[-200:])

    # The dump shows what the option changes: not every number, as int8 weights would, but all that attention makes.
    def test_a_dump_with_a_cache_of_bf16(self):
        dumps = []
        for kv_dtype in ("f32", "bf16"):
            path = self.folder / kv_dtype
            code, _, errors = run(STAGES[1], "--dump", path, "--max-new-tokens", "1", "--kv-dtype", kv_dtype)
            self.assertEqual(code, 0, errors)
            dumps.append(read_tensors(path))
        differing = [name for name in dumps[0] if dumps[0][name] != dumps[1][name]]
        for name in ("layers.0.k_rope", "layers.0.v"):
            self.assertNotIn(name, differing)
        for name in ("layers.0.attn_out", "logits"):
            self.assertIn(name, differing)

    def test_explain_shows_pages(self):
        code, _, errors = run(STAGES[2], "--explain", "--max-new-tokens", "20")
        self.assertEqual(code, 0)
        for words in ("after the prefill", "at the end", "forked", "its own copy"):
            self.assertIn(words, errors)

    def test_help_and_version_are_good(self):
        for stage in ALL:
            self.expect_help_and_version(PROGRAMS / stage, "--max-new-tokens N")


class FilesTest(ProgramTest):
    def test_dump_holds_the_golden_tensors(self):
        want = json.loads((GOLDEN / "goldens" / "target" / "manifest.json").read_text())["tolerances"]
        dumps = []
        for stage in ALL:
            path = self.folder / f"{stage}.safetensors"
            code, _, errors = run(stage, "--prompt", "One two three", "--dump", path, "--max-new-tokens", "1", "--quiet")
            self.assertEqual(code, 0, errors)
            dumps.append(read_tensors(path))
            self.assertEqual(set(dumps[-1]), set(want))
        self.assertEqual(dumps[2:], [dumps[2]] * 3, "stages 3 to 5, bit for bit")
        shapes = [{name: shape for name, (shape, _) in dump.items()} for dump in dumps]
        self.assertEqual(shapes[0], shapes[1])
        self.assertEqual(shapes[0]["logits"][1], 4096)
        self.assertEqual(dumps[1], dumps[2], "stages 2 and 3, bit for bit")
        self.assertNotEqual(dumps[0], dumps[1], "plain loops sum in another order; equality would be suspicious")

    def test_report_is_the_json_object(self):
        path = self.folder / "report.json"
        code, text, _ = run(STAGES[2], "--report", path, "--max-new-tokens", "4", "--quiet")
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(path.read_text())["text"] + "\n", text)


class BadInputTest(ProgramTest):
    def expect_error(self, words, stage, *arguments):
        self.expect_bad_input(words, PROGRAMS / stage, *arguments)

    def test_options_of_later_stages_name_the_stage(self):
        self.expect_error("this stage has no --threads; 02_contiguous_kv_cache has it", STAGES[0], "--threads", "2")
        self.expect_error("03_paged_kv_cache has it", STAGES[1], "--cache=paged")
        self.expect_error("--kv-dtype", STAGES[1], "--kv-dtype", "f16")
        self.expect_error("leave out --kv-dtype", ALL[3], "--check", "--kv-dtype", "bf16")

    def test_prompts(self):
        for stage in ALL:
            self.expect_error("the prompt is empty", stage, "--prompt", "")
            self.expect_error("the prompt is empty", stage, "--chat", "")
            self.expect_error("UTF-8", stage, "--prompt", b"caf\xe9")
            self.expect_error("prompt id 4096 is outside the vocabulary", stage, "--prompt-ids", "1,4096")
            self.expect_error("prompt id -1", stage, "--prompt-ids=-1")
            self.expect_error("--prompt-ids", stage, "--prompt-ids", "1,two")
            self.expect_error("--prompt-ids", stage, "--prompt-ids", "")
            self.expect_error("--chat", stage, "--prompt", "a", "--chat", "b")
            self.expect_error("--system", stage, "--system", "a")
            self.expect_error("no tokenizer.json", stage, "--target", GOLDEN / "checkpoints" / "untied", "--prompt", "a")

    def test_a_chat_needs_the_tokens_of_chats(self):
        folder = copy_of_the_target(self)
        template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        (folder / "special_tokens_map.json").unlink()
        text = (folder / "tokenizer.json").read_text()
        for token in ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>"):
            (folder / "tokenizer.json").write_text(text.replace(token, "<|other|>"))
            for stage in STAGES:
                self.expect_error(f"--chat: the chat format is Llama 3.1's, and the tokenizer has no special token {token}; "
                                  "render the chat", stage, "--target", folder, "--chat", "Hello")

    def test_a_chat_needs_a_template_that_is_known(self):
        target = copy_of_the_target(self)
        path = target / "tokenizer_config.json"
        config = json.loads(path.read_text())
        for template in ("{{ messages[0]['content'] }}", config["chat_template"].replace("Today", "This")):
            path.write_text(json.dumps({**config, "chat_template": template}))
            for stage in ALL:
                self.expect_error(f"{path}: the chat template \"", stage, "--target", target, "--chat", "Hello")
            code, _, errors = run(STAGES[1], "--target", target, "--prompt", "One", "--max-new-tokens", "1", "--quiet")
            self.assertEqual((code, errors), (0, ""), "a text needs no template")

    def test_chat_files(self):
        path = self.folder / "chat.json"
        path.write_text("[]")
        for stage in ALL:
            self.expect_error(f"{path}: a chat needs at least one message", stage, "--chat-file", path)
            for other in ("--prompt", "--prompt-ids", "--chat"):
                self.expect_error("--chat-file", stage, "--chat-file", path, other, "1")
            self.expect_error("--system", stage, "--chat-file", path, "--system", "S")

    def test_lengths(self):
        for stage in ALL:
            self.expect_error("need 2058 positions; the model has 2048", stage, "--prompt-ids", "1,2,3,4,5,6,7,8,9,10",
                              "--max-new-tokens", "2048")
            self.expect_error("--max-context allows 8", stage, "--prompt-ids", "1,2,3,4,5", "--max-new-tokens", "4",
                              "--max-context", "8")
            self.expect_error("beyond the model's 2048 positions", stage, "--max-context", "4096")
            for value in ("0", "-1", "many", "1.5", "9999999999"):
                self.expect_error(f'--max-new-tokens is "{value}"; it takes a whole number from 1 to 1073741824', stage,
                                  f"--max-new-tokens={value}")
            self.expect_error("--stop: the text is empty", stage, "--stop", "")

    def test_devices_and_caches(self):
        for stage in STAGES[1:]:
            code, _, errors = run(stage, "--device", "cuda", "--max-new-tokens", "1")
            if code != 0:  # no GPU here
                self.expect_error("--device cuda: ", stage, "--device", "cuda")
            self.expect_error("--gemm cublas needs --device cuda", stage, "--device", "cpu", "--gemm", "cublas")
            self.expect_error("--threads", stage, "--threads", "0")
            self.expect_error("--target-weights", stage, "--target-weights", "int4")
        self.expect_error("--page-size", STAGES[2], "--page-size", "0")
        self.expect_error("--cache", STAGES[2], "--cache", "square")
        self.expect_error("pages", STAGES[2], "--pages", "1", "--prompt-ids", ",".join(["7"] * 40))

    def test_files(self):
        for stage in ALL:
            self.expect_error("no such directory", stage, "--target", "/nowhere")
            self.expect_error("/nowhere", stage, "--check", "--goldens", "/nowhere")
            self.expect_error("is not the model", stage, "--check", "--goldens", GOLDEN / "goldens" / "draft")


if __name__ == "__main__":
    PROGRAMS, GOLDEN = map(pathlib.Path, sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
