#!/usr/bin/env python3
"""The real model, where `make real` has put it, as a user meets it. Elsewhere this is skipped: exit code 77.

    python3 tests/real/test_real_model.py BUILD
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "stages/programs/real"))
import get_model  # noqa: E402

MODEL = BUILD / "models" / get_model.MODEL
IS_THERE = (MODEL / "model.safetensors").is_file()
GREEDY = ROOT / "golden/goldens/smollm2/greedy.jsonl"
HEADS = ROOT / "golden/heads/smollm2"


def run(stage, *words):
    done = subprocess.run([BUILD / "bin" / stage, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@unittest.skipIf(IS_THERE, "the model is there")
class WithoutTheModel(unittest.TestCase):
    def test_the_check_says_that_it_was_not_made(self):
        code, text, said = run("03_paged_kv_cache", "--check")
        self.assertEqual((code, said), (0, ""))
        self.assertEqual(text.splitlines()[0], "NOT CHECKED: SmolLM2-135M-Instruct, which make real gets")


@unittest.skipUnless(IS_THERE, "make real gets the model")
class WithTheModel(unittest.TestCase):
    def test_its_files_are_what_make_real_makes(self):
        self.assertEqual(get_model.differences(MODEL), [])

    def test_answers_are_those_of_transformers(self):
        """As chats, so that the chat format counts: one message by --chat, several by --chat-file."""
        lines = [json.loads(line) for line in GREEDY.read_text(encoding="utf-8").splitlines()]
        chats = [line for line in lines if "messages" in line]
        self.assertEqual(len(chats), 15)
        for line in chats:
            with self.subTest(line["id"]), tempfile.TemporaryDirectory() as folder:
                messages, file = line["messages"], pathlib.Path(folder) / "messages.json"
                file.write_text(json.dumps(messages), encoding="utf-8")
                asked = ["--chat", messages[0]["content"]] if len(messages) == 1 else ["--chat-file", file]
                code, text, said = run("04_greedy_speculation", "--target", MODEL, "--draft-kind", "lookup", "--output",
                                       "json", *asked, "--max-new-tokens", str(len(line["tokens"])))
                self.assertEqual(code, 0, said)
                self.assertEqual(json.loads(text)["tokens"], line["tokens"])

    @unittest.skipUnless(HEADS.is_dir(), "golden/heads has no heads of it")
    def test_it_drafts_with_its_own_heads(self):
        """EAGLE-3 if no option says otherwise."""
        line = next(line for line in map(json.loads, GREEDY.read_text(encoding="utf-8").splitlines()) if line["id"] == "copy")
        for heads, asked in (("eagle3", []), ("medusa", ["--self-draft", "medusa"]), ("medusa", ["--heads", "smollm2/medusa"])):
            code, text, said = run("09_self_drafting", "--target", MODEL, "--output", "json", "--chat",
                                   line["messages"][0]["content"], "--max-new-tokens", str(len(line["tokens"])), *asked)
            self.assertEqual(code, 0, said)
            report = json.loads(text)
            self.assertEqual(report["tokens"], line["tokens"])
            self.assertTrue(report["draft"]["directory"].endswith(f"smollm2/{heads}"))
            self.assertGreater(report["stats"]["accepted"], 0)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 0 if IS_THERE else 77)
