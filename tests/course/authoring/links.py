"""Checks the links of the pages: each relative one leads to a file or folder of the project, each
anchor to a heading by the rules of GitHub, and each external one looks like an address. Nothing is
fetched. docs/README.md, the table of contents, lists all pages and folders beside it, and the front page of
each folder does so, too.

usage: python3 tests/course links [PAGE...]     all Markdown pages by default
exit code: 1 where a link is broken
"""
import pathlib
import re
import sys
import urllib.parse

from authoring import pages

INLINE = re.compile(r"\]\(\s*<?([^()\s>]*(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[([^\]]+)\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
HTML = re.compile(r"\b(?:href|src)\s*=\s*[\"']([^\"']*)[\"']")
AUTOMATIC = re.compile(r"<(https?:[^>\s]*)>")
HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
TARGET = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
ADDRESS = re.compile(r"https?://[\w-]+(\.[\w-]+)+(:\d+)?(/[^\s]*)?(#\S*)?|mailto:[^@\s]+@[\w-]+(\.[\w-]+)+")


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # of a link, its text
    return re.sub(r"[^\w\- ]", "", shown.replace("*", "").strip().lower()).replace(" ", "-")


def anchors(text):
    """All anchors of a page; headings with the same words are numbered."""
    found = set(TARGET.findall(text))
    for heading in HEADING.findall(pages.without_blocks(text)):
        anchor, number = slug(heading), 0
        while (f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def links(text):
    """The links of a page's text: (line number, target), in the order of their kinds."""
    prose = pages.without_code(text)
    for pattern in (INLINE, DEFINITION, HTML, AUTOMATIC):
        for match in pattern.finditer(prose):
            yield prose.count("\n", 0, match.start()) + 1, match[match.lastindex or 0]


def missing_definitions(text):
    """Links by reference whose definition is missing: (line number, reference)."""
    prose = pages.without_code(text)
    defined = {name.lower() for name, _ in DEFINITION.findall(prose)}
    for match in re.finditer(r"\][ ]?\[([^\]\n]*)\]", prose):
        if match[1].lower() not in defined:
            yield prose.count("\n", 0, match.start()) + 1, match[1]


def fault_of_anchor(path, anchor):
    """What is wrong with an anchor of an existing file, or None."""
    if path.is_dir():
        return "a folder has no anchors"
    text = path.read_text(encoding="utf-8", errors="replace")
    line = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
    if path.suffix != ".md" and line:
        last = int(line[2] or line[1])
        return None if last <= text.count("\n") else f"the file has no line {last}"
    if path.suffix != ".md" or anchor not in anchors(text):
        return f"no heading has the anchor #{anchor}"
    return None


def fault(page, target):
    """What is wrong with a link of a page, or None."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target):
        return None if ADDRESS.fullmatch(target) else "this is no address"
    address, _, anchor = target.partition("#")
    if address.startswith("/") or not target:
        return "a link within the project is relative"
    path = (page.parent / urllib.parse.unquote(address)).resolve() if address else page.resolve()
    if not path.exists():
        return "no such file"
    if pages.ROOT in page.resolve().parents and path != pages.ROOT and pages.ROOT not in path.parents:
        return "this leaves the project"
    return fault_of_anchor(path, anchor) if anchor else None


def faults(page):
    """The broken links of a page: (line number, target, what is wrong)."""
    text = page.read_text(encoding="utf-8")
    for number, target in links(text):
        wrong = fault(page, target)
        if wrong:
            yield number, target, wrong
    for number, reference in missing_definitions(text):
        yield number, f"[{reference}]", "nothing defines this reference"


def unlisted(contents):
    """The pages beside a table of contents, and the front pages of folders, that it does not link to."""
    listed = {target.partition("#")[0] for _, target in links(contents.read_text(encoding="utf-8"))}
    below = [page.relative_to(contents.parent).as_posix() for page in contents.parent.glob("*.md")]
    below += [folder.parent.relative_to(contents.parent).as_posix() + "/README.md"
              for folder in contents.parent.glob("*/README.md")]
    return sorted(page for page in below if page not in listed | {contents.name})


def contents_of(docs):
    """The table of contents of the book, and those of its chapters."""
    return [docs / "README.md", *sorted(docs.glob("*/README.md"))]


def main(arguments):
    broken = 0
    for contents in [] if arguments else contents_of(pages.ROOT / "docs"):
        for page in unlisted(contents):
            broken += 1
            print(f"{pages.name(contents)}: does not list {page}")
    for page in pages.pages(arguments):
        for number, target, wrong in faults(pathlib.Path(page)):
            broken += 1
            print(f"{pages.name(page)}:{number}: {target}: {wrong}")
    if not broken:
        print("no link is broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
