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

    def kept(self, watch=Steady, strict=True):
        """The numbers of the rounds that count, and how many were thrown away."""
        self.numbers = []
        return turns.kept_rounds(lambda number: self.numbers.append(number) or number, turns.Rules(3, strict=strict), watch=watch)

    def test_the_first_round_warms_up(self):
        self.assertEqual(self.kept(), ([1, 2, 3], 0))
        self.assertEqual(self.numbers, [0, 1, 2, 3])

    def test_disturbed_rounds_are_repeated(self):
        class Disturbed(Steady):
            seen = iter((0.5, 0, 0.04, 0, 0.02))

            def others(self):
                return next(self.seen)
        self.assertEqual(self.kept(Disturbed), ([2, 4, 5], 2))

    def test_a_restless_machine_gives_no_result(self):
        class Disturbed(Steady):
            def others(self):
                return 0.031
        with self.assertRaisesRegex(SystemExit, "disturbed 9 of 9 rounds"):
            self.kept(Disturbed)
        self.assertEqual(self.kept(Disturbed, strict=False), ([1, 2, 3], 0))

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
