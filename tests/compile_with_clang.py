#!/usr/bin/env python3
"""Compiles every source of a build once with clang++, whatever compiler built it, without making code.

usage: compile_with_clang.py BUILD CLANG
Warnings are errors, as in the build. Precompiled headers are left out: each file must include what it
needs. Sources that are compiled together are so here, too, and with SPECDEC_FULL=1 each by itself.
Exit code 1: a file does not compile; 77: there is no clang++.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

CLANGS_OWN = "in_place_of"  # these, clang++ compiles in the build
TOGETHER = re.compile(r'^#include "(.*)"$', re.MULTILINE)  # in a file that CMake wrote


def call(entry, clang):
    """The compiler's words for an entry of compile_commands.json, made clang++'s."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    result, skip = [clang, "-fsyntax-only", "-Wno-unknown-warning-option"], False
    for word, following in zip(words, [*words[1:], ""]):
        if skip:
            skip = False
        elif word == "-o" or (word == "-include" and "cmake_pch" in following):
            skip = True
        elif word not in ("-c", "-Winvalid-pch"):
            result.append(word)
    return result


def sources(file):
    """What an entry of compile_commands.json compiles."""
    if "/Unity/unity_" not in file or not os.environ.get("SPECDEC_FULL"):
        return [file]
    return TOGETHER.findall(Path(file).read_text(encoding="utf-8"))


def calls(build, clang):
    """source -> (folder, words): the first command that compiles it as C++."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        own = any(word.endswith(CLANGS_OWN) for word in words)
        if not own and "nvcc" not in Path(words[0]).name and "cmake_pch" not in entry["file"]:
            for source in sources(entry["file"]):
                own_call = [source if word == entry["file"] else word for word in call(entry, clang)]
                found.setdefault(source, (entry["directory"], own_call))
    return found


def compile_one(folder, words):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def main(build, clang):
    if not clang or clang.endswith("NOTFOUND"):
        print("NOT CHECKED: no clang++")
        return 77
    wanted, failed = calls(Path(build), clang), 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for code, output in pool.map(lambda words: compile_one(*words), wanted.values()):
            failed += code != 0
            print(output, end="", flush=True)
    print(f"{len(wanted)} files, {failed} that clang++ does not take")
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
