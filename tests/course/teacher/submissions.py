"""Builds somebody's submission beside a project: its files that hold tasks, and nothing else of it.

A compiler can be attacked, too (`#include "/etc/passwd"`, templates without end), so it runs as the
programs do: as a stranger, within limits. A file that does not compile is left to the project's own,
in which its tasks are not done; so the tasks of the other files can still be graded.
"""
import os
import sys
from pathlib import Path

from student import building, checks, course, regions, sandbox
from teacher import overlay, stubs

LARGEST = 1 << 20  # bytes of a submitted file
COMPILER = sandbox.Limits(seconds=120, memory=1536 * sandbox.MEGABYTE, output=64 * sandbox.MEGABYTE)


class SandboxedOverlay(overlay.Overlay):
    """An overlay whose compiler and linker run as strangers; what they write is copied from them."""

    def _object(self, source, call):
        try:
            return super()._object(source, call)
        except overlay.CompileError as error:
            error.source = source
            raise

    def _run(self, words):
        words = words[words[0].endswith("ccache"):]
        output = words.index("-o") + 1
        place, words[output] = words[output], "output"
        absolute = [str(self.build / word) if not word.startswith("-") and (self.build / word).is_file() else word
                    for word in words]
        outcome = sandbox.run(absolute, COMPILER, ["output"])
        if outcome.code != 0 or "output" not in outcome.files:
            raise overlay.CompileError("\n".join(filter(None, [outcome.stderr.strip(), outcome.trouble()])))
        Path(place).write_bytes(outcome.files["output"])
        Path(place).chmod(0o755)


def task_files(stage):
    return sorted({task.path for task in stage.tasks})


def find(folder, path):
    """A submitted file by its path, below any folder, or by its bare name; None where it is not a
    plain file within the folder."""
    candidates = [folder / path, *sorted(folder.glob(f"**/{path}")), folder / Path(path).name]
    for candidate in candidates:
        inside = candidate.resolve() == folder.resolve() / candidate.relative_to(folder)  # no links on the way
        if inside and candidate.is_file() and candidate.stat().st_size <= LARGEST:
            return candidate
    return None


def read(folder, stage):
    """path -> text of the submitted files that count, and notes on the rest."""
    files, found, notes = {}, set(), []
    for path in task_files(stage):
        place = find(folder, path)
        if place is None:
            notes.append(f"{path} is not in the submission: its tasks are not done")
            continue
        found.add(place)
        files[path] = place.read_bytes().decode("utf-8", "replace")
    others = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path not in found)
    if others:
        notes.append(f"ignored, for they hold no task of this stage: {', '.join(map(str, others[:5]))}"
                     + (f" and {len(others) - 5} more" if len(others) > 5 else ""))
    return files, notes


def undone(root, stage, paths):
    """path -> text of files in which no task is done, where the project's own are not such files."""
    texts = {}
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        named = {region.name for region in regions.parse(text, path) if region.kind == "task"}
        tasks = [task for task in stage.tasks if task.path == path and task.name in named]
        if tasks:
            texts[path] = stubs.with_stubs(text, stage, tasks)
    return texts


def culprits(error, root, files):
    """The submitted files to which a compiler's error is due."""
    source = getattr(error, "source", None)
    if source in files:
        return [source]
    headers = [path for path in files if path.endswith(".h")] if source else []
    return headers or sorted(files)


def require_strangers(build):
    """Sees to it that nothing submitted runs with root's rights."""
    if os.geteuid() != 0:
        print("grade: without root's rights, a submission runs with yours; grade others' in a container "
              "(make autograder)", file=sys.stderr)
    elif not sandbox.confines(build / "course"):
        raise course.CourseError(f"{build} is where only root may go; submissions run as another user, so move it")


def programs(root, build, stage, folder, scratch):
    """Builds a submission: (programs, task -> (why, compiler's lines) of what does not compile, notes)."""
    require_strangers(build)
    if not folder.is_dir():
        raise course.CourseError(f"{folder} is no folder with a submission")
    files, notes = read(folder, stage)
    broken, made, objects = {}, {}, {}
    names = [f"course_probe_{stage.number:02}", stage.folder]
    for attempt in range(len(task_files(stage)) + 1):
        place = scratch / str(attempt)
        place.mkdir(mode=0o755)
        overlaid = SandboxedOverlay(root, build, replacements(root, stage, files), place)
        overlaid._objects.update(objects)
        try:
            made = {name: overlaid.program(name) for name in names}
            break
        except overlay.CompileError as error:
            bad = culprits(error, root, files)
            if not bad:
                raise course.CourseError(f"the project itself does not build: {error}") from error
            lines = building.first_errors(str(error).replace(f"{place}/source/", ""))
            for path in bad:
                del files[path]
                broken.update({task.name: (f"{path} does not compile", lines)
                               for task in stage.tasks if task.path == path})
            kept = not any(path.endswith(".h") for path in bad)
            objects = {s: o for s, o in overlaid._objects.items() if kept and s not in bad}
    return checks.Programs(build, made), broken, notes


def replacements(root, stage, files):
    """The sources to build anew: those submitted, unless they are the project's own to the letter."""
    changed = {path: text for path, text in files.items() if text != (root / path).read_text(encoding="utf-8")}
    replaced = {**undone(root, stage, [path for path in task_files(stage) if path not in files]), **changed}
    if not (root / stubs.HEADER_PLACE).exists():
        replaced[stubs.HEADER_PLACE] = stubs.HEADER.read_text(encoding="utf-8")
    return replaced
