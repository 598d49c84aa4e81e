"""Any bytes as a trace for the trace viewer: one line, or a page that holds it.

The page itself gets the trace, too, where there is Node: it says what is wrong, or shows each round.
"""
import json
import sys
from pathlib import Path

import python_fuzzer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs/interactive"), str(ROOT / "tests/cli")]
with python_fuzzer.instrumented():
    import embed_trace
import tool  # where embed_trace has it from
from trace_page import NODE, TracePage

EMPTY = f"<p>\n{embed_trace.BEGIN}\n{embed_trace.END}\n</p>\n"
VIEWER = TracePage() if NODE else None
OPEN, CLOSE = '<script type="application/json" id="sample">\n', "\n</script>"


def no_json(word):
    raise AssertionError(f"{word} is no JSON")


def check(data):
    if VIEWER:
        VIEWER.says(data.decode("utf-8", "replace"))
    try:
        trace = embed_trace.rounded(embed_trace.trace_of(data, "trace.json"))
        page = embed_trace.encoded(embed_trace.embed(EMPTY, embed_trace.as_element(trace))).decode("utf-8")
    except tool.Trouble as error:
        python_fuzzer.require_one_line(error)
        return
    assert page.count(OPEN) == 1 and page.count(CLOSE) == 1, page
    inside = page[page.index(OPEN) + len(OPEN):page.index(CLOSE)]
    assert "<" not in inside and ">" not in inside, inside
    assert json.loads(inside, parse_constant=no_json) == trace, inside


if __name__ == "__main__":
    sys.exit(python_fuzzer.run(check))
