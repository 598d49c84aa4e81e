#!/usr/bin/env python3
"""Tests of turns.py, with times that were made up."""
import sys
import unittest
import unittest.mock

import turns


class Steady:
    def __init__(self, _):
        pass

    def others(self):
        return 0


class Turns(unittest.TestCase):
    def test_the_faster_half(self):
        self.assertEqual(turns.summary([9, 2, 1, 8, 3]), {"seconds": 2, "spread": 1})
        self.assertEqual(turns.summary([4]), {"seconds": 4, "spread": 0})

    def test_a_ratio_is_the_median_of_the_rounds(self):
        rounds = [{"a": 1, "b": 3}, {"a": 10, "b": 20}, {"a": 1, "b": 1}]
        self.assertEqual(turns.cell(rounds, "a")["b"], {"seconds": 2, "spread": 1, "ratio": 2})
        self.assertNotIn("ratio", turns.cell(rounds, "a")["a"])

    def test_busy_ticks_are_neither_idle_nor_waiting(self):
        ticks = turns.os.sysconf("SC_CLK_TCK")
        self.assertEqual(turns.busy_seconds(f"cpu  {ticks} {ticks} {ticks} 999 999 0 0 {ticks} 7 7\ncpu0 1"), 4)

    def test_own_work_is_none_of_others(self):
        """Over a second of two processors, in which the others took 0.5 of the 2 busy seconds."""
        with unittest.mock.patch.object(turns, "busy_seconds", iter((10, 12)).__next__), \
             unittest.mock.patch.object(turns, "own_seconds", lambda _: next(own)), \
             unittest.mock.patch.object(turns.time, "monotonic", iter((0, 1)).__next__), \
             unittest.mock.patch.object(turns.os, "cpu_count", lambda: 2):
            own = iter((3, 4.5))
            self.assertEqual(turns.Watch(()).others(), (0.5 - turns.UNSEEN) / 2)

    def sweep(self, times, watch=Steady, rounds=3, strict=True):
        """times: of each call of either program, in turns; the last one for ever."""
        self.calls = []
        left = list(times)

        def turn(name):
            self.calls.append(name)
            return left.pop(0) if len(left) > 1 else left[0]
        return turns.sweep({"work": {name: lambda name=name: turn(name) for name in ("a", "b")}}, turns.Rules(rounds, strict=strict),
                           watch=watch)

    def test_who_begins_changes_and_the_first_round_warms_up(self):
        cell = self.sweep([100, 100, 1])["work"]
        self.assertEqual("".join(self.calls), "ab" + "ba" + "ab" + "ba")
        self.assertEqual(cell, {"rounds": 3, "thrown_away": 0, "a": {"seconds": 1, "spread": 0}, "b": {"seconds": 1, "spread": 0, "ratio": 1}})

    def test_disturbed_rounds_are_repeated(self):
        class Disturbed(Steady):
            seen = iter((0.5, 0, 0.04, 0, 0.02))

            def others(self):
                return next(self.seen)
        cell = self.sweep([1], Disturbed)["work"]
        self.assertEqual((cell["rounds"], cell["thrown_away"]), (3, 2))
        self.assertEqual(len(self.calls), 2 * (1 + 5))

    def test_a_restless_machine_gives_no_result(self):
        class Disturbed(Steady):
            def others(self):
                return 0.031
        with self.assertRaisesRegex(SystemExit, "disturbed 9 of 9 rounds"):
            self.sweep([1], Disturbed)
        with self.assertRaisesRegex(SystemExit, "the times of [ab] for work differ by .* or allow --spread"):
            self.sweep([0.5 ** i for i in range(30)])
        self.assertEqual(self.sweep([0.5 ** i for i in range(30)], Disturbed, strict=False)["work"]["rounds"], 3)

    def test_no_round_is_added_until_times_look_good(self):
        with self.assertRaisesRegex(SystemExit, "differ by 120% in 3 rounds"):
            self.sweep([9, 9, 1, 1, 4, 4, 9, 9, 1])
        self.assertEqual(len(self.calls), 2 * (1 + 3))

    def test_a_peer_that_ends_says_why(self):
        echo = "import sys; print('[1]', flush=True)\nfor line in sys.stdin: print([line.strip()] == ['x 1'] and '[2]', flush=True)"
        with turns.Peer([sys.executable, "-c", echo]) as peer:
            self.assertEqual(peer.ask("x", 1), [2])
            self.assertGreater(peer.peak_bytes(), 1e6)
        with self.assertRaisesRegex(SystemExit, "ended with 3: no model"), \
             turns.Peer([sys.executable, "-c", "import sys; print('no model', file=sys.stderr); sys.exit(3)"]):
            pass


if __name__ == "__main__":
    unittest.main()
