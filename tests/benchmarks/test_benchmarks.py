#!/usr/bin/env python3
"""Tests of bench.py and of the tables and figures that are made from what it writes."""
import json
import pathlib
import re
import stat
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
sys.path[:0] = [str(DOCS / "experiments"), str(DOCS / "figures")]
import bench  # noqa: E402
import bench_tables  # noqa: E402
import benchmarks as figures  # noqa: E402
import table_text  # noqa: E402
import tables  # noqa: E402
import trees_tables  # noqa: E402

TEXTS = ["stories", "code", "poems"]


def kernel(name, M, **counters):
    return {"benchmark": name, "M": M, "seconds": 0.01 * M, "bandwidth": 2e10, "peak": 1e11, "bytes_per_second": 1.5e10,
            "flops_per_second": 3e10, "of_bandwidth": 0.75, "of_peak": 0.3, "over_plain": 1 + M / 16, "of_bound": 1.5,
            "samples": 5,
            **counters}


def speculation(draft, T, K, text, gain, **counters):
    return {"benchmark": "speculation", "target": "134m", "draft": draft, "T": T, "K": K, "text": text, "alpha": 0.8,
            "gain": gain, "tokens_per_second": 50 * gain, "plain_tokens_per_second": 50, "c": 0.05, "v": 1.1,
            "predicted_formula": 1.9, "predicted_accounting": 2.0, "gain_over_accounting": gain / 2, "bandwidth": 2e10,
            **counters}


def sample():
    """What a run might have written: gains of K = 1, 3, 5 are 1.5, 2.0, 1.75 by time, although K = 5 has the largest mean."""
    gains = {1: (1.5, 1.5, 1.5), 3: (1.5, 3.0, 2.0), 5: (4.2, 1.0, 2.1), "auto": (2.4, 2.4, 2.4)}
    programs = {
        "kernels_benchmark": [kernel("matmul/bf16", M) for M in (1, 4, 16)] +
                             [kernel("prefill/bf16", 64), kernel("attention/4096/3b", 6)],
        "ladder_benchmark": [kernel(f"ladder/{step}", M, seconds=seconds * M)
                             for step, both in (("1_plain_loops", (0.08, 0.08)), ("2_threads", (0.02, 0.16 / 6)))
                             for M, seconds in zip((1, 6), both)],
        "forward_benchmark": [kernel(f"forward/{shape}", M) for shape in ("134m", "14m") for M in (1, 4, 16)] +
                             [kernel("forward/134m", 512),
                              {"benchmark": "load/1b", "seconds": 1.25, "seconds_per_gigabyte": 0.5}],
        "stages_benchmark": [{"benchmark": "stages", "target": "embedded", "draft": "embedded", "stage": stage,
                              "tokens_per_second": 100.0 * stage, **({"gain": 1.25} if stage > 1 else {})}
                             for stage in range(1, 7)],
        "speculation_benchmark":
            [speculation("14m", 0, K, text, gain) for K, both in gains.items() for text, gain in zip(TEXTS, both)] +
            [speculation("lookup", 0, 3, "stories", 1.1, c=None, alpha=None)] +
            [{**speculation("14m", 0, K, "stories", 0.5 + asked), "benchmark": "synthetic", "asked": asked}
             for asked in (0, 0.4, 1) for K in (1, 3)],
        "batch_benchmark": [{"benchmark": "batch", "target": "134m", "draft": "14m", "B": B, "K": K, "gain": 1 + K / B,
                             "tokens_per_second": 10.0 * B} for B in (1, 2, 4) for K in (0, 1, 3)]}
    return {"form": "rounds", "date": "2030-01-02 03:04 UTC", "quick": True, "sources_sha256": "0123456789abcdef" * 4,
            "machine": {"cpu": "Some CPU", "cores": 2, "caches": {"L2": "1024K"},
                        "read_bandwidth_one_thread_gb_per_s": 12.3, "memory_gb": 25.3, "kernel": "6.1"},
            "build": {"compiler": "c++ 12", "flags": "-O2"}, "device": "CPU, 2 threads",
            "programs": {name: {"options": "--repeats=1", "rounds": 9, "thrown_away": 2, "unsteady": ["a b"], "bandwidths": [2e10, 3e10],
                                "benchmarks": entries} for name, entries in programs.items()}}


def made(name, data=None, stale=False):
    return bench_tables.TABLES[name](bench_tables.Benchmarks(data or sample(), stale))


def rows(name, **options):
    """The cells of a table's rows."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in made(name, **options).splitlines()[2:]]


class Tables(unittest.TestCase):
    def test_all_texts_together_take_their_times_together(self):
        self.assertEqual(table_text.speedup_by_time([(1, 1), (2, 4)]), 2)  # 3 seconds in 1.5
        self.assertIsNone(table_text.speedup_by_time([]))

    def test_trees_are_compared_by_time(self):
        counts = {kind: {"emitted": 4, "target_passes": [[4, 1]], "draft_passes": [[1, 3]]} for kind in table_text.TEXTS}
        clock = {kind: [2.0, 20.0, 10.0] if kind == "poems" else [0.5, 5.0, 10.0] for kind in table_text.TEXTS}
        made = trees_tables.TABLES["trees-clock"]({"shapes": {"chain of 3": {"kinds": counts}}, "clock": {"trees": {"top:4": clock}}})
        self.assertIn("| 2.00 | **0.55** |", made.splitlines()[-1])  # 8 seconds in 7 x 2 + 0.5

    def test_best_trees_are_built_by_the_acceptances_of_the_table(self):
        code = (DOCS.parent / "stages/programs/trees/shape_option.cpp").read_text(encoding="utf-8")
        rows = re.search(r"embedded_acceptance\(\) \{\n  return \{(.*?)\};", code, re.DOTALL)[1]
        measured = json.loads((DOCS / "experiments/trees.json").read_text(encoding="utf-8"))["acceptance_by_rank"]
        self.assertEqual([[float(number) for number in row.split(",")] for row in re.findall(r"\{(.*?)\}", rows)],
                         [[round(share, 3) for share in row] for row in measured])

    def test_cells(self):
        """(table, first row) -> rows."""
        pair = ["`134m`", "`14m`"]
        found = {
            # The best K takes the least time for all texts.
            ("speculation", 0): [[*pair, "0", "3", "0.80", "0.050", "1.10", "1.90", "2.00", "**2.00**", "1.00"]],
            ("spec-length", 0): [[*pair, "1.50", "2.00", "1.75", "2.40"], ["`134m`", "lookup", "", "1.10", "", ""]],
            # Behind the real model, pairs of models only.
            ("summary", 1): [[*pair, "3", "0.80", "50", "100", "**2.0x**"]],
            # At the best K.
            ("texts", 0): [["stories", "1.50 (alpha 0.80)"], ["code", "3.00 (alpha 0.80)"], ["poems", "2.00 (alpha 0.80)"]],
            ("synthetic", 1): [[*pair, "0.4", "0.90 (1.90)", "0.90 (1.90)"]],
            ("stages", 0): [["1", "100", ""]], ("stages", 5): [["6", "600", "1.25"]],
            ("kernels", 1): [["bf16", "4", "40.00", "15.0", "0.75", "30", "0.30", "1.25", "1.50"]],
            ("passes", 2): [["16", *["160.00", "0.75", "2.00", "1.50"] * 2]],  # more rows are prefill
            # A step is held against the one before.
            ("ladder", 0): [["1. plain loops", "80.0 ms", "0.75", "480.0 ms", "0.75", "1.38"],
                            ["2. threads", "20.0 ms (4.0 times as fast)", "0.75", "160.0 ms (3.0 times as fast)", "0.75", "1.38"]],
            ("prefill", 0): [["matrix products, bf16", "64", "640", "30", "0.30"], ["whole pass, `134m`", "512", "5120", "30", "0.30"]],
            ("attention", 0): [["`3b`", "6", "60.0", "0.75", "0.30", "1.50"]],
            ("load", 0): [["`1b`", "1.25", "0.50"]],
            # A batch is held against itself without speculation.
            ("batch", 1): [[*pair, "2", "20 tokens/s", "1.50", "2.50"]],
            ("rounds", 0): [["`kernels_benchmark`", "9", "2", "a b", "", "20.0 to 30.0"]]}
        for (name, first), cells in found.items():
            self.assertEqual(rows(f"bench-{name}")[first:first + len(cells)], cells, name)
        self.assertEqual([row[3:10:6] for row in rows("bench-speculation")], [["3", "**2.00**"], ["auto", "**2.40**"], ["3", "**1.10**"]])
        self.assertEqual(rows("bench-speculation")[2][3:6], ["3", "", ""])  # what a lookup has no number of
        self.assertEqual([len(rows(f"bench-{name}")) for name in ("spec-length", "texts", "passes", "ladder")], [2, 3, 3, 2])
        self.assertEqual(rows("bench-summary")[0][0], "SmolLM2-135M")
        self.assertIn("synthetic alpha", made("bench-synthetic").splitlines()[0])
        self.assertIn("older form", made("bench-rounds", data={**sample(), "programs": {}}))

    def test_ceilings(self):
        data = sample()
        data["programs"]["kernels_benchmark"]["benchmarks"][0].update(bandwidth=1e10, peak=3e11)
        self.assertEqual(rows("bench-ceilings", data=data), [["read bandwidth, GB/s", "20.0", "10.0", "20.0"],
                                                             ["float32 multiply-adds, Gflop/s", "100.0", "100.0", "300.0"]])

    def test_what_kept_no_sample_is_left_out(self):
        data = sample()
        data["programs"]["kernels_benchmark"]["benchmarks"][1].update(samples=0, seconds=None)
        self.assertEqual([row[1] for row in rows("bench-kernels", data=data)], ["1", "16"])

    def test_what_was_not_run_says_so(self):
        data = {**sample(), "programs": {}}
        for name in set(bench_tables.TABLES) - {"bench-rounds"}:
            self.assertEqual(made(name, data=data), "Not measured.\n", name)
        self.assertEqual(figures.drawn(data, stale=False), {})

    def test_gains_say_what_was_run(self):
        real, model, measured = rows("bench-gains")[:3]  # a line beside llama.cpp may follow
        self.assertEqual(real[0], "SmolLM2-135M")
        self.assertRegex(real[-1], "^measured 2|^`make bench-real` measures it$")
        self.assertEqual((model[:2], model[-1]), (["3B", "1B"], "a cost model, not a run"))
        self.assertRegex(model[4], r"\*\*1\.\dx\*\*")
        self.assertEqual(measured, ["`134m`", "`14m`, K = 3", "50", "100", "**2.0x**", "1.5x on stories to 3.0x on code",
                                    "measured 2030-01-02, Some CPU"])
        self.assertIn("before the last changes", made("bench-gains", stale=True))

    def test_a_line_beside_llama_cpp(self):
        peers = {"date": "2030-01-02 03:04 UTC", "settings": [{"shape": "134m", "type": "bf16", "speculation": {
            "specdec": {"seconds": 0.005}, "llama.cpp": {"seconds": 0.01, "ratio": 2}}}]}
        self.assertEqual(bench_tables.beside_llama_cpp(peers)[0][2:5], ["100 there", "200 here", "**2.0x** theirs"])
        self.assertEqual(bench_tables.beside_llama_cpp(None), [])

    def test_where_and_when(self):
        text = made("bench-where").replace("\n", " ")
        for words in ("source 01234567", "2030-01-02 03:04 UTC", "Some CPU", "L2 1024K", "c++ 12, `-O2`", "2 cores",
                      "25.3 GB", "make bench-full"):
            self.assertIn(words, text)
        self.assertNotIn("make bench-full", made("bench-where", data={**sample(), "quick": False}))


class Figures(unittest.TestCase):
    def marks(self, draw):
        """The points of a figure, in its units."""
        found = []
        with unittest.mock.patch.object(figures.Axes, "mark", lambda self, x, y, *_, **__: found.append((x, y))):
            draw(bench_tables.Benchmarks(sample(), False))
        return found

    def test_points_stand_where_they_were_measured(self):
        self.assertEqual([(K, round(gain, 2)) for K, gain in self.marks(figures.spec_length)], [(1, 1.5), (3, 2), (5, 1.75)])
        self.assertEqual(self.marks(figures.rows), [(1, 1.0625), (4, 1.25), (16, 2)] * 2)
        self.assertEqual(self.marks(figures.batch), [(0, 2), (1, 1.5), (2, 1.25), (0, 4), (1, 2.5), (2, 1.75)])
        predicted = self.marks(figures.predicted)
        self.assertEqual(len(predicted), 2 * (12 + 6 + 1))
        self.assertEqual({x for x, _ in predicted}, {1.9, 2.0})
        self.assertIn((1.9, 4.2), predicted)
        roofline = self.marks(figures.roofline)
        self.assertEqual({x for x, _ in roofline}, {0, 2, 4, 9})  # log2 of M
        self.assertAlmostEqual(roofline[0][1], 4.9069, 4)  # 30 Gflop/s

    def test_grey_is_as_light_as_the_colour(self):
        self.assertEqual([figures.grey(c) for c in ("#ffffff", "#000000", "#ff0000")], ["#ffffff", "#4c4c4c", "#828282"])


class Staleness(unittest.TestCase):
    def test_tables(self):
        self.assertNotIn("before the last changes", made("bench-where"))
        self.assertIn("**Measured before the last changes of the sources.**",
                      made("bench-where", stale=True).replace("\n", " "))

    def test_figures_are_grey_and_say_so(self):
        fresh, stale = figures.drawn(sample(), stale=False), figures.drawn(sample(), stale=True)
        self.assertEqual(len(fresh), 6)
        for name, text in fresh.items():
            xml.etree.ElementTree.fromstring(text)
            self.assertIn("measured at source 01234567", text)
            self.assertIn("prefers-color-scheme: dark", text)
            self.assertTrue(coloured(text), name)
        for name, text in stale.items():
            xml.etree.ElementTree.fromstring(text)
            self.assertIn("before the last changes of the sources, at 01234567", text)
            self.assertFalse(coloured(text), name)

    def test_the_hash_is_of_what_decides_the_speed(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            folders = ["kernels", "kernels/cpu", "common", "stages", "tests/benchmarks"]
            for folder in [*folders, "kernels/cuda", "kernels/emulation", "tests/benchmarks/peers"]:
                (root / folder).mkdir(parents=True)
            hashes = [bench.sources_sha256(root)]
            changes = [(folder + "/a.cpp", "1") for folder in folders]
            changes += [("kernels/a.cpp", "2"), ("kernels/CMakeLists.txt", "-O3"), ("common/b.h", "")]
            for file, content in changes:
                (root / file).write_text(content, encoding="utf-8")
                hashes.append(bench.sources_sha256(root))
            (root / "common/b.h").rename(root / "common/c.h")
            hashes.append(bench.sources_sha256(root))
            self.assertEqual(len(set(hashes)), len(hashes))
            for file in ("kernels/notes.md", "a.cpp", "kernels/cuda/a.cu", "kernels/cuda_support.cpp",
                         "kernels/emulation/a.cpp", "tests/benchmarks/cuda_benchmark.cpp",
                         "tests/benchmarks/peers/peer.cpp"):
                (root / file).write_text("", encoding="utf-8")
                self.assertEqual(bench.sources_sha256(root), hashes[-1])

    def test_the_check_knows_whether_the_sources_changed(self):
        """Documents made from fresh results do not pass once the sources have changed, nor the other way round."""
        data = sample()
        for was_stale in (False, True):
            for is_stale in (False, True):
                with Pretended(data, was_stale):
                    old = dict(tables.made_from_benchmarks())
                with Pretended(data, is_stale):
                    new = dict(tables.made_from_benchmarks())
                self.assertEqual(old == new, was_stale == is_stale)
                self.assertEqual(len(new), 3 + 6)  # chapters and figures
                if was_stale != is_stale:
                    self.assertTrue(all(old[path] != new[path] for path in new))

    def test_a_table_edited_by_hand_is_noticed(self):
        with Pretended(sample(), False):
            text = dict(tables.made_from_benchmarks())[DOCS / "performance.md"]
            self.assertEqual(tables.filled("performance.md", text, {}), text)
            self.assertIn("**2.00**", text)
            self.assertEqual(tables.filled("performance.md", text.replace("**2.00**", "**3.00**"), {}), text)


class Pretended:
    """Other results in place of bench.json, and sources that have changed since or not."""

    def __init__(self, data, stale):
        self.data, self.stale = data, stale

    def __enter__(self):
        self.before = bench.sources_sha256, tables.HERE
        self.folder = tempfile.TemporaryDirectory()
        tables.HERE = pathlib.Path(self.folder.name)
        (tables.HERE / "bench.json").write_text(json.dumps(self.data), encoding="utf-8")
        digest = "f" * 64 if self.stale else self.data["sources_sha256"]
        bench.sources_sha256 = lambda *_, **__: digest

    def __exit__(self, *_):
        bench.sources_sha256, tables.HERE = self.before
        self.folder.cleanup()


def coloured(svg):
    """Whether any colour in it is no grey."""
    return any(len({c[1:3], c[3:5], c[5:7]}) > 1 for c in figures.re.findall("#[0-9a-f]{6}", svg))


PROGRAM = """#!/usr/bin/env python3
import json, sys
names = ["speculation/target:134m/draft:14m/T:0.5/K:3/text:code/iterations:1/manual_time"]
if "--benchmark_list_tests" in sys.argv:
    print(*names, sep="\\n")
    sys.exit()
out = next(w for w in sys.argv if w.startswith("--benchmark_out=")).split("=", 1)[1]
if "--fail" in sys.argv:
    sys.exit("no such option")
entry = {"name": names[0], "run_name": "x", "iterations": 1, "real_time": 5, "cpu_time": 6, "time_unit": "ms",
         "gain": 2.123456, "alpha": float("nan")}
json.dump({"context": {"backend": "CPU"}, "benchmarks": [entry]}, open(out, "w"))
"""


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.program = pathlib.Path(self.folder.name) / "program"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def tearDown(self):
        self.folder.cleanup()

    def test_names_become_fields(self):
        entry, = bench.entries_of(bench.run_program(self.program, []))
        self.assertEqual(entry, {"benchmark": "speculation", "target": "134m", "draft": "14m", "T": 0.5, "K": 3,
                                 "text": "code", "gain": 2.123, "alpha": None})

    def test_a_name_of_several_parts(self):
        entry, = bench.entries_of({"benchmarks": [{"name": "attention/4096/1b/M:6/iterations:5/manual_time"}]})
        self.assertEqual(entry, {"benchmark": "attention/4096/1b", "M": 6})

    def test_a_failure_ends_it_with_the_program_s_message(self):
        with self.assertRaisesRegex(SystemExit, "no such option"):
            bench.run_program(self.program, ["--fail"])

    def test_a_page_of_the_reader_s_own(self):
        folder = pathlib.Path(self.folder.name)
        page = bench.write_page(sample(), folder).read_text(encoding="utf-8")
        self.assertIn("Some CPU", page)
        self.assertNotIn("before the last changes", page)
        for line in page.splitlines():
            if line.startswith("!["):
                self.assertTrue((folder / line.split("(")[1].rstrip(")")).is_file(), line)


if __name__ == "__main__":
    unittest.main()
