"""A machine of its own for one program, made of Linux namespaces.

Of the files it sees the system's (compiler, libraries, no one's data) and those that it is given, all
read-only, beside one folder to write to. Of the processes it sees its own, and of the network nothing.
Root may make namespaces, and on most machines every user may; `works` says whether we may here.
"""
import ctypes
import functools
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix")
DEVICES = ("null", "zero", "full", "random", "urandom")
# From <sched.h> and <sys/mount.h>.
NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
LOCKED = ((os.ST_NOSUID, NO_SUID), (os.ST_NODEV, NO_DEVICES), (os.ST_NOEXEC, NO_EXEC), (os.ST_NOATIME, 1 << 10),
          (os.ST_NODIRATIME, 1 << 11), (os.ST_RELATIME, 1 << 21))
libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class World:
    """What a program may see of our files; everything else of ours is out of its reach."""
    sees: list = field(default_factory=list)   # files and folders
    hides: list = field(default_factory=list)  # folders, which matters where they lie among the system's


def _called(name, *arguments):
    if getattr(libc, name)(*[os.fsencode(a) if isinstance(a, (str, Path)) else a for a in arguments]) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _mount(what, where, kind, flags, options=None):
    _called("mount", what, where, kind, ctypes.c_ulong(flags), options)


def _bind(path, there, writable=False):
    """Shows a file or folder at another place."""
    if not os.path.lexists(there):
        there.parent.mkdir(parents=True, exist_ok=True)
        there.mkdir() if os.path.isdir(path) else there.touch()
    _mount(path, there, None, BIND | RECURSIVE)
    if not writable:
        kept = os.statvfs(there).f_flag  # what a mount forbids stays forbidden
        _mount(None, there, None, REMOUNT | BIND | READ_ONLY | sum(ours for st, ours in LOCKED if kept & st))


def _own_users():
    """Namespaces for users other than root: we stay who we are, and may mount."""
    user, group = os.getuid(), os.getgid()
    _called("unshare", NEW_USER)
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(line, encoding="ascii")


def _furnish(new, folder, world):
    """Makes the folder `new` a root directory."""
    _mount("none", new, "tmpfs", NO_SUID | NO_DEVICES, "size=4m,mode=755")
    for name in SYSTEM:
        if os.path.islink(f"/{name}"):
            (new / name).symlink_to(os.readlink(f"/{name}"))
        elif os.path.isdir(f"/{name}"):
            _bind(f"/{name}", new / name)
    for path in world.hides:
        there = new / str(path).lstrip("/")
        if there.is_dir():
            _mount("none", there, "tmpfs", NO_SUID | NO_DEVICES, "size=4m,mode=755")
    for name in DEVICES:
        _bind(f"/dev/{name}", new / "dev" / name, writable=True)
    (new / "proc").mkdir()
    for path in world.sees:
        _bind(path, new / str(path).lstrip("/"))
    _bind(folder, new / str(folder).lstrip("/"), writable=True)


def _as_init(status):
    """The first process of the namespace: ends when the program does, and the rest ends with it."""
    try:
        _mount("none", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)
    except OSError:
        pass  # a container may forbid it; then there is none
    program = os.fork()
    if program == 0:
        return
    _close_all_but(status)
    while True:
        ended, code = os.wait()
        if ended == program:
            os.write(3, code.to_bytes(4, "little"))
            os._exit(0)


def _close_all_but(pipe):
    """Among others the pipe on which subprocess waits for the program to begin."""
    os.dup2(pipe, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))


def _end_like(code):
    """Ends this process as the program ended."""
    if os.WIFSIGNALED(code):
        number = os.WTERMSIG(code)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(code))


def enter(new, folder, world):
    """Returns in a process of the new world, in `folder`. The process that called waits for it, and ends
    as it does. new: an empty folder for the world's root. Raises OSError where this is not allowed."""
    if os.geteuid() != 0:
        _own_users()
    _called("unshare", NEW_MOUNTS | NEW_IPC | NEW_PIDS | NEW_NETWORK)
    _mount(None, "/", None, PRIVATE | RECURSIVE)
    _furnish(Path(new), folder, world)
    receive, status = os.pipe()
    init = os.fork()
    if init:
        _close_all_but(receive)
        os.waitpid(init, 0)
        said = os.read(3, 4)
        _end_like(int.from_bytes(said, "little") if len(said) == 4 else signal.SIGKILL)
    os.close(receive)
    old = Path(new, "old")
    old.mkdir()
    _called("pivot_root", new, old)
    os.chdir("/")
    _called("umount2", "/old", DETACH)
    os.rmdir("/old")
    _as_init(status)
    os.close(status)
    os.chdir(folder)


@functools.cache
def works():
    """Whether we may make such a world here."""
    import tempfile
    with tempfile.TemporaryDirectory() as new, tempfile.TemporaryDirectory() as folder:
        try:
            return subprocess.run(["/bin/true"], check=False, capture_output=True,
                                  preexec_fn=lambda: enter(new, folder, World())).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False
