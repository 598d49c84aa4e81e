"""Runs commands that may hang, within a number of seconds that is certain: each job has an end, each step too, and so
have all steps together. What is still running at an end is ended with all that it has started."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import typing

GRACE = 2        # seconds from asking a process to end to ending it
KEPT = 200_000   # characters of a job's output: the last ones


class Job(typing.NamedTuple):
    name: str
    command: list
    most: float            # seconds
    says: str = ""         # what its output must match to count as passed
    environment: dict = {}
    never: str = ""        # what its output must not match


class Step(typing.NamedTuple):
    name: str
    most: float            # seconds for all jobs
    log: str               # the file that gets what they print
    jobs: list
    parallel: int = 1


class Result(typing.NamedTuple):
    """PASS; FAIL; LATE: left out, or ended because the time of all was over."""
    name: str
    verdict: str
    seconds: float = 0
    why: str = ""
    output: str = ""


def end_all(process):
    """Ends a process and its children, which share its session."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass


def waited(process, seconds):
    """The exit code, or None if it did not end by then. Nothing of it runs afterwards."""
    try:
        return process.wait(max(seconds, 0))
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_all(process)


class Bounded:
    """Runs jobs until `seconds` from now."""

    def __init__(self, seconds, out):
        self.start, self.out, self.lock = time.monotonic(), out, threading.Lock()
        self.end = self.start + seconds - 2 * GRACE

    def seconds(self):
        return time.monotonic() - self.start

    def run(self, step):
        """The results of a step's jobs, in their order."""
        end = min(self.end, time.monotonic() + step.most)
        with concurrent.futures.ThreadPoolExecutor(step.parallel) as pool:
            return list(pool.map(lambda job: self.job(job, end, self.out / step.log), step.jobs))

    def job(self, job, end, log):
        begun = time.monotonic()
        if begun >= end:
            return Result(job.name, "LATE")
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(job.command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                           start_new_session=True, env={**os.environ, **job.environment})
                code = waited(process, min(job.most, end - begun))
                why = "" if code == 0 else f"exit code {code}"
            except OSError as error:
                code, why = 127, str(error)
            said.seek(max(0, said.seek(0, os.SEEK_END) - KEPT))
            output = said.read().decode("utf-8", "replace")
        seconds = time.monotonic() - begun
        if code is None:
            verdict, why = ("FAIL", f"no end after {job.most:g} s") if job.most <= end - begun else ("LATE", "ended")
        else:
            if code == 0 and job.says and not re.search(job.says, output):
                why = f"it does not say {job.says!r}"
            if code == 0 and job.never and (found := re.search(job.never, output)):
                why = f"it says {found[0]!r}"
            verdict = "FAIL" if why else "PASS"
        result = Result(job.name, verdict, round(seconds, 1), why, output)
        self.note(result, pathlib.Path(log))
        return result

    def note(self, result, log):
        with self.lock, log.open("a", encoding="utf-8") as file:
            file.write(f"=== {result.verdict} {result.name} {result.seconds} s {result.why}\n{result.output}\n")


def verdict_of(results):
    """Of a step: the worst of its jobs'."""
    verdicts = {result.verdict for result in results}
    return next((word for word in ("FAIL", "LATE") if word in verdicts), "PASS")
