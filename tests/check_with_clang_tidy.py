#!/usr/bin/env python3
"""Holds the C++ of KEPT to the rules of .clang-tidy, as compile_commands.json compiles it.

usage: check_with_clang_tidy.py BUILD [CLANG_TIDY]
Looks at a sample of the files, which changes with the sources; with SPECDEC_FULL=1 at all of them. First, each rule must
object to what breaks it. Exit code 1: a file breaks a rule, or a rule objects to nothing; 77: there is no clang-tidy.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from compile_with_clang import calls

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/course"))
from teacher import sample  # noqa: E402

CONFIGURATION = ROOT / ".clang-tidy"
# What keeps the rules, with the headers that it includes. A folder that is not here has not been gone through yet.
KEPT = re.compile(r"(common/|stages/0[0-6]_|stages/programs/(cache|check|comparator|run|show)/).*\.cpp")
SAMPLED = 8
# Each rule -> what it must object to.
BROKEN = {
    "bugprone-use-after-move": "std::string moved(std::string a) { const std::string b = std::move(a); return a + b; }",
    "misc-unused-using-decls": "namespace elsewhere { struct Unused; } using elsewhere::Unused;",
    "modernize-use-override": "struct Base { virtual ~Base(); virtual void run(); }; struct Derived : Base { virtual void run(); };",
    "performance-for-range-copy":
        "int sizes(const std::vector<std::string>& all) { int n = 0; for (const auto text : all) n += text.size(); return n; }",
    "performance-unnecessary-copy-initialization":
        "unsigned long copied(const std::vector<std::string>& all) { const std::string first = all[0]; return first.size(); }",
    "readability-function-size": "void many_lines() {" + "\n;" * 81 + "\n}",
    "readability-identifier-naming": "struct lower { void CamelCase(); };",
}


def output(tidy, source, flags):
    """(exit code, what clang-tidy says) of a source."""
    done = subprocess.run([tidy, "--quiet", f"--config-file={CONFIGURATION}", source, "--", *flags], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def blind_rules(tidy):
    """The rules that do not object to what breaks them, and those that nothing here breaks."""
    rules = set(re.findall(r"^  ([a-z]+-[\w-]+)", CONFIGURATION.read_text(encoding="utf-8"), re.MULTILINE))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "broken.cpp")
        headers = "".join(f"#include <{name}>\n" for name in ("string", "utility", "vector"))
        source.write_text(headers + "\n".join(BROKEN.values()) + "\n", encoding="utf-8")
        said = output(tidy, str(source), ["-std=c++20"])[1]
    return sorted(rule for rule in rules | set(BROKEN) if rule not in BROKEN or f"[{rule}" not in said)


def main(build, tidy):
    if not tidy or tidy.endswith("NOTFOUND"):
        print("NOT CHECKED: no clang-tidy")
        return 77
    blind = blind_rules(tidy)
    print("".join(f"{rule} objects to nothing\n" for rule in blind), end="")
    found = {source: words[1:] for source, (_, words) in calls(Path(build), "clang++").items()
             if KEPT.fullmatch(os.path.relpath(source, ROOT))}
    chosen, failed = sample.sampled(sorted(found), SAMPLED, ROOT), 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        work = (lambda source: output(tidy, source, [word for word in found[source] if word != source]))
        for code, said in pool.map(work, chosen):
            failed += code != 0
            print(said if code != 0 else "", end="", flush=True)
    print(f"{len(chosen)} files of {len(found)}, {failed} that break a rule")
    return 1 if failed or blind or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
