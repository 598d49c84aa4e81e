"""Proves the course: that its checks say what they should of code that is known to be wrong.

  reference  passes every check
  starter    all tasks of a stage are stubs: every check fails or is not reached
  task       one task is a stub: exactly its checks fail, and those that say they need it
  mutant     a classic bug is planted: the check that is named catches it, in the right words
  planted    a student's bug is planted: some check of the stage catches it

usage: python3 tests/course prove --build DIR [--stage N] [--only reference|starter|tasks|mutants|planted] [--sample N]
  --sample N   of all that could be proved, every so many that N remain; which ones changes with the
               sources, so that over time all have their turn; SPECDEC_FULL=1: all
Exit code 1 where something is not so.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from student import checks, course, regions, reward
from teacher import overlay, sample, stubs
from authoring import mutants, planted, table


LINE = re.compile(r"^  (\d+\.\d+)  .{10}(.*)$", re.MULTILINE)  # of a program that shows how far code goes


class OverlaidPrograms(checks.Programs):
    """The programs of a build, with some sources replaced."""

    def __init__(self, build, overlaid):
        super().__init__(build)
        self.overlaid = overlaid

    def __getitem__(self, name):
        if name == "golden_report":
            return super().__getitem__(name)
        return self.overlaid.program(name)


class Prover:
    def __init__(self, root, build):
        self.root, self.build = root, build
        self.stages = course.load(root)
        self.controls = {}  # of mutants: what is wrong with a case where nothing is planted

    def results(self, stage, replaced, wanted=None):
        """check name -> Result of a stage's checks with some sources replaced."""
        expected = checks.load_expected(self.root, stage)
        with tempfile.TemporaryDirectory(prefix="specdec-prove-") as folder:
            Path(folder).chmod(0o755)  # checks run as somebody else
            programs = checks.Programs(self.build)
            if replaced:
                programs = OverlaidPrograms(self.build, overlay.Overlay(self.root, self.build, replaced, folder))
            return {check.name: checks.run(check, stage, expected.get(check.name, {}), programs, self.root)
                    for check in stage.checks if wanted is None or check.name in wanted}

    # Each of these yields what is not as it should be.

    def reference(self, stage):
        for name, result in self.results(stage, {}).items():
            if result.status != checks.PASS:
                yield f"{name}: {result.status}: {result.message} {result.printed}"

    def starter(self, stage):
        replaced = stubs.stubbed_sources(self.root, stage, {task.name for task in stage.tasks})
        for name, result in self.results(stage, replaced).items():
            if result.status == checks.PASS:
                yield f"{name} passes although nothing is done"
            elif result.status == checks.ERROR and "not done yet" not in " ".join(result.printed):
                yield f"{name}: {result.status}: {result.message} {result.printed}"
        yield from self.so_far(stage, replaced, {task.name for task in stage.tasks})

    def task(self, stage, task):
        replaced = stubs.stubbed_sources(self.root, stage, {task.name})
        for name, result in self.results(stage, replaced).items():
            should_fail = task.name in (result.check.task, *result.check.needs)
            if should_fail and result.status == checks.PASS:
                yield f"{name} passes without task {task.name}, although it is said to need it"
            if not should_fail and result.status != checks.PASS:
                yield f"{name} does not say that it needs task {task.name}: {result.status}: {result.message}"
        yield from self.so_far(stage, replaced, {task.name})

    def so_far(self, stage, replaced, missing):
        """Of the program that shows how far a stage's code goes: a line for each task up to the first that is missing."""
        for name in reward.SO_FAR.get(stage.number, []):
            whole = subprocess.run([self.build / "course" / name], capture_output=True, text=True, check=True).stdout
            with tempfile.TemporaryDirectory(prefix="specdec-prove-") as folder:
                program = overlay.Overlay(self.root, self.build, replaced, folder).program(name)
                said = subprocess.run([program], capture_output=True, text=True, check=False).stdout
            shown, found = LINE.findall(whole), LINE.findall(said)
            last = next((i for i, (task, _) in enumerate(shown) if task in missing), len(shown))
            wanted = shown[:last] + [(task, "to do") for task, _ in shown[last:last + 1]]
            if found != wanted or not shown:
                yield f"{name} shows {found}, and not {wanted}"

    def mutant(self, mutant):
        yield from mutants.survivors(self, mutant)

    def planted(self, stage, bug):
        right, line = planted.told(bug, planted.verdict(self.root, self.build, stage, bug))
        if not right:
            yield line

    def all_proofs(self, numbers, only):
        """(title, function that yields problems) of whatever can be proved."""
        for number in numbers:
            stage = self.stages[number]
            if only in (None, "reference"):
                yield f"stage {number}: the reference", lambda s=stage: self.reference(s)
            if only in (None, "starter"):
                yield f"stage {number}: the starter", lambda s=stage: self.starter(s)
            for task in stage.tasks if only in (None, "tasks") else []:
                yield (f"stage {number}: without task {task.name}, {task.title}",
                       lambda s=stage, t=task: self.task(s, t))
        for mutant in mutants.load(self.root) if only in (None, "mutants") else []:
            if mutant.stage in numbers:
                yield f"stage {mutant.stage}: mutant {mutant.name}", lambda m=mutant: self.mutant(m)
        for number in numbers if only in (None, "planted") else []:
            for bug in planted.load(self.root, number):
                yield f"stage {number}: planted in {bug.task}: {bug.title}", lambda b=bug, n=number: self.planted(self.stages[n], b)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--stage", type=int, action="append")
    parser.add_argument("--only", choices=["reference", "starter", "tasks", "mutants", "planted"])
    parser.add_argument("--sample", type=int)
    parser.add_argument("--match", default="", help="only proofs with this in their title")
    options = parser.parse_args(arguments)
    try:
        prover = Prover(options.root.resolve(), options.build.resolve())
        numbers = options.stage or sorted(prover.stages)
        if not set(numbers) <= set(prover.stages):
            raise course.CourseError(f"there are the stages {', '.join(map(str, sorted(prover.stages)))}")
        proofs = [proof for proof in prover.all_proofs(numbers, options.only) if options.match in proof[0]]
        wrong = list(table.problems(options.root, prover.stages)) if options.stage is None else []
        for line in wrong:
            print(f"WRONG   tasks.json: {line}")
        for title, prove in sample.sampled(proofs, options.sample, options.root):
            try:
                found = list(prove())
            except overlay.CompileError as error:
                found = [f"does not compile: {error}"]
            print(f"{'WRONG  ' if found else 'proved '} {title}", flush=True)
            for line in found:
                print(f"          {line}")
            wrong += found
    except (course.CourseError, regions.RegionError) as error:
        print(f"prove: {error}", file=sys.stderr)
        return 2
    if not proofs:
        print("prove: nothing to prove", file=sys.stderr)
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
