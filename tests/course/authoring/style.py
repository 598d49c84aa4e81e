"""Finds what makes readers read twice, as far as a machine can see it: turns of phrase that English does not have.

Looked at is the prose of all pages, the students' hints among them (not code, nor what is quoted from a program); the
causes that checks name and the words of the planted bugs; and all that programs can print: the texts in quotes of the
C++ sources (--help, messages, reports) and of the course's tools (usage, messages, reasons for a wrong prediction).

usage: python3 tests/course style [PAGE...]     all Markdown pages, tables, and programs' texts, by default
exit code: 1 where something is found
"""
import ast
import json
import re
import sys

from authoring import pages

PATTERNS = {
    r"\b(?:whoever|whomever)\b": "name the thing: a request, a page, a reader",
    r"\b(?:somebody|nobody)\b(?!'s business)": "name the thing; people only where people act",
    r"\bof late\b": "recent",
    r"\b(?:is|are|was|were|be) to be\b": "must be, or you write",
    r"\b(?:has|have|had) to be\b": "must be",
    r"\bin (?:the )?place of\b": "instead of",
    r"\bat hand\b": "available",
    r"\blies\b": "is, fits, or the verb that the thing does",
    r"\bstands\b": "is, or the verb that the thing does",
    r"\bso many (?:of|tokens|rows|bytes|pages)\b": "a fixed number of, or that many",
    r"\bas against\b": "unlike",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r", for (?:it|they|there|we|he)\b": "because",
    r"\b(?:tokens|rows|passes|rounds|pages|bytes|drafts|operations|launches|forwards|requests) an? "
    r"(?:round|pass|step|second|row|request|sequence)\b": "per",
    r"\b(?:rows?|passes|rounds|bytes|drafts|operations|launches|forwards) an? token\b": "per",
    r"\bbehind (?:an?|the|each|its|their|that) "
    r"(?:accepted|rejected|rejection|mismatch|stop|cut|eos|bonus|correction)\b": "after",
    r"\b(?:accepted|rejected|kept|drafted|proposed|drawn|chosen|emitted|come out|comes out|come through|comes through) with "
    r"(?:[01]?\.\d+|[01](?!,\d| ?\w)|\d+/\d+|\d+ ?%|[pq](?:\(| ?/)|min\()": "with probability",
    r"\bwith which probabilit(?:y|ies)\b": "with what probability",
    r"\bfrom which [a-z] on\b": "from what c onwards",
    r"\bdecid(?:e|es|ed|ing) about\b": "judges, or decides on",
    r"\b(?:bytes|KB|MB|GB|TB|pages|blocks|rows|tokens|draws) suffices?\b": "is enough, or are enough",
    r"\ba right (?:program|sampler|average|rule|answer|implementation|kernel|engine)\b": "a correct one",
    r"\bon (?:its|their) way\b(?! to)": "in flight",
    r"\b(?:program|formula|accounting|clock|profile|table)s? says?\b": "prints, gives, predicts or shows",
    r"\b(?:draft|draft model|target|[pq]) says\b": "proposes, emits, or assigns",
    r"\bhow many times as\b": "by what factor",
    r"\b(?:is|was) no (?:accident|bug|evidence|proof)\b": "is not a bug, or proves nothing",
    r"\bare no tokens\b": "are not tokens",
    r"\btakes? a GPU\b": "uses",
    r"\banother (?:order|distribution|K)\b": "a different one",
    r"\bother bits\b": "different bits",
    r"\bnevertheless\b": "even so, or still",
}
FORBIDDEN = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS).replace(" ", r"(?: |[ ]*\n[ >]*(?=\S))"), re.IGNORECASE)


SOURCES = ("stages", "common", "kernels")                                                     # C++ and CUDA
TOOLS = (*(f"stages/programs/{name}.py" for name in ("demo", "doctor", "terminal", "tool")),   # Python
         "tests/course/student", "tests/course/teacher")
# Comments and characters are skipped, so that their quotes begin no text. Texts in a row are one.
QUOTED = re.compile(r"//[^\n]*|/\*.*?\*/|(?<!\w)'(?:\\.|[^'\\\n])+'|R\"(\w*)\((?P<raw>.*?)\)\1\""
                    r"|(?P<texts>\"(?:\\.|[^\"\\\n])*\"(?:\s*\"(?:\\.|[^\"\\\n])*\")*)", re.DOTALL)


def advice(found):
    """What to say instead."""
    found = re.sub(r"\s[ >]*", " ", found)
    return next(words for pattern, words in PATTERNS.items() if re.match(pattern, found, re.IGNORECASE))


def findings(text):
    """(line, what was found) of a page's prose."""
    text = re.sub(r"\]\([^)]*\)", "]", pages.without_code(text))
    for match in FORBIDDEN.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def tables(root):
    """(name, text) of the words that the course's tables hold."""
    stages = json.loads((root / "tests/course/tasks.json").read_text(encoding="utf-8"))["stages"]
    for stage in stages:
        for check in stage["checks"]:
            yield f"tasks.json: {check['name']}", "\n".join(check["causes"].values())
    for path in sorted((root / "tests/mutants").glob("*.mutant")):
        lines = path.read_text(encoding="utf-8").splitlines()
        yield pages.name(path), "\n".join(line for line in lines if re.match(r"(bug|symptom): ", line))


def texts_of_source(text):
    """The texts in quotes of a C++ source: (line, words)."""
    for match in QUOTED.finditer(text):
        if match["texts"] or match["raw"]:
            words = match["raw"] or "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match["texts"]))
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"\\[nt]", " ", words)


def texts_of_tool(text):
    """The same of a Python source; what is put into an f-string is left out."""
    tree, parts = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def programs(root):
    """(name, text) of what programs and tools can print; a text is as far down as in its source."""
    def below(folders, suffixes):
        for path in (root / folder for folder in folders):
            if path.is_file():
                yield path
            yield from (file for file in sorted(path.rglob("*")) if file.suffix in suffixes and file.parent.name != "tests")

    for files, texts in ((below(SOURCES, (".h", ".cpp", ".cu", ".cuh")), texts_of_source), (below(TOOLS, (".py",)), texts_of_tool)):
        for file in files:
            for line, words in texts(file.read_text(encoding="utf-8")):
                yield pages.name(file), "\n" * (line - 1) + words


def main(arguments):
    texts = [(pages.name(page), page.read_text(encoding="utf-8")) for page in pages.pages(arguments)]
    if not arguments:
        texts += [*tables(pages.ROOT), *programs(pages.ROOT)]
    found = [(name, line, words) for name, text in texts for line, words in findings(text)]
    for name, line, words in found:
        print(f"{name}:{line}: {' '.join(words.split())!r}: say {advice(words)}")
    if not found:
        print(f"nothing found in {len(texts)} texts")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
