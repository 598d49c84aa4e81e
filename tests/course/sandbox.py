"""Runs a program that nobody vouches for: limited in time, memory, output and rights.

What the program prints goes to files that only we hold; when it is over, nothing of it is left
running. As root, the program runs as `nobody` in a folder of its own, so that it can neither change
the course's files nor stop the process that judges it.
"""
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
MEGABYTE = 1 << 20


@dataclass
class Limits:
    seconds: float = 60  # by the clock; twice as many of processor time
    memory: int = 512 * MEGABYTE  # of address space
    output: int = 4 * MEGABYTE  # of each file that it writes, what it prints among them
    processes: int = 64  # threads count; only as root, for the limit holds for a whole user


@dataclass
class Outcome:
    code: int  # exit code, negative for a signal
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    files: dict = None  # name -> bytes, of those asked for that are there

    def trouble(self):
        """Why this is no orderly end, in words; empty for exit codes."""
        if self.timed_out:
            return f"it was still running after {self.seconds:.0f} s: an endless loop?"
        if self.code < 0:
            name = signal.Signals(-self.code).name
            return {"SIGSEGV": "it crashed (SIGSEGV): an address outside of its memory",
                    "SIGABRT": "it aborted (SIGABRT)",
                    "SIGXCPU": "it used up its processor time: an endless loop?",
                    "SIGXFSZ": "it printed or wrote more than it may",
                    "SIGKILL": "it was killed (SIGKILL): out of memory?"}.get(name, f"it was stopped by {name}")
        return ""


def _restrict(limits, as_nobody):
    """In the child, before the program: a session of its own, limits, and no rights."""
    os.setsid()
    seconds = int(2 * limits.seconds) + 1
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, limits.memory),
                       (resource.RLIMIT_FSIZE, limits.output), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    if as_nobody:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _kill_all(mark):
    """Kills whatever still carries the mark in its environment, however it hid."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark in Path("/proc", entry, "environ").read_bytes():
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue  # it is gone, or not ours


def run(command, limits=None, files=()):
    """Runs a command in an empty folder, in which `files` are then looked for. Never raises for what
    the program does."""
    limits = limits or Limits()
    folder = Path(tempfile.mkdtemp(prefix="specdec-check-"))
    mark = f"SPECDEC_CHECK={uuid.uuid4()}"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "MALLOC_ARENA_MAX": "2",
                   "LC_ALL": "C.UTF-8", **dict([mark.split("=", 1)])}
    as_nobody = os.geteuid() == 0
    if as_nobody:
        os.chown(folder, NOBODY, NOBODY)
    try:
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            started = time.monotonic()
            timed_out = False
            try:
                process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment,
                                           stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                           preexec_fn=lambda: _restrict(limits, as_nobody))
            except (OSError, subprocess.SubprocessError) as error:
                return Outcome(127, "", f"{command[0]}: {error}", 0.0, files={})
            try:
                code = process.wait(timeout=limits.seconds)
            except subprocess.TimeoutExpired:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
            seconds = time.monotonic() - started
            _kill_all(mark.encode())
            return Outcome(code, _text(stdout, limits), _text(stderr, limits), seconds, timed_out,
                           {name: _bytes(folder / name) for name in files if _is_plain(folder / name)})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _text(file, limits):
    file.seek(0)
    return file.read(limits.output).decode("utf-8", "replace")


def _is_plain(path):
    return path.is_file() and not path.is_symlink()


def _bytes(path):
    return path.read_bytes()
