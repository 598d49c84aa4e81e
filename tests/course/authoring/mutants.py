"""Mutants: the classic bugs of speculative decoding, each with the check that must catch it.

A mutant is a file of tests/mutants, NN_what_is_wrong.mutant: a header of `key: value` lines, in
which an indented line continues the one above, then what stands in a source and what the bug makes
of it. The text to find is whole lines; it must stand in the source exactly once.

    bug: what somebody did, in a sentence
    classic: 2                              which of the 18 of the field it is; a few are none
    stage: 4
    task: 4.4                               where the change lies in a task, that one
    symptom: what one sees of it
    file: stages/04_greedy_speculation/draft_and_verify.cpp
    caught-by: ctest PROGRAM CASE           a GoogleTest program and one of its cases,
               check NAME                   or a check of the stage in tasks.json,
               program NAME OPTIONS...      or a stage's program
    says: words that its output must contain
    lossless: yes                           where the text that the stage's program writes is right

    --- find
      drafter_.truncate(draft_sequence_, round.draft_length());
    --- replace
      drafter_.truncate(draft_sequence_, round.start);
    ---

usage: python3 tests/course mutants --list            all of them, and what catches each
                                 --table STAGE     the chapter's table, in Markdown
                                 --diff NAME       as a patch: to plant it, pipe it to `git apply`
That each is caught is proved by `prove --only mutants`.
"""
import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from student import checks, course, regions
from teacher import overlay

FOLDER = Path("tests/mutants")
NEEDED = ("bug", "stage", "symptom", "file", "caught-by", "says")
OPTIONAL = ("classic", "task", "lossless")
CLASSIC = range(19)  # 0: none of them
SECONDS = 600  # of a case, by the clock
SHOWN = 12  # last lines of what it printed, where the words are not among them
TEXT = ["--prompt", "Once, in the winter,", "--max-new-tokens", "40", "--threads", "2",
        "--output", "json", "--quiet"]


class MutantError(course.CourseError):
    """A mutant is wrong, or the source has changed: `str` says where and how."""


@dataclass(frozen=True)
class Case:
    """What must catch a mutant."""
    kind: str  # ctest, check or program
    subject: str  # the program, or the check's name
    options: tuple = ()

    def command(self, programs):
        return [str(programs(self.subject)), *self.options]

    def shown(self):
        """For a table: what to look for, and how to run it."""
        if self.kind == "ctest":
            return f"`{self.gtest}`"
        return f"`{' '.join([self.subject, *self.options])}`"

    @property
    def gtest(self):
        """The case's name, where it is one of GoogleTest."""
        return self.options[0].split("=", 1)[1] if self.kind == "ctest" else None


@dataclass(frozen=True)
class Mutant:
    name: str
    bug: str
    classic: int
    stage: int
    task: str  # empty: the change lies in none
    symptom: str
    file: str
    case: Case
    says: str
    lossless: bool
    parts: tuple  # (text to find, text in its place)

    def planted(self, text):
        """The source with the bug. Raises MutantError where it is not the source that was meant."""
        for find, replace in self.parts:
            count = ("\n" + text).count("\n" + find)
            if count != 1:
                raise MutantError(f"{self.name}: {self.file} has {count or 'none'} of these lines, not "
                                  f"one; has the source changed?\n{find.rstrip()}")
            text = ("\n" + text).replace("\n" + find, "\n" + replace)[1:]
        return text

    def region(self, text):
        """The task in whose region the whole change lies, or an empty name."""
        tasks = [r for r in regions.parse(text, self.file) if r.kind == "task"]
        lines = [("\n" + text)[:("\n" + text).find("\n" + find)].count("\n") for find, _ in self.parts]
        around = [r.name for r in tasks if all(r.begin < line < r.end for line in lines)]
        return around[0] if around else ""


# ---- reading

def parse(text, name):
    """A mutant from the text of its file."""
    head, *blocks = re.split(r"^--- ?(find|replace|)\n", text, flags=re.MULTILINE)
    header = _header(head, name)
    for key in NEEDED:
        if not header.get(key):
            raise MutantError(f"{name}: it lacks '{key}:'")
    header.setdefault("classic", "0")
    if header["classic"] not in map(str, CLASSIC) or not re.fullmatch(r"\d\d?", header["stage"]):
        raise MutantError(f"{name}: classic is a number from 1 to 18, stage one of one or two digits")
    if not name.startswith(f"{int(header['stage']):02}_"):
        raise MutantError(f"{name}: the name of a mutant of stage {header['stage']} begins with "
                          f"{int(header['stage']):02}_")
    if header.get("lossless", "yes") != "yes":
        raise MutantError(f"{name}: 'lossless:' is yes, or not there")
    return Mutant(name, header["bug"], int(header["classic"]), int(header["stage"]), header.get("task", ""),
                  header["symptom"], header["file"], _case(header["caught-by"], name), header["says"],
                  "lossless" in header, _parts(blocks, name))


def _header(text, name):
    header, key = {}, None
    for line in text.splitlines():
        if line[:1].isspace() and line.strip() and key:
            header[key] += " " + line.strip()
        elif line.strip():
            key, colon, value = line.partition(":")
            if not colon or key not in NEEDED + OPTIONAL:
                raise MutantError(f"{name}: '{line}' is no line of a header; its keys are "
                                  f"{', '.join(NEEDED + OPTIONAL)}")
            if key in header:
                raise MutantError(f"{name}: '{key}:' stands there twice")
            header[key] = value.strip()
    return header


def _case(text, name):
    kind, *words = text.split()
    if kind == "ctest" and len(words) == 2:
        return Case(kind, words[0], (f"--gtest_filter={words[1]}",))
    if kind == "check" and len(words) == 1 or kind == "program" and words:
        return Case(kind, words[0], tuple(words[1:]))
    raise MutantError(f"{name}: 'caught-by: {text}' is none of: ctest PROGRAM CASE, check NAME, "
                      "program NAME OPTIONS...")


def _parts(blocks, name):
    """The (find, replace) pairs of [kind, text, kind, text, ...]."""
    kinds, texts = blocks[::2], blocks[1::2]
    rest = [text for kind, text in zip(kinds, texts) if kind == "" and text.strip()]
    if not kinds or kinds != ["find", "replace", ""] * (len(kinds) // 3) or rest:
        raise MutantError(f"{name}: after the header come `--- find`, lines, `--- replace`, lines, `---`, "
                          "once or more often")
    parts = tuple(zip(texts[::3], texts[1::3]))
    if any(not find.strip() or find == replace for find, replace in parts):
        raise MutantError(f"{name}: a part finds nothing, or changes nothing")
    return parts


def read(root):
    """All mutants of the tree; of the sources that they are about, nothing is asked."""
    return [parse(path.read_text(encoding="utf-8"), path.stem)
            for path in sorted((root / FOLDER).glob("*.mutant"))]


def load(root):
    """All mutants of the tree, each of which can be planted. Raises MutantError, RegionError."""
    mutants = read(root)
    for mutant in mutants:
        if not list((root / "stages").glob(f"{mutant.stage:02}_*")):
            raise MutantError(f"{mutant.name}: there is no stage {mutant.stage}")
        if not (root / mutant.file).is_file():
            raise MutantError(f"{mutant.name}: there is no {mutant.file}")
        text = source(root, mutant)
        mutant.planted(text)
        if mutant.region(text) != mutant.task:
            raise MutantError(f"{mutant.name}: it says '{mutant.task or 'no task'}', and the change lies in "
                              f"'{mutant.region(text) or 'no task'}'")
    return mutants


def source(root, mutant):
    return (root / mutant.file).read_text(encoding="utf-8")


# ---- proving

def survivors(prover, mutant):
    """Yields what is wrong with how a mutant is caught; nothing where it is caught as it should."""
    if mutant.case not in prover.controls:
        prover.controls[mutant.case] = list(_control(prover, mutant))
    yield from prover.controls[mutant.case]
    replaced = {mutant.file: mutant.planted(source(prover.root, mutant))}
    if mutant.case.kind == "check":
        yield from _missed_by_check(prover, mutant, replaced)
        return
    with tempfile.TemporaryDirectory(prefix="specdec-mutant-") as folder:
        overlaid = overlay.Overlay(prover.root, prover.build, replaced, folder)
        code, output = run(mutant.case.command(overlaid.program))
        yield from _missed(mutant, code, output)
        if mutant.lossless:
            yield from _lost(prover, mutant, overlaid)


def _control(prover, mutant):
    """The same case must pass where nothing is planted."""
    case = mutant.case
    if case.kind == "check":
        result = prover.results(prover.stages[mutant.stage], {}, {case.subject}).get(case.subject)
        if result is None or result.status != checks.PASS:
            yield f"the control: check {case.subject} of the reference: {result or 'there is none'}"
        return
    code, output = run(case.command(built(prover)))
    if code != 0 or (case.gtest and "[  PASSED  ] 1 test." not in output):
        yield f"the control: {case.shown()} does not pass where nothing is planted:\n{_last(output)}"


def _missed_by_check(prover, mutant, replaced):
    name = mutant.case.subject
    result = prover.results(prover.stages[mutant.stage], replaced, {name})[name]
    if result.status not in (checks.FAIL, checks.ERROR):
        yield f"check {name} does not see it: {result.status}"
    elif mutant.says not in " ".join([result.message, *result.printed]):
        yield f"check {name} does not say '{mutant.says}', but: {result.message} {result.printed}"


def _missed(mutant, code, output):
    if code == 0:
        yield f"{mutant.case.shown()} does not see it"
    elif code is None:
        yield f"{mutant.case.shown()} was still running after {SECONDS} s"
    elif mutant.case.gtest and f"[ RUN      ] {mutant.case.gtest}" not in output:
        yield f"{mutant.case.shown()} was not reached:\n{_last(output)}"
    elif mutant.says not in output:
        yield f"{mutant.case.shown()} fails, but does not say '{mutant.says}':\n{_last(output)}"


def _lost(prover, mutant, overlaid):
    """The text of a lossless mutant must be the reference's."""
    name = next((prover.root / "stages").glob(f"{mutant.stage:02}_*")).name
    texts = []
    for programs in (built(prover), overlaid.program):
        code, output = run([str(programs(name)), *TEXT])
        texts.append([json.loads(line).get("tokens") for line in output.splitlines()] if code == 0 else output)
    if texts[0] != texts[1] or not texts[0]:
        yield f"it says that it is lossless, but {name} writes {texts[1]}, not {texts[0]}"


def built(prover):
    """Where the build has its programs."""
    def program(target):
        path = prover.build / ("bin" if target[:2].isdigit() else "tests/bin") / target
        if not path.is_file():
            raise overlay.CompileError(f"{path} is not built")
        return path
    return program


def run(command):
    """(exit code, None where it took too long; what it printed)."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode("utf-8", "replace")
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _last(output):
    return "\n".join(line[:200] for line in output.splitlines()[-SHOWN:])


# ---- showing

def table(mutants, stage):
    """The table of a stage's chapter, in Markdown."""
    lines = ["| bug | symptom | caught by |", "|---|---|---|"]
    for mutant in mutants:
        if mutant.stage == stage:
            lines.append(f"| {mutant.bug} | {mutant.symptom} | {mutant.case.shown()} |")
    return "\n".join(lines) + "\n"


def diff(root, mutant):
    """The mutant as a patch of the tree."""
    old = source(root, mutant)
    return "".join(difflib.unified_diff(old.splitlines(True), mutant.planted(old).splitlines(True),
                                        f"a/{mutant.file}", f"b/{mutant.file}"))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("."))
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true")
    what.add_argument("--table", type=int, metavar="STAGE")
    what.add_argument("--diff", metavar="NAME")
    options = parser.parse_args(arguments)
    try:
        mutants = read(options.root)
        if options.list:
            for mutant in load(options.root):
                print(f"{mutant.name:37} {mutant.case.subject:32} {mutant.case.gtest or ''}".rstrip())
        elif options.table is not None:
            print(table(mutants, options.table), end="")
        else:
            found = [mutant for mutant in mutants if mutant.name == options.diff]
            if not found:
                raise MutantError(f"there is no mutant {options.diff}; --list shows them")
            print(diff(options.root, found[0]), end="")
    except (course.CourseError, regions.RegionError) as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
