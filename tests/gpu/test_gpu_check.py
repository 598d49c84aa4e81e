#!/usr/bin/env python3
"""gpu_pack.py and gpu_check.py on stand-ins: scripts that are called like the programs and NVIDIA's tools. What the steps
do on the emulation: test_rehearsal.py."""
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import bounded  # noqa: E402
import gpu_check  # noqa: E402
import gpu_steps  # noqa: E402
from bounded import Bounded, Job, Step  # noqa: E402

sys.path.append(str(gpu_steps.REPOSITORY / "docs/experiments"))
import gpu_tables  # noqa: E402
from table_text import Results  # noqa: E402

HANGS = ["sh", "-c", "trap '' TERM; sleep 300 & echo $! ; wait"]
FORWARD = "forward/shape:3b/gemm:invariant/context:64/M:1/iterations:1/manual_time"
GPU = {"backend": "CUDA, Some GPU", "gpu": "Some GPU", "compute_capability": "9.0", "multiprocessors": "132",
       "memory_bytes": "80000000000", "cuda": "13.0", "driver_cuda": "13.1"}
COUNTERS = {"seconds": 0.003, "bandwidth": 3e12, "of_bandwidth": 0.7, "samples": 9}
BENCHMARK = f"""#!/bin/sh
case "$*" in *list_tests*) echo {FORWARD}; exit ;; esac
echo '{json.dumps(GPU)}'
while read -r name; do echo '{json.dumps(COUNTERS)}'; done
"""
STAGE = """#!/bin/sh
case "$*" in *json*) echo '{"stats": {"tokens_per_second": 123, "alpha": 0.8}}' ;; esac
"""
SANITIZER = """#!/bin/sh
while [ "${1#/}" = "$1" ]; do shift; done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
"""


def runs(pid):
    """Whether a process is there and has not ended."""
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
        return file


class Bounds(Folder):
    def run_jobs(self, *jobs, seconds=60.0, most=60.0, parallel=1):
        return Bounded(seconds + 2 * bounded.GRACE, self.folder).run(Step("step", most, "log", list(jobs), parallel))

    def expect(self, result, verdict, why=""):
        self.assertEqual(result.verdict, verdict, result)
        self.assertIn(why, result.why)

    def test_exit_codes_and_words(self):
        results = self.run_jobs(Job("good", ["echo", "two words"], 5, "two w"), Job("bad", ["false"], 5),
                                Job("quiet", ["true"], 5, "a word"), Job("gone", [self.folder / "nothing"], 5),
                                Job("variable", ["sh", "-c", "test $A = b"], 5, "", {"A": "b"}))
        for result, verdict, why in zip(results, ("PASS", "FAIL", "FAIL", "FAIL", "PASS"),
                                        ("", "exit code 1", "'a word'", "No such file", "")):
            self.expect(result, verdict, why)
        self.assertEqual(bounded.verdict_of(results), "FAIL")
        self.assertIn("=== PASS good", (self.folder / "log").read_text())
        self.assertIn("two words", (self.folder / "log").read_text())

    def test_what_hangs_is_ended_with_its_children(self):
        begun = time.monotonic()
        [result] = self.run_jobs(Job("hangs", HANGS, 0.5))
        self.expect(result, "FAIL", "no end after 0.5 s")
        self.assertLess(time.monotonic() - begun, 30)
        self.assertFalse(runs(result.output.strip()))

    def test_the_end_of_all_is_late(self):
        results = self.run_jobs(Job("hangs", HANGS, 100), Job("never begins", ["true"], 5), seconds=1.0)
        self.expect(results[0], "LATE", "ended")
        self.expect(results[1], "LATE")
        self.assertEqual(bounded.verdict_of(results), "LATE")

    def test_the_end_of_a_step(self):
        results = self.run_jobs(*(Job(str(i), ["sleep", "300"], 100) for i in range(4)), most=0.5, parallel=2)
        self.assertEqual([result.verdict for result in results], ["LATE"] * 4)

    def test_a_long_output_keeps_its_end(self):
        [result] = self.run_jobs(Job("long", ["sh", "-c", f"yes | head -c {2 * bounded.KEPT}; echo end"], 20))
        self.assertEqual((len(result.output), result.output[-4:]), (bounded.KEPT, "end\n"))


class Pack(Folder):
    def build(self, *names):
        for name in names:
            (self.folder / "build" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("true"), self.folder / "build" / name)
        commands = [{"file": "/x/common/llama.cpp"}, {"file": "/x/other.cpp"}]
        (self.folder / "build/compile_commands.json").write_text(json.dumps(commands))

    def pack(self, *words):
        return subprocess.run([sys.executable, HERE / "gpu_pack.py", "--no-build", "--build", self.folder / "build", "--out",
                               self.folder / "pack", *words], capture_output=True, text=True, check=False)

    def test_holds_programs_and_what_they_were_made_from(self):
        names = ("bin/05_a", "bin/10_b", "bin/bench/cuda_benchmark", "tests/bin/a_test_gpu")
        self.build(*names, "bin/inspect", "tests/bin/a_test")
        done = self.pack()
        self.assertEqual(done.returncode, 0, done.stderr)
        build, about = gpu_check.unpacked(self.folder / "pack", self.folder / "there")
        self.assertEqual(sorted(path.relative_to(build).as_posix() for path in build.rglob("*") if path.is_file()),
                         sorted([*names, "compile_commands.json"]))
        self.assertEqual(subprocess.run([build / names[0]], check=False).returncode, 0)
        self.assertEqual(json.loads((build / "compile_commands.json").read_text()), [{"file": "/x/common/llama.cpp"}])
        self.assertEqual(about["architecture"], "90-real")
        self.assertEqual(list(gpu_check.problems(gpu_steps.Place(build, "cuda"), about)), [])
        about["sources_sha256"] = "0"
        self.assertIn("other sources", next(gpu_check.problems(gpu_steps.Place(build, "cuda"), about)))

    def test_refuses_what_is_too_large_or_incomplete(self):
        self.build("bin/05_a", "bin/bench/cuda_benchmark", "tests/bin/a_test_gpu")
        done = self.pack("--limit", "1")
        self.assertEqual((done.returncode, "more than 1 MiB" in done.stderr), (2, True), done.stderr)
        (self.folder / "build/tests/bin/a_test_gpu").unlink()
        self.assertIn("lacks programs", self.pack().stderr)


class Check(Folder):
    def setUp(self):
        super().setUp()
        for name in ("02_contiguous_kv_cache", "04_greedy_speculation", "05_rejection_sampling"):
            self.script(f"pack/build/bin/{name}", STAGE)
        self.script("pack/build/bin/bench/cuda_benchmark", BENCHMARK)
        for test in {test for _, test, _ in gpu_steps.SANITIZED} | {"runtime_test"}:
            self.script(f"pack/build/tests/bin/{test}_gpu", "#!/bin/sh\ntest \"$SPECDEC_REQUIRE_GPU\" = 1\n")
        self.script("tools/compute-sanitizer", SANITIZER)
        self.script("tools/ncu", "#!/bin/sh\necho Duration usecond 12\n")
        self.gpu("9.0")
        self.out = self.folder / "out"

    def gpu(self, capability):
        self.script("tools/nvidia-smi", f"""#!/bin/sh
case "$*" in *name*) echo Some GPU, {capability}, 580.1, 80000 MiB ;; *) echo {capability} ;; esac
""")

    def check(self, *words):
        """(exit code, what it prints, its results, step -> verdict)"""
        about = json.dumps({"commit": "abc", "architecture": "90-real"}).encode()
        with tarfile.open(self.folder / "pack.tar.xz", "w:xz") as pack:
            pack.add(self.folder / "pack/build", "build")
            entry = tarfile.TarInfo("about.json")
            entry.size = len(about)
            pack.addfile(entry, io.BytesIO(about))
        path = f"{self.folder / 'tools'}:{os.environ['PATH']}"
        done = subprocess.run([sys.executable, HERE / "gpu_check.py", "--pack", self.folder / "pack.tar.xz", "--out", self.out,
                               *words], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
        self.assertEqual(done.stderr, "")
        results = json.loads((self.out / "gpu_check.json").read_text(encoding="utf-8"))
        return done.returncode, done.stdout, results, {step["step"]: step["verdict"] for step in results["steps"]}

    def test_all_that_passes(self):
        code, text, results, verdicts = self.check("--only", "^(?!tests)")
        self.assertEqual((code, set(verdicts.values())), (0, {"PASS"}), text)
        self.assertEqual(list(verdicts), ["look at the pack", "reach the device", "passes and products", "tokens per second",
                                          "compute-sanitizer", "memcheck of the engine", "profiles"])
        self.assertEqual(results["machine"]["gpu"], "Some GPU")
        self.assertEqual((results["commit"], len(results["sources_sha256"])), ("abc", 64))
        self.assertEqual(results["tokens_per_second"]["--spec-length 5"]["tokens_per_second"], 123)
        self.assertEqual(json.loads((self.out / "cuda.json").read_text())["benchmarks"][0]["of_bandwidth"], 0.7)
        self.assertLessEqual(len(list(self.out.iterdir())), 8)
        table = gpu_tables.TABLES["gpu-checked"](Results(results))
        for words in ("| tokens per second | PASS |", "| --spec-length 5 | 123.0 | 0.80 |", "Some GPU", "built for 90-real"):
            self.assertIn(words, table)

    def test_each_failure_has_its_name(self):
        """A tool that is not there fails, too. So do the tests of stages, because here the stages do nothing."""
        self.script("pack/build/tests/bin/matmul_kernel_test_gpu", "#!/bin/sh\necho '[  FAILED  ] Case.Of'; exit 1\n")
        self.script("tools/ncu", "#!/bin/sh\necho no counters\n")
        finding = "EXPERIMENT: 7 of 9 sums have different bits"
        self.script("pack/build/tests/bin/warpgroup_kernel_test_gpu", f"#!/bin/sh\necho '{finding}'\n")
        code, text, results, verdicts = self.check()
        self.assertEqual((code, verdicts["tests"], verdicts["profiles"]), (1, "FAIL", "FAIL"), text)
        jobs = {job["job"]: job for step in results["steps"] if step["step"] == "tests" for job in step["jobs"]}
        for name, verdict in (("matmul_kernel_test", "FAIL"), ("test_device.py", "FAIL"), ("runtime_test", "PASS")):
            self.assertEqual(jobs[name]["verdict"], verdict, name)
        self.assertEqual(results["experiments"], [finding])
        self.assertIn(f"\n{finding}\n", text)
        self.assertIn("[  FAILED  ] Case.Of", text)
        self.assertIn("; matmul_kernel_test (exit code 1)\n", text)

    def test_nothing_is_skipped_where_all_can_run(self):
        self.script("pack/build/tests/bin/tma_kernel_test_gpu", "#!/bin/sh\necho '[  SKIPPED ] TmaKernel.HasBits (0 ms)'\n")
        for capability, verdict in (("9.0", "FAIL"), ("10.3", "FAIL"), ("8.9", "PASS")):
            self.gpu(capability)
            _, text, results, _ = self.check("--only", "^tests")
            jobs = {job["job"]: job for step in results["steps"] for job in step["jobs"]}
            self.assertEqual(jobs["tma_kernel_test"]["verdict"], verdict, text)
            if verdict == "FAIL":
                self.assertIn("SKIPPED", jobs["tma_kernel_test"]["why"])

    def test_what_hangs_ends_with_the_budget(self):
        self.script("pack/build/tests/bin/engine_kernel_test_gpu", "#!/bin/sh\nsleep 300\n")
        begun = time.monotonic()
        code, text, results, verdicts = self.check("--budget", "14")
        self.assertLess(time.monotonic() - begun, 200)
        self.assertEqual((code, verdicts["profiles"]), (1, "LATE"), text)
        jobs = {job["job"]: job for step in results["steps"] if step["step"] == "tests" for job in step["jobs"]}
        self.assertEqual(jobs["engine_kernel_test"]["verdict"], "LATE")

    def test_without_a_gpu_nothing_more_begins(self):
        self.script("pack/build/bin/02_contiguous_kv_cache", "#!/bin/sh\necho no NVIDIA driver is installed; exit 1\n")
        code, text, _, verdicts = self.check()
        self.assertEqual((code, verdicts["reach the device"]), (1, "FAIL"), text)
        self.assertEqual({verdict for step, verdict in verdicts.items() if step not in ("look at the pack", "reach the device")},
                         {"LATE"})
        self.assertIn("no NVIDIA driver is installed", text)

    def test_without_a_pack(self):
        done = subprocess.run([sys.executable, HERE / "gpu_check.py", "--pack", self.folder / "none", "--out", self.out],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "make gpu-pack" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
