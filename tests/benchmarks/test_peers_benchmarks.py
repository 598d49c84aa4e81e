#!/usr/bin/env python3
"""Tests of peers_bench.py and its parts, and of what peers.json does not show of its tables. No network, and no llama.cpp."""
import contextlib
import hashlib
import io
import pathlib
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock

import peers_bench
import peers_tables
import tables
from table_text import Results
from peers_bench import COPIED, COPY, OURS, THEIRS, get_llama_cpp, turns


def quiet():
    return contextlib.redirect_stdout(io.StringIO())


# --- what is measured ---

def text_of(tokens, margins=(), rounds=1):
    return {"seconds": 1, "tokens": tokens, "margins": margins or [1] * len(tokens), "rounds": rounds}


def texts_of(*texts):
    made = peers_bench.TimedTexts(None, None, None)
    made.texts = list(texts)
    return made


class Measuring(unittest.TestCase):
    def timed(self, times, strict=True):
        """times: of each call of either program, in turns; the last one for ever."""
        self.calls, left = [], list(times)

        def turn(name):
            self.calls.append(name)
            return left.pop(0) if len(left) > 1 else left[0]
        work = {"work": {name: lambda name=name: turn(name) for name in ("a", "b")}}
        with unittest.mock.patch.object(turns.Watch, "others", lambda _: 0):
            return peers_bench.timed(work, turns.Rules(3, strict=strict))

    def test_who_begins_changes_and_a_ratio_is_the_median_of_the_rounds(self):
        first, second = self.timed([9, 9, 3, 1, 1, 1, 20, 10], strict=False)
        self.assertEqual("".join(self.calls), "ab" + "ba" + "ab" + "ba")
        self.assertEqual([first[name] for name in ("work", "program", "samples", "thrown_away", "ratio")], ["work", "a", 3, 0, 1])
        self.assertEqual((second["program"], second["ratio"]), ("b", 2))  # of 3, 1 and 2

    def test_no_round_is_added_until_times_look_good(self):
        with self.assertRaisesRegex(SystemExit, "the times of a for work differ by 120% in 3 rounds: .* or allow --spread 1.2"):
            self.timed([9, 9, 1, 1, 4, 1, 1, 9])
        self.assertEqual(len(self.calls), 2 * (1 + 3))

    def test_a_text_that_differs_makes_a_comparison_void(self):
        ours = text_of([1, 2, 3], [1, 0.5, 1])
        self.assertEqual(peers_bench.compare_texts(ours, text_of([1, 2, 3]), "a"), 0)
        self.assertEqual(peers_bench.compare_texts(ours, text_of([1, 9, 3], [1, 9e-4, 1]), "a"), 1)
        with self.assertRaisesRegex(SystemExit, "code-3: token 1 is 2 here and 9 in llama.cpp.*void"):
            peers_bench.compare_texts(ours, text_of([1, 9, 3]), "code-3")
        plain = {OURS: texts_of(ours, ours), THEIRS: texts_of(ours, text_of([1, 9, 3]))}
        self.assertEqual(peers_bench.same_texts(plain, 0.5), 1)
        with self.assertRaisesRegex(SystemExit, "plain stories-0: token 1"):
            peers_bench.same_texts(plain, 0.49)

    def test_texts_under_speculation(self):
        plain = {OURS: texts_of(text_of([1, 2]), text_of([3, 4])),
                 THEIRS: texts_of(text_of([1, 2]), text_of([3, 5], [1, 0.01]))}
        same = texts_of(text_of([1, 2, 7]), text_of([3, 4]))
        fast = {OURS: same, THEIRS: texts_of(text_of([1, 2, 7]), text_of([3, 6, 6]))}
        found = peers_bench.texts_under_speculation(plain, fast)
        self.assertEqual(found["margins_of_changes"], [0.01])
        self.assertEqual(found[OURS], {"unchanged": 2, "tokens_per_round": 2.5})
        self.assertEqual(found[THEIRS], {"unchanged": 1, "tokens_per_round": 3})
        with self.assertRaisesRegex(SystemExit, "speculation changed a text of specdec's"):
            peers_bench.texts_under_speculation(plain, {**fast, OURS: fast[THEIRS]})

    def test_what_was_measured_is_kept_until_something_changes(self):
        with tempfile.TemporaryDirectory() as name, quiet():
            file, makes = pathlib.Path(name) / "parts/a.json", iter([1, 2, 3])
            self.assertEqual([peers_bench.kept(file, key, lambda: next(makes)) for key in (["k"], ["k"], ["l"], ["l"])],
                             [1, 1, 2, 2])

    def test_an_interrupted_setting_goes_on_with_its_next_part(self):
        done = {f"134m-bf16-{part}": {"entries": [{"work": part}], part: 1} for part in ("start", "passes", "texts")}
        asked = []
        setting, entries = peers_bench.measure(None, "134m", "bf16", turns.Rules(), lambda name, _: asked.append(name) or done[name])
        self.assertEqual(setting, {"shape": "134m", "type": "bf16", "start": 1, "passes": 1, "texts": 1})
        self.assertEqual(entries[1], {"shape": "134m", "type": "bf16", "work": "passes"})
        self.assertEqual(asked, list(done))

    def test_a_plain_copy_reads_all_of_a_file(self):
        with tempfile.TemporaryDirectory() as name:
            file, views = pathlib.Path(name) / "weights", []
            file.write_bytes(bytes(range(256)) * 1000)
            def memory(_, size, flags):
                self.assertEqual(flags, peers_bench.mmap.MAP_PRIVATE)
                return contextlib.nullcontext(type("Memory", (bytearray,), {"madvise": lambda *_: None})(size))
            keep = lambda view: views.append(view) or memoryview(view)
            with unittest.mock.patch.object(peers_bench, "memoryview", keep, create=True), \
                 unittest.mock.patch.object(peers_bench.mmap, "mmap", memory):
                self.assertGreater(peers_bench.plain_copy(file)(), 0)
            self.assertEqual(bytes(views[0]), file.read_bytes())
            self.assertGreater(peers_bench.plain_copy(file)(), 0)

    def test_the_second_time_counts(self):
        times = iter([9.0, 1.0, 8.0, 2.0])
        twice = peers_bench.second_time(lambda: next(times))
        self.assertEqual([twice(), twice()], [1.0, 2.0])

    def test_settings(self):
        self.assertEqual([peers_bench.setting(name) for name in peers_bench.USUAL], peers_bench.USUAL)
        with self.assertRaises(peers_bench.argparse.ArgumentTypeError):
            peers_bench.setting("134m/q5")

    def test_the_version_that_llama_cpp_tells(self):
        self.assertEqual(peers_bench.version_of("0.5-dev; CPU : AVX2 = 1 | VSX = 0 | AVX512 = 1 |\n"),
                         {"version": "0.5-dev", "features": ["AVX2", "AVX512"]})


class Getting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_only_llama_cpp_is_unpacked_and_only_once(self):
        archive = self.place / get_llama_cpp.ARCHIVE
        with tarfile.open(archive, "w:gz") as made:
            for name in (get_llama_cpp.VENDORED + "CMakeLists.txt", "other/setup.py"):
                made.addfile(tarfile.TarInfo(name), io.BytesIO())
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        with unittest.mock.patch.object(get_llama_cpp, "SHA256", digest), quiet():
            source = get_llama_cpp.source(self.place)
        self.assertEqual([file.name for file in source.iterdir()], ["CMakeLists.txt"])
        archive.unlink()
        self.assertEqual(get_llama_cpp.source(self.place), source)

    def test_without_a_network_it_says_so(self):
        (self.place / get_llama_cpp.ARCHIVE).write_bytes(b"half of it")
        failed = {"pip": lambda *_: ["pip"], "run": lambda *_: "ERROR: No matching distribution found"}
        with unittest.mock.patch.multiple(get_llama_cpp.package_index, **failed), quiet(), \
             self.assertRaisesRegex(SystemExit, "a network: ERROR: No matching distribution found; or put llama_cpp_python-"):
            get_llama_cpp.source(self.place)

    def test_a_build_that_fails_names_its_log(self):
        (self.place / get_llama_cpp.VENDORED).mkdir(parents=True)
        failed = subprocess.CompletedProcess([], 1)
        with unittest.mock.patch.object(subprocess, "run", lambda *_, **__: failed), quiet(), \
             self.assertRaisesRegex(SystemExit, "build failed; see .*llama_cpp_build.log"):
            get_llama_cpp.build(self.place, 1)


# --- tables ---

def cell(work, ratio, seconds=0.01, others=(THEIRS,)):
    return [{"work": work, "program": OURS, "samples": 9, "thrown_away": 1, "seconds": seconds, "spread": 0.02},
            *({"work": work, "program": other, "samples": 9, "thrown_away": 1, "seconds": seconds * ratio, "spread": 0.01, "ratio": ratio}
              for other in others)]


def sample():
    first = {"shape": "134m", "type": "bf16", "plain_texts": {"texts": 4, "same": 3}, "peak_bytes": {OURS: 4e8, THEIRS: 3e8, COPIED: 5e8},
             "file_bytes": {OURS: 2.5e8, THEIRS: 2.6e8},
             "texts": {"texts": 4, "tokens": 64, "K": 4, "margins_of_changes": [0.01, 0.002],
                       OURS: {"unchanged": 4, "tokens_per_round": 2.5}, THEIRS: {"unchanged": 2, "tokens_per_round": 2.4}}}
    second = {**{name: value for name, value in first.items() if name != "texts"}, "shape": "1b"}
    shared = [*cell("M = 1", 1.25), *cell("M = 6", 0.99), *cell("prefill", 0.8, 0.5), *cell("plain", 1.5)]
    entries = [{"type": "bf16", "shape": shape, **entry} for shape, start, more in (("134m", 0.25, cell("speculation", 2, 0.005)), ("1b", 1.1, []))
               for entry in [*shared, *cell("start", start, 2, (THEIRS, COPIED, COPY)), *more]]
    return {"date": "2030-01-02 03:04 UTC", "quick": False, "sources_sha256": "0123456789abcdef" * 4,
            "machine": {"cpu": "Some CPU", "caches": {"L2": "1024K"}, "read_bandwidth_one_thread_gb_per_s": 12.3},
            "build": {"compiler": "c++ 12", "flags": "-O2"}, "device": "CPU, 2 threads",
            "llama_cpp": {"package": "llama-cpp-python 1", "version": "0.5", "features": ["AVX2", "REPACK"]},
            "prefill": 512, "verified": {"prompts": 8, "tokens": 64, "near_ties": 1}, "settings": [first, second], "entries": entries}


def made(name, data=None, stale=False):
    return peers_tables.TABLES["peers-" + name](Results(data or sample(), stale))


def rows(name, **options):
    lines = [line for line in made(name, **options).splitlines() if not line.startswith("|---")]
    return [[part.strip() for part in line.strip("|").split("|")] for line in lines]


class Tables(unittest.TestCase):
    def test_nothing_measured_is_one_line(self):
        for make in peers_tables.TABLES.values():
            text = make(Results(None, False))
            self.assertTrue(text.startswith("NOT MEASURED: ") and text.count("\n") == 1, text)

    def test_where_says_what_to_trust(self):
        self.assertNotIn("smoke test", made("where"))
        self.assertIn("smoke test", made("where", {**sample(), "quick": True}))
        self.assertIn("**Measured before", made("where", stale=True))

    def test_slower_is_what_is_beyond_the_spreads(self):
        """0.99 with a spread of 2% is not."""
        one, other = "`134m`, bf16", "`1b`, bf16"
        self.assertEqual(rows("behind")[1:], [
            [one, "prefill", "llama.cpp", "0.80"], [one, "start to first token", "llama.cpp", "0.25"],
            [one, "start to first token", "llama.cpp, copied", "0.25"], [one, "peak memory", "llama.cpp", "0.75"],
            [other, "prefill", "llama.cpp", "0.80"], [other, "peak memory", "llama.cpp", "0.75"]])

    def test_a_model_without_a_draft_has_its_plain_speed_alone(self):
        self.assertEqual(rows("texts")[4:], [["`1b`, bf16", "specdec", "100", "", "", "", ""], ["", "llama.cpp", "67", "", "", "", ""],
                                             ["", "times as fast", "**1.50**", "", "", "", ""]])

    def test_the_page_is_made_from_this_file(self):
        page = "beside_llama_cpp.md"
        self.assertEqual(set(tables.tables_in(page)), set(peers_tables.TABLES))
        given = {"peers.json": Results(sample(), False)}
        self.assertIn("| **0.99** |", tables.filled(page, tables.text_of(page), given))


if __name__ == "__main__":
    unittest.main()
