"""The assignments of all stages, cut from the real tree: no solution is left in them, and their tools
run as far as they can before anything is built."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from student import building, course, regions
from teacher import assignment, sample

ROOT = Path(__file__).resolve().parents[4]
STAGES = course.load(ROOT)
SOURCES = (".h", ".cpp")
TEXTS = (*SOURCES, ".md", ".json", ".txt", ".py", "")
OPTIONS = {"emitted": "2", "forwards": "0.5", "rows": "2", "pages": "9", "speedup": "1.5"}

# What a page may send its reader to: files by path or by name, targets of make, sections of stages.
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
PLACE = re.compile(r"(?<![\w/.<-])(?:\.ci|common|docs|golden|kernels|stages|tests)/[\w./*-]*[\w*]")
MADE = re.compile(r"<!-- file: (\S+) -->")  # files whose text a page shows
FILE = re.compile(r"(?<![\w/.*-])[\w-]+\.(?:cpp|cuh?|h|html|md|py)\b")
BUILT = re.compile(r"\bbuild/(?:bin|tests)/([\w/]+)(?![\w.])")
COMMAND = re.compile(r"^(?:\$ )?make ([a-z][\w-]*)|\b(ctest)\b", re.MULTILINE)
SECTION = re.compile(r"[Ss]tage (\d+), section \d+")


def code_of(text):
    """A text's lines without indentation, empty ones and comments."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def pieces(text):
    """One to three lines of code that follow each other and are long enough to be told from others."""
    lines = code_of(text).splitlines(True)
    runs = ("".join(lines[i:i + n]) for n in (1, 2, 3) for i in range(len(lines) - n + 1))
    return {run for run in runs if len(run) > 30}


def solutions(number):
    """task -> the pieces that only its solution has, of the tasks that an assignment must not solve."""
    found = {name: where for name, (where, _) in regions.tree_regions(ROOT, "task").items()
             if int(name.split(".")[0]) >= number}
    taken, rest = {}, ""
    for path in (p for p in assignment.source_files(ROOT) if assignment.is_wanted(p, number) and p.suffix in SOURCES):
        text = (ROOT / path).read_text(encoding="utf-8")
        for name in (name for name, where in found.items() if where == path):
            region = next(r for r in regions.parse(text, path) if r.full_name == f"task {name}")
            taken[name] = pieces(regions.text_of(text, region))
            text = regions.replaced(text, region, [])
        rest += code_of(text)
    return {name: {piece for piece in own if piece not in rest} for name, own in taken.items()}


def paragraphs(text):
    """The paragraphs of a page; a table or a code block belongs to the one before it."""
    found, inside = [[]], False
    for line in re.sub(r"(?m)^> ?", "", text).split("\n"):
        if not line.strip() and not inside:
            found.append([])
        inside ^= line.lstrip().startswith("```")
        found[-1].append(line)
    joined = []
    for paragraph in ("\n".join(lines).strip() for lines in found):
        goes_on = joined and re.match(r"(?:<!--.*?-->\s*)*(?:```|\|)", paragraph, re.DOTALL)
        joined[-1:] = [f"{joined[-1]}\n{paragraph}"] if goes_on else [*joined[-1:], paragraph]
    return joined


def code_in(paragraph):
    """Its code: blocks, and spans, a line each."""
    spans = (" ".join(span.split()) for span in SPAN.findall(BLOCK.sub("", paragraph)))
    return "\n".join([*BLOCK.findall(paragraph), *spans])


def dead_ends(tree, number, text):
    """What a page of an assignment sends its reader to although it is not there. A paragraph that says that it
    speaks of the whole project may."""
    names = {path.name for path in tree.rglob("*")}
    names |= {name for page in tree.glob("docs/**/*.md") for name in MADE.findall(page.read_text(encoding="utf-8"))}
    targets = set(re.findall(r"^([a-z]+):", (tree / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for paragraph in paragraphs(text):
        words, code = " ".join(paragraph.split()), code_in(paragraph)
        if "whole project" in words.replace(assignment.ELSEWHERE, ""):  # that stands for a link, and for no more
            continue
        yield from (place for place in PLACE.findall(code) if not any(tree.glob(place + "*")))
        yield from (name for name in FILE.findall(code) if name not in names)
        yield from (name for name in BUILT.findall(code) if name != "inspect" and not (tree / "stages" / name).exists())
        yield from (target or tool for target, tool in COMMAND.findall(code) if target not in targets)
        yield from (section[0] for section in SECTION.finditer(words) if int(section[1]) > number)


class DeadEnds(unittest.TestCase):
    def test_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / "docs").mkdir()
            (tree / "docs/04_here.md").write_text("")
            (tree / "stages/04_here").mkdir(parents=True)
            (tree / "Makefile").write_text("check: build\n")
            for text, there in {
                    "`docs/04_here.md`, `04_here.md`, `make check STAGE=4`, stage 4, section 2, a test": [],
                    "see `docs/05_gone.md`": ["docs/05_gone.md"],
                    "In the whole\nproject, see `docs/05_gone.md`.": [],
                    "The whole project.\n\nSee `docs/05_gone.md`": ["docs/05_gone.md"],
                    "`gone.cpp` and `build/bin/04_here --help`": ["gone.cpp"],
                    "```\nmake check\n\nbuild/bin/05_gone\n```": ["05_gone"],
                    "> `make\n> test`": ["test"], "(`ctest -R NAME`)": ["ctest"],
                    "words:\n\n```\nmake test\n```": ["test"], "in the whole project:\n\n```\nmake test\n```": [],
                    "in the whole project:\n\n| a |\n|---|\n| `make test` |": [],
                    "stage\n5, section 10": ["stage 5, section 10"], "stage 5 (in the whole project), section 10": [],
                    "stage 5 (in the whole project), `make test`": ["test"]}.items():
                self.assertEqual(list(dead_ends(tree, 4, text)), there, text)


class EveryStage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.trees = {number: Path(directory.name, str(number)) for number in STAGES}
        for number, tree in cls.trees.items():
            assignment.make_tree(ROOT, number, tree)

    def ran(self, number, *command):
        done = subprocess.run(command, cwd=self.trees[number], text=True, capture_output=True, check=False,
                              env={**os.environ, "SETUP": "no"})
        return done.returncode, done.stdout, done.stderr

    def tool(self, number, name, *options):
        return self.ran(number, "python3", "tests/course", name, *options)

    def pretend_to_build(self, number):
        """A build folder in which all programs are up to date, and none is there."""
        build = self.trees[number] / "build"
        build.mkdir(exist_ok=True)
        targets = building.programs_of(STAGES, number)
        (build / "build.ninja").write_text("".join(f"build {target}: phony\n" for target in targets))

    def test_there_are_all_stages(self):
        self.assertEqual(sorted(self.trees), list(range(11)))

    def test_no_line_of_a_solution_is_left(self):
        for number, tree in self.trees.items():
            text = "".join(code_of(path.read_text(encoding="utf-8")) for path in sorted(tree.rglob("*"))
                           if path.is_file() and path.suffix in TEXTS and "golden" not in path.parts)
            own = solutions(number)
            self.assertLessEqual({task.name for task in STAGES[number].tasks}, set(own))
            for task, own_pieces in own.items():
                self.assertTrue(own_pieces, f"task {task} has nothing of its own")
                left = [piece for piece in own_pieces if piece in text]
                self.assertEqual(left, [], f"task {task} in the assignment of {number}")

    def test_a_task_of_a_later_stage_in_a_shared_folder_is_none(self):
        for number, tree in self.trees.items():
            text = (tree / "common/speculation/count_round.cpp").read_text(encoding="utf-8")
            self.assertEqual("a task of stage 4, which this assignment leaves out" in text, number < 4)
            self.assertEqual("not done yet, see docs/04" in text, number == 4)
            self.assertEqual("stats.rounds++" in text, number > 4)

    def test_marks_are_those_of_code_blocks_that_its_pages_show(self):
        for number, tree in self.trees.items():
            self.assertEqual(regions.tree_regions(tree, "task"), {})
            pages = "\n".join(page.read_text(encoding="utf-8") for page in tree.rglob("*.md"))
            marked = {(path, name) for path, name in self.snippets(tree)}
            shown = set(re.findall(r"<!-- snippet: ([^#\s]+)#([\w.-]+) -->", pages))
            self.assertEqual(marked - shown, set(), number)
            self.assertEqual({(path, name) for path, name in shown if (tree / path).exists()} - marked, set(), number)
            self.assertGreater(len(marked), 5)

    def test_no_page_sends_its_reader_to_what_is_not_there(self):
        for number, tree in self.trees.items():
            for page in sorted(tree.rglob("*.md")):
                with self.subTest(stage=number, page=page.relative_to(tree).as_posix()):
                    text = page.read_text(encoding="utf-8")
                    self.assertEqual(list(dead_ends(tree, number, text)), [])
                    links = [target.split("#")[0] for _, target in assignment.LINK.findall(text)
                             if not target.startswith(("http", "#"))]
                    self.assertEqual([target for target in links if not (page.parent / target).exists()], [])

    def snippets(self, tree):
        for path in (p for p in tree.rglob("*") if p.suffix in SOURCES):
            for region in regions.parse(path.read_text(encoding="utf-8"), path):
                yield path.relative_to(tree).as_posix(), region.name

    def test_what_it_includes_is_there(self):
        for tree in self.trees.values():
            for path in (p for p in tree.rglob("*") if p.suffix in SOURCES):
                for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
                    self.assertTrue((tree / name).exists() or (path.parent / name).exists(), f"{path}: {name}")

    def test_folders_of_programs_come_with_the_stage_that_they_need(self):
        for folder, needed in {**assignment.NEEDS, "run": 0, "show": 0}.items():
            for number in STAGES:
                self.assertEqual(assignment.is_wanted(Path("stages/programs", folder, "a.cpp"), number), number >= needed)

    def test_check_finds_all_that_it_needs(self):
        for number in STAGES:
            code, out, errors = self.tool(number, "check", "--stage", str(number), "--list")
            self.assertEqual((code, errors), (0, ""))
            for stage in (STAGES[n] for n in range(number + 1)):
                self.assertEqual(out.count(f"Stage {stage.number}, "), 1)
                for task in stage.tasks:
                    self.assertRegex(out, rf"\n  {re.escape(task.name)}  .*: \w+")

    def test_check_says_what_is_missing(self):
        expected = self.trees[2] / "tests/course/expected/01.json"
        text = expected.read_text(encoding="utf-8")
        self.addCleanup(expected.write_text, text, encoding="utf-8")
        expected.write_text(text.replace('"rms_norm"', '"rms_norms"'), encoding="utf-8")
        code, _, errors = self.tool(2, "check", "--stage", "2", "--list")
        self.assertEqual((code, errors.splitlines()), (2, ["check: nothing is known of what check rms_norm should give "
                                                           f"for seed {seed}" for seed in (1, 2)]))

    def test_check_stays_with_a_stage_that_fails_and_names_its_first_task(self):
        for number, stage in STAGES.items():
            self.pretend_to_build(number)
            code, out, errors = self.tool(number, "check", "--stage", str(number))
            self.assertEqual((code, errors), (1, ""))
            self.assertIn(f"0 of {len(stage.tasks)} tasks of stage {number} pass. Next: task {number}.1", out)
            self.assertIn(f"\n  make hint TASK={number}.1\n", out)
            self.assertEqual(out.count("Stage "), 1)
            self.assertEqual(out.count(f"make check STAGE={number - 1}"), min(number, 1))

    def test_grade_comes_to_marks(self):
        for number, stage in STAGES.items():
            self.pretend_to_build(number)
            code, out, errors = self.tool(number, "grade", "--stage", str(number))
            self.assertEqual((code, errors), (0, ""))
            self.assertIn(f"Stage {number}, {stage.folder[3:].replace('_', ' ')}: 0 of 100 points", out)

    def test_hint_knows_its_tasks_and_no_later_one(self):
        for number, stage in STAGES.items():
            code, out, errors = self.ran(number, "make", "--no-print-directory", "hint", f"TASK={number}.1")
            self.assertEqual((code, errors), (0, ""))
            self.assertIn(f"Task {number}.1: {stage.tasks[0].title} (", out)
            code, out, errors = self.tool(number, "hint", "--task", f"{number + 1}.1")
            self.assertEqual((code, errors.count("\n")), (2, 1), errors)

    def test_hint_tells_of_a_broken_tree_in_one_line(self):
        table = self.trees[0] / "tests/course/tasks.json"
        text = table.read_text(encoding="utf-8")
        self.addCleanup(table.write_text, text, encoding="utf-8")
        table.unlink()
        code, out, errors = self.tool(0, "hint", "--task", "0.1")
        self.assertEqual((code, out, errors.count("\n")), (2, "", 1), errors)
        table.write_text(text.replace('"title"', '"titles"'), encoding="utf-8")
        code, out, errors = self.tool(0, "hint", "--task", "0.1")
        self.assertEqual((code, out, errors), (2, "", "hint: task 0.1 has no region in the sources\n"))

    def test_doctor_sees_an_assignment(self):
        code, out, errors = self.ran(2, "make", "--no-print-directory", "doctor")
        self.assertIn("Project:", out)
        self.assertRegex(out, r"golden files +\d+ files, all intact")
        self.assertNotIn("gtest", out)

    def test_predict_asks_for_a_build_and_knows_its_stages(self):
        for number in STAGES:
            _, _, usage = self.tool(number, "predict", "--stage", str(number))
            names = re.findall(r"([A-Z]+)=\.\.\.", usage)
            self.assertTrue(names, usage)
            options = [word for name in names for word in (f"--{name.lower()}", OPTIONS[name.lower()])]
            code, out, errors = self.tool(number, "predict", "--build", "nowhere", "--stage", str(number), *options)
            self.assertEqual((code, out, errors.count("\n")), (2, "", 1), errors)
            self.assertIn("is not built: make build", errors)
            if number + 1 in STAGES:
                _, _, errors = self.tool(number, "predict", "--stage", str(number + 1))
                self.assertEqual(errors, f"stage {number + 1} is not in this assignment\n")


@unittest.skipUnless(os.environ.get("SPECDEC_FULL"), "builds a whole assignment: SPECDEC_FULL=1")
class OneStageBuilt(unittest.TestCase):
    """Of one stage; which one changes with the sources, so that over time all have their turn."""

    def test_it_builds_alone_and_its_stubs_fail_while_lower_stages_pass(self):
        number = sample.some(sorted(STAGES), 1, ROOT)[0]
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder, "assignment")
            assignment.make_tree(ROOT, number, tree)
            Path(folder).chmod(0o755)
            offline = ["unshare", "-n"] if os.geteuid() == 0 and shutil.which("unshare") else []
            done, below = (subprocess.run([*offline, "make", "check", f"STAGE={stage}"], cwd=tree, text=True,
                                          capture_output=True, env={**os.environ, "SETUP": "no"}, check=False)
                           for stage in (number, max(number - 1, 0)))
        self.assertIn(f"0 of {len(STAGES[number].tasks)} tasks of stage {number} pass. Next: task {number}.1",
                      done.stdout, done.stderr[-2000:])
        if number == 0:
            return
        tasks = len(STAGES[number - 1].tasks)
        self.assertEqual(below.returncode, 0, below.stdout + below.stderr[-2000:])
        self.assertIn(f"{tasks} of {tasks} tasks of stage {number - 1} pass.", below.stdout)
        for lower in range(number - 1):
            self.assertIn(f"Stage {lower}: {len(STAGES[lower].tasks)} tasks pass", below.stdout)


if __name__ == "__main__":
    unittest.main()
