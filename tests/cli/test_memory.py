"""Programs whose memory is limited: whatever the limit, they end well or say in one line that there is too little.

usage: test_memory.py BIN GOLDEN cpu|emulated
"""
import os
import pathlib
import resource
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDEN = pathlib.Path(sys.argv.pop(1)).resolve()
DEVICE = sys.argv.pop(1)
STAGES = sorted(path for path in BIN.glob("[0-9][0-9]_*") if os.access(path, os.X_OK))[1:]
MEGABYTE = 1 << 20
STEP = 3 if DEVICE == "cpu" else 7  # megabytes
SECONDS = 300  # ends a hang
SMALL = GOLDEN / "models" / "draft"


def run(program, megabytes, *options):
    """Exit code and stderr under a limit of address space."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * MEGABYTE, megabytes * MEGABYTE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    done = subprocess.run([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                          preexec_fn=limit, timeout=SECONDS)
    return done.returncode, done.stderr.decode(errors="replace")


class MemoryTest(unittest.TestCase):
    def expect_good_or_refused(self, program, megabytes, *options):
        """Whether it came to its end."""
        code, errors = run(program, megabytes, *options)
        self.assertIn(code, (0, 2), (program.name, megabytes, errors))
        lines = errors.splitlines()
        others = [line for line in lines if ": warning: " not in line and ": note: " not in line]
        self.assertEqual(len(others), 1 if code == 2 else 0, (program.name, megabytes, errors))
        for line in lines:
            self.assertTrue(line.startswith(program.name + ": "), (program.name, megabytes, errors))
        if code == 2:
            self.assertRegex(others[0], "memory|bytes into memory", (program.name, megabytes))
        return code == 0

    def sweep(self, program, *options):
        """From where a program can be loaded at all to where it comes to its end."""
        least = next(megabytes for megabytes in range(4, 200) if run(program, megabytes, "--version")[0] == 0)
        refused = 0
        for megabytes in range(least, 2000, STEP):
            if self.expect_good_or_refused(program, megabytes, *options):
                break
            refused += 1
        self.assertGreater(refused, 0)
        self.assertLess(megabytes, 1000)

    def test_every_limit_on_every_stage(self):
        short = ("--target", SMALL, "--max-new-tokens", "2", "--quiet", "--prompt", "Once", "--ignore-eos")
        for program in STAGES:
            if DEVICE != "cpu" and program.name < "02":
                continue
            draft = ("--draft", SMALL) if program.name >= "04" else ()
            threads = ("--threads", "2") if program.name >= "02" else ()
            with self.subTest(program.name):
                self.sweep(program, *short, *draft, *threads, "--device", DEVICE)

    @unittest.skipIf(DEVICE != "cpu", "sampling is tried where it is quick")
    def test_sampling_and_files(self):
        for name in ("05_rejection_sampling", "06_batched_verification", "08_token_trees"):
            with self.subTest(name):
                self.sweep(BIN / name, "--target", SMALL, "--draft", SMALL, "--max-new-tokens", "4", "--quiet", "--prompt",
                           "Once", "--temperature", "1", "--top-p", "0.9", "--output", "json", "--report", "/dev/null")

    @unittest.skipIf(DEVICE != "cpu", "heads are tried where they are quick")
    def test_heads(self):
        for heads in ("medusa", "mtp"):
            with self.subTest(heads):
                self.sweep(BIN / "09_self_drafting", "--heads", heads, "--max-new-tokens", "4", "--quiet", "--prompt",
                           "Once upon a time", "--threads", "2")


if __name__ == "__main__":
    unittest.main()
