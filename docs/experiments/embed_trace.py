"""Puts a trace into docs/trace_viewer.html, as the sample that it shows when it is opened.

    build/bin/05_rejection_sampling --temperature 0.8 --trace trace.json
    python3 docs/experiments/embed_trace.py trace.json
"""
import argparse
import json
import os
import pathlib
import sys

FORMAT = "specdec-trace-1"
BEGIN, END = "<!-- [sample] -->", "<!-- [end sample] -->"
DIGITS = 6                                # of a probability; a picture needs no more


class Problem(Exception):
    """What the user has to know, in one line."""


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from error


def not_a_number(word):
    raise ValueError(f"{word} is no JSON number")


def read_trace(path):
    try:
        trace = json.loads(read(path), parse_constant=not_a_number)
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path}: no JSON: {error}") from error
    found = trace.get("format") if isinstance(trace, dict) else None
    if found != FORMAT:
        raise Problem(f'{path}: no trace: its "format" is {json.dumps(found)}, not "{FORMAT}"; --trace of stages 4 and '
                      "5 writes one")
    if not isinstance(trace.get("rounds"), list) or not trace["rounds"]:
        raise Problem(f"{path}: the trace has no rounds")
    return trace


def rounded(value):
    """The same with shorter numbers."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
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
        raise Problem(f"the page needs the markers {BEGIN} and {END}, each once and in this order")
    return page[:page.index(BEGIN)] + f"{BEGIN}\n{element}\n" + page[page.index(END):]


def write(path, text):
    """All of it or nothing."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Problem(f"{path}: cannot be written: {error}") from error


def main():
    parser = argparse.ArgumentParser(description="Puts a trace into the trace viewer as its sample.")
    parser.add_argument("trace", metavar="TRACE.json", help="as --trace of stages 4 and 5 writes it")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "trace_viewer.html",
                        help="the page to change (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        trace = read_trace(arguments.trace)
        element = as_element(rounded(trace))
        write(arguments.page, embed(read(arguments.page), element))
    except Problem as problem:
        print(f"embed_trace.py: {problem}", file=sys.stderr)
        return 2
    print(f"{arguments.page}: {len(trace['rounds'])} rounds, {len(element.encode()) // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
