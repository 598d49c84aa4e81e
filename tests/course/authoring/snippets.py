"""Keeps the chapters' code blocks equal to the source.

In a source file, a region stands between two comment lines:

    // [snippet accept-rule]
    ...
    // [end snippet accept-rule]

In a chapter, a comment names the region, and the code block below it is its text:

    <!-- snippet: common/sampling.cpp#accept-rule -->
    ```cpp
    ...
    ```

Without a region's name, the comment stands for the whole file.

usage: python3 tests/course snippets --check PATH...     exit code 1 where a block differs, with the difference
       python3 tests/course snippets --update PATH...    rewrite the blocks
PATH: a Markdown file, or a directory with some; sources are found from the current directory.
"""
import difflib
import pathlib
import re
import sys

from student import regions

BLOCK = re.compile(
    r"(?P<head><!-- snippet: (?P<path>[^#\s]+)(?:#(?P<name>[\w.-]+))? -->\n```\w*\n)"
    r"(?P<body>.*?)(?P<tail>^```$)", re.DOTALL | re.MULTILINE)
MENTION = re.compile(r"<!-- snippet:")


class SnippetError(Exception):
    """A region or a reference to one is wrong: `str` says where and how."""


def source_of(path, name, where):
    """The text that a chapter's reference stands for."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SnippetError(f"{where}: {path}: {error.strerror}") from error
    if name is None:
        return regions.without_markers(text)
    for region in regions.parse(text, path):
        if region.kind == "snippet" and region.name == name:
            return regions.text_of(text, region)
    raise SnippetError(f"{where}: {path} has no snippet {name}")


def updated(text, where):
    """A chapter's text with every block replaced by its source."""
    blocks = len(BLOCK.findall(text))
    if blocks != len(MENTION.findall(text)):
        raise SnippetError(f"{where}: a snippet comment is not followed by a code block")

    def replacement(block):
        return block["head"] + source_of(block["path"], block["name"], where) + block["tail"]

    return BLOCK.sub(replacement, text), blocks


def chapters(paths):
    """All Markdown files among the paths and below the directories among them."""
    for path in map(pathlib.Path, paths):
        if not path.exists():
            raise SnippetError(f"{path}: no such file or directory")
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def run(mode, paths):
    """Checks or updates; returns the exit code."""
    total = differing = 0
    for chapter in chapters(paths):
        old = chapter.read_text(encoding="utf-8")
        new, blocks = updated(old, chapter)
        total += blocks
        if new == old:
            continue
        differing += 1
        if mode == "--update":
            chapter.write_text(new, encoding="utf-8")
            print(f"{chapter}: updated")
        else:
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), str(chapter), "source"))
    if mode == "--check" and differing:
        print(f"{differing} chapters differ from the source; `make docs` updates them")
        return 1
    print(f"{total} code blocks are equal to the source")
    return 0


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("--check", "--update"):
        print(__doc__.strip().splitlines()[-3].strip(), file=sys.stderr)
        return 2
    try:
        return run(arguments[0], arguments[1:])
    except (SnippetError, regions.RegionError) as error:
        print(f"snippets: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
