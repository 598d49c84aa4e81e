"""The inspect program from outside. usage: test_inspect.py PROGRAM EMBEDDED_TARGET"""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import ProgramTest, run_program


def run(*arguments):
    return run_program(PROGRAM, *arguments)


class InspectTest(ProgramTest):
    def test_shows_the_embedded_target(self):
        code, text, errors = run()
        self.assertEqual((code, errors), (0, ""))
        for words in ("d_model 192", "3 query heads on 1 KV heads, head_dim 128", "4096 tokens",
                      "tied head", "decoded back to the same text: yes"):
            self.assertIn(words, text)
        self.assertNotIn("\x1b", text, "no colours where there is no terminal")

    def test_json_is_one_object(self):
        code, text, _ = run("--output", "json", "--prompt", "Zoë\n")
        self.assertEqual(code, 0)
        result = json.loads(text)
        self.assertEqual(result["text"], "Zoë\n")
        self.assertTrue(result["decodes_back"])
        self.assertEqual(result["tokens"][0], 3840, "<|begin_of_text|>")
        self.assertEqual(result["model"]["head_dim"], 128)

    def test_a_chat_is_one_prompt(self):
        code, text, _ = run("--ids", "--chat", "Hi", "--system", "Be brief.")
        self.assertEqual(code, 0)
        ids = list(map(int, text.split(",")))
        self.assertEqual(ids.count(3840), 1, "one <|begin_of_text|>")
        self.assertEqual(ids.count(3846), 3, "three <|start_header_id|>: system, user, assistant")

    def test_says_how_chats_are_written(self):
        self.assertIn("  chats       as Llama 3.1, by the template in tokenizer_config.json\n", run()[1])
        self.assertEqual(json.loads(run("--output", "json")[1])["model"]["chat_format"], "Llama 3.1")
        folder = shutil.copytree(TARGET, self.folder / "model")
        (folder / "tokenizer_config.json").unlink()
        self.assertIn("  chats       as Llama 3.1, by the special tokens; there is no chat template\n",
                      run("--target", folder)[1])
        (folder / "chat_template.jinja").write_text("{{ messages }}")
        self.assertIn(f'  chats       none: {folder}/chat_template.jinja: the chat template "{{{{ messages }}}}" of 14 '
                      "bytes is unknown", run("--target", folder)[1])
        self.assertNotIn("chat_format", json.loads(run("--target", folder, "--output", "json")[1])["model"])

    def test_a_chat_may_have_several_turns(self):
        chat = self.folder / "chat.json"
        chat.write_text('[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]')
        self.assertEqual(run("--ids", "--chat-file", chat), run("--ids", "--chat", "Hi", "--system", "S"))

    def test_lists_tensors(self):
        _, text, _ = run("--tensors")
        self.assertIn("[4096, 192]       model.embed_tokens.weight", text)

    def test_help_and_version_are_good(self):
        self.expect_help_and_version(PROGRAM, "--target DIR")


class BadInputTest(ProgramTest):
    def expect_error(self, words, *arguments):
        self.expect_bad_input(words, PROGRAM, *arguments)

    def test_wrong_options(self):
        self.expect_error("--nonsense", "--nonsense")
        self.expect_error("--output", "--output", "xml")
        self.expect_error("--target", "--target")
        self.expect_error("--prompt", "--prompt", "a", "--chat", "b")
        self.expect_error("--chat-file", "--chat-file", "a", "--chat", "b")
        self.expect_error("the prompt is empty", "--chat", "")
        self.expect_error("--system", "--system", "a")

    def test_wrong_files(self):
        self.expect_error("no such directory", "--target", "/nowhere")
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory) / "model"
            shutil.copytree(TARGET, copy)
            (copy / "tokenizer.json").unlink()
            code, text, errors = run_program(PROGRAM, "--target", copy)
            self.assertEqual((code, errors), (0, ""))
            self.assertIn("there is no tokenizer.json", text)
            for options in (["--prompt", "a"], ["--chat", "a"], ["--ids"]):
                self.expect_error("no tokenizer.json, so no text can be cut", "--target", copy, *options)
            shutil.copy(pathlib.Path(TARGET) / "tokenizer.json", copy)
            weights = copy / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[:-1])
            self.expect_error("it is truncated", "--target", str(copy))
            (copy / "config.json").write_text("{")
            self.expect_error("config.json: not valid JSON", "--target", str(copy))

    def test_hostile_split_patterns(self):
        def split(regex):
            return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}

        content = json.loads((pathlib.Path(TARGET) / "tokenizer.json").read_text(encoding="utf-8"))
        last = content["pre_tokenizer"]["pretokenizers"][-1]
        hostile = [("gives up at character 0 of the text", [split("(?:a|a){0,20}(?:b|c)")]),
                   ("splits more than 64 times in sequence", [split(" ")] * 25000),
                   ("the property \"Emoji\"", [split(r"\p{Emoji}")])]
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory) / "model"
            shutil.copytree(TARGET, copy)
            for words, splits in hostile:
                content["pre_tokenizer"]["pretokenizers"] = [*splits, last]
                (copy / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
                self.expect_error(words, "--target", str(copy), "--prompt", "a" * 1000)

    def test_text_that_is_not_utf8(self):
        self.expect_error("not UTF-8: byte 0xFF at offset 2", "--prompt", b"ab\xff")


if __name__ == "__main__":
    PROGRAM, TARGET = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
