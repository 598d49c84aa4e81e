"""Writes docs/interactive/trace.html and beams.html: the trace viewer with the runs that PAGES names.

    python3 docs/interactive/interactive_trace.py            # with the programs in build/bin
    python3 docs/interactive/interactive_trace.py DIR        # in another directory

The pages hold no times, so every machine writes the same counts. tests/cli/test_interactive.py runs the commands and
compares what the programs print with the pages.
"""
import argparse
import html
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import embed_trace
from embed_trace import tool

ROOT = pathlib.Path(__file__).resolve().parents[2]
VIEWER, FOLDER = ROOT / "docs/trace_viewer.html", ROOT / "docs/interactive"
START = "Once, in the winter, Sunita came to York."
PROMPT = START + " Sunita was looking for a crimson coat."
MODELS = ("--target", "golden/models/target", "--draft", "golden/models/draft", "--max-new-tokens", "24", "--quiet")
PAGES = {"trace.html": ("04_greedy_speculation", *MODELS, "--prompt", PROMPT),
         "beams.html": ("10_beam_search", *MODELS, "--prompt", START, "--beams", "2", "--draft-beams", "3", "--spec-length", "3")}
PLACE = '  <div class="bar-of-buttons">\n'  # the note comes before it


def without_times(trace):
    """The same trace with what it counts, and not what it measures."""
    stats = {key: value for key, value in trace["stats"].items()
             if value is not None and not key.endswith("_seconds") and key != "tokens_per_second"}
    rounds = [{key: value for key, value in entry.items() if key != "seconds"} for entry in trace["rounds"]]
    return {**trace, "stats": stats, "rounds": rounds}


def run(name, directory):
    """What the program of a page writes now, without its times."""
    program, *options = PAGES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        words = [str(pathlib.Path(directory).resolve() / program), *options, "--trace", str(path)]
        try:
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        except OSError as error:
            raise tool.Trouble(f"{words[0]}: {error.strerror}; `make build` writes it") from error
        if done.returncode:
            raise tool.Trouble(done.stderr.strip().replace("\n", " "))
        return without_times(embed_trace.trace_of(embed_trace.read(path), path))


def page_of(name, trace):
    """The trace viewer with a note on the run, and with the trace as its sample."""
    viewer = VIEWER.read_text(encoding="utf-8")
    if viewer.count(PLACE) != 1:
        raise tool.Trouble(f"{VIEWER} should have the line {PLACE.strip()} once")
    program, *options = PAGES[name]
    command = html.escape(shlex.join(("build/bin/" + program, *options, "--trace", "trace.json")), quote=False)
    note = f'  <p class="soft small">The sample is the run of this command, without its times: <code>{command}</code></p>\n'
    return embed_trace.embed(viewer.replace(PLACE, note + PLACE), embed_trace.as_element(embed_trace.rounded(trace)))


def trace_of(page):
    """The trace that a page of page_of holds."""
    element = page.split(embed_trace.BEGIN)[1].split(embed_trace.END)[0]
    return json.loads(element.split(">", 1)[1].rsplit("</script>", 1)[0])


def main():
    parser = argparse.ArgumentParser(description="Writes the trace viewer with prepared traces.")
    parser.add_argument("directory", metavar="DIR", nargs="?", default=str(ROOT / "build/bin"),
                        help="of the programs (default: %(default)s)")
    directory = parser.parse_args().directory
    for name in PAGES:
        trace = run(name, directory)
        (FOLDER / name).write_bytes(embed_trace.encoded(page_of(name, trace)))
        print(f"{FOLDER / name}: {len(trace['rounds'])} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(tool.run("interactive_trace", main))
