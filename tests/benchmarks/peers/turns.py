"""Measures several programs by turns, and says how far the times can be trusted.

A machine's speed drifts, so what is divided was measured one right after the other: each round gives every program a
turn at each piece of work, and a ratio is the median of the rounds' ratios. A round during which other processes took
more than DISTURBED of the processors is thrown away. A time is the median of the faster half of the rounds; its spread
is how far these differ, as a part of it.
"""
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import typing

DISTURBED = 0.03
UNSEEN = 0.03      # seconds of computing that the counters, which tick a hundred times a second, may be wrong by
MOST_ATTEMPTS = 4  # as many rounds as are wanted, times this
REST = 0.02        # seconds before a turn, in which the threads of the one before go to sleep


# --- the statistics ---

def faster_half(times):
    return sorted(times)[:(len(times) + 1) // 2]


def summary(times):
    fast = faster_half(times)
    middle = statistics.median(fast)
    return {"seconds": rounded(middle), "spread": rounded((fast[-1] - fast[0]) / middle)}


def rounded(value):
    return float(f"{value:.4g}")


def cell(rounds, first):
    """rounds: a dict {program: seconds} of each. Of the others also how much longer than `first` they take."""
    result = {"rounds": len(rounds)}
    for program in rounds[0]:
        result[program] = summary([times[program] for times in rounds])
        if program != first:
            result[program]["ratio"] = rounded(statistics.median(times[program] / times[first] for times in rounds))
    return result


def worst_spread(cells):
    """(spread, work, program) of the cell whose times differ most."""
    return max((entry["spread"], work, program) for work, found in cells.items()
               for program, entry in found.items() if program != "rounds")


# --- who else computes ---

def busy_seconds(stat=None):
    """Of all processors together, since the machine started; /proc/stat counts user, nice, system, idle, iowait, ..."""
    stat = pathlib.Path("/proc/stat").read_text() if stat is None else stat
    ticks = [int(word) for word in stat.splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own_seconds(pids):
    """That these processes and this one have computed, with what they have waited for."""
    total = sum(os.times()[:4])
    for pid in pids:
        try:
            words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(word) for word in words[11:15]) / os.sysconf("SC_CLK_TCK")
    return total


class Watch:
    """What part of the processors others took since it began."""

    def __init__(self, pids):
        self.pids = pids
        self.start = time.monotonic(), busy_seconds(), own_seconds(pids)

    def others(self):
        seconds = time.monotonic() - self.start[0]
        others = busy_seconds() - self.start[1] - (own_seconds(self.pids) - self.start[2])
        return max(others - UNSEEN, 0) / (seconds * os.cpu_count())


# --- turns ---

class Rules(typing.NamedTuple):
    rounds: int = 9                # that are wanted
    largest_spread: float = 0.10
    strict: bool = True            # False: every round counts, and no spread is too large


def sweep(work, rules, pids=(), watch=Watch):
    """work: {name: {program: function that returns seconds}} -> {name: cell}. The first program is what the others are
    compared with. The sweep goes on until all spreads are small, and ends the run where they do not become so."""
    kept = {name: [] for name in work}
    cells, attempts, first = {}, 0, next(iter(next(iter(work.values()))))
    one_round(work, 0)  # warms up
    while attempts < rules.rounds * (MOST_ATTEMPTS if rules.strict else 1):
        attempts += 1
        watched = watch(pids)
        times = one_round(work, attempts)
        if rules.strict and watched.others() > DISTURBED:
            continue
        for name, found in times.items():
            kept[name].append(found)
        cells = {name: cell(found, first) for name, found in kept.items()}
        done = len(next(iter(kept.values())))
        if done >= rules.rounds and (not rules.strict or worst_spread(cells)[0] <= rules.largest_spread):
            return cells
    counted = len(next(iter(kept.values())))
    if counted < rules.rounds:
        raise SystemExit(f"other processes disturbed {attempts - counted} of {attempts} rounds: let nothing else run")
    spread, name, program = worst_spread(cells)
    raise SystemExit(f"the times of {program} for {name} differ by {spread:.0%} in {counted} rounds: let nothing else run, or "
                     f"allow --spread {math.ceil(100 * spread) / 100}")


def one_round(work, number):
    """{name: {program: seconds}}; who begins changes from round to round."""
    found = {}
    for name, turns in work.items():
        programs = list(turns)
        order = programs if number % 2 == 0 else programs[::-1]
        times = {}
        for program in order:
            time.sleep(REST)
            times[program] = turns[program]()
        found[name] = {program: times[program] for program in programs}
    return found


class Peer:
    """A process that answers orders (peer.h)."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, bufsize=1)
        self.pid = self.process.pid
        self.answer()  # it is ready

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def ask(self, *order):
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            self.process.stdin.write(" ".join(str(word) for word in order) + "\n")
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip()[-300:]
        self.close()
        raise SystemExit(f"{' '.join(self.command)} ended with {self.process.returncode}: {said}")

    def peak_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise SystemExit("/proc has no VmHWM")
