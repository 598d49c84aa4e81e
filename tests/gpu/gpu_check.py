#!/usr/bin/env python3
"""Checks and measures the CUDA backend on this machine's GPU, within a number of seconds that is certain.

    python3 tests/gpu/gpu_check.py [--pack FILE] [--out DIR] [--budget SECONDS] [--only STEP] [--device emulated]

FILE is what `make gpu-pack` made from the same sources; --build takes a build of this machine's instead. First comes what
shows that the kernels are right, then times, then sanitizers and profiles. A step ends with PASS, FAIL or LATE: there was
no time for it. DIR gets what the programs print, cuda.json with times, and gpu_check.json with the verdicts, the hardware
and the hash of the sources. `--device emulated --build build` rehearses all this without a GPU.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import bounded
import gpu_steps

sys.path[:0] = [str(gpu_steps.REPOSITORY / part) for part in ("docs/experiments", "stages/programs")]
import run  # noqa: E402
import tool  # noqa: E402

TOOLS = ("compute-sanitizer", "ncu")
PLACES = ("usr/local/cuda*/bin", "usr/local/cuda*/lib64", "opt/nvidia/nsight-compute/*")
SAID = 30    # lines of a failed job that the end shows


def output(*command):
    """What a command prints; nothing where there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def unpacked(pack, folder):
    """The build in a pack, and what the pack says of itself. Python's own xz: that of tar may be missing."""
    if not pack.is_file():
        raise tool.Trouble(f"{pack} is not there: make gpu-pack, on a machine with nvcc, and bring it along")
    with tarfile.open(pack) as file:
        file.extractall(folder)
    return folder / "build", json.loads((folder / "about.json").read_text(encoding="utf-8"))


def found_below(name):
    """The folder that has a file of this name, in a list: of the CUDA Toolkit, or else of a Python package."""
    found = [file for place in PLACES for file in sorted(pathlib.Path("/").glob(f"{place}/{name}"))]
    words = () if found else output("find", "/usr", "/opt", "-xdev", "-name", name, "-not", "-type", "d").splitlines()
    return [pathlib.Path(file).parent for file in (*found, *words)][:1]


def tools_folders():
    return [folder for name in TOOLS if not shutil.which(name) for folder in found_below(name)]


def library_folders(folder):
    """With what the pack brought, and cuBLAS, which is too large to bring."""
    listed = re.search(r"=> (\S+libcublas\.so\.13)$", output("ldconfig", "-p"), re.MULTILINE)
    return [folder / "lib", *([pathlib.Path(listed[1]).parent] if listed else found_below("libcublas.so.13"))]


def machine(place):
    """What the results are true of."""
    names = ("name", "compute_cap", "driver_version", "memory.total")
    words = output("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader").split("\n")[0].split(", ")
    gpu = dict(zip(("gpu", "compute_capability", "driver", "memory"), words)) if len(words) == len(names) else {}
    return {"device": place.device, **gpu, "cpu": run.machine()["cpu"], "cores": os.cpu_count(),
            "tools": [name for name in TOOLS if shutil.which(name)]}


def problems(place, about):
    """What would spoil the results, one a line: other sources, libraries that this machine lacks."""
    if about.get("sources_sha256", run.sources_sha256("cuda.json")) != run.sources_sha256("cuda.json"):
        yield "the pack was made from other sources than these"
    files = [place.bench, *map(place.test, place.tests()), *sorted(place.bin.glob("0*"))]
    if len(files) < 3:
        yield f"no programs in {place.build}"
    missing = {line.split()[0] for line in output("ldd", *map(str, files)).splitlines() if "not found" in line}
    yield from (f"this machine lacks {name}" for name in sorted(missing))


def tokens_per_second(results):
    """Of the step that counts them: setting -> statistics."""
    names = ("tokens_per_second", "alpha", "c", "v", "speedup_accounting", "rounds", "draft_seconds", "verify_seconds")
    found = {}
    for result in results:
        line = next((line for line in reversed(result.output.splitlines()) if line.startswith("{")), None)
        if result.verdict == "PASS" and line:
            stats = json.loads(line)["stats"]
            found[result.name] = {name: stats.get(name) for name in names}
    return found


def experiments(results):
    """What tests have found out, without effect on their verdict, as warpgroup_kernel_test.cpp does."""
    return [line.strip() for result in results for line in result.output.splitlines() if line.startswith("EXPERIMENT: ")]


class Report:
    """The verdicts so far, in a file after each step: the machine may be gone before the last."""

    def __init__(self, file, about, place):
        self.file, self.rows = file, []
        self.found = {"date": run.now(), "sources_sha256": about.get("sources_sha256", run.sources_sha256("cuda.json")),
                      "commit": about.get("commit", "unknown"), "built_for": about.get("architecture", "this machine"),
                      "machine": machine(place), "steps": [], "experiments": []}

    def add(self, step, seconds, results):
        verdict = bounded.verdict_of(results)
        self.rows.append((step, verdict, seconds, results))
        self.found["steps"].append({"step": step.name, "verdict": verdict, "seconds": round(seconds, 1), "jobs": [
            {"job": r.name, "verdict": r.verdict, "seconds": r.seconds, **({"why": r.why} if r.why else {})} for r in results]})
        if step.name == "tests":
            self.found["experiments"] = experiments(results)
        if step.name == "tokens per second":
            self.found["tokens_per_second"] = tokens_per_second(results)
        self.file.write_text(run.dump(self.found), encoding="utf-8")
        print(self.row(*self.rows[-1]), flush=True)
        return verdict

    @staticmethod
    def row(step, verdict, seconds, results):
        passed = sum(r.verdict == "PASS" for r in results)
        late = sum(r.verdict == "LATE" for r in results)
        others = [f"{r.name} ({r.why or r.verdict})" for r in results if r.verdict == "FAIL"] + [f"{late} late"] * bool(late)
        return f"{verdict:4} {seconds:5.0f} s  {'; '.join([f'{step.name}: {passed} of {len(results)}', *others])}"

    def end(self, seconds):
        for result in (r for *_, results in self.rows for r in results if r.verdict == "FAIL"):
            lines = [line for line in result.output.splitlines() if re.search(r"FAILED|Failure|rror|=====|CUDA|what\(\)", line)]
            print(f"--- {result.name}: {result.why}", *(lines or result.output.splitlines())[-SAID:], sep="\n     ")
        print(f"--- {seconds:.0f} s", *(self.row(*row) for row in self.rows), *self.found["experiments"], self.file, sep="\n",
              flush=True)


def check(options, folder):
    """Runs all steps; whether all passed."""
    clock = bounded.Bounded(options.budget, options.out)
    build, about = (options.build.resolve(), {}) if options.build else unpacked(options.pack, folder)
    capability = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").split("\n")[0]
    place = gpu_steps.Place(build, options.device, float(capability or 0))
    os.environ.update(gpu_steps.environment(place, library_folders(folder), tools_folders()))
    report = Report(options.out / "gpu_check.json", about, place)
    wrong = [bounded.Result(words, "FAIL") for words in problems(place, about)]
    good = report.add(bounded.Step("look at the pack", 0, "", []), clock.seconds(),
                      wrong or [bounded.Result("sources, programs, libraries", "PASS")]) == "PASS"
    reached = True
    for step in gpu_steps.steps(place, options.out):
        if options.only and not re.search(options.only, step.name):
            continue
        begun = clock.seconds()
        results = clock.run(step) if reached else [bounded.Result(job.name, "LATE") for job in step.jobs]
        verdict = report.add(step, clock.seconds() - begun, results)
        reached &= step.name != "reach the device" or verdict == "PASS"
        good &= verdict == "PASS"
    report.end(clock.seconds())
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=pathlib.Path, default=gpu_steps.REPOSITORY / "build/gpu-check.tar.xz")
    parser.add_argument("--build", type=pathlib.Path, help="a build's folder instead of a pack")
    parser.add_argument("--out", type=pathlib.Path, default=gpu_steps.REPOSITORY / "build/gpu-check")
    parser.add_argument("--budget", type=float, default=450, help="seconds for all (default: %(default)s)")
    parser.add_argument("--only", help="a regular expression: only steps whose names match")
    parser.add_argument("--device", choices=("cuda", "emulated"), default="cuda")
    options = parser.parse_args()
    options.out = options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if check(options, pathlib.Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(tool.run("gpu_check", main))
