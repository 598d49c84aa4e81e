"""Builds a student's submission: its files that hold tasks, and nothing else of it.

A compiler can be attacked, too (`#include "/etc/passwd"`, templates without end), so it runs as the
programs do: as a stranger, within limits, in a world where the project is what an assignment has of
it. So neither what is built nor what runs can find a solution. A file that does not compile is left to
the assignment's own, in which its tasks are not done; so the tasks of the other files can still be
graded.
"""
import itertools
import os
import stat
import sys
from collections import deque
from pathlib import Path

from student import building, checks, course, grade, isolation, sandbox
from terminal import printable
from teacher import assignment, overlay, stubs

LARGEST = 1 << 20  # bytes of a submitted file
DEEPEST, MOST = 30, 10000  # folders in each other, and entries, of a submission
DATA = ("golden/models", "golden/heads", "golden/checkpoints", "golden/draft_text.txt")  # what the programs read of the project
COMPILER = sandbox.Limits(seconds=120, memory=1536 * sandbox.MEGABYTE, output=64 * sandbox.MEGABYTE)


class SandboxedOverlay(overlay.Overlay):
    """An overlay whose compiler and linker run as strangers, and read the sources of an assignment, in
    `cut`, where the build has the project's; what they write is copied from them."""

    def __init__(self, root, build, replaced, folder, cut):
        super().__init__(root, build, replaced, folder)
        self.cut = cut

    def _object(self, source, call):
        try:
            return super()._object(source, call)
        except overlay.CompileError as error:
            error.source = source
            raise

    def _run(self, words):
        words = [self._in_the_cut(word) for word in words[words[0].endswith("ccache"):]]
        output = words.index("-o") + 1
        place, words[output] = words[output], "output"
        words[1:] = [str(self.build / word) if not word.startswith("-") and (self.build / word).is_file() else word
                     for word in words[1:]]
        built = [Path(word) for word in words[1:] if Path(word).is_relative_to(self.build)]
        built += [header.with_name(f"{header.name}.gch") for header in built if header.suffix == ".hxx"]
        world = isolation.World([self.cut, self.folder, *filter(Path.is_file, built)], [self.root, self.build])
        outcome = sandbox.run(words, COMPILER, ["output"], world)
        if outcome.code != 0 or "output" not in outcome.files:
            raise overlay.CompileError("\n".join(filter(None, [outcome.stderr.strip(), outcome.trouble()])))
        Path(place).write_bytes(outcome.files["output"])
        Path(place).chmod(0o755)

    def _in_the_cut(self, word):
        """A word of a command with a path of the assignment for one of the project; not for the build's."""
        path = Path(word[2:] if word.startswith("-I") else word)
        if path.is_relative_to(self.build) or not path.is_relative_to(self.root):
            return word
        return word[:-len(str(path))] + str(self.cut / path.relative_to(self.root))


def task_files(stage):
    return sorted({task.path for task in stage.tasks})


def plain_files(folder, wanted=()):
    """The files of a submission, as paths from its folder in their order, and notes on what was not
    looked at. No link is followed. Paths that are wanted are looked up in every folder, and their bare
    names in the first one, so that no heap of other files hides them."""
    files, notes, left, room, is_cut = set(), [], deque([Path()]), MOST, False
    while left:
        here = left.popleft()
        names = () if here.parts else tuple(Path(path).name for path in wanted)
        files |= {here / path for path in (*wanted, *names) if is_plain(folder, here / path)}
        if is_cut:
            continue
        try:
            entries = folders_first(folder / here)
        except OSError as error:
            notes.append(f"{named(here)} cannot be read: {error.strerror}")
            continue
        is_cut = len(entries) > room
        entries = entries[:room]
        room -= len(entries)
        for entry in entries:
            path = here / entry.name
            if entry.is_dir(follow_symlinks=False):
                if len(path.parts) <= DEEPEST:
                    left.append(path)
                else:
                    notes.append(f"{named(Path(*path.parts[:3]))}/... has more than {DEEPEST} folders in each other: "
                                 "not looked at")
            elif entry.is_file(follow_symlinks=False):
                files.add(path)
    if is_cut:
        notes.insert(0, f"more than {MOST} files and folders: the rest was not looked at")
    return sorted(files), notes[:5]


def folders_first(folder):
    """What is in a folder, by name. Files come after the folders, as they may be a heap of any size."""
    with os.scandir(folder) as listing:
        entries = itertools.islice(listing, 100 * MOST)
        return sorted(entries, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))


def is_plain(folder, path):
    """Whether a path leads through folders to a plain file, and through no link."""
    try:
        modes = [os.lstat(folder / part).st_mode for part in (*reversed(path.parents), path)]
    except OSError:
        return False
    return all(map(stat.S_ISDIR, modes[1:-1])) and stat.S_ISREG(modes[-1])


def named(path):
    """A submitted name in one line, and without what a terminal or a report would take as its own."""
    text = printable(str(path)).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= 120 else text[:117] + "..."


def find(files, path):
    """Of the submitted files the one that is meant by a path: there, below any folder, or by its bare name."""
    path = Path(path)
    below = [file for file in files if file.parts[-len(path.parts):] == path.parts]
    return next((file for file in (path, *below, Path(path.name)) if file in files), None)


def read(folder, stage):
    """path -> text of the submitted files that count, and notes on the rest."""
    texts, found = {}, set()
    files, notes = plain_files(folder, task_files(stage))
    for path in task_files(stage):
        place = find(files, path)
        if place is None:
            notes.append(f"{path} is not in the submission: its tasks are not done")
            continue
        found.add(place)
        try:
            texts[path] = text_of(folder / place)
        except OSError as error:
            notes.append(f"{named(place)} cannot be read: {error.strerror}: its tasks are not done")
    others = [file for file in files if file not in found]
    if others:
        notes.append(f"ignored, because they hold no task of this stage: {', '.join(map(named, others[:5]))}"
                     + (f" and {len(others) - 5} more" if len(others) > 5 else ""))
    return texts, notes


def text_of(path):
    """The text of a plain file. Raises OSError."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise OSError(0, f"not a plain file of at most {LARGEST} bytes")
        return file.read(LARGEST).decode("utf-8", "replace")


def culprits(error, files):
    """The submitted files to which a compiler's error is due."""
    source = getattr(error, "source", None)
    if source in files:
        return [source]
    headers = [path for path in files if path.endswith(".h")] if source else []
    return headers or sorted(files)


def require_strangers(root, build):
    """Sees to it that nothing submitted runs with root's rights, and tells what it may see."""
    if isolation.works():
        return
    if os.geteuid() != 0:
        print("grade: without root's rights and namespaces, a submission runs with your rights and may read what you "
              "may; grade others' in a container (make autograder)", file=sys.stderr)
    elif not sandbox.confines(build / "course"):
        raise course.CourseError(f"{build} is where only root may go; submissions run as another user, so move it")
    elif not (root / stubs.HEADER_PLACE).exists():
        print(f"grade: without namespaces, a submission may read what every user may, including the solutions in {root}; "
              "grade in a container (make autograder)", file=sys.stderr)


def programs(root, build, stage, folder, scratch):
    """Builds a submission: (programs, task -> (why, compiler's lines) of what does not compile, notes)."""
    require_strangers(root, build)
    if not folder.is_dir():
        raise course.CourseError(f"{folder} is not a folder with a submission")
    files, notes = read(folder, stage)
    broken, made, objects = {}, {}, {}
    cut = scratch / "cut"
    assignment.cut_sources(root, stage.number, cut)
    undone = {path: (cut / path).read_text(encoding="utf-8") for path in task_files(stage)}
    names = [f"course_probe_{stage.number:02}", stage.folder]
    for attempt in range(len(task_files(stage)) + 1):
        place = scratch / str(attempt)
        place.mkdir(mode=0o755)
        overlaid = SandboxedOverlay(root, build, {**undone, **files}, place, cut)
        overlaid._objects.update(objects)
        try:
            made = {name: overlaid.program(name) for name in names}
            break
        except overlay.CompileError as error:
            bad = culprits(error, files)
            if not bad:
                raise grade.GradeError(f"the project itself does not build: {error}") from error
            lines = building.first_errors(str(error).replace(f"{place}/source/", "").replace(f"{cut}/", ""))
            for path in bad:
                del files[path]
                broken.update({task.name: (f"{path} does not compile", lines)
                               for task in stage.tasks if task.path == path})
            kept = not any(path.endswith(".h") for path in bad)
            objects = {s: o for s, o in overlaid._objects.items() if kept and s not in bad}
    data = [root / name for name in DATA if (root / name).exists()]
    world = isolation.World([*made.values(), *data], [root, build])
    return checks.Programs(build, made, world), broken, notes
