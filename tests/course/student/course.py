"""The course's table: stages, tasks and checks, from tasks.json and the regions in the sources.

The table has what is checked and what it is worth. The regions have the places of the tasks and their
titles, and the chapters' pages name the page that explains a task. An assignment has stubs instead
of regions, so its tasks.json has the titles.
"""
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from student import regions
from terminal import printable

FOLDER = Path("tests/course")
# What a page says where a task has been explained.
POINTER = re.compile(r"^You can now do \*\*task (\d+\.\d+)\*\*\.", re.MULTILINE)


class CourseError(Exception):
    """The table contradicts itself or the sources: `str` says where and how, in one line, whatever it quotes."""

    def __str__(self):
        return printable(" ".join(super().__str__().split()))


@dataclass
class Task:
    name: str  # "4.2"
    title: str
    points: int
    path: str  # of the source that holds it
    page: str  # of the chapter, which explains it
    function: str = ""  # the line that opens what it is in, where the table says it
    spoilers: list = field(default_factory=list)  # path#snippet of code that nearly solves it

    def not_done(self):
        """What the stub says."""
        return f"task {self.name}: {self.title}: not done yet, see {self.page}"


@dataclass
class Check:
    name: str
    task: str
    needs: list
    causes: dict  # part of a fact's name -> what most often is the cause where that fact differs
    kind: str  # probe, json or golden
    subject: object  # the probe's case, the program's options, or the golden file
    facts: list = field(default_factory=list)  # json: the paths
    seeds: list = field(default_factory=lambda: [0])
    seconds: int = 10  # of processor time; by the clock it may take three times as many, on a busy machine
    options: list = field(default_factory=list)  # golden: more options of the program
    hidden: bool = False  # a teacher's case, whose answer no message shows


@dataclass
class Stage:
    number: int
    folder: str
    tasks: list
    checks: list
    options: list = field(default_factory=list)  # of its program, in all checks

    @property
    def chapter(self):
        return f"docs/{self.folder}"

    def task(self, name):
        return next(task for task in self.tasks if task.name == name)


# What a check's fields are; of a list, what its items are.
TYPES = {"name": str, "task": str, "needs": [str], "causes": {str: str}, "facts": [str], "seeds": [int], "seconds": int,
         "options": [str], "hidden": bool}
SUBJECTS = {"probe": str, "json": [str], "golden": str}


def number_of(text):
    """The number of a stage, or None where the text is none."""
    return int(text) if re.fullmatch("[0-9]{1,3}", text) else None


def read_json(path):
    """What a file of the course says. Raises CourseError."""
    try:
        return parse_json(path.read_bytes(), path)
    except OSError as error:
        raise CourseError(f"{path}: cannot be read: {error.strerror}") from error


def parse_json(data, path):
    """What the bytes of that file say. Raises CourseError."""
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CourseError(f"{path}: not valid JSON: {' '.join(str(error).split())}") from error


def is_a(value, wanted):
    """Whether a value is of a type, or a list or an object of values of one; a truth value is no number."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and is_a(list(value.values()), list(wanted.values()))
    if isinstance(wanted, list):
        return isinstance(value, list) and all(is_a(item, wanted[0]) for item in value)
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))


def check_of(entry):
    """A check of the table. Raises CourseError, TypeError where it is none."""
    if not isinstance(entry, dict):
        raise CourseError(f"a check is an object, not {json.dumps(entry)[:60]}")
    entry = dict(entry)
    kind = next((kind for kind in SUBJECTS if kind in entry), None)
    if kind is None:
        raise CourseError(f"check {entry.get('name')}: it has neither probe nor json nor golden")
    entry["subject"] = entry.pop(kind)
    check = Check(kind=kind, needs=entry.pop("needs", []), causes=entry.pop("causes", {}), **entry)
    for name, wanted in {**TYPES, "subject": SUBJECTS[kind]}.items():
        if not is_a(getattr(check, name), wanted):
            raise CourseError(f"check {check.name}: {kind if name == 'subject' else name} cannot be "
                              f"{json.dumps(getattr(check, name))[:60]}")
    return check


def load(root):
    """The stages of the course in a tree: number -> Stage. Raises CourseError, RegionError."""
    path = root / FOLDER / "tasks.json"
    table = read_json(path)
    try:
        return stages_of(table, regions.tree_regions(root, "task"), pages_of_tasks(root))
    except (AttributeError, KeyError, TypeError) as error:
        raise CourseError(f"{path}: not a table of stages, tasks and checks: {type(error).__name__}: {error}") from error


def pages_of_tasks(root):
    """task -> the page that explains it."""
    pages = sorted((root / "docs").glob("[0-9][0-9]_*/*.md"))
    return {name: page.relative_to(root).as_posix() for page in pages
            for name in POINTER.findall(page.read_text(encoding="utf-8"))}


def stages_of(table, found, pages):
    """number -> Stage. found: the regions of tasks; pages: task -> page."""
    stages = {}
    for entry in table["stages"]:
        tasks = []
        for task in entry["tasks"]:
            path, region = found.pop(task["id"], (task.get("path"), None))
            title = region.title if region else task.get("title")
            if title is None:
                raise CourseError(f"task {task['id']} has no region in the sources")
            if not 0 <= task["points"] < math.inf:
                raise CourseError(f"task {task['id']}: its points must be a number")
            page = pages.get(task["id"], f"docs/{entry['folder']}")
            tasks.append(Task(task["id"], title, task["points"], str(path), page, str(task.get("function", "")),
                              task.get("spoilers", [])))
        checks = [check_of(check) for check in entry["checks"]]
        stage = Stage(entry["stage"], entry["folder"], tasks, checks, entry.get("options", []))
        if not all(map(is_a, (stage.number, stage.folder, stage.options), (int, str, [str]))):
            raise CourseError(f"stage {stage.number}: its number, folder or options are of a wrong type")
        for check in checks:
            require_tasks(check, stage)
        stages[stage.number] = stage
    if found:
        raise CourseError(f"{min(found)} is a region in {found[min(found)][0]}, but tasks.json has no such task")
    return stages


def require_tasks(check, stage):
    """Raises CourseError where a check is of no task of the stage, or none can pass what it needs."""
    for name in (check.task, *check.needs):
        if all(task.name != name for task in stage.tasks):
            raise CourseError(f"check {check.name}: stage {stage.number} has no task {name}")
