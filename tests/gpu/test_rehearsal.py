#!/usr/bin/env python3
"""gpu_check.py on the emulation, with stand-ins for NVIDIA's tools: every step begins or is late, what is chosen by name
is there, and all ends in time.

usage: test_rehearsal.py BUILD [Rehearsal.TEST]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu_steps  # noqa: E402
from test_gpu_check import SANITIZER  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
BUDGET = 450
# Instead of a profiler, which would wait for a product of Llama's size.
PROFILER = """#!/bin/sh
while [ "${1#/}" = "$1" ]; do shift; done
for last; do :; done
"$1" --benchmark_list_tests "$last" | grep -q . && echo Duration
"""


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Rehearsal(unittest.TestCase):
    def setUp(self):
        self.place = gpu_steps.Place(BUILD, "emulated")

    def test_tests_that_are_chosen_by_name_are_there(self):
        for name in gpu_steps.LONGEST:
            self.assertIn(name, self.place.tests())
        for _, test, cases in gpu_steps.SANITIZED:
            for case in cases.split(":"):
                self.assertIn("\n  ", output(self.place.test(test), "--gtest_list_tests", f"--gtest_filter={case}"), (test, case))

    def test_benchmarks_that_are_profiled_are_there(self):
        for _, benchmark in gpu_steps.PROFILED:
            self.assertTrue(output(self.place.bench, "--benchmark_list_tests", f"--benchmark_filter={benchmark}"), benchmark)

    def test_all_of_it_ends_in_time(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for tool, text in (("compute-sanitizer", SANITIZER), ("ncu", PROFILER)):
                (folder / tool).write_text(text)
                (folder / tool).chmod(0o755)
            begun = time.monotonic()
            done = subprocess.run([sys.executable, HERE / "gpu_check.py", "--device", "emulated", "--build", BUILD, "--out",
                                   folder / "out", "--budget", str(BUDGET)], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            print(done.stdout, done.stderr)
            self.assertLess(time.monotonic() - begun, BUDGET)
            steps = json.loads((folder / "out/gpu_check.json").read_text(encoding="utf-8"))["steps"]
        verdicts = {step["step"]: step["verdict"] for step in steps}
        self.assertEqual(list(verdicts), ["look at the pack", *(step.name for step in gpu_steps.steps(self.place, folder))])
        for step in ("look at the pack", "reach the device", "passes and products"):
            self.assertEqual(verdicts[step], "PASS", step)
        # The emulation is slow: what has no end in time says so, and nothing else may go wrong.
        for job in (job for step in steps for job in step["jobs"] if job["verdict"] == "FAIL"):
            self.assertIn("no end after", job["why"], job)
        passed = {job["job"] for step in steps for job in step["jobs"] if job["verdict"] == "PASS"}
        self.assertLessEqual({"engine_kernel_test", "runtime_test", "rows_kernel_test", "--spec-length 5"}, passed)


if __name__ == "__main__":
    if BUILD is None:
        sys.exit(__doc__)
    unittest.main()
