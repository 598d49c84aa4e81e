#!/usr/bin/env python3
"""A stage on the emulated device against the goldens of the real model, by prompt. Without the model: exit code 77.

    python3 tests/real/test_emulated.py BUILD STAGE [--cache KIND] [PROMPT...]

STAGE is a number, 2 to 8. Without prompts, all 16 are checked. A pass of this model takes seconds, so that all prompts of
a stage take an hour. What passed is shown line by line, each with the seconds since the last one.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "golden/goldens/smollm2"
sys.path.insert(0, str(ROOT / "stages/programs/real"))
import get_model  # noqa: E402


def goldens_of(stage, prompts, folder):
    """Copies the golden files of these prompts, and of "short" for stages 2 and 3, which check its cache in every run."""
    files = {*prompts, "short"} if stage < 4 else {*prompts}
    manifest = json.loads((GOLDENS / "manifest.json").read_text(encoding="utf-8"))
    manifest["prompts"] = {name: manifest["prompts"][name] for name in sorted(files)}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for name in files:
        for file in GOLDENS.glob(f"{name}.*safetensors"):
            shutil.copy(file, folder)
    lines = (GOLDENS / "greedy.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "greedy.jsonl").write_text("".join(line for line in lines if json.loads(line)["id"] in prompts),
                                         encoding="utf-8")


def check(build, stage, cache, prompts):
    """The exit code of --check."""
    program, = (build / "bin").glob(f"0{stage}_*")
    with tempfile.TemporaryDirectory() as folder:
        goldens_of(stage, prompts, pathlib.Path(folder))
        command = [program, "--check", "--device", "emulated", "--target", build / "models" / get_model.MODEL,
                   "--goldens", folder, *(["--cache", cache] if stage > 2 else []),
                   *(["--draft-kind", "lookup"] if stage > 3 else [])]
        before = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "SPECDEC_FULL": "1"}) as process:
            for line in process.stdout:
                now = time.monotonic()
                print(f"{now - before:5.0f} s  {line}", end="", flush=True)
                before = now
    return process.returncode


def main():
    names = list(json.loads((GOLDENS / "manifest.json").read_text(encoding="utf-8"))["prompts"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("stage", type=int, choices=range(2, 9))
    parser.add_argument("--cache", choices=("contiguous", "paged"), default="paged")
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help=f"of {', '.join(names)}")
    options = parser.parse_intermixed_args()
    unknown = set(options.prompts) - set(names)
    if unknown:
        parser.error(f"there is no prompt {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not (options.build / "models" / get_model.MODEL / "model.safetensors").is_file():
        print(f"NOT CHECKED: {get_model.MODEL}, which make real gets")
        return 77
    return check(options.build, options.stage, options.cache, options.prompts or names)


if __name__ == "__main__":
    sys.exit(main())
