"""The Markdown pages of the project, and what of a page is prose."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ("common", "docs", "golden", "kernels", "stages", "tests")
FENCE = re.compile(r"^((?:> ?| )*)(```|~~~)")


def pages(arguments=()):
    """The Markdown files named, or else all of the project's."""
    if arguments:
        return [pathlib.Path(argument) for argument in arguments]
    below = (page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *below])


def name(path):
    """A page's name as messages show it."""
    path = pathlib.Path(path).resolve()
    return str(path.relative_to(ROOT) if ROOT in path.parents else path)


def blank(match):
    """Spaces in place of a match, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match.group())


def without_blocks(text):
    """The text with fenced code blocks and HTML comments blanked."""
    lines, fence = [], None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        lines.append("" if fence or mark else line)
        if mark and fence in (None, mark[2]):
            fence = None if fence else mark[2]
    return re.sub(r"<!--.*?-->", blank, "\n".join(lines), flags=re.DOTALL)


def without_code(text):
    """The text with code spans blanked as well."""
    return re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)\1(?!`)", blank, without_blocks(text),
                  flags=re.DOTALL)
