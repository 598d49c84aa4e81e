#!/usr/bin/env python3
"""Tests of docs/experiments/real.py on programs that only pretend, of its tables, and of the real prompts.

usage: test_real.py PROGRAM, which takes the prompts as --requests
"""
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

EXPERIMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs/experiments"
sys.path.insert(0, str(EXPERIMENTS))
import real  # noqa: E402
import real_tables  # noqa: E402
import table_text  # noqa: E402

KINDS = ["chat", "translation", "summary", "question", "mathematics", "retrieval", "code", "rewriting"]
# Answers as the programs do. Its texts are the prompt's length; 10 passes a text, 5 by speculation, with 4 of 5 accepted.
PRETENDER = '''#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
plain = "--no-speculation" in words
def result(id, prompt):
    tokens = [len(prompt)] + [7] * 9 + WRONG
    stats = {"emitted": 10, "rounds": 10 if plain else 5, "drafted": 0 if plain else 10, "tested": 0 if plain else 5,
             "accepted": 0 if plain else 4, "mean_spec_length": 2.0, "decode_seconds": 1.0 if plain else 0.4, "c": 0.0, "v": 1.1,
             **({} if plain else {"speedup_accounting": 2.6})}
    return {"id": id, "tokens": tokens, "stats": stats, "device": "a pretender"}
if "--requests" in words:
    for line in open(value("--requests")):
        request = json.loads(line)
        print(json.dumps(result(request["id"], request["chat"])))
    print(json.dumps({"summary": {"model": {"directory": "x", "d_model": 8}}}))
else:
    print(json.dumps(result("", value("--chat"))))
'''


def run_on_pretenders(folder, wrong="[]"):
    """real.py --quick; wrong: tokens that a text has more, a Python expression."""
    for program in (real.ADAPTIVE, real.TREES, real.SELF):
        file = folder / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(PRETENDER.replace("WRONG", wrong), encoding="utf-8")
        file.chmod(0o755)
    model = folder / "models/SmolLM2-135M-Instruct"
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.safetensors").write_bytes(bytes(1000))
    return subprocess.run([sys.executable, EXPERIMENTS / "real.py", "--quick", "--build", folder, "--out", folder / "real.json"],
                          capture_output=True, text=True)


def rows(name, data):
    lines = real_tables.TABLES[name](data).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


class Prompts(unittest.TestCase):
    lines = (EXPERIMENTS / "real_prompts.jsonl").read_text(encoding="utf-8").splitlines()

    def test_eight_kinds_of_twelve(self):
        requests = [json.loads(line) for line in self.lines]
        self.assertEqual([request["id"] for request in requests], [f"{kind}-{i:02}" for kind in KINDS for i in range(1, 13)])
        self.assertEqual(len({json.dumps(request["chat"]) for request in requests}), 96)
        for request in requests:
            self.assertEqual(set(request), {"id", "chat"})

    def test_some_chats_have_turns_that_end_with_the_users(self):
        chats = [request["chat"] for request in map(json.loads, self.lines) if isinstance(request["chat"], list)]
        self.assertGreaterEqual(len(chats), 4)
        for chat in chats:
            self.assertEqual([message["role"] for message in chat], (["user", "assistant"] * len(chat))[:len(chat)])
            self.assertEqual(len(chat) % 2, 1)

    def test_texts_to_work_on_are_neither_short_nor_long(self):
        for request in map(json.loads, self.lines):
            if request["id"].startswith(("summary", "retrieval", "rewriting")):
                self.assertTrue(80 <= len(request["chat"].split()) <= 250, request["id"])

    def test_the_program_takes_all_of_them(self):
        done = subprocess.run([PROGRAM, "--requests", EXPERIMENTS / "real_prompts.jsonl", "--max-new-tokens", "1",
                               "--no-speculation", "--output", "json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        *results, _ = map(json.loads, done.stdout.splitlines())
        self.assertEqual({result["stats"]["emitted"] for result in results}, {1})
        self.assertEqual(collections.Counter(real.kind_of(result) for result in results), {kind: 12 for kind in KINDS})


class Measuring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_quick_run_and_its_tables(self):
        done = run_on_pretenders(self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        data = json.loads((self.folder / "real.json").read_text(encoding="utf-8"))
        lookup = table_text.Entries(data["counts"]["entries"]).of(length="K = 5", drafter="lookup")
        self.assertEqual(list(lookup.by("text")), ["code", "rewriting"])
        self.assertEqual([lookup[0][name] for name in real.COUNTED], [10, 5, 10, 5, 4])
        self.assertEqual(rows("real-kinds", data)[1][:3], ["code", "0.80", "2.00"])
        self.assertEqual(rows("real-kinds", data)[-1][0], "all")
        self.assertEqual(rows("real-lengths", data)[1][:3], ["lookup", "0", "2.00"])
        self.assertEqual(rows("real-heads", data)[1], ["code", *["0.80", "2.00"] * 3])
        self.assertEqual(rows("real-heads-lengths", data)[1], ["EAGLE-3", "0", *["2.00"] * 4])
        self.assertEqual(rows("real-heads-clock", data)[0][2], "EAGLE-3, K = 2")
        heads, code, *_, every = rows("real-clock", data)
        self.assertEqual(heads[:3], ["prompts", "tokens/s, plain", "lookup, K = 3"])
        self.assertEqual(code[:3], ["code", "10", "2.50 (2.60)"])
        self.assertEqual(every, ["all", "10", *["2.50 (2.60)"] * len(real.CLOCKED)])
        self.assertIn("A smoke test", real_tables.TABLES["real-where"](data).replace("\n", " "))
        self.assertEqual(real_tables.row(data, str)[2:5], ["10", "25", "**2.5x**"])
        self.assertEqual(real_tables.summary_row(data)[3:], ["0.80", "10", "25", "**2.5x**"])

    def test_a_changed_greedy_text_ends_the_run(self):
        done = run_on_pretenders(self.folder, wrong='([1] if "ngram" in words and "temperature" not in words else [])')
        self.assertEqual(done.returncode, 1)
        self.assertIn("code-01: two ways wrote different texts", done.stderr)

    def test_without_the_model(self):
        run_on_pretenders(self.folder)
        shutil.rmtree(self.folder / "models")
        done = subprocess.run([sys.executable, EXPERIMENTS / "real.py", "--build", self.folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("SmolLM2-135M-Instruct is not there: make real", done.stderr)


class Tables(unittest.TestCase):
    def test_what_was_not_measured_says_so(self):
        for data in (None, {}):
            for make in real_tables.TABLES.values():
                self.assertEqual(make(data), real_tables.NOTHING)
            self.assertEqual(real_tables.row(data, str)[4], "not measured yet")
            self.assertEqual(real_tables.summary_row(data)[-1], "not measured yet")

    def test_a_setting_that_was_not_run_is_an_empty_cell(self):
        counts = {"emitted": 30, "rounds": 10, "drafted": 9, "tested": 0, "accepted": 0}
        part = {"entries": [{"drafter": "lookup", "length": "K = 5", "T": 0, "prompts": 3, "text": "chat", **counts}]}
        self.assertEqual(rows("real-kinds", {"counts": part})[1:],
                         [["chat", "", "3.00", "", "", "", "", ""], ["all", "", "3.00", "", "", "", "", ""]])
        self.assertEqual(rows("real-lengths", {"counts": part})[1], ["lookup", "0", *[""] * 4, "3.00", *[""] * 7])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
