#!/usr/bin/env python3
"""Tests of bench.py, and of what the committed results do not show of the tables and figures that are made from them:
tables.py --check holds all others."""
import json
import pathlib
import re
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
import run  # noqa: E402
import table_text  # noqa: E402
import tables  # noqa: E402
import trees_tables  # noqa: E402

def sample():
    """The committed results."""
    return json.loads((DOCS / "experiments/bench.json").read_text(encoding="utf-8"))


def made(name, data=None, stale=False):
    return bench_tables.TABLES[name](bench_tables.Benchmarks(data or sample(), stale))


def rows(name, **options):
    """The cells of a table's rows."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in made(name, **options).splitlines()[2:]]


class Tables(unittest.TestCase):
    def test_all_texts_together_take_their_times_together(self):
        entries = table_text.Entries({"plain_tokens_per_second": rate, "gain": gain} for rate, gain in ((1, 1), (0.5, 4), (1, None)))
        self.assertEqual(entries.speedup(), 2)  # 3 seconds in 1.5
        self.assertIsNone(table_text.Entries().speedup())

    def test_trees_are_compared_by_time(self):
        shapes = [{"shape": "chain of 3", "text": kind, "emitted": 4, "target_passes": [[4, 1]], "draft_passes": [[1, 3]]}
                  for kind in table_text.TEXTS]
        clock = [{"tree": "top:4", "text": kind, "gain": 2 if kind == "poems" else 0.5, "plain_tokens_per_second": 10}
                 for kind in table_text.TEXTS]
        made = trees_tables.TABLES["trees-clock"]({"shapes": {"entries": shapes}, "clock": {"entries": clock}})
        self.assertIn("| 2.00 | **0.55** |", made.splitlines()[-1])  # 8 seconds in 7 x 2 + 0.5

    def test_best_trees_are_built_by_the_acceptances_of_the_table(self):
        code = (DOCS.parent / "stages/programs/trees/shape_option.cpp").read_text(encoding="utf-8")
        rows = re.search(r"embedded_acceptance\(\) \{\n  return \{(.*?)\};", code, re.DOTALL)[1]
        measured = json.loads((DOCS / "experiments/trees.json").read_text(encoding="utf-8"))["shapes"]["acceptance_by_rank"]
        self.assertEqual([[float(number) for number in row.split(",")] for row in re.findall(r"\{(.*?)\}", rows)],
                         [[round(share, 3) for share in row] for row in measured])

    def test_the_best_k_takes_the_least_time_for_all_texts(self):
        """Although K = 5 has the largest mean."""
        gains = {1: (1.5, 1.5, 1.5), 3: (1.5, 3.0, 2.0), 5: (4.2, 1.0, 2.1), "auto": (2.4, 2.4, 2.4)}
        entries = [{"benchmark": "speculation", "target": "134m", "draft": "14m", "T": 0, "K": K, "gain": gain, "plain_tokens_per_second": 50}
                   for K, of_texts in gains.items() for gain in of_texts]
        (K, found), = bench_tables.best_settings(bench_tables.Benchmarks({"programs": {"a": {"benchmarks": entries}}}, False)).values()
        self.assertEqual((K, found.speedup()), (3, 2))

    def test_few_samples_are_told(self):
        self.assertEqual(bench_tables.quotient({"over_plain": 1.5, "samples": 1}), "1.50 (1 sample)")
        self.assertEqual(bench_tables.quotient({"over_plain": 1.5, "samples": 3}), "1.50")

    def test_numbers_that_were_not_steady_show_their_spread(self):
        data = sample()
        kernel, stage = data["programs"]["kernels_benchmark"]["benchmarks"][0], data["programs"]["stages_benchmark"]["benchmarks"][-1]
        kernel.update(spread=0.21, seconds=0.0042, ratio_spreads={"of_bound": 0.1, "over_plain": 0.3})
        stage.update(spread=0.1, ratio_spreads={"gain": 0.125})
        marked = rows("bench-kernels", data=data)[0]
        self.assertEqual([marked[2], *(cell.partition(" ")[2] for cell in marked[-2:])], ["4.20 ±21%", "±30%", ""])
        self.assertEqual(["±" in cell for cell in rows("bench-stages", data=data)[-1][-2:]], [False, True])
        self.assertNotIn("±", "".join(row[2] for row in rows("bench-kernels")))

    def test_results_of_an_older_form_say_so(self):
        self.assertIn("older form", made("bench-rounds", data={**sample(), "programs": {}}))

    def test_what_kept_no_sample_is_left_out(self):
        data = sample()
        data["programs"]["kernels_benchmark"]["benchmarks"][1].update(samples=0, seconds=None)
        self.assertEqual(len(rows("bench-kernels")) - len(rows("bench-kernels", data=data)), 1)

    def test_what_was_not_run_says_so(self):
        data = {**sample(), "programs": {}}
        for name in set(bench_tables.TABLES) - {"bench-rounds"}:
            self.assertEqual(made(name, data=data), "Not measured.\n", name)
        self.assertEqual(figures.drawn(data, stale=False), {})

    def test_a_line_beside_llama_cpp(self):
        entries = [{"shape": "134m", "type": "bf16", "work": "speculation", "program": program, "seconds": seconds, "ratio": seconds / 0.005}
                   for program, seconds in (("specdec", 0.005), ("llama.cpp", 0.01))]
        peers = {"date": "2030-01-02 03:04 UTC", "entries": entries}
        self.assertEqual(bench_tables.beside_llama_cpp(peers)[0][2:5], ["100 there", "200 here", "**2.0x** theirs"])
        self.assertEqual(bench_tables.beside_llama_cpp(None), [])

    def test_a_selection_names_what_measures_more(self):
        for quick in (True, False):
            self.assertEqual("`make bench-full`" in made("bench-where", data={**sample(), "quick": quick}).replace("\n", " "), quick)


class Staleness(unittest.TestCase):
    def test_tables(self):
        stale = "**Measured before the last changes of the sources.**"
        self.assertNotIn(stale, made("bench-where"))
        self.assertIn(stale, made("bench-where", stale=True).replace("\n", " "))
        self.assertIn("before the last changes", made("bench-gains", stale=True))

    def test_figures_are_grey_and_say_so(self):
        self.assertEqual([figures.grey(c) for c in ("#ffffff", "#000000", "#ff0000")], ["#ffffff", "#4c4c4c", "#828282"])  # as light
        source = sample()["sources_sha256"][:8]
        fresh, stale = figures.drawn(sample(), stale=False), figures.drawn(sample(), stale=True)
        self.assertEqual(len(fresh), 6)
        for name, text in fresh.items():
            xml.etree.ElementTree.fromstring(text)
            self.assertIn(f"measured at source {source}", text)
            self.assertIn("prefers-color-scheme: dark", text)
            self.assertTrue(coloured(text), name)
        for name, text in stale.items():
            xml.etree.ElementTree.fromstring(text)
            self.assertIn(f"before the last changes of the sources, at {source}", text)
            self.assertFalse(coloured(text), name)

    def test_the_hash_is_of_what_decides_the_speed(self):
        """File of results -> sources that decide, and others."""
        found = {"bench.json": ("kernels/a.cpp kernels/cpu/a.cpp common/a.h stages/a.cpp tests/benchmarks/a.cpp kernels/CMakeLists.txt",
                                "kernels/notes.md a.cpp kernels/cuda/a.cu kernels/cuda_support.cpp kernels/emulation/a.cpp "
                                "tests/benchmarks/cuda_benchmark.cpp tests/benchmarks/peers/peer.cpp"),
                 "cuda.json": ("kernels/cuda/a.cu kernels/cuda/matmul/a.cu kernels/ops.h common/base/a.h tests/benchmarks/cuda_benchmark.cpp "
                               "tests/benchmarks/cases.h tests/benchmarks/kernel_program.cpp",
                               "kernels/cpu/a.cpp tests/benchmarks/ladder_benchmark.cpp common/notes.md"),
                 "peers.json": ("kernels/cpu/a.cpp common/b.h tests/benchmarks/peers/peer.cpp", "kernels/cuda/a.cu tests/benchmarks/a.cpp"),
                 "": ("kernels/cuda/a.cu stages/a.cpp golden/models/a.safetensors", "tests/benchmarks/a.cpp docs/a.cpp")}
        for results, (decide, others) in found.items():
            with self.subTest(results), tempfile.TemporaryDirectory() as name:
                root = pathlib.Path(name)
                hashes = [run.sources_sha256(results, root)]
                for file in decide.split() + others.split():
                    for content in ("", "1"):
                        (root / file).parent.mkdir(parents=True, exist_ok=True)
                        (root / file).write_text(content, encoding="utf-8")
                        hashes.append(run.sources_sha256(results, root))
                self.assertEqual(len(set(hashes)), 1 + 2 * len(decide.split()))
                self.assertEqual(len(set(hashes[2 * len(decide.split()):])), 1)
                (root / decide.split()[0]).rename(root / decide.split()[0].replace("/a.", "/z."))
                self.assertNotIn(run.sources_sha256(results, root), hashes)

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
            number = re.search(r"\*\*\d\.\d\d\*\*", text)[0]
            self.assertEqual(tables.filled("performance.md", text.replace(number, "**9.99**"), {}), text)


class Pretended:
    """Other results in place of bench.json, and sources that have changed since or not."""

    def __init__(self, data, stale):
        self.data, self.stale = data, stale

    def __enter__(self):
        self.before = run.sources_sha256, tables.HERE
        self.folder = tempfile.TemporaryDirectory()
        tables.HERE = pathlib.Path(self.folder.name)
        (tables.HERE / "bench.json").write_text(json.dumps(self.data), encoding="utf-8")
        digest = "f" * 64 if self.stale else self.data["sources_sha256"]
        run.sources_sha256 = lambda *_: digest

    def __exit__(self, *_):
        run.sources_sha256, tables.HERE = self.before
        self.folder.cleanup()


def coloured(svg):
    """Whether any colour in it is no grey."""
    return any(len({c[1:3], c[3:5], c[5:7]}) > 1 for c in figures.re.findall("#[0-9a-f]{6}", svg))


class Running(unittest.TestCase):
    def test_names_become_fields(self):
        for name, fields in (("speculation/target:134m/T:0.5/K:3/iterations:1/manual_time",
                              {"benchmark": "speculation", "target": "134m", "T": 0.5, "K": 3}),
                             ("attention/4096/1b/M:6/iterations:1/manual_time", {"benchmark": "attention/4096/1b", "M": 6})):
            self.assertEqual(bench.identity_of(name), fields)

    def test_a_page_of_the_reader_s_own(self):
        with tempfile.TemporaryDirectory() as name:
            page = bench.write_page(sample(), pathlib.Path(name)).read_text(encoding="utf-8")
            self.assertIn(sample()["machine"]["cpu"], page)
            self.assertNotIn("before the last changes", page)
            pictures = [line for line in page.splitlines() if line.startswith("![")]
            self.assertGreater(len(pictures), 3)
            for line in pictures:
                self.assertTrue((pathlib.Path(name) / line.split("(")[1].rstrip(")")).is_file(), line)


if __name__ == "__main__":
    unittest.main()
