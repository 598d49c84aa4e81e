"""Regions: the marked parts of the reference sources that the course is made from.

A region is between two comment lines (`//`, `#` or `<!-- ... -->`):

    // [task 4.4: roll the caches back]
    ...
    // [end task 4.4]

task     what a student writes; a starter has a stub in its place. The only kind with a title.
hint     two for each task, in the stage's hints.md: [hint 4.4.1] and [hint 4.4.2]
snippet  a code block of the docs

A region may lie within one of another kind, and never in one of its own; marker lines belong to no
region's text.
"""
import re
import textwrap
from dataclasses import dataclass

KINDS = ("task", "hint", "snippet")
MARKER = re.compile(
    r"^\s*(?:(?://|#)\s*\[(?P<code>[^\]]*)\]|<!-- \[(?P<markdown>[^\]]*)\] -->)\s*$")
BEGIN = re.compile(r"^(task) (\d+\.\d+): (\S.*)$|^(hint) (\d+\.\d+\.\d)$|^(snippet) ([\w.-]+)$")
END = re.compile(r"^end (task|hint|snippet) ([\w.-]+)$")
ABOUT = re.compile(r"^(end )?(%s)\b" % "|".join(KINDS))


class RegionError(Exception):
    """A region is wrong: `str` says where and how."""


@dataclass(frozen=True)
class Region:
    kind: str
    name: str
    title: str  # of a task, else empty
    begin: int  # line number of the marker, from 0
    end: int  # of the end marker

    @property
    def full_name(self):
        return f"{self.kind} {self.name}"


def marker(line):
    """What a marker line says, or None: `task 4.4: roll the caches back`, `end hint 4.4.1`."""
    match = MARKER.match(line)
    said = match and (match["code"] or match["markdown"] or "")
    return said if said and ABOUT.match(said) else None


def parse(text, where):
    """The regions of a text, in the order of their beginnings. Errors name `where` and the line."""
    found, open_regions = [], []

    def wrong(number, message):
        raise RegionError(f"{where}:{number + 1}: {message}")

    for number, line in enumerate(text.splitlines()):
        said = marker(line)
        if said is None:
            continue
        end, begin = END.match(said), BEGIN.match(said)
        if end:
            full_name = " ".join(end.groups())
            if not open_regions or open_regions[-1].full_name != full_name:
                innermost = f"; {open_regions[-1].full_name} is open" if open_regions else ""
                wrong(number, f"the end of {full_name} closes no open region{innermost}")
            region = open_regions.pop()
            found.append(Region(region.kind, region.name, region.title, region.begin, number))
        elif begin:
            kind, name, title = [group for group in begin.groups() if group] + [""] * (not begin[3])
            region = Region(kind, name, title, number, -1)
            for other in open_regions:
                if other.kind == kind:
                    wrong(number, f"{region.full_name} begins inside {other.full_name}")
            if any(region.full_name == other.full_name for other in found):
                wrong(number, f"{region.full_name} is already defined above")
            open_regions.append(region)
        else:
            wrong(number, f"'[{said}]' is not a marker: [task 4.4: title], [hint 4.4.1] or "
                          "[snippet name], each with its [end ...]")
    if open_regions:
        wrong(open_regions[-1].begin, f"{open_regions[-1].full_name} is never closed")
    return sorted(found, key=lambda region: region.begin)


def text_of(text, region):
    """A region's own lines, dedented, without any marker."""
    lines = text.splitlines()[region.begin + 1:region.end]
    return textwrap.dedent("\n".join(line for line in lines if marker(line) is None)) + "\n"


def replaced(text, region, lines):
    """The text with a region, its markers included, replaced by lines with its indentation."""
    old = text.splitlines(True)
    indent = re.match(r"\s*", old[region.begin])[0]
    new = [indent + line + "\n" if line else "\n" for line in lines]
    return "".join(old[:region.begin] + new + old[region.end + 1:])


def without_markers(text):
    """The text without any marker line."""
    return "".join(line for line in text.splitlines(True) if marker(line) is None)


def tree_regions(root, kind, folders=("stages", "common", "kernels")):
    """All regions of a kind below the folders: name -> (path from root, region)."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".md"):
                continue
            where = path.relative_to(root)
            for region in parse(path.read_text(encoding="utf-8"), where):
                if region.kind != kind:
                    continue
                if region.name in found:
                    raise RegionError(f"{where}:{region.begin + 1}: {region.full_name} is already "
                                      f"defined in {found[region.name][0]}")
                found[region.name] = (where, region)
    return found
