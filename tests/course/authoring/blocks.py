"""Keeps the chapters' tables of tasks and mutants equal to what they are made from.

    <!-- tasks: 4 -->      the tasks of stage 4, from tests/course/tasks.json and the sources' regions
    <!-- end tasks -->
    <!-- mutants: 4 -->    its classic bugs, from tests/mutants/
    <!-- end mutants -->

usage: python3 tests/course blocks --check PATH...     exit code 1 where a table differs, with the difference
       python3 tests/course blocks --update PATH...    rewrite the tables
"""
import difflib
import re
import sys
from pathlib import Path

from student import course, regions
from authoring import mutants

BLOCK = re.compile(r"^<!-- (tasks|mutants): (\d+) -->\n(.*?)^<!-- end \1 -->$", re.DOTALL | re.MULTILINE)
MENTION = re.compile(r"^<!-- (?:end )?(?:tasks|mutants)\b", re.MULTILINE)


def task_table(stage):
    rows = [f"| {task.name} | {task.title} | `{task.path}` | [{sitting(task)}]({Path(task.page).name}) | {task.points} |"
            for task in stage.tasks]
    return "\n".join(["| task | what | where | sitting | points |", "|---|---|---|---|---|", *rows]) + "\n"


def sitting(task):
    """The name of the sitting that explains a task: "4.3"."""
    return f"{task.name.partition('.')[0]}.{Path(task.page).name.partition('_')[0]}"


def updated(text, stages, known):
    """A chapter's text with its tables as they should be. Raises CourseError."""
    if 2 * len(BLOCK.findall(text)) != len(MENTION.findall(text)):
        raise course.CourseError("a table's marker has no counterpart")

    def table(match):
        kind, number = match[1], int(match[2])
        body = task_table(stages[number]) if kind == "tasks" else mutants.table(known, number)
        return f"<!-- {kind}: {number} -->\n\n{body.rstrip()}\n\n<!-- end {kind} -->"

    return BLOCK.sub(table, text)


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("--check", "--update"):
        print("usage: python3 tests/course blocks --check|--update PATH...", file=sys.stderr)
        return 2
    root, differing = Path("."), 0
    try:
        stages, known = course.load(root), mutants.load(root)
        for path in map(Path, arguments[1:]):
            for chapter in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
                old = chapter.read_text(encoding="utf-8")
                new = updated(old, stages, known)
                if new == old:
                    continue
                differing += 1
                if arguments[0] == "--update":
                    chapter.write_text(new, encoding="utf-8")
                    print(f"{chapter}: updated")
                else:
                    sys.stdout.writelines(difflib.unified_diff(
                        old.splitlines(True), new.splitlines(True), str(chapter), "tables"))
    except (course.CourseError, regions.RegionError) as error:
        print(f"blocks: {error}", file=sys.stderr)
        return 2
    return 1 if differing and arguments[0] == "--check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
