"""Measures several programs by turns, and says how far the times can be trusted.

A machine's speed drifts, so what is divided was measured within a moment: each round gives every program a turn at
each piece of work, and a ratio is the median of the rounds' ratios. A round during which other processes took more than
DISTURBED of the processors is thrown away and repeated. Nothing else decides how many rounds there are: who measures
until the times look good measures luck. A time is the median of the faster half of the rounds; its spread is how far
these differ, as a part of it.
"""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import typing

DISTURBED = 0.03
UNSEEN = 0.03      # seconds of computing that the counters, which tick a hundred times a second, may be wrong by
MOST_ATTEMPTS = 3  # as many rounds as are wanted, times this


# --- the statistics ---

def faster_half(times):
    return sorted(times)[:(len(times) + 1) // 2]


def summary(times):
    fast = faster_half(times)
    middle = statistics.median(fast)
    return {"seconds": rounded(middle), "spread": rounded((fast[-1] - fast[0]) / middle)}


def rounded(value):
    return float(f"{value:.4g}")


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
    rounds: int = 9                # that are kept
    largest_spread: float = 0.10
    strict: bool = True            # False: every round counts, and no spread is too large


class Disturbed(SystemExit):
    """Too many rounds were."""


def kept_rounds(one_round, rules, pids=(), watch=Watch):
    """What one_round(number) gave in each round that counts, and how many rounds were thrown away."""
    one_round(0)  # warms up
    kept, attempts = [], 0
    while len(kept) < rules.rounds:
        if attempts == rules.rounds * MOST_ATTEMPTS:
            raise Disturbed(f"other processes disturbed {attempts - len(kept)} of {attempts} rounds: let nothing else run")
        attempts += 1
        watched = watch(pids)
        found = one_round(attempts)
        if not rules.strict or watched.others() <= DISTURBED:
            kept.append(found)
    return kept, attempts - len(kept)


class Peer:
    """A process that answers orders (peer.h)."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, bufsize=1)
        self.pid = self.process.pid
        self.first = self.answer()  # it is ready

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
