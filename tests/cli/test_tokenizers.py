"""What programs make of tokenizers that are not Llama 3's.

usage: test_tokenizers.py BIN GOLDEN
"""
import json
import pathlib
import shutil
import sys
import unittest

from programs import ProgramTest, run_program

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
MODELS = pathlib.Path(sys.argv.pop(1)).resolve() / "models"
STAGES = sorted(path for path in BIN.glob("[0-9][0-9]_*") if path.name != "00_toy_speculation")
SHORT = ["--max-new-tokens", "3"]
EOT = 3849  # the id of <|eot_id|>


class TokenizerTest(ProgramTest):
    def models(self, change):
        """Options for the embedded pair after a change of both tokenizers."""
        for name in ("target", "draft"):
            shutil.copytree(MODELS / name, self.folder / name)
            path = self.folder / name / "tokenizer.json"
            content = json.loads(path.read_text(encoding="utf-8"))
            change(content)
            path.write_text(json.dumps(content), encoding="utf-8")
        return ["--target", str(self.folder / "target")], ["--draft", str(self.folder / "draft")]


def without_a_byte(content):
    """The byte 0x04 has no token, as in SmolLM2."""
    del content["model"]["vocab"]["\u0104"]


def with_an_unknown_token(content):
    without_a_byte(content)
    content["model"]["unk_token"] = "?"


class MissingBytesTest(TokenizerTest):
    left_out = "note: the vocabulary has no token for 2 of a text's bytes; such bytes are left out\n"

    def test_inspect(self):
        target, _ = self.models(without_a_byte)
        want = run_program(BIN / "inspect", *target, "--ids", "--prompt", "ab")
        self.assertEqual((want[0], want[2]), (0, ""), "nothing is left out")
        self.assertEqual(run_program(BIN / "inspect", *target, "--ids", "--prompt", "\x04" * 2 + "ab")[1:],
                         (want[1], self.left_out))

    def test_inspect_with_an_unknown_token(self):
        target, _ = self.models(with_an_unknown_token)
        want = run_program(BIN / "inspect", *target, "--ids", "--prompt", "??ab")[1]
        self.assertEqual(run_program(BIN / "inspect", *target, "--ids", "--prompt", "\x04\x04ab"),
                         (0, want, self.left_out.replace("are left out", 'become "?"')))

    def test_every_stage_says_so_once(self):
        target, draft = self.models(without_a_byte)
        for stage in STAGES:
            models = target + draft if "--draft " in run_program(stage, "--help")[1] else target
            if stage.name == "09_self_drafting":  # this target has no heads
                models = [*models, "--draft-kind", "llama"]
            with self.subTest(stage=stage.name):
                want = run_program(stage, *models, *SHORT, "--quiet", "--prompt", "Once in")
                self.assertEqual((want[0], want[2]), (0, ""))
                self.assertEqual(run_program(stage, *models, *SHORT, "--quiet", "--prompt", "\x04\x04Once in"),
                                 (0, want[1], self.left_out))

    def test_the_requests_of_a_batch_say_so_once(self):
        target, draft = self.models(without_a_byte)
        path = self.folder / "requests.jsonl"
        path.write_text("".join(json.dumps({"prompt": "\x04\x04Once in", "seed": n}) + "\n" for n in range(3)))
        code, text, errors = run_program(BIN / "06_batched_verification", *target, *draft, *SHORT, "--quiet",
                                         "--requests", str(path), "--output", "json")
        self.assertEqual((code, errors), (0, self.left_out), text)

    def test_a_text_of_which_nothing_is_left(self):
        target, _ = self.models(lambda content: (without_a_byte(content), content.update(post_processor=None)))
        code, _, errors = run_program(BIN / "02_contiguous_kv_cache", *target, *SHORT, "--prompt", "\x04")
        self.assertEqual(code, 2, errors)
        self.assertIn("the prompt has no tokens", errors)


class OtherFilesTest(TokenizerTest):
    """Special tokens that stand in tokenizer_config.json alone."""

    def config(self, name, **content):
        (self.folder / name / "tokenizer_config.json").write_text(json.dumps(content), encoding="utf-8")

    @staticmethod
    def move_eot(content):
        """Without <|eot_id|> and what comes after it."""
        content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < EOT]

    def test_they_are_tokens(self):
        target, draft = self.models(self.move_eot)
        for name in ("target", "draft"):
            self.config(name)
            (self.folder / name / "special_tokens_map.json").unlink()
        spelled = run_program(BIN / "inspect", *target, "--ids", "--prompt", "<|eot_id|>")[1]
        self.assertGreater(spelled.count(","), 5)
        for name in ("target", "draft"):
            self.config(name, added_tokens_decoder={str(EOT): {"content": "<|eot_id|>", "special": True}})
        self.assertEqual(run_program(BIN / "inspect", *target, "--ids", "--prompt", "<|eot_id|>"),
                         (0, f"3840,{EOT}\n", ""))
        code, _, errors = run_program(BIN / "04_greedy_speculation", *target, *draft, *SHORT, "--quiet",
                                      "--prompt", "Once")
        self.assertEqual((code, errors), (0, ""))
        self.config("draft", added_tokens_decoder={str(EOT): {"content": "<|other|>", "special": True}})
        self.expect_bad_input(f'token {EOT} is "<|eot_id|>" (special) in the target\'s tokenizer and "<|other|>"',
                              BIN / "04_greedy_speculation", *target, *draft, *SHORT, "--prompt", "Once")

    def test_one_that_the_model_has_no_row_for(self):
        target, draft = self.models(lambda content: None)
        for name in ("target", "draft"):
            self.config(name, pad_token="[PAD]")
        stage = [BIN / "04_greedy_speculation", *target, *draft, *SHORT, "--quiet", "--prompt"]
        want = run_program(BIN / "04_greedy_speculation", *SHORT, "--quiet", "--prompt", "Once")
        self.assertEqual(run_program(*stage, "Once"), want)
        self.expect_bad_input('the prompt contains the token "[PAD]", for which the model has no row',
                              *stage, "Once[PAD]")
        text = self.folder / "text"
        text.write_text("Once [PAD] in")
        self.expect_bad_input('the text contains the token "[PAD]", for which the model has no row',
                              *stage, "Once", "--draft-kind", "bigram", "--draft-text", str(text))
        content = json.loads((self.folder / "target" / "tokenizer.json").read_text(encoding="utf-8"))
        content["added_tokens"][-1]["id"] = 4096
        (self.folder / "target" / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
        self.expect_bad_input("the tokenizer has ids up to 4096, but the embedding has 4096 rows",
                              BIN / "02_contiguous_kv_cache", *target, *SHORT, "--prompt", "Once")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
