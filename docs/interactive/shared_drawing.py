"""Writes what pages share, rounds.css and rounds.js, into the trace viewer and into the server's page.

    python3 docs/interactive/shared_drawing.py            # after a change of these files or of a page

Each page is one file, so it holds a copy between markers. The server's page runs only the script, and obeys only the
style, whose hashes it names.
"""
import base64
import hashlib
import pathlib
import re
import sys

from embed_trace import tool

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/interactive"
PAGES = (ROOT / "docs/trace_viewer.html", ROOT / "stages/programs/serve/page.html")
MARKERS = {"rounds.css": ("/* [rounds.css] */\n", "/* [end rounds.css] */\n"),
           "rounds.js": ("// [rounds.js]\n", "// [end rounds.js]\n")}
NAMED = re.compile(r"(script|style)-src 'sha256-[^']*'")


def hash_of(page, element):
    """Of the text of the page's only script or style, as a browser computes it."""
    [text] = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def filled(page):
    """The page with the shared files as they are now, and with its hashes."""
    for name, (begin, end) in MARKERS.items():
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise tool.Trouble(f"a page needs the lines {begin.strip()} and {end.strip()}, each once and in this order")
        text = (FOLDER / name).read_text(encoding="utf-8")
        page = page[:page.index(begin)] + begin + text + page[page.index(end):]
    return NAMED.sub(lambda found: f"{found[1]}-src 'sha256-{hash_of(page, found[1])}'", page)


def main():
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(tool.run("shared_drawing", main))
