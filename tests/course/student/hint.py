"""`make hint TASK=4.2`: the first hint for a task; with HINT=2 also the second, which says more.

usage: python3 tests/course hint --task 4.2 [--hint 2]
"""
import argparse
import sys
from pathlib import Path

from student import course, regions


def hints(root, task):
    """The texts of a task's hints, the gentle one first."""
    found = regions.tree_regions(root, "hint", ["stages"])
    texts = []
    while f"{task}.{len(texts) + 1}" in found:
        path, region = found[f"{task}.{len(texts) + 1}"]
        texts.append(regions.text_of((root / path).read_text(encoding="utf-8"), region).strip())
    return texts


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--task", required=True)
    parser.add_argument("--hint", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        return give(options)
    except (course.CourseError, regions.RegionError) as error:
        print(f"hint: {error}", file=sys.stderr)
        return 2


def give(options):
    """Prints the hint that is asked for; returns the exit code."""
    tasks = {task.name: (stage, task) for stage in course.load(options.root).values() for task in stage.tasks}
    if options.task not in tasks:
        near = [name for name in tasks if name.split(".")[0] == options.task.split(".")[0]]
        print(f"hint: there is no task {options.task or '(TASK= is missing)'}; there are {', '.join(near or tasks)}",
              file=sys.stderr)
        return 2
    stage, task = tasks[options.task]
    texts = hints(options.root, options.task)
    if not 1 <= options.hint <= len(texts):
        print(f"hint: task {options.task} has {len(texts)} hints", file=sys.stderr)
        return 2
    print(f"Task {task.name}: {task.title} ({task.path}; {task.page})\n")
    print("\n\n".join(texts[:options.hint]))
    if options.hint < len(texts):
        print(f"\nMore: make hint TASK={task.name} HINT={options.hint + 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
