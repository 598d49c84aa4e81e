"""Builds a program with some of its sources replaced, beside the build and in seconds.

From the build's own commands: only the sources that changed, or that include a changed header, are
compiled again; their objects stand before the libraries when the program is linked, and the libraries
are copied without their own, so that nothing of a replaced source is left in the program.
"""
import re
import shlex
import shutil
import subprocess
from pathlib import Path

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
LIBRARY = re.compile(r"\bar qc (\S+) +([^&]*)")


class CompileError(Exception):
    """The compiler or the linker refused; `str` is what it said."""


class Overlay:
    """Sources that replace those of a tree. build: a Ninja build of the tree; folder: for the rest."""

    def __init__(self, root, build, replaced, folder):
        self.root, self.build, self.folder = Path(root).resolve(), Path(build).resolve(), Path(folder)
        self.replaced = {str(path): text for path, text in replaced.items()}
        self.changed = {path for path, text in self.replaced.items() if text != _text(self.root / path)}
        for path, text in self.replaced.items():
            target = self.folder / "source" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        self._objects, self._programs = {}, {}

    def program(self, target):
        """The path of a program built with the replaced sources; the build's own where they are no
        part of it. Raises CompileError."""
        if target not in self._programs:
            self._programs[target] = self._built(target)
        return self._programs[target]

    def _built(self, target):
        *before, link = commands(self.build, target)
        compiled = [command for command in map(_compiler_call, before) if command]
        changed = [(source, call) for source, call in compiled if self._is_changed(source)]
        link = shlex.split(link.split("&&")[1])
        output = link.index("-o") + 1
        if not changed:
            return self.build / link[output]
        own, others = [], []
        for source, call in changed:
            old = call[call.index("-o") + 1]
            (own if old in link else others).append((old, self._object(source, call)))
        for old, new in own:
            link[link.index(old)] = new
        first_library = next((i for i, word in enumerate(link) if word.endswith(".a")), len(link))
        link[output] = str(self.folder / Path(link[output]).name)
        for library, members in _members(before, {old for old, _ in others}).items():
            link[link.index(library)] = self._without(library, members)
        link[first_library:first_library] = [new for _, new in others]
        self._run(link)
        return Path(link[output if output < first_library else output + len(others)])

    def _without(self, library, members):
        """A copy of a library without some of its objects."""
        copy = self.folder / library
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.build / library, copy)
        subprocess.run(["ar", "d", copy, *members], check=True)
        return str(copy)

    def _is_changed(self, source):
        """Whether a source is not what the build has, or includes something that is not."""
        seen, left = set(), [source]
        while left:
            path = left.pop()
            if path in self.changed:
                return True
            if path in seen:
                continue
            seen.add(path)
            left += _includes(self.root, path)
        return False

    def _object(self, source, call):
        """The object of a source, compiled once."""
        if source not in self._objects:
            overlaid = self.folder / "source"
            new = self.folder / (source.replace("/", "_") + ".o")
            call = list(call)
            call[call.index("-o") + 1] = str(new)
            call[call.index("-c") + 1] = str(self._place(source))
            first = next(i for i, word in enumerate(call) if word.startswith("-"))  # after a ccache
            self._run([*call[:first], "-I", str(overlaid), *call[first:], "-Wno-error"])
            self._objects[source] = str(new)
        return self._objects[source]

    def _place(self, source):
        """Where the compiler finds a source. A unit that CMake made of several includes them by their paths; a copy
        does by their names from the root, where those that are replaced are found first."""
        if not source.endswith(".cxx"):
            return (self.folder / "source" if source in self.replaced else self.root) / source
        unit = self.folder / "units" / source
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(_text(self.root / source).replace(f'#include "{self.root}/', '#include "'), encoding="utf-8")
        return unit

    def _run(self, words):
        """Runs the compiler or the linker. Raises CompileError."""
        done = subprocess.run(words, cwd=self.build, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise CompileError((done.stderr or done.stdout).strip())


def _text(path):
    return path.read_text(encoding="utf-8") if path.is_file() else None


_commands, _included = {}, {}


def commands(build, target):
    """What Ninja would run to make a target from nothing, in order; the last one links it."""
    if (build, target) not in _commands:
        listed = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], text=True,
                                capture_output=True, check=False)
        if listed.returncode != 0:
            raise CompileError(f"{build} is not a Ninja build with {target}: {listed.stderr.strip()}")
        _commands[build, target] = listed.stdout.strip().splitlines()
    return _commands[build, target]


def _members(commands, objects):
    """library -> names of those of the objects that are in it."""
    found = {}
    for library, listed in (match.groups() for match in map(LIBRARY.search, commands) if match):
        names = [Path(name).name for name in listed.split() if name in objects]
        if names:
            found[library] = names
    return found


def _includes(root, path):
    """The project's files that a file includes, as paths from the root."""
    if (root, path) not in _included:
        text = (root / path).read_text(encoding="utf-8")
        names = [name.removeprefix(f"{root}/") for name in INCLUDE.findall(text)]
        _included[root, path] = [name for name in names if (root / name).is_file()]
    return _included[root, path]


def _compiler_call(command):
    """(source from the root, words without what is about dependencies) of a compilation, or None."""
    words = shlex.split(command)
    if "-c" not in words or not words[words.index("-c") + 1].endswith((".cpp", ".cxx", ".cu")):
        return None
    result, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-MT", "-MF"):
            skip = 1
        elif word != "-MD":
            result.append(word)
    source = Path(words[words.index("-c") + 1])
    root = next((parent for parent in source.parents if (parent / "CMakePresets.json").exists()), None)
    return (str(source.relative_to(root)), result) if root else None
