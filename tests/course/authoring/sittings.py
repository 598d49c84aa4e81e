"""The pages of the book that are read in one sitting of an hour, how long such a page may be, and what other pages
there are."""
import re

from authoring import links, pages

MOST = {"words of prose": 1800, "lines of code": 90, "figures": 2, "predictions": 1, "tasks": 1, "exercises": 3,
        "minutes": 60}
LAST = ["Check yourself", "Exercises", "What you can now say"]
ASKING = ["Check yourself", "Questions", "Exercises"]
ITEM = re.compile(r"^(\d+)\. ", re.MULTILINE)
# As both a code host and the site read it: tags at the margin, and apart from the text.
ANSWER = re.compile(r"\n\n<details>\n<summary>[^\n<]+</summary>\n\n(.+?)\n\n</details>\n(?=\n|\Z)", re.DOTALL)
CODE = re.compile(r"^(?:> ?)?```cpp\n(.*?)^(?:> ?)?```$", re.DOTALL | re.MULTILINE)
# The pages of docs/ that are not read from the first line to the last in one sitting, and why.
REFERENCE = {
    "00_before_you_start.md": "the way in, before the first chapter: ideas, installation, commands and C++",
    "beside_llama_cpp.md": "measured results, to look up and to measure again",
    "developing.md": "for people who change the code: looked up by topic",
    "field_today.md": "a map of newer methods and of the terms of other engines, to look names up",
    "glossary.md": "a list of terms",
    "instructors_guide.md": "for teachers: schedules, rubrics and grading, looked up by topic",
    "overview.md": "an inventory of the project",
    "performance.md": "measured results, to look up and to measure again",
    "real-models.md": "instructions for real checkpoints",
    "serving.md": "the server's options and protocol, and names of other programs, to look up",
    "troubleshooting.md": "a list of symptoms",
}


def sittings(docs):
    """The pages of chapters that begin with a number."""
    return sorted(docs.glob("*/[0-9]*_*.md"))


def faults_of_kinds(docs, reference):
    """The pages that docs/README.md lists, if they are neither a sitting, nor a chapter's front page or more.md, nor
    one of the reference pages; and the reference pages that it does not list."""
    contents = docs / "README.md"
    chapters = {page.parent for page in sittings(docs)}
    targets = {target.partition("#")[0] for _, target in links.links(contents.read_text(encoding="utf-8"))}
    listed = {docs / target for target in targets if target.endswith(".md") and ":" not in target} - {contents}
    taught = {*sittings(docs), *(chapter / name for chapter in chapters for name in ("README.md", "more.md"))}
    known = {docs / name for name in reference}
    yield from (f"{page.relative_to(docs)} is neither a sitting, nor a chapter's README.md or more.md, nor in REFERENCE"
                for page in sorted(listed - taught - known))
    yield from (f"REFERENCE has {page.relative_to(docs)}, which docs/README.md does not list"
                for page in sorted(known - listed))
    yield from (f"REFERENCE has {page.relative_to(docs)}, which is not there"
                for page in sorted(known) if not page.is_file())


def sections(text):
    """The sections of a page: (heading, text)."""
    return re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)


def items(section):
    """The numbered items of a section, (number, text), without the text of their answers."""
    parts = ITEM.split(ANSWER.sub("\n\n<details></details>\n", section))[1:]
    return list(zip(map(int, parts[::2]), parts[1::2]))


def prose(text):
    """The text without code blocks, tables, comments, answers that fold, and where its links lead."""
    text = re.sub(r"<details>.*?</details>", "", pages.without_blocks(text), flags=re.DOTALL)
    text = re.sub(r"^[> ]*\|.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


def times(text):
    """The minutes that a page states: to read it, and for the rest."""
    line = re.search(r"^\*\*Time\.\*\* (.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    return [int(number) for number in re.findall(r"\b(\d+)(?= (?:minutes to read|for|to))", line[1])] if line else []


def stated(front):
    """The minutes that a chapter's front page states for its sittings: name of the page -> minutes."""
    return {name: int(number) for name, number in re.findall(r"^\| \[[^\]]+\]\((\d+_\w+\.md)\) .*\| (\d+) \|$", front, re.MULTILINE)}


def lengths(text):
    """What a page has of all that MOST limits."""
    last = dict(sections(text))
    return {"words of prose": len(prose(text).split()),
            "lines of code": sum(code.count("\n") for code in CODE.findall(text)),
            "figures": text.count("!["),
            "predictions": text.count("**Predict.**") + text.count("\n## Predict, then measure\n"),
            "tasks": text.count("You can now do **task "),
            "exercises": len(items(last.get("Exercises", ""))),
            "minutes": sum(times(text))}


def faults(text):
    """What is wrong with a sitting, in words."""
    found = lengths(text)
    yield from (f"{found[what]} {what}; at most {most}" for what, most in MOST.items() if found[what] > most)
    headings = [heading for heading, _ in sections(text)]
    if headings[-3:] != LAST:
        yield f"it ends with the sections {', '.join(headings[-3:])} and not with {', '.join(LAST)}"
    if "**Question.**" not in text:
        yield "it does not begin with a question"
    if len(times(text)) < 2:
        yield "it does not state two times: to read, and for a task or the exercises"
    yield from faults_of_answers(text)


def faults_of_answers(text):
    """What is wrong with the questions and exercises of a page, in words."""
    if len(re.findall("</?details>", pages.without_code(text))) != 2 * len(ANSWER.findall(text)):
        yield "an answer does not fold: <details> and <summary> are at the margin, with blank lines around the text"
    yield from (f"an answer begins with a number and a full stop, which begins a list: {answer[:30]}"
                for answer in ANSWER.findall(text) if ITEM.match(answer))
    for heading, section in sections(text):
        if heading not in ASKING:
            continue
        numbers = [number for number, _ in items(section)]
        if numbers != list(range(1, len(numbers) + 1)) or not numbers:
            yield f"the items of {heading} are numbered {numbers}"
        yield from (f"item {number} of {heading} has {words.count('<details>')} answers, and not one"
                    for number, words in items(section) if words.count("<details>") != 1)
