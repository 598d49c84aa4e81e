"""Puts a trace into docs/trace_viewer.html, as the sample that it shows when it is opened.

    build/bin/05_rejection_sampling --temperature 0.8 --trace trace.json
    python3 docs/interactive/embed_trace.py trace.json
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "stages/programs"))
import tool  # noqa: E402

FORMATS = ("specdec-trace-1", "specdec-trace-2", "specdec-trace-3")  # of chains, of trees, of beams
BEGIN, END = "<!-- [sample] -->", "<!-- [end sample] -->"
DIGITS = 6                                # of a probability; a picture needs no more
DEEPEST = 20                              # lists and objects in each other; a trace has eight


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise tool.Trouble(f"{path}: cannot be read: {error.strerror}") from error


def text_of(data, path):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise tool.Trouble(f"{path}: cannot be read: {error}") from error


def not_a_number(word):
    raise ValueError(f"{word} is no JSON number")


def trace_of(data, path):
    """The trace that a file's bytes hold."""
    try:
        trace = json.loads(text_of(data, path), parse_constant=not_a_number)
    except (ValueError, RecursionError) as error:
        raise tool.Trouble(f"{path}: no JSON: {error}") from error
    found = trace.get("format") if isinstance(trace, dict) else None
    if found not in FORMATS:
        raise tool.Trouble(f'{path}: no trace: its "format" is {json.dumps(found)}, not one of {", ".join(FORMATS)}; '
                           "--trace of stages 4, 5 and 7 to 10 writes one")
    if not isinstance(trace.get("rounds"), list) or not trace["rounds"]:
        raise tool.Trouble(f"{path}: the trace has no rounds")
    return trace


def rounded(value, left=DEEPEST):
    """The same with shorter numbers. left: how many more may be in each other."""
    if left == 0:
        raise tool.Trouble(f"the trace has more than {DEEPEST} lists and objects in each other")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise tool.Trouble("the trace has a number that is too large")
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [rounded(item, left - 1) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item, left - 1) for key, item in value.items()}
    return value


def as_element(trace):
    """The script element, a round a line. Escaped so that no text of the trace can end the element."""
    dump = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    head = {key: value for key, value in trace.items() if key != "rounds"}
    text = dump(head)[:-1] + ',"rounds":[\n' + ",\n".join(dump(r) for r in trace["rounds"]) + "\n]}"
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="sample">\n{text}\n</script>'


def embed(page, element):
    """The page with the element between the markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise tool.Trouble(f"the page needs the markers {BEGIN} and {END}, each once and in this order")
    return page[:page.index(BEGIN)] + f"{BEGIN}\n{element}\n" + page[page.index(END):]


def encoded(page):
    try:
        return page.encode("utf-8")
    except UnicodeEncodeError as error:
        raise tool.Trouble(f"the trace has a text that is none: {error.reason} at character {error.start} of the page") from error


def write(path, data):
    """All of it or nothing, in place of the file that a link leads to."""
    path = path.resolve()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as partial:
        try:
            partial.write(data)
            partial.close()
            shutil.copymode(path, partial.name)
            os.replace(partial.name, path)
        except BaseException:
            os.unlink(partial.name)
            raise


def main():
    parser = argparse.ArgumentParser(description="Puts a trace into the trace viewer as its sample.")
    parser.add_argument("trace", metavar="TRACE.json", help="as --trace of stages 4, 5 and 7 to 10 writes it")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "trace_viewer.html",
                        help="the page to change (default: %(default)s)")
    arguments = parser.parse_args()
    if not arguments.page.is_file():
        raise tool.Trouble(f"{arguments.page}: no plain file to change")
    trace = trace_of(read(arguments.trace), arguments.trace)
    element = as_element(rounded(trace))
    page = embed(text_of(read(arguments.page), arguments.page), element)
    write(arguments.page, encoded(page))
    print(f"{arguments.page}: {len(trace['rounds'])} rounds, {len(element.encode()) // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(tool.run("embed_trace", main))
