"""Folders that --target and --draft may name, and folders that are no checkpoint.

usage: test_folders.py BIN GOLDEN
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from programs import ProgramTest

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


class NamesTest(ProgramTest):
    """The folder's name is in Latin-1, as old archives have it: no UTF-8, and so no JSON text."""

    def setUp(self):
        self.place = os.fsencode(self.folder)
        self.model = os.path.join(self.place, b"mod\xe8le \xff")
        shutil.copytree(os.fsencode(MODEL), self.model)
        self.models = ["--target", self.model]

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
                options += ["--draft", self.model, "--trace", trace] if drafting else []
                self.expect_name(self.objects(program, *options, "--output", "json"))
                for file in [report, trace] if drafting else [report]:
                    with open(file, encoding="utf-8") as stream:
                        self.expect_name([json.loads(line) for line in stream])
                    os.unlink(file)

    def test_inspect(self):
        self.expect_name(self.objects(BIN / "inspect", *self.models, "--output", "json"))

    def test_a_cost_profile_fits_the_run_that_wrote_it(self):
        options = [*self.models, "--draft", self.model, *SHORT, "--spec-length", "auto"]
        profile = os.path.join(self.place, b"c\xf4ts")
        for _ in range(2):
            code, _, errors = call(BIN / "07_adaptive_drafting", *options, "--cost-profile", profile)
            self.assertEqual(code, 0, errors)
            self.assertNotIn(b"was measured for", errors)

    def test_a_tree_profile_fits_the_run_that_wrote_it(self):
        options = [*self.models, "--draft", self.model, *SHORT]
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


class GoldenFolderTest(ProgramTest):
    """A program that was copied with its golden folder takes the models from there."""

    def directory(self, program, **variables):
        environment = {name: value for name, value in os.environ.items() if name != "SPECDEC_GOLDEN"} | variables
        done = subprocess.run([program, *SHORT, "--output", "json"], capture_output=True, check=True, env=environment)
        return json.loads(done.stdout)["model"]["directory"]

    def test_beside_the_program_or_named(self):
        place = self.folder.resolve()
        program = place / "a/build/bin" / STAGES[1].name
        program.parent.mkdir(parents=True)
        shutil.copy(STAGES[1], program)
        self.assertEqual(self.directory(program), str(GOLDEN / "models/target"))  # where it was built
        for golden in (place / "a/golden", place / "b/golden"):
            shutil.copytree(MODEL, golden / "models/target")
        self.assertEqual(self.directory(program), str(place / "a/golden/models/target"))
        named = place / "b/golden"
        self.assertEqual(self.directory(program, SPECDEC_GOLDEN=str(named)), str(named / "models/target"))


class OtherFoldersTest(ProgramTest):
    def test_every_program_says_what_is_no_checkpoint(self):
        """Here an adapter. What it says of all other folders: other_folders_test.cpp."""
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            (self.folder / file).write_text("{}")
        for option, programs in (("--target", [*STAGES, BIN / "inspect"]), ("--draft", DRAFTING)):
            for program in programs:
                with self.subTest(f"{program.name} {option}"):
                    self.expect_bad_input("is an adapter (LoRA)", program, option, self.folder)


if __name__ == "__main__":
    unittest.main()
