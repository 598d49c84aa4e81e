"""Colours and progress for people: only on terminals, and no colours where NO_COLOR is set. And what no terminal may
get."""
import os
import sys
import time

CODES = {"bold": "1", "green": "32", "red": "31", "yellow": "33", "blue": "34", "grey": "90", "struck red": "31;9"}


def has_colours(stream=None):
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR")


def coloured(text, colour, stream=None):
    return f"\033[{CODES[colour]}m{text}\033[0m" if has_colours(stream) else text


def printable(text):
    """A text of a stranger with escapes for what could move a cursor or break a report's format."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def progress(text):
    """A line on stderr that the next one overwrites; nothing where no one looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


class Progress:
    """Of a long work: a line that changes on a terminal; elsewhere one line now and then, so that a log shows that it
    goes on. What is over at once is not mentioned there."""
    FIRST, EVERY = 3, 15  # seconds

    def __init__(self, words, clock=time.monotonic):
        self.words, self.clock = words, clock
        self.next = clock() + self.FIRST

    def step(self, done, of):
        if sys.stderr.isatty():
            progress(f"{self.words}: {done} of {of}")
        elif self.clock() >= self.next:
            self.next = self.clock() + self.EVERY
            print(f"{self.words}: {done} of {of}", file=sys.stderr, flush=True)

    def end(self):
        progress("")


def bar(done, of, width=20):
    """A bar of so many characters."""
    filled = width * done // of if of else width
    return coloured("#" * filled, "green") + coloured("." * (width - filled), "grey")
