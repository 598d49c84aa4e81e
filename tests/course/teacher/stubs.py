"""What a student starts from: sources with stubs instead of tasks."""
from pathlib import Path

from student import regions

HEADER = Path(__file__).with_name("starter") / "not_done.h"
HEADER_PLACE = "common/base/not_done.h"
INCLUDE = f'#include "{HEADER_PLACE}"'
LATER = "which this assignment leaves out"


def stub(stage, task):
    """The statement that replaces a task."""
    return [f'::specdec::not_done("{task.not_done()}");']


def later_stub(stage, task):
    """The statement that replaces a task that comes with a later stage than an assignment has. It is
    not called there, but must compile."""
    return [f'::specdec::not_done("task {task.name}: {task.title}: a task of stage {stage.number}, {LATER}");']


def with_stubs(text, stage, tasks, statement=stub):
    """A source text with stubs instead of the tasks, and with what they need included."""
    for task in tasks:
        region = next(r for r in regions.parse(text, task.path) if r.kind == "task" and r.name == task.name)
        text = regions.replaced(text, region, statement(stage, task))
    if INCLUDE in text or not tasks:
        return text
    lines = text.splitlines(True)
    last = max(i for i, line in enumerate(lines) if line.startswith("#include"))
    return "".join(lines[:last + 1] + [INCLUDE + "\n"] + lines[last + 1:])


def stubbed_sources(root, stage, names):
    """path -> text of the sources in which the named tasks of a stage are stubs, and the header
    that stubs need."""
    tasks = [task for task in stage.tasks if task.name in names]
    sources = {}
    for path in sorted({task.path for task in tasks}):
        text = (root / path).read_text(encoding="utf-8")
        sources[path] = with_stubs(text, stage, [task for task in tasks if task.path == path])
    sources[HEADER_PLACE] = HEADER.read_text(encoding="utf-8")
    return sources
