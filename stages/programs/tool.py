"""What every tool of the project does in the same way: it ends with one line where it cannot go on.

    sys.exit(tool.run("doctor", main))

Exit code 2 for what the user can change: a folder that is gone, a file that cannot be read, a stdout
that takes nothing, an option without a value. A reader that goes away, as `| head -1` does, is no error.
"""
import argparse
import os
import subprocess
import sys

from terminal import printable

# The Makefiles pass these also where they are not given; the tools say what is to be given.
FROM_MAKE = ("--stage", "--task", "--secret")


class Trouble(Exception):
    """What ends a tool: `str` is the line to print."""


def run(name, main):
    """Runs a tool, and returns its exit code. main: without arguments, returns one or ends by SystemExit."""
    try:
        surroundings()
        code = ended(name, main)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        silence()
        return 0
    except KeyboardInterrupt:
        words, code = "interrupted", 130
    except Trouble as trouble:
        words, code = str(trouble), 2
    except OSError as error:
        words, code = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part), 2
    except UnicodeError as error:
        words, code = f"a text that is not UTF-8: {error}", 2
    except subprocess.CalledProcessError as error:
        said = error.stderr or b""
        lines = (said if isinstance(said, str) else said.decode("utf-8", "replace")).strip().splitlines()
        words, code = f"{error.cmd[0] if isinstance(error.cmd, list) else error.cmd} failed: {lines[-1] if lines else error}", 2
    except (MemoryError, RecursionError) as error:
        words, code = f"too large or too deep: {type(error).__name__}", 2
    silence()
    print(f"{name}: {as_message(words)}", file=sys.stderr)
    return code


def as_message(words, begin=1000, end=400):
    """Words as one line of a terminal. They may quote an argument or a file: escapes for control characters, and of a
    very long line the middle left out."""
    line = printable(" ".join(words.split()))
    return line if len(line) <= begin + end else f"{line[:begin]} ... {line[-end:]}"


def ended(name, main):
    """The exit code of what ends by returning or by SystemExit, which may have the line to print."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        raise Trouble(code[len(name) + 2:] if code.startswith(f"{name}: ") else code)
    return code or 0


def surroundings():
    """Looks at what every tool needs before it begins, and makes it speak in single lines."""
    if sys.stderr is None:  # it was closed; what is said there is not heard
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        raise Trouble("stdout is closed")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError as error:
        raise Trouble("the working directory is gone; change to one that is there") from error
    for option, value in zip(sys.argv, [*sys.argv[1:], None]):
        if option.startswith("--") and (value == "" or option.endswith("=")) and option not in FROM_MAKE:
            raise Trouble(f"{option.rstrip('=')} has no value")
    argparse.ArgumentParser.error = one_line
    argparse.ArgumentParser.print_help = print_help


def one_line(parser, message):
    """Instead of argparse's, which prints the usage before it."""
    raise Trouble(f"{message} (--help lists the options)")


def print_help(parser, file=None):
    """As argparse's, which does not tell where nothing can be printed."""
    print(parser.format_help(), end="", file=file)


def silence():
    """What is left to print goes nowhere, so that the interpreter does not trip over it at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            pass
