"""The course's table: stages, tasks and checks, from tasks.json and the regions in the sources.

The table says what is checked and what it is worth; the regions say where the tasks are and what
they are called. An assignment has stubs in place of its regions, so its tasks.json has the titles.
"""
import json
from dataclasses import dataclass, field
from pathlib import Path

from student import regions

FOLDER = Path("tests/course")


class CourseError(Exception):
    """The table contradicts itself or the sources: `str` says where and how."""


@dataclass
class Task:
    name: str  # "4.2"
    title: str
    section: int  # of the stage's chapter
    points: int
    path: str  # of the source that holds it

    def not_done(self, stage):
        """What the stub says."""
        return f"task {self.name}: {self.title}: not done yet, see docs/{stage.number:02}, section {self.section}"


@dataclass
class Check:
    name: str
    task: str
    needs: list
    usually: str
    kind: str  # probe, json or golden
    subject: object  # the probe's case, the program's options, or the golden file
    facts: list = field(default_factory=list)  # json: the paths
    seeds: list = field(default_factory=lambda: [0])
    seconds: int = 60
    options: list = field(default_factory=list)  # golden: more options of the program
    hidden: bool = False  # a teacher's case, whose answer no message shows


@dataclass
class Stage:
    number: int
    folder: str
    chapter: str
    tasks: list
    checks: list
    options: list = field(default_factory=list)  # of its program, in all checks

    def task(self, name):
        return next(task for task in self.tasks if task.name == name)


def check_of(entry):
    entry = dict(entry)
    kind = next((kind for kind in ("probe", "json", "golden") if kind in entry), None)
    if kind is None:
        raise CourseError(f"check {entry['name']}: neither probe nor json nor golden")
    entry["subject"] = entry.pop(kind)
    return Check(kind=kind, needs=entry.pop("needs", []), usually=entry.pop("usually", ""), **entry)


def load(root):
    """The stages of the course in a tree: number -> Stage. Raises CourseError, RegionError."""
    found = regions.tree_regions(root, "task")
    stages = {}
    for entry in json.loads((root / FOLDER / "tasks.json").read_text(encoding="utf-8"))["stages"]:
        tasks = []
        for task in entry["tasks"]:
            path, region = found.pop(task["id"], (task.get("path"), None))
            title = region.title if region else task.get("title")
            if title is None:
                raise CourseError(f"task {task['id']} has no region in the sources")
            tasks.append(Task(task["id"], title, task["section"], task["points"], str(path)))
        checks = [check_of(check) for check in entry["checks"]]
        stage = Stage(entry["stage"], entry["folder"], entry["chapter"], tasks, checks, entry.get("options", []))
        stages[stage.number] = stage
    if found:
        raise CourseError(f"{min(found)} is a region in {found[min(found)][0]}, but no task of tasks.json")
    return stages
