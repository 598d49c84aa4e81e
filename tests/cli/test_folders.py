"""Folders that --target and --draft may name, and folders that are no checkpoint.

usage: test_folders.py BIN GOLDEN
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDEN = pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = GOLDEN / "models" / "draft"
STAGES = sorted(path for path in BIN.glob("0[1-9]_*") if os.access(path, os.X_OK))
DRAFTING = [stage for stage in STAGES if stage.name >= "04"]
SHORT = ["--prompt", "Once", "--max-new-tokens", "3"]


def call(program, *options):
    """Exit code, stdout, stderr, as bytes."""
    done = subprocess.run([program, *options], capture_output=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.place = os.fsencode(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)


class NamesTest(FolderTest):
    """The folder's name is in Latin-1, as old archives have it: no UTF-8, and so no JSON text."""

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.place, b"mod\xe8le \xff")
        shutil.copytree(os.fsencode(MODEL), self.folder)
        self.models = ["--target", self.folder]

    def objects(self, program, *options):
        """The JSON of a good run, in strict UTF-8."""
        code, text, errors = call(program, *options)
        self.assertEqual(code, 0, errors)
        return [json.loads(line) for line in text.decode("utf-8").splitlines()]

    def expect_name(self, value):
        self.assertIn("/mod\ufffdle \ufffd", json.dumps(value, ensure_ascii=False))

    def test_results_reports_and_traces_survive(self):
        for program in STAGES:
            with self.subTest(program.name):
                drafting = program in DRAFTING
                report, trace = (os.path.join(self.place, name) for name in (b"r\xe9port", b"tr\xe2ce"))
                options = [*self.models, *SHORT, "--report", report]
                options += ["--draft", self.folder, "--trace", trace] if drafting else []
                self.expect_name(self.objects(program, *options, "--output", "json"))
                for file in [report, trace] if drafting else [report]:
                    with open(file, encoding="utf-8") as stream:
                        self.expect_name([json.loads(line) for line in stream])
                    os.unlink(file)

    def test_inspect(self):
        self.expect_name(self.objects(BIN / "inspect", *self.models, "--output", "json"))

    def test_a_cost_profile_fits_the_run_that_wrote_it(self):
        options = [*self.models, "--draft", self.folder, *SHORT, "--spec-length", "auto"]
        profile = os.path.join(self.place, b"c\xf4ts")
        for _ in range(2):
            code, _, errors = call(BIN / "07_adaptive_drafting", *options, "--cost-profile", profile)
            self.assertEqual(code, 0, errors)
            self.assertNotIn(b"was measured for", errors)

    def test_a_tree_profile_fits_the_run_that_wrote_it(self):
        options = [*self.models, "--draft", self.folder, *SHORT]
        profile = os.path.join(self.place, b"arbr\xe9")
        call(BIN / "08_token_trees", *options, "--write-tree-profile", profile)
        code, _, errors = call(BIN / "08_token_trees", *options, "--tree-profile", profile, "--tree", "best:6")
        self.assertEqual(code, 0, errors)
        self.assertNotIn(b"was measured for", errors)

    def test_an_error_in_a_request_names_the_file(self):
        requests = os.path.join(self.place, b"requ\xeates")
        with open(requests, "w", encoding="utf-8") as stream:
            stream.write('{"prompt": "Once", "max_new_tokens": 3}\n{"prompt": ""}\n')
        for program in (stage for stage in STAGES if stage.name >= "06"):
            code, _, errors = call(program, "--requests", requests, "--output", "json")
            self.assertEqual(code, 2)
            self.assertIn(b":2: prompt is empty", errors)
            self.assertNotIn(b"json.exception", errors)


class OtherFoldersTest(FolderTest):
    """What is no checkpoint is told what it is, in one line, as a target and as a draft."""

    FOLDERS = {
        "lora": (["adapter_config.json", "adapter_model.safetensors"], b"is an adapter (LoRA)"),
        "modelopt": (["config.json", "hf_quant_config.json", "model.safetensors"], b"that ModelOpt quantised"),
        "gguf": (["model-q8_0.gguf"], b"convert it with make real GGUF="),
        "pickle": (["config.json", "pytorch_model.bin"], b"in PyTorch's format"),
        "cache": (["snapshots/0123abc/config.json", "refs/main"], b"is a hub's cache of a model"),
    }

    def make(self, name, files):
        folder = pathlib.Path(os.fsdecode(self.place), name)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("{}")
        return folder

    def expect_refusal(self, words, program, *options):
        code, text, errors = call(program, *options)
        self.assertEqual((code, text, errors.count(b"\n")), (2, b"", 1), errors)
        self.assertIn(words, errors)

    def expect_refusals(self, words, folder):
        for program in [*STAGES, BIN / "inspect"]:
            with self.subTest(f"{program.name} --target {folder.name}"):
                self.expect_refusal(words, program, "--target", folder)
        for program in DRAFTING:
            with self.subTest(f"{program.name} --draft {folder.name}"):
                self.expect_refusal(words, program, "--draft", folder)

    def test_each_is_named(self):
        for name, (files, words) in self.FOLDERS.items():
            self.expect_refusals(words, self.make(name, files))

    def test_a_file_is_named(self):
        file = self.make("models", ["model.gguf"]) / "model.gguf"
        self.expect_refusals(b"llama.cpp's format, GGUF", file)

    def test_links_to_blobs_that_are_gone(self):
        folder = self.make("snapshot", [])
        folder.mkdir()
        for file in MODEL.iterdir():
            os.symlink(f"../../blobs/{file.name}", folder / file.name)
        self.expect_refusals(b"is a link to ../../blobs/config.json, which is not there", folder)


if __name__ == "__main__":
    unittest.main()
