"""`make progress`: how many tasks of each stage are done, by the last `make check` of it.

usage: python3 tests/course progress [--build DIR]

`make check` saves what it found in BUILD/course/progress.json:
    {"4": {"tasks": {"4.1": "pass", ...}, "files": digest of the files that hold the stage's tasks}}
A stage whose files have changed since has no numbers, but says so. Points are those of the tasks that pass.
Exit code: 0, or 2 where the course's table cannot be read.
"""
import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

from student import course, regions
from terminal import bar, coloured

DONE = "pass"  # as checks.PASS


def path_of(build):
    return Path(build) / "course" / "progress.json"


def digest(root, stage):
    """A digest of the files that hold a stage's tasks: another one as soon as one of them is not what it was."""
    result = hashlib.sha256()
    for path in sorted({task.path for task in stage.tasks}):
        data = (Path(root) / path).read_bytes() if (Path(root) / path).is_file() else b""
        result.update(f"{path}\0{len(data)}\0".encode() + data)
    return result.hexdigest()


def save(build, number, statuses, root=Path("."), files=None):
    """Keeps what a check of a stage found: task's name -> status. What is known of other stages stays, and a reader never
    sees half a file. files: the digest from before the check, so that what is edited meanwhile counts as changed."""
    path = path_of(build)
    known = {str(n): entry for n, entry in load(build).items()}
    known[str(number)] = {"tasks": dict(statuses), "files": files or digest(root, course.load(Path(root))[number])}
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def load(build):
    """What was saved: a stage's number -> {"tasks": name -> status, "files": digest}. What cannot be read, or is no such
    thing, is as if nothing had been saved."""
    try:
        saved = course.read_json(path_of(build))
    except course.CourseError:
        return {}
    return {course.number_of(key): entry for key, entry in (saved.items() if isinstance(saved, dict) else ())
            if course.number_of(key) is not None and is_entry(entry)}


def is_entry(entry):
    return (isinstance(entry, dict) and isinstance(entry.get("files"), str) and isinstance(entry.get("tasks"), dict)
            and all(isinstance(status, str) for status in entry["tasks"].values()))


def line_of(stage, entry, root):
    """One line for a stage. entry: what was saved of it, or None."""
    name = f"Stage {stage.number}  {stage.folder[3:].replace('_', ' '):24}"
    if entry is None:
        return name + coloured(f"not checked yet: make check STAGE={stage.number}", "grey")
    if entry["files"] != digest(root, stage):
        return name + coloured(f"changed since its last check: make check STAGE={stage.number}", "yellow")
    done = [task for task in stage.tasks if entry["tasks"].get(task.name) == DONE]
    points, total = (sum(task.points for task in tasks) for tasks in (done, stage.tasks))
    return f"{name}{bar(len(done), len(stage.tasks))}  {len(done)} of {len(stage.tasks)} tasks, {points:g} of {total:g} points"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    try:
        stages = course.load(options.root)
    except (course.CourseError, regions.RegionError) as error:
        print(f"progress: {error}", file=sys.stderr)
        return 2
    saved = load(options.build)
    for number in sorted(stages):
        print(line_of(stages[number], saved.get(number), options.root))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
