#!/usr/bin/env python3
"""Tests of rounds.py, of how bench.py goes by turns and of compare_runs.py, with times that were made up."""
import contextlib
import copy
import io
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import bench
import compare_runs
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
        self.assertEqual(list(rounds.unsteady([{**entry(1, 1), **found}]).values()), [(0, 2)])

    def test_what_is_never_done_has_no_rate(self):
        found = rounds.entry_of([{"seconds": 1, "bytes_per_second": 2, "flops_per_second": 0, "samples": 1}])
        self.assertEqual((found["bytes_per_second"], found["flops_per_second"]), (2, None))

    def test_each_ratio_has_a_spread_of_its_own(self):
        found = rounds.entry_of([{"gain": gain, "c": 0.1, "v": None, "alpha": gain, "bandwidth": gain, "samples": gain < 9}
                                 for gain in (1, 2, 2.5, 4, 8, 9)])
        self.assertEqual(found["ratio_spreads"], {"gain": 0.8, "c": 0})  # from 2 to 4, around 2.5
        self.assertEqual([rounds.ratio_spread(values) for values in ([3], [0, 0, 5], [1, 3])], [0, 0, 0.5])

    def test_what_is_steady(self):
        for spread, samples, wrong in ((0.10, 5, False), (0.11, 9, True), (0.01, 4, True)):
            self.assertEqual(bool(rounds.unsteady([entry(1, 1, spread, samples)])), wrong)
            found = entry(1, 1, 0.5, samples, ratio_spreads={"gain": spread})
            self.assertEqual(bool(rounds.unsteady([found], lambda entry: entry["ratio_spreads"]["gain"])), wrong)

    def test_half_of_the_texts_leave_out_their_setting(self):
        def texts(*spreads):
            return [entry(1, 1, spread, text=number) for number, spread in enumerate(spreads)]
        self.assertEqual(rounds.steady_entries([*texts(0.2, 0.08, 0.2), entry(2, 2)]), [entry(2, 2)])
        self.assertEqual(rounds.steady_entries(texts(0.2, 0.08, 0.08)), texts(0.2, 0.08, 0.08))

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


def results(*entries, **more):
    return {"form": "rounds", "date": "2030-01-02 03:04 UTC", "sources_sha256": "0123",
            "machine": {"cpu": "Some CPU", "read_bandwidth_one_thread_gb_per_s": 12.3}, "build": None, "device": "CPU",
            "programs": {"kernels_benchmark": {"options": "--samples=1", "benchmarks": list(entries)}}, **more}


def measured(M, seconds, of_bound=1.5, spread=0.02, **more):
    return entry(M, seconds, spread, of_bound=of_bound, bandwidth=2e10, rows=M, ratio_spreads={"of_bound": 0.01}, **more)


def compared(*results):
    """(exit code, the lines that are printed)"""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as out:
        files = [pathlib.Path(name) / file for file in ("first.json", "second.json")]
        for file, content in zip(files, results):
            file.write_text(json.dumps(content), encoding="utf-8")
        with unittest.mock.patch("sys.argv", ["compare_runs.py", *map(str, files)]):
            return compare_runs.main(), out.getvalue().splitlines()


class Agreement(unittest.TestCase):
    def setUp(self):
        self.first = results(*(measured(M, 1) for M in range(1, 11)), date="earlier")  # 20 cells
        self.second = copy.deepcopy({**self.first, "date": "later"})
        self.entries = self.second["programs"]["kernels_benchmark"]["benchmarks"]

    def test_what_differs_within_the_spreads_agrees(self):
        for found in self.entries:  # the yardsticks are no cells
            found.update(seconds=1.04, of_bound=1.53, bandwidth=9e10)
        self.assertEqual(compared(self.first, self.second), (0, ["20 cells, of which 20 agree: 100.00% (wanted: 95%)"]))

    def test_one_cell_in_twenty_may_disagree(self):
        self.entries[0]["seconds"] = 1.05
        self.assertEqual(compared(self.first, self.second), (0, [
            "20 cells, of which 19 agree: 95.00% (wanted: 95%)", "  matmul/bf16 1  seconds: 1 +- 2.0%, then 1.05 +- 2.0%"]))
        self.entries[1]["of_bound"] = 1.9  # the worst; its spread is less than that of a time
        code, lines = compared(self.first, self.second)
        self.assertEqual((code, lines[:2]), (1, ["20 cells, of which 18 agree: 90.00% (wanted: 95%)",
                                                 "  matmul/bf16 2  of_bound: 1.5 +- 1.0%, then 1.9 +- 1.0%"]))

    def test_steady_cells_are_counted_by_themselves(self):
        """Wide spreads agree with anything."""
        for found in self.entries[:9]:
            found.update(seconds=1.2, spread=0.5)
        self.entries[9]["seconds"] = 1.2
        code, lines = compared(self.first, self.second)
        self.assertEqual((code, lines[:2]), (1, ["20 cells, of which 19 agree: 95.00% (wanted: 95%)",
                                                 "11 of these are steady, of which 10 agree: 90.91% (wanted: 95%)"]))

    def test_what_only_one_run_has_is_no_cell(self):
        del self.entries[1:]
        self.entries[0]["of_bound"] = None
        _, lines = compared(self.first, self.second)
        self.assertEqual(lines[:3], ["1 cells, of which 1 agree: 100.00% (wanted: 95%)",
                                     "cells that only the first run has: 19", "  matmul/bf16 1  of_bound"])

    def test_texts_are_cells_of_their_own(self):
        first, second = (results(*(measured(1, seconds, text=text) for text, seconds in both.items()))
                         for both in ({"code": 1, "poems": 2}, {"poems": 2.01, "code": 1.01}))
        self.assertEqual(compared(first, second)[1], ["4 cells, of which 4 agree: 100.00% (wanted: 95%)"])

    def test_runs_that_cannot_be_compared(self):
        for second, message in (({**self.second, "sources_sha256": "4567"}, "sources_sha256 is 0123 in the first, 4567"),
                                ({**self.second, "device": "GPU"}, "device is CPU in the first, GPU"),
                                (results(measured(11, 1)), "no cell in common")):
            with self.assertRaisesRegex(SystemExit, message):
                compared(self.first, second)


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
    others = dict.fromkeys(["bytes_per_second", "flops_per_second", "of_bandwidth", "of_bound", "of_peak", "over_plain", "peak"], 1)
    print(json.dumps({**others, "seconds": seconds, "bandwidth": 2e10, "samples": 1}), flush=True)
"""


class Busy(Steady):
    def others(self):
        return 1


class Running(unittest.TestCase):
    def run_bench(self, seconds, *words, before=None, watch=Steady):
        """What main() printed, with what files it wrote, where each time is this expression. before: an earlier file."""
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            program = build / "bin/bench/kernels_benchmark"
            program.parent.mkdir(parents=True)
            program.write_text(PROGRAM.replace("SECONDS", seconds), encoding="utf-8")
            program.chmod(0o755)
            if before is not None:
                (build / "bench").mkdir()
                (build / "bench/results.json").write_text(json.dumps(before), encoding="utf-8")
            options = bench.options_of([f"--build={build}", "--only", "kernels_benchmark", *words])
            try:
                with unittest.mock.patch.object(bench, "options_of", lambda: options), \
                     unittest.mock.patch.object(bench.turns.kept_rounds, "__defaults__", ((), watch)), \
                     unittest.mock.patch.object(bench.run, "read_bandwidth", lambda: 12.3), \
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
        code, lines = compared(self.written, {**self.written, "date": "later"})
        self.assertEqual((code, lines), (0, ["14 cells, of which 14 agree: 100.00% (wanted: 95%)"]))

    def test_unsteady_times_are_named_but_not_committed(self):
        self.run_bench("1 + number")
        part = self.written["programs"]["kernels_benchmark"]
        self.assertEqual((part["strict"], part["unsteady"]), (False, ["matmul/bf16 1", "matmul/bf16 2"]))
        self.assertGreater(min(e["spread"] for e in part["benchmarks"]), 0.1)
        with self.assertRaisesRegex(SystemExit, "2 of 2 settings were not steady"):
            self.run_bench("1 + number", "--commit", before=self.written)  # which it does not keep, either
        self.assertEqual(self.written["programs"], {})

    def test_what_others_gave_is_kept(self):
        self.run_bench("1 if 'M:1' in name else 2")
        parts = self.written["programs"]
        noisy, steady = ({"backend": "CPU", "rounds": 9, "strict": strict, "benchmarks": []} for strict in (False, True))
        first = {**self.written, "programs": {"stages": steady, "batch": noisy, **parts}}
        with self.assertRaisesRegex(SystemExit, "(?s)kernels_benchmark: 2 of 2 settings .*--only kernels_benchmark$"):
            self.run_bench("1 + number", "--commit", before=first)
        self.assertEqual(list(self.written["programs"]), ["stages"])
        with self.assertRaises(SystemExit):
            self.run_bench("1 + number", "--commit", before={**first, "sources_sha256": "of others"})
        self.assertEqual(self.written["programs"], {})

    def test_a_disturbed_sweep_leaves_what_others_gave(self):
        self.run_bench("1 if 'M:1' in name else 2")
        first = {**self.written, "programs": {"stages": {"backend": "CPU", "rounds": 9, "benchmarks": []}}}
        with self.assertRaisesRegex(SystemExit, "kernels_benchmark: other processes disturbed 27 of 27 rounds: let nothing else"):
            self.run_bench("1 if 'M:1' in name else 2", before=first, watch=Busy)
        self.assertEqual(self.written, first)

    def test_a_benchmark_that_fails_ends_the_run(self):
        with self.assertRaisesRegex(SystemExit, "^matmul/bf16/M:2/iterations:1/manual_time: no memory$"):
            self.run_bench('1 if "M:1" in name else print(json.dumps({"error": "no memory"}), flush=True) or 1')
        self.assertIsNone(self.written)

    def test_inversions_are_named_but_not_committed(self):
        self.run_bench("2 if 'M:1' in name else 1")
        self.assertEqual(self.written["programs"]["kernels_benchmark"]["unsteady"], ["matmul/bf16 1", "matmul/bf16 2"])
        with self.assertRaisesRegex(SystemExit, "1 times cannot be right, as that of matmul/bf16: 2 s for M = 1, and 1 s for M = 2"):
            self.run_bench("2 if 'M:1' in name else 1", "--commit")
        self.assertEqual(self.written["programs"], {})

    def test_rounds_begin_elsewhere_each_time(self):
        self.assertEqual([bench.begun_later([1, 2, 3, 4], number, 3) for number in range(5)],
                         [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3], [1, 2, 3, 4]])


if __name__ == "__main__":
    unittest.main()
