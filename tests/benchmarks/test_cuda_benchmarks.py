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
import bench  # noqa: E402
import cuda_bench  # noqa: E402
import cuda_tables  # noqa: E402
import predicted  # noqa: E402
import run  # noqa: E402
import tables  # noqa: E402

CONTEXT = {"backend": "CUDA, Some GPU", "gpu": "Some GPU", "compute_capability": "9.0", "multiprocessors": "132",
           "memory_bytes": "80000000000", "cuda": "13.0", "driver_cuda": "13.1"}
NAMES = [
    "rms_norm/shape:1b/width:2048/step:1_naive", "rms_norm/shape:1b/width:2048/step:engine",
    "rope_store_kv/shape:3b/width:3072/step:engine",
    *(f"matmul/shape:1b/matrix:{matrix}/step:{step}" for matrix in ("gate_up", "qkv")
      for step in ("engine", "4_rows", "cublas", "2_warp")), "matmul/shape:1b/matrix:down_proj/step:8_later",
    "attention/shape:3b/context:4096/step:1_naive", "attention/shape:3b/context:4096/step:engine",
    "argmax/step:2_block", "choose/from:top_p_0.9", "judge/from:all",
    "forward/shape:1b/gemm:invariant/context:64", "forward/shape:1b/gemm:plain/context:64"]


COUNTERS = {"bandwidth": 3e12, "copy_bandwidth": 2.5e12, "bytes_per_second": 1.5e12, "flops_per_second": 2.5e14, "of_bandwidth": 0.5,
            "samples": 15, "over_cublas": 0.8, "over_one_by_one": 0.9}


def answers():
    """What the program answers, by name: a run takes 10 us x M at half the bandwidth, and is 0.8 of cuBLAS' time."""
    return {f"{name}/M:{M}/iterations:1/manual_time": {"seconds": 1e-5 * M, "over_plain": 1 + M / 100, **COUNTERS}
            for name in NAMES for M in (1, 6, 64)}


def sample():
    with unittest.mock.patch.object(cuda_bench, "driver", lambda: "580.1"), \
         unittest.mock.patch.object(run, "machine", lambda: {"cpu": "Some CPU"}):
        results = cuda_bench.results_of(CONTEXT, pathlib.Path("/nowhere"), "--samples=15")
    return {**results, "benchmarks": [{**bench.identity_of(name), **found} for name, found in answers().items()]}


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
                 ("products", 6, 1): ["1b", "8_later", "10.0 (0.50)"],
                 ("attention", 0, 1): ["3b", "4096", "1_naive", "10.0 (0.50)"],
                 ("attention", 1, 1): ["3b", "4096", "1.01", "1.06", "1.64"],
                 ("sampling", 0, 1): ["2_block", "10.0 (0.50)"], ("sampling", 1, 1): ["choose", "top_p_0.9"],
                 ("sampling", 1, 2): ["judge", "all"],
                 ("forward", 0, 1): ["1b", "invariant", "64", "0.01 (0.50)", "0.06 (0.50)", "0.64 (0.50)"],
                 ("forward", 1, 2): ["1b", "plain", "64", "1.01", "1.06", "1.64"],
                 ("forward", 2, 2): ["1b", "plain", "64", "0.90", "0.90", "0.90"]}
        for (name, part, row), cells in found.items():
            self.assertEqual(rows(f"cuda-{name}", part)[row][:len(cells)], cells, (name, part, row))
        self.assertEqual([len(rows("cuda-products", part)) for part in range(7)], [5, 4, 3, 3, 3, 3, 2])

    def test_predictions_have_what_was_measured_beside_them(self):
        def last(name, *beginning, data):
            lines = [[cell.strip() for cell in line.strip("|").split("|")]
                     for line in predicted.TABLES[f"predicted-{name}"](cuda_tables.Measured(data, False)).splitlines()]
            return next(cells[-1] for cells in lines if cells[:len(beginning)] == list(beginning))

        def entries(benchmark, seconds, **setting):
            return [{"benchmark": benchmark, "shape": "3b", "M": M, "seconds": s, **setting} for M, s in seconds.items()]
        one = {**sample(), "benchmarks": [
            *entries("forward", {1: 2.5e-3, 6: 2.6e-3, 16: 3e-3, 512: 0.021}, gemm="invariant", context=64),
            *entries("forward", {1: 1, 6: 1}, gemm="cublas", context=64), *entries("forward", {1: 1}, gemm="invariant", context=4096),
            *entries("matmul", {1: 1e-5, 6: 1.1e-5, 16: 1.6e-5}, step="engine", matrix="qkv"),
            *entries("matmul", {1: 1}, step="5_mma", matrix="qkv"), *entries("attention", {1: 5e-6}, step="engine", context=64),
            *entries("rms_norm", {1: 2e-6}, step="engine"), {**entries("rms_norm", {6: 1}, step="engine")[0], "error": "lost"}]}
        for name, beginning, cell in (
                ("kernels", ["3B", "qkv"], "10.0, 11.0, 16.0"), ("kernels", ["3B", "attention"], "5.0"),
                ("kernels", ["3B", "norm"], "2.0"), ("kernels", ["3B", "rope, store"], ""), ("kernels", ["1B", "qkv"], ""),
                ("passes", ["3B", "now"], "2.50, 1.30, 1.04, 1.20"), ("passes", ["3B", "before"], ""),
                ("prefills", ["3B"], "21.0"), ("prefills", ["1B"], "")):
            self.assertEqual(last(name, *beginning, data=one), cell, (name, beginning))
            self.assertEqual(last(name, *beginning, data=None), "")
        old = predicted.TABLES["predicted-passes"](cuda_tables.Measured(one, True))
        self.assertIn("| measured before the last changes of the sources |", old)

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
        for words in (f"source {run.sources_sha256('cuda.json')[:8]}", "Some GPU", "132 multiprocessors",
                      "compute capability 9.0", "80 GB", "driver 580.1", "CUDA 13.0", "A sweep that only reads moves 3000 GB/s, a copy 2500 GB/s"):
            self.assertIn(words, text)


    def test_old_results_say_so(self):
        for name in cuda_tables.TABLES:
            self.assertNotIn("before the last changes", made(name))
            self.assertIn("**Measured before the last changes of the sources.**", made(name, stale=True).replace("\n", " "))

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
first, answers = json.loads({first!r}), json.loads({answers!r})
if "--benchmark_list_tests" in sys.argv:
    chosen = [word.partition("=")[2] for word in sys.argv if "filter" in word]
    print(*(name for name in answers if re.search("".join(chosen), name)), sep="\\n")
    sys.exit()
print(json.dumps(first), flush=True)
for line in sys.stdin:
    name = next(name for name in answers if re.search(line.strip(), name))
    print(json.dumps(answers[name]), flush=True)
"""


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.out, self.program = self.build / "cuda.json", self.build / "bin/bench/cuda_benchmark"

    def measure(self, found=None, first=CONTEXT, words=()):
        """What `make bench-cuda` prints with a program that answers so; None: there is no program."""
        if found is not None:
            self.program.parent.mkdir(parents=True)
            self.program.write_text(PROGRAM.format(first=json.dumps(first), answers=json.dumps(found)), encoding="utf-8")
            self.program.chmod(0o755)
        said = io.StringIO()
        words = ["cuda_bench.py", "--build", str(self.build), "--out", str(self.out), *words]
        with unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said), \
             unittest.mock.patch.object(run, "machine", lambda: {"cpu": "Some CPU"}), contextlib.redirect_stderr(said):
            cuda_bench.main()
        return said.getvalue()

    def written(self):
        return json.loads(self.out.read_text(encoding="utf-8"))

    def test_a_run_is_written_and_is_not_stale(self):
        self.assertEqual(self.measure(answers()), f"{self.out}\n")
        data = self.written()
        self.assertFalse(run.is_stale("cuda.json", data))
        self.assertEqual(data["machine"]["memory_bytes"], 80000000000)
        self.assertEqual((data["benchmarks"][0]["benchmark"], len(data["benchmarks"])), ("forward", len(NAMES) * 3))
        self.assertEqual(rows("cuda-norms", data=data), rows("cuda-norms"))

    def test_what_does_not_fit_the_time_is_left_out_by_name(self):
        clock = iter([0.0, 1.0, 1000.0])
        with unittest.mock.patch.object(cuda_bench.time, "monotonic", lambda: next(clock)):
            said = self.measure(answers(), words=["--filter", "argmax|forward"])
        self.assertEqual(len(self.written()["benchmarks"]), 1)
        self.assertIn("left out, as 8 minutes are over: 8 benchmarks from forward/", said)

    def test_a_benchmark_that_failed_ends_nothing(self):
        found = answers()
        found[next(iter(found))] = {"error": "out of device memory"}
        self.measure(found)
        benchmarks = self.written()["benchmarks"]
        self.assertEqual([e["error"] for e in benchmarks if "error" in e], ["out of device memory"])
        self.assertEqual(len(benchmarks), len(found))

    def test_without_a_gpu_or_a_program_nothing_is_written(self):
        self.assertIn("NOT MEASURED: built without CUDA", self.measure())
        self.assertEqual(self.measure({}, {"not_measured": "no driver"}), "NOT MEASURED: no driver\n")
        self.assertFalse(self.out.exists())

    def test_the_emulation_s_times_are_not_taken(self):
        with self.assertRaisesRegex(SystemExit, "no GPU"):
            self.measure(answers(), {"backend": "CUDA emulated on the CPU"})
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
