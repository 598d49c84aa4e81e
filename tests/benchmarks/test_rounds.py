#!/usr/bin/env python3
"""Tests of rounds.py, and of how bench.py goes by turns, with times that were made up."""
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import bench
import rounds

COMMITTED = pathlib.Path(__file__).resolve().parents[2] / "docs/experiments/bench.json"


def entry(M, seconds, spread=0.02, samples=9, **more):
    return {"benchmark": "matmul/bf16", "M": M, "seconds": seconds, "spread": spread, "samples": samples, **more}


class Entries(unittest.TestCase):
    def test_times_are_of_the_faster_half_and_ratios_are_medians(self):
        found = rounds.entry_of([{"seconds": seconds, "over_plain": ratio, "tokens_per_second": 1 / seconds, "samples": 1}
                                 for seconds, ratio in zip((9, 2, 1, 8, 3), (1, 5, 2, 3, 9))])
        self.assertEqual(found, {"samples": 5, "spread": 1, "ratio_spreads": {"over_plain": 1}, "seconds": 2, "over_plain": 3,
                                 "tokens_per_second": 0.5})

    def test_a_round_with_a_restless_yardstick_does_not_count(self):
        found = rounds.entry_of([{"seconds": 1, "samples": 1}, {"seconds": None, "samples": 0}, {"seconds": 1, "samples": 1}])
        self.assertEqual(found, {"samples": 2, "spread": 0, "ratio_spreads": {}, "seconds": 1})
        self.assertFalse(rounds.is_steady(found))

    def test_each_ratio_has_a_spread_of_its_own(self):
        found = rounds.entry_of([{"gain": gain, "c": 0.1, "v": None, "alpha": gain, "bandwidth": gain, "samples": gain < 9}
                                 for gain in (1, 2, 2.5, 4, 8, 9)])
        self.assertEqual(found["ratio_spreads"], {"gain": 0.8, "c": 0})  # from 2 to 4, around 2.5
        self.assertEqual([rounds.ratio_spread(values) for values in ([3], [0, 0, 5], [1, 3])], [0, 0, 0.5])

    def test_what_is_steady(self):
        self.assertTrue(rounds.is_steady(entry(1, 1, 0.10, 5)))
        self.assertFalse(rounds.is_steady(entry(1, 1, 0.11, 9)))
        self.assertFalse(rounds.is_steady(entry(1, 1, 0.01, 4)))

    def test_an_unsteady_text_leaves_out_its_setting(self):
        texts = [entry(1, 1, spread, text=text) for text, spread in (("code", 0.2), ("poems", 0))]
        kept, left_out = rounds.steady_entries([*texts, entry(2, 2)])
        self.assertEqual((kept, left_out), ([entry(2, 2)], ["matmul/bf16 1"]))

    def test_too_many_unsteady_settings_end_the_run(self):
        with self.assertRaisesRegex(SystemExit, "2 of 3 settings were not steady, the worst: matmul/bf16 2, whose times differ by 30%"):
            rounds.steady_entries([entry(1, 1, 0.2), entry(2, 2, 0.3), entry(3, 3)])


class Inversions(unittest.TestCase):
    def test_more_rows_in_less_time(self):
        self.assertEqual(rounds.inversions([entry(13, 0.05108), entry(14, 0.02061)]), [("matmul/bf16", 13, 14, 0.05108, 0.02061)])

    def test_within_the_spreads_it_is_none(self):
        self.assertEqual(rounds.inversions([entry(13, 1.03), entry(14, 1.0), entry(15, 1.5)]), [])
        self.assertEqual(len(rounds.inversions([entry(13, 1.05), entry(14, 1.0)])), 1)

    def test_the_committed_tables_have_none(self):
        """Results of an older form have no spreads; they must be marked as stale until they are measured anew."""
        results = json.loads(COMMITTED.read_text(encoding="utf-8"))
        if results.get("form") != rounds.FORM:
            self.assertTrue(bench.is_stale(results))
            self.skipTest("the committed results have an older form, without rounds and spreads")
        self.assertEqual(rounds.inversions([entry for part in results["programs"].values() for entry in part["benchmarks"]]), [])


class Gaps(unittest.TestCase):
    def test_intervals_that_touch_overlap(self):
        for first, second, gap in (((1, 0.25), (2.5, 0.5), 0), ((1, 0.25), (3, 0.5), 0.25), ((2, 0), (2, 0), 0),
                                   ((1, 0.5), (1, 0.25), -0.5), ((2, 0), (3, 0), 1)):
            self.assertEqual((rounds.gap(first, second), rounds.gap(second, first)), (gap, gap))


class Steady:
    def __init__(self, _):
        pass

    def others(self):
        return 0


PROGRAM = """#!/usr/bin/env python3
import json, sys
names = ["matmul/bf16/M:1/iterations:1/manual_time", "matmul/bf16/M:2/iterations:1/manual_time"]
if "--benchmark_list_tests" in sys.argv:
    print(*names, sep="\\n")
    sys.exit()
assert "--by-turns" in sys.argv
print(json.dumps({"backend": "CPU"}), flush=True)
for number, line in enumerate(sys.stdin):
    name = next(name for name in names if "M:" + name.split("M:")[1][0] in line)
    seconds = SECONDS
    others = dict.fromkeys(["bytes_per_second", "flops_per_second", "of_bandwidth", "of_peak", "over_plain", "peak"], 1)
    print(json.dumps({"name": name, **others, "seconds": seconds, "bandwidth": 2e10, "samples": 1}), flush=True)
"""


class Running(unittest.TestCase):
    def run_bench(self, seconds, *words):
        """What main() printed, with what files it wrote, where each time is this expression."""
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            program = build / "bin/bench/kernels_benchmark"
            program.parent.mkdir(parents=True)
            program.write_text(PROGRAM.replace("SECONDS", seconds), encoding="utf-8")
            program.chmod(0o755)
            options = bench.options_of([f"--build={build}", "--only", "kernels_benchmark", *words])
            try:
                with unittest.mock.patch.object(bench, "options_of", lambda: options), \
                     unittest.mock.patch.object(bench.turns.kept_rounds, "__defaults__", ((), Steady)), \
                     unittest.mock.patch("builtins.print"), unittest.mock.patch.object(bench, "write_page", lambda *_: ""):
                    bench.main()
            finally:
                self.file = build / "bench/results.json"
                self.written = json.loads(self.file.read_text(encoding="utf-8")) if self.file.is_file() else None

    def test_a_steady_machine(self):
        self.run_bench("1 if 'M:1' in name else 2")
        part = self.written["programs"]["kernels_benchmark"]
        self.assertEqual((self.written["form"], part["rounds"], part["thrown_away"], part["unsteady"]), ("rounds", 9, 0, []))
        self.assertEqual([(e["M"], e["seconds"], e["spread"], e["samples"]) for e in part["benchmarks"]], [(1, 1, 0, 9), (2, 2, 0, 9)])

    def test_unsteady_times_are_not_written(self):
        with self.assertRaisesRegex(SystemExit, "2 of 2 settings were not steady"):
            self.run_bench("1 + number")
        self.assertIsNone(self.written)
        self.run_bench("1 + number", "--anyway")
        self.assertIsNone(self.written)

    def test_inversions_are_not_written(self):
        with self.assertRaisesRegex(SystemExit, "1 times cannot be right, as that of matmul/bf16: 2 s for M = 1, and 1 s for M = 2"):
            self.run_bench("2 if 'M:1' in name else 1")
        self.assertIsNone(self.written)

    def test_rounds_begin_elsewhere_each_time(self):
        self.assertEqual([bench.begun_later([1, 2, 3, 4], number, 3) for number in range(5)],
                         [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3], [1, 2, 3, 4]])

    def test_settings_of_a_text_follow_each_other(self):
        names = [f"speculation/target:134m/T:0/K:{K}/text:{text}" for K in (1, 2) for text in ("code", "poems")]
        self.assertEqual(bench.in_order(names), [names[0], names[2], names[1], names[3]])


if __name__ == "__main__":
    unittest.main()
