"""`make assignment STAGE=4 [OUT=dir] [KEEP=dir]`: a project without the parts of a stage that a student writes.

usage: python3 tests/course assignment --stage N [--out DIR] [--keep DIR]
  --out    the new folder; default ../specdec-stage-N beside this project
  --keep   a student's earlier assignment: what it has of lower stages takes the reference's place

Lower stages are the reference, the tasks of the stage are stubs, later stages are left out with
their chapters, checks and solutions, also where those stand in a folder that stages share. All that
is needed to build, check and grade is there.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from student import course, regions
from teacher import stubs

STARTER = course.FOLDER / "teacher/starter"
# Copied whole, but for what LEFT_OUT matches.
COPIED = ("CMakeLists.txt", "LICENSE", ".clang-format", "common", "kernels", "stages/CMakeLists.txt", "stages/programs",
          "golden/draft_text.txt", "golden/models", "golden/heads", "golden/checkpoints", "golden/goldens",
          "tests/course/probes/CMakeLists.txt", "tests/course/probes/golden_report.cpp",
          "docs/figures", "docs/00_before_you_start.md", "docs/checkpoints_and_tokenizers", "docs/theory",
          "docs/glossary.md", "docs/troubleshooting.md", "docs/trace_viewer.html", "docs/interactive")
# Folders of stages/programs that need a stage's library -> that stage.
NEEDS = {"cache": 3, "speculation": 4, "sampling": 5, "batch": 6, "serve": 6, "adaptive": 7, "trees": 8,
         "self": 9, "beams": 10}
# The tools of students; those of teachers and of the course's makers stay behind.
TOOLS = ("stages/programs/doctor.py", "stages/programs/terminal.py", "stages/programs/tool.py", "tests/course/__main__.py",
         "tests/course/student", "docs/experiments/formulas.py")
LEFT_OUT = re.compile(r"(^|/)(build|__pycache__)/|^kernels/(cuda|emulation)/.*\.cu$|^stages/programs/real/")
BLOCK = re.compile(r"(<!-- snippet: (?P<path>[^#\s]+)(?:#(?P<name>[\w.-]+))? -->\n```\w*\n).*?(^```$)",
                   re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
ELSEWHERE = "(in the whole project)"  # what becomes of a link to a page that is left out: its words, and this
INCLUDE = re.compile(r'^#include "(tests/[^"]+)"', re.MULTILINE)


def source_files(root):
    """The project's files, as paths from the root: what git knows, or else all there is."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, text=True, capture_output=True, check=True)
        return [Path(name) for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    return [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]


def is_wanted(path, number):
    """Whether a file of the reference belongs into the assignment of a stage."""
    name = path.as_posix()
    stage = re.match(r"(?:stages/|docs/|docs/figures/|tests/course/probes/stage_)(\d\d)[_.]", name)
    if stage and int(stage[1]) > number:
        return False
    if name in ("docs/trace_viewer.html", "docs/interactive/trace.html"):
        return number >= NEEDS["speculation"]  # which writes traces
    program = re.match(r"stages/programs/(\w+)/", name)
    if program and NEEDS.get(program[1], 0) > number:
        return False
    if stage and not name.startswith("docs/figures/"):
        return True
    if is_below(name, TOOLS):
        return not name.startswith("tests/course/student/tests/")
    return is_below(name, COPIED) and path.suffix != ".py" and not LEFT_OUT.search(name)


def is_below(name, places):
    """Whether a file is one of the places, or in a folder that is."""
    return any(name == place or name.startswith(place + "/") for place in places)


def helpers_of(root, paths):
    """The files of tests/ that sources include, directly or not, and what belongs to them."""
    found, left = set(), [path for path in paths if path.suffix in (".h", ".cpp")]
    while left:
        for name in INCLUDE.findall((root / left.pop()).read_text(encoding="utf-8")):
            for path in (Path(name), Path(name).with_suffix(".cpp")):
                if path not in found and (root / path).is_file():
                    found.add(path)
                    left.append(path)
    return found


def write_table(root, out, stages, number):
    """tasks.json of the assignment: stages up to `number`, with what regions say elsewhere: there are none."""
    table = course.read_json(root / course.FOLDER / "tasks.json")
    table["stages"] = [entry for entry in table["stages"] if entry["stage"] <= number]
    for entry in table["stages"]:
        for task in entry["tasks"]:
            known = stages[entry["stage"]].task(task["id"])
            task.update(title=known.title, path=known.path, function=opening_of(root, known))
    text = json.dumps(table, indent=1, ensure_ascii=False)
    (out / course.FOLDER / "tasks.json").write_text(text + "\n", encoding="utf-8")


def opening_of(root, task):
    """The line that opens the block in which a task is: most often the first of its function's signature."""
    text = (root / task.path).read_text(encoding="utf-8")
    region = next(r for r in regions.parse(text, task.path) if r.full_name == f"task {task.name}")
    braces = parentheses = 0
    for line in reversed(text.splitlines()[:region.begin]):
        braces += line.count("{") - line.count("}")
        if braces > 0:
            parentheses += line.count(")") - line.count("(")
            if parentheses <= 0:
                return line.strip()
    return ""


def write_presets(root, out):
    presets = json.loads((root / "CMakePresets.json").read_text(encoding="utf-8"))
    named = {preset["name"]: preset["cacheVariables"] for preset in presets["configurePresets"]
             if "cacheVariables" in preset}
    named["base"].update(SPECDEC_WERROR="OFF", SPECDEC_EMULATION="OFF", SPECDEC_CUDA="OFF",
                         SPECDEC_OPTIMIZE="-O1 -DNDEBUG")
    named["asan"].update(SPECDEC_OPTIMIZE="-O1 -g -DNDEBUG")
    keep = ("base", "cpu", "asan")
    for kind in ("configurePresets", "buildPresets"):
        presets[kind] = [preset for preset in presets[kind] if preset["name"] in keep]
    del presets["testPresets"]
    (out / "CMakePresets.json").write_text(json.dumps(presets, indent=2) + "\n", encoding="utf-8")


def write_front_pages(root, out, stage):
    """README.md and Makefile, which know the assignment's stage."""
    rows = "\n".join(f"| {t.name} | {t.title} | `{t.path}` | [{Path(t.page).name}]({t.page}) | {t.points} |"
                     for t in stage.tasks)
    for name in ("README.md", "Makefile"):
        text = (root / STARTER / f"{name}.in").read_text(encoding="utf-8")
        for key, value in {"number": str(stage.number), "chapter": stage.chapter, "tasks": rows,
                           "first": stage.tasks[0].name, "folder": stage.folder}.items():
            text = text.replace("{" + key + "}", value)
        (out / name).write_text(text, encoding="utf-8")


def keep_students_own(keep, out, stages, number):
    """Copies the files that hold tasks of lower stages from a student's earlier assignment."""
    taken = []
    for path in sorted({task.path for n in stages if n < number for task in stages[n].tasks}):
        # An earlier assignment may have left a task out of a file that it has.
        if (keep / path).is_file() and stubs.LATER not in (keep / path).read_text(encoding="utf-8"):
            shutil.copyfile(keep / path, out / path)
            taken.append(path)
    if not taken:
        raise course.CourseError(f"{keep} has no file with tasks of a stage below {number}")
    return taken


def cut_sources(root, number, out):
    """Writes what a build of the assignment compiles, and nothing else of it."""
    for folder in ("common", "kernels", "stages", "tests/course/probes"):
        for path in (path.relative_to(root) for path in sorted((root / folder).rglob("*"))):
            if path.suffix in (".h", ".cpp", ".cuh") and is_wanted(path, number):
                copy(root, out, path)
    for path in helpers_of(root, [path.relative_to(out) for path in out.rglob("*") if path.is_file()]):
        copy(root, out, path)
    cut_tasks(out, course.load(root), number)


def copy(root, out, path):
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / path, out / path)


def cut_tasks(out, stages, number):
    """Leaves of the tasks in the copied sources what the assignment may have: those of lower stages
    without their markers, stubs instead of the others. What is cut already stays as it is. Returns the
    paths of what has stubs."""
    stubbed = set()
    for stage in stages.values():
        for path in sorted({task.path for task in stage.tasks if (out / task.path).is_file()}):
            text = (out / path).read_text(encoding="utf-8")
            marked = {region.name for region in regions.parse(text, path) if region.kind == "task"}
            tasks = [task for task in stage.tasks if task.path == path and task.name in marked]
            if stage.number < number:
                text = without_markers(text, {f"task {task.name}" for task in tasks})
            else:
                stubbed.add(path)
                text = stubs.with_stubs(text, stage, tasks, stubs.stub if stage.number == number else stubs.later_stub)
            (out / path).write_text(text, encoding="utf-8")
    if not (out / stubs.HEADER_PLACE).exists():
        (out / stubs.HEADER_PLACE).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stubs.HEADER, out / stubs.HEADER_PLACE)
    return stubbed


def without_markers(text, names):
    """The text without the markers of the regions with these full names."""
    def is_one(line):
        said = re.match(r"(?:end )?(\w+ [\w.-]+)", regions.marker(line) or "")
        return said and said[1] in names
    return "".join(line for line in text.splitlines(True) if not is_one(line))


def forget_snippets(out):
    """Takes the marks of code blocks out of the sources that no page of the assignment shows."""
    shown = {(match["path"], match["name"]) for page in out.rglob("*.md")
             for match in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    for path in (path for folder in ("common", "kernels", "stages") for path in sorted((out / folder).rglob("*"))):
        if path.suffix in (".h", ".cpp"):
            text, where = path.read_text(encoding="utf-8"), path.relative_to(out).as_posix()
            names = {r.full_name for r in regions.parse(text, where) if r.kind == "snippet" and (where, r.name) not in shown}
            path.write_text(without_markers(text, names), encoding="utf-8")


def update_chapters(out, stubbed, stage):
    """Code blocks of the chapters that show a source with stubs show it as it is in the assignment, those that
    would nearly solve a task say where their code is, and links lead nowhere but to what is there."""
    spoiled = {place: task for task in stage.tasks for place in task.spoilers}

    for page in [*out.glob("docs/**/*.md"), *out.glob("stages/*/*.md")]:
        def linked(match, folder=page.parent):  # what leads out of the assignment is text that says so
            there = match[2].startswith(("http", "#")) or (folder / match[2].split("#")[0]).exists()
            return match[0] if there else f"{match[1]} {ELSEWHERE}"

        def shown(match):
            task = spoiled.get(f"{match['path']}#{match['name']}")
            if task:
                return f"{match[1]}// {match['path']}, to be looked at after task {task.name}\n{match[4]}"
            if match["path"] not in stubbed:
                return match[0]
            text = (out / match["path"]).read_text(encoding="utf-8")
            region = next(r for r in regions.parse(text, match["path"])
                          if r.kind == "snippet" and r.name == match["name"])
            return match[1] + regions.text_of(text, region) + match[4]

        text = page.read_text(encoding="utf-8")
        page.write_text(LINK.sub(linked, BLOCK.sub(shown, text)), encoding="utf-8")


def make_tree(root, number, out, keep=None):
    """Writes the assignment of a stage; returns the lower stages' files taken from `keep`.
    REQUIRES: out does not exist, or is empty."""
    stages = course.load(root)
    if number not in stages:
        raise course.CourseError(f"STAGE is a number from {min(stages)} to {max(stages)}: make assignment STAGE={max(stages)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise course.CourseError(f"{out} exists; give another folder, or remove it")
    files = [path for path in source_files(root) if is_wanted(path, number)]
    files += sorted(helpers_of(root, files))
    files += [course.FOLDER / "expected" / f"{n:02}.json" for n in stages if n <= number]
    for path in files:
        copy(root, out, path)
    for name, place in (("CMakeLists.txt", "tests"), (".gitignore", ".")):
        shutil.copy(root / STARTER / name, out / place / name)
    stubbed = cut_tasks(out, stages, number)
    forget_snippets(out)
    write_table(root, out, stages, number)
    write_presets(root, out)
    write_front_pages(root, out, stages[number])
    update_chapters(out, stubbed, stages[number])
    return keep_students_own(keep, out, stages, number) if keep else []


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    out = options.out or root.parent / f"specdec-stage-{options.stage}"
    try:
        kept = make_tree(root, course.number_of(options.stage), out, options.keep)
    except (course.CourseError, regions.RegionError) as error:
        print(f"assignment: {error}", file=sys.stderr)
        return 2
    for path in kept:
        print(f"kept {path}")
    print(f"{out}: the assignment of stage {options.stage}; its README.md says how to begin")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
