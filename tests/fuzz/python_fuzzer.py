"""What the fuzzers of Python's side share: each hands its check, a function of bytes, to run().

    fuzz_NAME.py --replay FOLDER      the saved corpus, with nothing but Python
    fuzz_NAME.py [OPTIONS] FOLDERS    Atheris looks for new inputs; options and folders are libFuzzer's

Inputs are JSON, and most changes of a byte only break that. So most of the new ones are made by
changing a value of the old one.
"""
import contextlib
import json
import random
import sys
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

BYTES_SHARE = 0.1  # of the changes; the others leave JSON JSON
ODD = (None, True, -1, 0, 2**31, 2**53, 1e308, 1e999, -0.0, "", "\x00", "\n", "\ud800", "</script>", [], {}, [[]], "9" * 30)


def instrumented():
    """In whose block a module of ours is imported so that Atheris sees which of its lines an input reaches."""
    return atheris.instrument_imports(include=["student", "teacher", "embed_trace"]) if atheris else contextlib.nullcontext()


def require_one_line(error):
    """What is printed of an error is one line of text that any terminal can show."""
    text = str(error)
    assert text and "\n" not in text and "\r" not in text, repr(text)
    text.encode("utf-8", "backslashreplace")


def run(check):
    """The program of a fuzzer: its exit code."""
    if sys.argv[1:2] == ["--replay"]:
        try:
            paths = [path for folder in sys.argv[2:] for path in sorted(Path(folder).iterdir())]
        except OSError as error:
            print(f"{error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        return replay(check, paths)
    if atheris is None:
        print("Atheris is missing: pip install -r tests/fuzz/requirements.txt", file=sys.stderr)
        return 2
    atheris.Setup(sys.argv, check, custom_mutator=mutated)
    atheris.Fuzz()
    return 0


def replay(check, paths):
    for path in paths:
        check(path.read_bytes())
    print(f"{len(paths)} inputs, nothing found")
    return 0 if paths else 1


def mutated(data, most, seed):
    """Another input of at most so many bytes."""
    dice = random.Random(seed)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    places = list(places_in(value))
    if not places or dice.random() < BYTES_SHARE:
        return atheris.Mutate(data, len(data))
    changed_at(*dice.choice(places), dice.choice(places), dice)
    text = json.dumps(value).encode()
    return text if len(text) <= most else data


def places_in(value):
    """All (list or object, index or key) of a value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


def changed_at(holder, key, other, dice):
    """Makes one of a few changes at a place. other: a place from which a value may be taken."""
    kind = dice.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copied(other))
    elif kind == 2 and isinstance(holder, dict):
        holder[dice.choice([str(odd) for odd in ODD if odd != "\ud800"])] = holder.pop(key)
    elif kind == 3:
        holder[key] = copied(other)
    else:
        holder[key] = dice.choice(ODD)


def copied(place):
    holder, key = place
    return json.loads(json.dumps(holder[key]))
