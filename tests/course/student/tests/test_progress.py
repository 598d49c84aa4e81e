"""What `make progress` keeps of checks, and what it says of each stage."""
import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import terminal
from student import checks, course, progress

TABLE = {"stages": [{"stage": n, "folder": f"0{n}_some_stage", "checks": [], "tasks": [
    {"id": f"{n}.{i}", "title": "a task", "path": f"stages/{n}_{i % 2}.cpp", "points": 10 * i}
    for i in (1, 2, 3, 4)]} for n in (0, 1, 2)]}


class ProgressTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.build = Path(folder.name), Path(folder.name, "build")
        (self.root / "tests/course").mkdir(parents=True)
        (self.root / "tests/course/tasks.json").write_text(json.dumps(TABLE), encoding="utf-8")
        for name in ("stages", "common", "kernels"):
            (self.root / name).mkdir()
        for n in (0, 1, 2):
            for i in (0, 1):
                self.source(n, i).write_text(f"// {n} {i}\n", encoding="utf-8")

    def source(self, number, i):
        return self.root / f"stages/{number}_{i}.cpp"

    def save(self, number, *statuses):
        progress.save(self.build, number, {f"{number}.{i}": status for i, status in enumerate(statuses, 1)}, self.root)

    def said(self):
        """The lines that are printed."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.assertEqual(progress.main(["--root", str(self.root), "--build", str(self.build)]), 0)
        return text.getvalue().splitlines()

    def test_done_is_what_a_check_calls_passed(self):
        self.assertEqual(progress.DONE, checks.PASS)

    def test_what_was_saved_is_loaded_and_other_stages_stay(self):
        self.save(0, checks.PASS, checks.FAIL, checks.ERROR, checks.NOT_CHECKED)
        self.save(2, *[checks.PASS] * 4)
        self.save(0, checks.PASS, checks.PASS, checks.FAIL, checks.ERROR)
        loaded = progress.load(self.build)
        self.assertEqual({n: list(entry["tasks"].values()) for n, entry in loaded.items()},
                         {0: ["pass", "pass", "fail", "error"], 2: ["pass"] * 4})
        self.assertEqual([path.name for path in (self.build / "course").iterdir()], ["progress.json"])

    def test_each_stage_has_a_line(self):
        self.save(0, *[checks.PASS] * 4)
        self.save(1, checks.PASS, checks.FAIL, checks.ERROR, checks.NOT_CHECKED)
        self.assertEqual(self.said(), [
            "Stage 0  some stage              ####################  4 of 4 tasks, 100 of 100 points",
            "Stage 1  some stage              #####...............  1 of 4 tasks, 10 of 100 points",
            "Stage 2  some stage              not checked yet: make check STAGE=2"])

    def test_a_stage_whose_files_changed_says_so_until_they_are_as_before(self):
        self.save(0, *[checks.PASS] * 4)
        self.save(1, *[checks.PASS] * 4)
        before = self.source(1, 1).read_bytes()
        self.source(1, 1).write_bytes(before + b"// more\n")
        self.assertIn("4 of 4 tasks", self.said()[0])
        self.assertEqual(self.said()[1], "Stage 1  some stage              changed since its last check: make check STAGE=1")
        self.source(1, 1).write_bytes(before)  # the time differs, the bytes do not
        self.assertIn("4 of 4 tasks", self.said()[1])
        self.source(1, 0).unlink()
        self.assertIn("changed since", self.said()[1])

    def test_an_edit_during_a_check_is_a_change(self):
        before = progress.digest(self.root, course.load(self.root)[1])
        self.source(1, 0).write_text("// edited while the check ran\n", encoding="utf-8")
        progress.save(self.build, 1, {"1.1": checks.PASS}, self.root, before)
        self.assertIn("changed since", self.said()[1])

    def test_bytes_that_move_between_files_are_a_change(self):
        self.save(1, *[checks.PASS] * 4)
        one, other = self.source(1, 0).read_bytes(), self.source(1, 1).read_bytes()
        self.source(1, 0).write_bytes(one + other)
        self.source(1, 1).write_bytes(b"")
        self.assertIn("changed since", self.said()[1])

    def test_what_is_no_progress_counts_as_nothing(self):
        self.save(0, *[checks.PASS] * 4)
        good = json.loads(progress.path_of(self.build).read_text(encoding="utf-8"))
        for bad in ("", "[]", "7", '{"0": 3}', '{"0": {"tasks": [], "files": ""}}',
                    '{"0": {"tasks": {"0.1": 1}, "files": ""}}', '{"0": {"tasks": {}}}', json.dumps({"zero": good["0"]})):
            progress.path_of(self.build).write_text(bad, encoding="utf-8")
            self.assertEqual(progress.load(self.build), {}, bad)
            self.assertIn("not checked yet", self.said()[0])
            self.save(1, *[checks.PASS] * 4)  # and does not keep a check from saving
            self.assertEqual(list(progress.load(self.build)), [1])

    def test_colours_only_on_terminals(self):
        self.save(0, *[checks.PASS] * 4)
        self.assertNotIn("\033", "".join(self.said()))
        with unittest.mock.patch.object(terminal, "coloured", lambda text, colour: f"<{colour}:{text}>"):
            self.assertIn("<green:####", self.said()[0])
        self.assertEqual(progress.coloured, terminal.coloured)

    def test_a_table_that_cannot_be_read_is_told(self):
        (self.root / "tests/course/tasks.json").write_text("no table", encoding="utf-8")
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            self.assertEqual(progress.main(["--root", str(self.root)]), 2)
        self.assertRegex(text.getvalue(), r"^progress: .*tasks.json: not valid JSON.*\n$")


if __name__ == "__main__":
    unittest.main()
