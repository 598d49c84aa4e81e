#!/usr/bin/env python3
"""Tests of cuda_bench.py and of the tables that are made from what it writes, on a run that never
happened."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
sys.path[:0] = [str(DOCS / "experiments"), str(DOCS / "figures")]
import cuda_bench  # noqa: E402
import cuda_tables  # noqa: E402
import run  # noqa: E402
import tables  # noqa: E402

CONTEXT = {"backend": "CUDA, Some GPU", "gpu": "Some GPU", "compute_capability": "9.0", "multiprocessors": "132",
           "memory_bytes": "80000000000", "cuda": "13.0", "driver_cuda": "13.1"}
NAMES = [
    "rms_norm/shape:1b/width:2048/step:1_naive", "rms_norm/shape:1b/width:2048/step:engine",
    "rope_store_kv/shape:3b/width:3072/step:engine",
    *(f"matmul/shape:1b/matrix:{matrix}/step:{step}" for matrix in ("gate_up", "qkv")
      for step in ("engine", "4_rows", "cublas", "2_warp")),
    "attention/shape:3b/context:4096/step:1_naive", "attention/shape:3b/context:4096/step:engine",
    "argmax/step:2_block", "choose/from:top_p_0.9", "judge/from:all",
    "forward/shape:1b/gemm:invariant/context:64", "forward/shape:1b/gemm:plain/context:64"]


def output(**first):
    """As Google Benchmark writes it: a run takes 10 us x M at half the bandwidth, and is 0.8 of cuBLAS' time. first: of
    the first benchmark."""
    def entry(name, M):
        return {"name": f"{name}/M:{M}/iterations:1/manual_time", "run_name": name, "iterations": 1, "real_time": 1.0,
                "time_unit": "us", "seconds": 1e-5 * M, "bandwidth": 3e12, "copy_bandwidth": 2.5e12, "bytes_per_second": 1.5e12,
                "flops_per_second": 2.5e14, "of_bandwidth": 0.5, "samples": 15, "over_cublas": 0.8,
                "cublas_seconds": 1.25e-5 * M, "over_one_row": 1 + M / 100, "over_one_by_one": 0.9, "one_row_seconds": 1e-5}
    benchmarks = [entry(name, M) for name in NAMES for M in (1, 6, 64)]
    benchmarks[0].update(first)
    return {"context": dict(CONTEXT), "benchmarks": benchmarks}


def sample():
    with unittest.mock.patch.object(cuda_bench, "driver", lambda: "580.1"), \
         unittest.mock.patch.object(run, "machine", lambda: {"cpu": "Some CPU"}):
        return cuda_bench.results_of(output(), pathlib.Path("/nowhere"), "--samples=15")


def made(name, data="sample", stale=False):
    return cuda_tables.TABLES[name](cuda_tables.Measured(sample() if data == "sample" else data, stale))


def rows(name, caption=0, **options):
    """The cells of one of a block's tables."""
    parts = made(name, **options).split("|\n\n")
    lines = [line for line in parts[caption].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]


class Tables(unittest.TestCase):
    def test_nothing_measured_is_one_line(self):
        self.assertEqual(list(cuda_tables.TABLES), ["cuda-norms", "cuda-products", "cuda-attention", "cuda-sampling",
                                                    "cuda-forward"])
        for name in cuda_tables.TABLES:
            text = made(name, data=None)
            self.assertTrue(text.startswith("NOT MEASURED: ") and text.count("\n") == 1, text)
            self.assertIn("NOT MEASURED", made(name, data={**sample(), "benchmarks": []}))

    def test_cells(self):
        """(table, part, row) -> the first cells."""
        found = {("norms", 0, 0): ["shape", "kernel", "width", "step", "M = 1", "M = 6", "M = 64"],
                 ("norms", 0, 1): ["1b", "rms_norm", "2048", "1_naive", "10.0 (0.50)", "60.0 (0.50)", "640 (0.50)"],
                 ("norms", 0, 3): ["3b", "rope_store_kv", "3072", "engine", "10.0 (0.50)"],
                 ("products", 0, 4): ["1b", "2_warp", "10.0 (0.50)"],
                 ("products", 1, 0): ["shape", "step", "M = 64"], ("products", 1, 3): ["1b", "cublas", "250.0"],
                 ("products", 2, 2): ["1b", "qkv"], ("products", 3, 1): ["1b", "gate_up", "0.80", "0.80", "0.80"],
                 ("products", 4, 2): ["1b", "qkv", "1.01", "1.06", "1.64"],
                 ("attention", 0, 1): ["3b", "4096", "1_naive", "10.0 (0.50)"],
                 ("attention", 1, 1): ["3b", "4096", "1.01", "1.06", "1.64"],
                 ("sampling", 0, 1): ["2_block", "10.0 (0.50)"], ("sampling", 1, 1): ["choose", "top_p_0.9"],
                 ("sampling", 1, 2): ["judge", "all"],
                 ("forward", 0, 1): ["1b", "invariant", "64", "0.01 (0.50)", "0.06 (0.50)", "0.64 (0.50)"],
                 ("forward", 1, 2): ["1b", "plain", "64", "1.01", "1.06", "1.64"],
                 ("forward", 2, 2): ["1b", "plain", "64", "0.90", "0.90", "0.90"]}
        for (name, part, row), cells in found.items():
            self.assertEqual(rows(f"cuda-{name}", part)[row][:len(cells)], cells, (name, part, row))
        self.assertEqual([len(rows("cuda-products", part)) for part in range(6)], [5, 4, 3, 3, 3, 3])

    def test_a_number_of_rows_that_one_step_lacks_stays_empty(self):
        data = sample()
        data["benchmarks"] = [e for e in data["benchmarks"] if not (e.get("step") == "1_naive" and e["M"] == 64)]
        self.assertEqual(rows("cuda-norms", data=data)[1][-1], "")

    def test_what_failed_is_named_and_not_shown(self):
        data = sample()
        data["benchmarks"][0].update(error="out of device memory")
        self.assertEqual(rows("cuda-norms", data=data)[1][4], "")
        self.assertIn("Failed: rms_norm, 1b, 1_naive, 1: out of device memory", made("cuda-norms", data=data))

    def test_where_and_when(self):
        text = made("cuda-norms").replace("\n", " ")
        for words in (f"source {cuda_bench.sources_sha256()[:8]}", "Some GPU", "132 multiprocessors",
                      "compute capability 9.0", "80 GB", "driver 580.1", "CUDA 13.0", "A sweep that only reads moves 3000 GB/s, a copy 2500 GB/s"):
            self.assertIn(words, text)


class Staleness(unittest.TestCase):
    def test_old_results_say_so(self):
        for name in cuda_tables.TABLES:
            self.assertNotIn("before the last changes", made(name))
            self.assertIn("**Measured before the last changes of the sources.**",
                          made(name, stale=True).replace("\n", " "))

    def test_the_hash_is_of_what_decides_the_speed(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            hashes = [cuda_bench.sources_sha256(root)]
            decide = ("kernels/cuda/a.cu", "kernels/cuda/matmul/a.cu", "kernels/ops.h", "kernels/CMakeLists.txt",
                      "common/llama.cpp", "common/base/a.h", "tests/benchmarks/cuda_benchmark.cpp")
            others = ("kernels/cpu/a.cpp", "tests/benchmarks/stages_benchmark.cpp", "common/notes.md")
            for file in decide + others:
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text("1", encoding="utf-8")
                hashes.append(cuda_bench.sources_sha256(root))
            self.assertEqual(len(set(hashes[:1 + len(decide)])), 1 + len(decide))
            self.assertEqual(len(set(hashes[len(decide):])), 1)

    def test_the_chapter_is_made_with_and_without_results(self):
        """As `make docs` makes it: without a file, with one, and with an old one."""
        with tempfile.TemporaryDirectory() as name, \
             unittest.mock.patch.object(tables, "HERE", pathlib.Path(name)):
            chapter = [page for page in tables.pages() if any(table in cuda_tables.TABLES for table in tables.tables_in(page))]
            before = "".join(text for _, text in tables.made(chapter))
            for table in cuda_tables.TABLES:
                self.assertEqual(before.count(f"<!-- table: {table} -->"), 1, table)
            self.assertEqual(before.count("NOT MEASURED: no results"), len(cuda_tables.TABLES))
            for data, stale in ((sample(), False), ({**sample(), "sources_sha256": "0" * 64}, True)):
                (pathlib.Path(name) / "cuda.json").write_text(run.dump(data), encoding="utf-8")
                for page, text in tables.made(chapter):
                    with self.subTest(page=page.name):
                        self.assertNotIn("NOT MEASURED: no results", text)
                        self.assertEqual("before the last changes" in text, stale)


PROGRAM = """#!/usr/bin/env python3
import json, re, sys
output = json.loads({output!r})
if {problem!r}:
    print("NOT MEASURED: " + {problem!r})
    sys.exit()
if "--benchmark_list_tests" in sys.argv:
    print(*(b["name"] for b in output["benchmarks"]), sep="\\n")
    sys.exit()
option = {{w.split("=", 1)[0]: w.split("=", 1)[1] for w in sys.argv if "=" in w}}
chosen = option.get("--benchmark_filter", "")
output["benchmarks"] = [b for b in output["benchmarks"] if re.search(chosen, b["name"])]
json.dump(output, open(option["--benchmark_out"], "w"))
open(sys.argv[0] + ".log", "a").write(str(len(output["benchmarks"])) + "\\n")
"""


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.out, self.program = self.build / "cuda.json", self.build / "bin/bench/cuda_benchmark"

    def measure(self, results=None, problem="", words=()):
        """What `make bench-cuda` prints with a program that says so; None: there is no program."""
        if results is not None:
            self.program.parent.mkdir(parents=True)
            self.program.write_text(PROGRAM.format(output=json.dumps(results), problem=problem), encoding="utf-8")
            self.program.chmod(0o755)
        said = io.StringIO()
        words = ["cuda_bench.py", "--build", str(self.build), "--out", str(self.out), *words]
        with unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said), \
             unittest.mock.patch.object(run, "machine", lambda: {"cpu": "Some CPU"}), \
             contextlib.redirect_stderr(io.StringIO()):
            cuda_bench.main()
        return said.getvalue()

    def written(self):
        return json.loads(self.out.read_text(encoding="utf-8"))

    def test_a_run_is_written_and_is_not_stale(self):
        self.assertEqual(self.measure(output()), f"{self.out}\n")
        data = self.written()
        self.assertFalse(cuda_bench.is_stale(data))
        self.assertEqual(data["machine"]["memory_bytes"], 80000000000)
        self.assertEqual(rows("cuda-norms", data=data), rows("cuda-norms"))

    def test_what_matters_most_comes_first_and_is_kept(self):
        """Each part is a run of its own; after none of them is the file older than what was measured."""
        self.measure(output())
        runs = self.program.with_name("cuda_benchmark.log").read_text(encoding="utf-8").split()
        self.assertEqual(sum(map(int, runs)), len(NAMES) * 3)
        self.assertGreater(len(runs), 4)
        benchmarks = self.written()["benchmarks"]
        self.assertEqual((benchmarks[0]["benchmark"], len(benchmarks)), ("forward", len(NAMES) * 3))
        with unittest.mock.patch.object(cuda_bench.bench, "run_program", side_effect=[output(), KeyboardInterrupt()]), \
             self.assertRaises(KeyboardInterrupt):
            for number, _ in enumerate(cuda_bench.measured_in_parts(self.program, 1, 8)):
                self.assertEqual(number, 0)

    def test_what_does_not_fit_the_time_is_left_out_by_name(self):
        clock = iter([0.0, 0.0, *[1000.0] * 20])
        with unittest.mock.patch.object(cuda_bench.time, "monotonic", lambda: next(clock)):
            self.measure(output(), words=["--minutes", "8"])
        self.assertEqual({entry["benchmark"] for entry in self.written()["benchmarks"]}, {"forward"})

    def test_a_benchmark_that_failed_ends_nothing(self):
        self.measure(output(error_occurred=True, error_message="out of device memory"))
        benchmarks = self.written()["benchmarks"]
        self.assertEqual([e["error"] for e in benchmarks if "error" in e], ["out of device memory"])
        self.assertEqual(len(benchmarks), len(NAMES) * 3)

    def test_without_a_gpu_or_a_program_nothing_is_written(self):
        self.assertIn("NOT MEASURED: built without CUDA", self.measure())
        self.assertEqual(self.measure(output(), problem="no NVIDIA driver is installed"),
                         "NOT MEASURED: no NVIDIA driver is installed\n")
        self.assertFalse(self.out.exists())

    def test_the_emulation_s_times_are_not_taken(self):
        with self.assertRaisesRegex(SystemExit, "no GPU"):
            self.measure({"context": {"backend": "CUDA emulated on the CPU"}, "benchmarks": output()["benchmarks"]})
        self.assertFalse(self.out.exists())

    def test_flags_of_the_kernels(self):
        command = ("nvcc -forward-unknown-to-host-compiler -I/somewhere -O2 -g -DNDEBUG "
                   "\"--generate-code=arch=compute_90,code=[compute_90,sm_90]\" -std=c++20 -x cu -c "
                   "kernels/cuda/matmul/matmul_1_naive.cu -o kernels/CMakeFiles/specdec_cuda.dir/cuda/matmul/matmul_1_naive.cu.o")
        (self.build / "compile_commands.json").write_text(json.dumps([{"command": command}]), encoding="utf-8")
        self.assertEqual(cuda_bench.nvcc_flags(self.build),
                         "-O2 -DNDEBUG --generate-code=arch=compute_90,code=[compute_90,sm_90] -std=c++20")


if __name__ == "__main__":
    unittest.main()
