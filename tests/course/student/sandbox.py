"""Runs a program that cannot be trusted: limited in time, memory, output and rights.

What the program prints goes to files that only we hold; when it is over, nothing of it is left
running. As root, the program runs as a user who owns nothing, in a folder of its own, so that it can
neither change the course's files nor stop the process that judges it. Given a World, it also sees no
file of ours but those named there, and no process but its own (isolation.py), where the machine
allows that. Without root's rights and without a World it runs as ourselves: that contains accidents,
not malice.
"""
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from student import isolation

MEGABYTE = 1 << 20
# A user without name, files or other processes; another one in each process that judges, so that
# one's end of all that a program left running does not meet another's program.
STRANGER = random.SystemRandom().randrange(61184, 65520)


@dataclass
class Limits:
    seconds: float = 60  # by the clock, which runs on while other programs have the processor
    processor: float = 120  # seconds of processor time
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

    def endless(self):
        return self.timed_out or self.code == -signal.SIGXCPU

    def trouble(self):
        """Why this is no orderly end, in words; empty for exit codes."""
        if self.timed_out:
            return f"it was still running after {self.seconds:.0f} s: an endless loop?"
        if self.code < 0:
            name = signal.Signals(-self.code).name
            return {"SIGSEGV": "it crashed (SIGSEGV): an address outside of its memory",
                    "SIGABRT": "it aborted (SIGABRT)",
                    "SIGXCPU": "it was still running when its processor time was used up: an endless loop?",
                    "SIGXFSZ": "it printed or wrote more than it may",
                    "SIGKILL": "it was killed (SIGKILL): out of memory?"}.get(name, f"it was stopped by {name}")
        return ""


def _begin(limits, as_stranger, root, folder, world):
    """In the child, before the program: a session of its own, its world, limits, and no rights."""
    os.setsid()
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as first_to_go:
        first_to_go.write("1000")
    if root:
        isolation.enter(root, folder, world)
    processor = math.ceil(limits.processor)
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 1))  # SIGXCPU, and where that is ignored SIGKILL
    for what, most in ((resource.RLIMIT_AS, limits.memory), (resource.RLIMIT_FSIZE, limits.output), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    if as_stranger:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
        _become_stranger()


def _become_stranger():
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)


def _strangers():
    """Whether the stranger runs anything."""
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == STRANGER:
                return True
        except OSError:
            continue  # it is gone
    return False


def _kill_all(mark, as_stranger):
    """Kills whatever is left of a program: all that the stranger runs, or, without root's rights,
    what still carries the mark in its environment."""
    if as_stranger:
        child = os.fork()
        if child == 0:
            try:
                _become_stranger()
                os.kill(-1, signal.SIGKILL)  # everything that is ours to kill, but ourselves
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        for _ in range(500):  # who is killed takes a moment to die
            if not _strangers():
                return
            time.sleep(0.01)
        return
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark in Path("/proc", entry, "environ").read_bytes():
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue  # it is gone, or not ours


def confines(path):
    """Whether a program at this path runs as a stranger: as root, and where strangers may go."""
    parents = [parent for parent in Path(path).resolve().parents if parent.exists()]
    return os.geteuid() == 0 and all(parent.stat().st_mode & 0o001 for parent in parents)


def run(command, limits=None, files=(), world=None):
    """Runs a command in an empty folder, in which `files` are then looked for; where `world` is given
    and namespaces work, all that it sees is there. Never raises for what the program does."""
    limits = limits or Limits()
    folder = Path(tempfile.mkdtemp(prefix="specdec-check-")).resolve()
    isolated = world is not None and isolation.works()
    root = tempfile.mkdtemp(prefix="specdec-world-") if isolated else None
    mark = f"SPECDEC_CHECK={uuid.uuid4()}"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "MALLOC_ARENA_MAX": "2",
                   "LC_ALL": "C.UTF-8", **dict([mark.split("=", 1)])}
    as_stranger = os.geteuid() == 0 and (isolated or confines(command[0]))
    if as_stranger:
        os.chown(folder, STRANGER, STRANGER)
    try:
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            started = time.monotonic()
            timed_out = False
            try:
                process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment,
                                           stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                           preexec_fn=lambda: _begin(limits, as_stranger, root, folder, world))
            except (OSError, subprocess.SubprocessError) as error:
                return Outcome(127, "", f"{command[0]}: {error}", 0.0, files={})
            try:
                code = process.wait(timeout=limits.seconds)
            except subprocess.TimeoutExpired:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
            seconds = time.monotonic() - started
            _kill_all(mark.encode(), as_stranger)
            return Outcome(code, _text(stdout, limits), _text(stderr, limits), seconds, timed_out,
                           {name: _bytes(folder / name) for name in files if _is_plain(folder / name)})
    finally:
        _remove(folder)
        if isolated:
            os.rmdir(root)


def _remove(folder):
    """Removes what a program left, also folders in folders in folders."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", folder], check=False)


def _text(file, limits):
    file.seek(0)
    return file.read(limits.output).decode("utf-8", "replace")


def _is_plain(path):
    return path.is_file() and not path.is_symlink()


def _bytes(path):
    return path.read_bytes()
