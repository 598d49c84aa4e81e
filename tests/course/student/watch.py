"""`make watch STAGE=N`: checks a stage again whenever one of its sources is saved, until Ctrl-C.

usage: python3 tests/course watch --stage N [--build DIR] [--all]
Saves are noticed at once through inotify, and within a second where there is none.
"""
import ctypes
import os
import select
import sys
import time
from pathlib import Path

from student import check
from terminal import coloured

FOLDERS = ("common", "kernels", "stages", "tests/course/probes")
SOURCES = (".h", ".cpp", ".inc", ".txt")
EVERY = 0.7  # seconds, without inotify
SETTLED = 0.15  # seconds: an editor may write several times
IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE = 0x8, 0x80, 0x200


def snapshot(root):
    """What tells a saved source from the one before: path -> time and size."""
    found = {}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            try:
                if path.suffix in SOURCES and path.is_file():
                    found[path] = (path.stat().st_mtime_ns, path.stat().st_size)
            except OSError:
                continue  # it is gone
    return found


class Inotify:
    """Linux' own notice of what happens in folders. Raises OSError where there is none."""

    def __init__(self, root):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(libc, "inotify_init1") else -1
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "no inotify")
        for folder in (path for name in FOLDERS for path in [root / name, *(root / name).rglob("*/")] if path.is_dir()):
            if libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE) < 0:
                os.close(self.fd)
                raise OSError(ctypes.get_errno(), "no watch")

    def __call__(self):
        """Returns when something has happened and nothing more does."""
        ready = select.select([self.fd], [], [])[0]
        while ready:
            os.read(self.fd, 1 << 16)
            ready = select.select([self.fd], [], [], SETTLED)[0]


def waiter(root):
    """A function that returns when something may have been saved."""
    try:
        return Inotify(root)
    except OSError:
        return lambda: time.sleep(EVERY)


def saves(root, wait):
    """Yields whenever a source has been saved. wait: as a waiter."""
    seen = snapshot(root)
    while True:
        wait()
        now = snapshot(root)
        if now != seen:
            seen = now
            yield


def main(arguments):
    root, again = Path.cwd(), waiter(Path.cwd())
    code = check.main(arguments)
    if code == 2:
        return 2  # nothing to watch: the stage or the build is wrong
    try:
        print(coloured("\nwatching; Ctrl-C ends it", "grey"), flush=True)
        for _ in saves(root, again):
            if sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            check.main(arguments)
            print(coloured(f"\nchecked at {time.strftime('%H:%M:%S')}; watching, Ctrl-C ends it", "grey"), flush=True)
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
