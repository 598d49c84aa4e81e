"""Colours, where somebody looks: only on terminals, and not where NO_COLOR is set. And what no terminal may get."""
import os
import sys

CODES = {"bold": "1", "green": "32", "red": "31", "yellow": "33", "grey": "90"}


def coloured(text, colour, stream=None):
    stream = stream or sys.stdout
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{CODES[colour]}m{text}\033[0m"


def printable(text):
    """A text of a stranger with escapes for what could move a cursor or break a report's format."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def progress(text):
    """A line on stderr that the next one overwrites; nothing where nobody looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
