"""Golden files that --check is given are input like any other: what is wrong with them is said in one line.

usage: test_goldens.py BIN GOLDEN

Every stage is given every broken file that it reads. It must end with exit code 2 and name the file, or find that
the numbers differ (1); a signal, a hang or an internal check is a failure.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

from programs import ProgramTest, read_safetensors, write_safetensors

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDEN = pathlib.Path(sys.argv.pop(1)).resolve()
STAGES = sorted(path for path in BIN.glob("[0-9][0-9]_*") if os.access(path, os.X_OK))[1:]  # the toy reads none
OF_TENSORS = [stage for stage in STAGES if stage.name[:2] in ("01", "02", "03")]
OF_TEXTS = [stage for stage in STAGES if stage.name[:2] not in ("01", "02", "03")]
SECONDS = 300
HUGE = 2**31 - 1


def integers(*values):
    return "I32", [len(values)], struct.pack(f"<{len(values)}i", *values)


def scalar(dtype):
    return dtype, [], b"\0\0\0\0"


def with_first(tensor, value):
    """The same with another first number."""
    dtype, shape, data = tensor
    return dtype, shape, struct.pack("<i", value) + data[4:]


def flat(tensor):
    dtype, _, data = tensor
    return dtype, [len(data) // 4], data


def narrower(tensor):
    """A matrix without its last column."""
    dtype, (rows, columns), data = tensor
    return dtype, [rows, columns - 1], data[:4 * rows * (columns - 1)]


def all_but_last(tensor):
    dtype, shape, data = tensor
    return dtype, [shape[0] - 1, *shape[1:]], data[:len(data) // shape[0] * (shape[0] - 1)]


# What is done to a tensor of a file: name, new value by the old one; None takes it out.
STEPS = [(name, change) for names, changes in (
    (("tokens", "token_ids"), (lambda t: scalar("I32"), lambda t: integers(), lambda t: with_first(t, -1),
                               lambda t: with_first(t, HUGE), lambda t: ("F32", *t[1:]), None)),
    (("tokens", "margins", "max_abs", "norms", "top_logits", "top_ids", "full_logits", "full_steps"), (all_but_last,)),
    (("margins", "max_abs", "norms", "top_logits", "full_logits"), (lambda t: scalar("F32"), lambda t: ("F32", [0], b""), None)),
    (("top_logits", "top_ids", "full_logits"), (flat, narrower, lambda t: (t[0], [0, 16], b""))),
    (("top_ids", "full_steps"), (lambda t: with_first(t, -1), lambda t: with_first(t, HUGE), lambda t: scalar("I32"))),
) for name in names for change in changes]
ACTIVATIONS = [("token_ids", change) for change in (
    lambda t: scalar("I32"), lambda t: integers(), lambda t: with_first(t, -1), lambda t: with_first(t, HUGE),
    lambda t: integers(*[1] * 3000), None)] + [("rows", lambda t: integers()), ("rows", lambda t: integers(-1, 0)),
                                               ("rows", lambda t: integers(HUGE))]


def changed(value, *path_and_new):
    """A copy of a JSON value in which one place is another; with ... as the new value, it is taken out."""
    *path, new = path_and_new
    value = json.loads(json.dumps(value))
    at = value
    for key in path[:-1]:
        at = at[key]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


MANIFEST = [("prompts", {}), ("prompts", []), ("prompts", ...), ("prompts", "short", 3), ("prompts", "short", {}),
            ("prompts", "short", "tokens", "x"), ("tolerances", ...), ("tolerances", "logits", ...),
            ("tolerances", "logits", "x"), ("shape", ...), ("shape", "vocab_size", HUGE), ("shape", "vocab_size", 0),
            ("shape", "n_heads", 0), ("shape", "n_heads", HUGE), ("shape", "n_kv_heads", 0), ("shape", "head_dim", 1),
            ("shape", "d_ff", 7), ("inv_freq", []), ("prompts", "short", "norms", {})]
TEXTS = [("tokens", []), ("tokens", ...), ("tokens", 0, -1), ("tokens", 0, HUGE), ("tokens", 0, 1e9), ("tokens", 3),
         ("prompt_ids", []), ("prompt_ids", ...), ("prompt_ids", 0, -1), ("prompt_ids", 0, HUGE),
         ("prompt_ids", [1] * 3000), ("margins", []), ("margins", ...), ("max_abs", "x"), ("draft_tokens", [1]),
         ("draft_tokens", 0, HUGE), ("draft_tokens", "x"), ("id", ...), ("id", {}), ("prompt", 3)]
RUNS = [("tokens", []), ("tokens", 0, HUGE), ("prompt_ids", []), ("prompt_ids", 0, -1), ("prompt_ids", [1] * 3000),
        ("options", ...), ("options", []), ("eos_ids", ...), ("eos_ids", "x"), ("rounds", []), ("rounds", ...),
        ("rounds", [3]), ("rounds", 0, {}), ("rounds", 0, "drafts", []), ("rounds", 0, "drafts", 0, "token", HUGE),
        ("rounds", 0, "tests", [{}]), ("rounds", 0, "emitted", []), ("rounds", 0, "start", "x"),
        ("rounds", 0, "spec_length", HUGE), ("id", ...)] + [
            ("options", key, value) for key, values in {
                "spec_length": (0, -1, 33, HUGE, ...), "context_limit": (0, -1, HUGE, ...),
                "max_new_tokens": (0, -1, HUGE, ...), "seed": (-1, 0.5, ...), "temperature": (-1, "x", ...),
                "top_k": (-1, HUGE + 1, ...), "top_p": (0, 2, ...), "repetition_penalty": (0, -1, ...),
                "draft_temperature": (-1, ...)}.items() for value in values]
NO_JSON_LINES = ["", "{", "[]", "3", "{}\0", '{"id": 1e999}', "\ud800"]


class GoldensTest(ProgramTest):
    def copy(self, model):
        goldens = self.folder / "goldens"
        shutil.rmtree(goldens, ignore_errors=True)
        shutil.copytree(GOLDEN / "goldens" / model, goldens)
        for name in ("greedy.jsonl", "sampling.jsonl"):  # one line is enough
            path = goldens / name
            if path.exists():
                path.write_text(path.read_text().split("\n", maxsplit=1)[0] + "\n")
        return goldens

    def expect_one_line(self, stage, model, goldens, file, what):
        done = subprocess.run([stage, "--check", "--target", GOLDEN / "models" / model, "--goldens", goldens],
                              capture_output=True, check=False, timeout=SECONDS)
        errors = done.stderr.decode()
        self.assertIn(done.returncode, (1, 2), (stage.name, file, what, errors))
        self.assertNotIn("broken invariant", errors, (file, what))
        if done.returncode == 2:
            self.assertEqual(errors.count("\n"), 1, (file, what, errors))
            # What contradicts the manifest may be found in another file.
            self.assertIn(goldens.name if file == "manifest.json" else file, errors, what)

    def try_tensors(self, file, changes, all_stages=OF_TENSORS):
        for number, (name, change) in enumerate(changes):
            goldens = self.copy("draft")
            tensors = read_safetensors(goldens / file)
            if change is None:
                del tensors[name]
            else:
                tensors[name] = change(tensors.get(name, integers(0)))
            write_safetensors(goldens / file, tensors)
            # Each kind of damage at one stage; the first of each tensor at all of them.
            stages = all_stages if number == 0 else all_stages[number % len(all_stages):][:1]
            for stage in stages:
                self.expect_one_line(stage, "draft", goldens, file, (name, number))

    def test_steps(self):
        self.try_tensors("short.steps.safetensors", STEPS)

    def test_activations(self):
        self.try_tensors("short.safetensors", ACTIVATIONS)

    def test_caches(self):
        self.try_tensors("short.cache.safetensors", ACTIVATIONS, OF_TENSORS[1:])

    def test_manifests(self):
        for number, change in enumerate(MANIFEST):
            goldens = self.copy("draft")
            path = goldens / "manifest.json"
            path.write_text(json.dumps(changed(json.loads(path.read_text()), *change)))
            self.expect_one_line(OF_TENSORS[number % len(OF_TENSORS)], "draft", goldens, path.name, change)
        for text in NO_JSON_LINES:
            goldens = self.copy("draft")
            (goldens / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
            for stage in STAGES:
                self.expect_one_line(stage, "draft", goldens, "manifest.json", text)

    def try_lines(self, file, stages, changes):
        for number, change in enumerate(changes):
            goldens = self.copy("target")
            path = goldens / file
            path.write_text(json.dumps(changed(json.loads(path.read_text()), *change)) + "\n")
            self.expect_one_line(stages[number % len(stages)], "target", goldens, file, change)
        for number, text in enumerate(NO_JSON_LINES[1:]):
            goldens = self.copy("target")
            (goldens / file).write_bytes(text.encode(errors="surrogatepass") + b"\n")
            self.expect_one_line(stages[number % len(stages)], "target", goldens, file, text)

    def test_texts(self):
        self.try_lines("greedy.jsonl", OF_TEXTS, TEXTS)

    def test_a_prompt_of_other_ids(self):
        """The tokenizer is checked, too."""
        goldens = self.copy("target")
        line = json.loads((goldens / "greedy.jsonl").read_text())
        (goldens / "greedy.jsonl").write_text(json.dumps({**line, "prompt": line["prompt"] + " more"}) + "\n")
        stage = next(stage for stage in STAGES if stage.name.startswith("03"))
        done = subprocess.run([stage, "--check", "--goldens", goldens], capture_output=True, check=False, timeout=SECONDS,
                              text=True)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, f"FAIL greedy text {line['id']}: .*\n.*; the tokenizer gives other ids for the prompt\n")
        self.assertNotIn("SmolLM2", done.stdout)  # which is checked only where no goldens are named

    def test_missing_files_are_said_to_be_missing(self):
        for stage in STAGES:
            goldens = self.copy("target")
            reads_runs = stage.name[:2] in ("05", "06")
            of_stage = {"05": "sampling.jsonl", "06": "sampling.jsonl", "10": "beams.jsonl"}
            lost = goldens / of_stage.get(stage.name[:2], "greedy.jsonl")
            lost.unlink()
            done = subprocess.run([stage, "--check", "--target", GOLDEN / "models" / "target", "--goldens", goldens],
                                  capture_output=True, check=False, timeout=SECONDS)
            text = done.stdout.decode()
            with self.subTest(stage.name):
                self.assertEqual(text.count("NOT CHECKED: there is no "), 1, done.stderr.decode() + text)
                self.assertRegex(text, r"\d+ of \d+ checks passed, 0 near-ties\nNOT CHECKED: ")
                self.assertTrue(text.endswith(f" there is no {lost}\n"), text)
                checks_others = stage in OF_TENSORS or reads_runs or stage.name.startswith("09")  # rounds of heads
                self.assertEqual(done.returncode, 0 if checks_others else 1, "nothing was checked")

    def test_runs(self):
        stages = [stage for stage in OF_TEXTS if stage.name[:2] in ("05", "06")]
        self.try_lines("sampling.jsonl", stages, RUNS)


if __name__ == "__main__":
    unittest.main()
