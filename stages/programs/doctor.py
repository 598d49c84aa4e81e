#!/usr/bin/env python3
"""Reports what this machine has and lacks for specdec; changes nothing.

    python3 stages/programs/doctor.py [TREE]        (TREE: the project's folder, by default the one that this file is in)

One line per finding: ok; note, if something is missing that is not needed; PROBLEM. Below a note or a problem, the
command that fixes it. Exit code 1: something needed to build or check is missing or damaged.
"""
import collections
import hashlib
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import tool

# Measured: the memory of the largest compilations, and about what a build, a test run and the build of an assignment
# with all stages leave on the disk.
GIB_PER_COMPILATION = 0.7
GB_OF_BUILD = 1.7
GB_OF_TESTS = 0.8
GB_OF_ASSIGNMENT = 0.4

OLDEST = {"g++": 12, "clang++": 14}
TOOLS = [("cmake", (3, 24), "cmake"), ("ninja", (), "ninja-build"), ("python3", (3, 9), "python3")]
OPTIONAL_TOOLS = [("git", "git"), ("clang++", "clang"), ("clang-format", "clang-format"),
                  ("clang-tidy", "clang-tidy")]
LIBRARIES = [("nlohmann/json.hpp", "nlohmann-json3-dev"), ("fmt/format.h", "libfmt-dev"),
             ("CLI/CLI.hpp", "libcli11-dev"), ("pcre2.h", "libpcre2-dev"), ("Random123/philox.h", "librandom123-dev"),
             ("microhttpd.h", "libmicrohttpd-dev")]
TEST_LIBRARIES = [("gtest/gtest.h", "libgtest-dev"), ("gmock/gmock.h", "libgmock-dev"),
                  ("benchmark/benchmark.h", "libbenchmark-dev")]
OLDEST_PCRE2 = (10, 40)

Finding = collections.namedtuple("Finding", "level what words fix")


def ok(what, words):
    return Finding("ok", what, words, "")


def note(what, words, fix=""):
    return Finding("note", what, words, fix)


def problem(what, words, fix):
    return Finding("PROBLEM", what, words, fix)


def output(*command):
    """What a program prints; nothing if it is missing or fails."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True,
                              timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def first_line(text):
    return text.splitlines()[0] if text else ""


def numbers(text):
    """The first version in a text: (3, 25, 1) of "cmake version 3.25.1"."""
    found = re.search(r"\d+(\.\d+)+|\d+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def dotted(version):
    return ".".join(str(part) for part in version)


def install(package):
    if not shutil.which("apt-get"):
        return f"install it with your package manager (Debian's name: {package})"
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install -y {package}"


# Programs and libraries

def tools():
    for name, oldest, package in TOOLS:
        said = first_line(output(name, "--version"))
        if not said:
            yield problem(name, "not found", install(package))
        elif numbers(said) < oldest:
            yield problem(name, f"{said}; {dotted(oldest)} or newer is needed",
                          "python3 -m pip install --user 'cmake>=3.24'" if name == "cmake" else
                          f"install {name} {dotted(oldest)} or newer, and put it first in PATH")
        else:
            yield ok(name, said)


def compiler_name():
    """The compiler that CMake takes: $CXX, or the first one installed."""
    there = [name for name in OLDEST if shutil.which(name)]
    return os.environ.get("CXX") or (there or ["g++"])[0]


def compiler():
    name = compiler_name()
    said = first_line(output(name, "--version"))
    if not said:
        yield problem(name, "not found", install("g++"))
        return
    kind = "clang++" if "clang" in said else "g++"
    major = numbers(output(name, "-dumpversion"))[:1]
    if major < (OLDEST[kind],):
        yield problem(name, f"{said}; {kind} {OLDEST[kind]} or newer is needed",
                      f"{install('g++-12')} && CXX=g++-12 make clean build")
    else:
        yield ok(name, said)


def include_folders():
    given = [folder for folder in os.environ.get("CPATH", "").split(os.pathsep) if folder]
    return [pathlib.Path(folder) for folder in [*given, "/usr/local/include", "/usr/include"]]


def find_header(name, folders):
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def is_assignment(tree):
    """An assignment has the student's tools, but not those that make assignments."""
    return not (tree / "tests/course/teacher").is_dir()


def libraries(wanted, folders):
    for header, package in wanted:
        found = find_header(header, folders)
        if found:
            yield pcre2(found) if header == "pcre2.h" else ok(header, str(found))
        else:
            yield problem(header, f"not found in {', '.join(map(str, folders))}", install(package))


def pcre2(header):
    """The one library whose version is too old on systems that are otherwise new enough."""
    text = header.read_text(errors="replace")
    version = numbers(".".join(re.findall(r"define PCRE2_M(?:AJOR|INOR)\s+(\d+)", text)))
    if version < OLDEST_PCRE2:
        return problem("pcre2.h", f"version {dotted(version)}; {dotted(OLDEST_PCRE2)} or newer is needed",
                       "use Debian 12 or Ubuntu 24.04, or build PCRE2 and add its folder to CMAKE_PREFIX_PATH and CPATH")
    return ok("pcre2.h", f"{header}, {dotted(version)}")


def optional_tools():
    for name, package in OPTIONAL_TOOLS:
        said = first_line(output(name, "--version"))
        yield ok(name, said) if said else note(name, "not found; not needed to build", install(package))


# The machine

def processor(machine, flags):
    yield ok("processor", f"{machine}, {len(os.sched_getaffinity(0))} cores")
    if machine == "x86_64":
        missing = [flag for flag in ("avx2", "fma", "f16c") if flag not in flags]
        if missing:
            yield problem("instructions", f"no {', '.join(missing)}", "use a machine from 2013 or later; "
                          "in a virtual machine, pass the host's processor through (qemu: -cpu host)")
        else:
            yield ok("instructions", "AVX-512" if "avx512f" in flags else "AVX2 and FMA")
    elif machine != "aarch64":
        yield problem("instructions", machine, "use a machine with x86-64 and FMA, or 64-bit Arm")


def processor_flags():
    match = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1).split() if match else []


def memory_gib():
    """Memory that may be used: what is free, or the container's limit if that is less."""
    available = int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) / 2**20
    try:
        return min(available, int(pathlib.Path("/sys/fs/cgroup/memory.max").read_text()) / 2**30)
    except (OSError, ValueError):
        return available


def memory(gib, jobs):
    words = f"{gib:.1f} GiB available"
    fitting = int(gib / GIB_PER_COMPILATION)
    if fitting < 1:
        yield problem("memory", f"{words}; one compilation needs {GIB_PER_COMPILATION}",
                      "close other programs, give the container or virtual machine more, or add swap: sudo fallocate "
                      "-l 2G /swap && sudo chmod 600 /swap && sudo mkswap /swap && sudo swapon /swap")
    elif fitting < jobs:
        yield note("memory", f"{words}; {jobs} compilations at once need {jobs * GIB_PER_COMPILATION:.1f}",
                   f"CMAKE_BUILD_PARALLEL_LEVEL={fitting} make build")
    else:
        yield ok("memory", words)


def free_gb(folder):
    return int(output("df", "-Pk", str(folder)).splitlines()[-1].split()[3]) * 1024 / 1e9


def disk(tree, temporary):
    whole = GB_OF_ASSIGNMENT if is_assignment(tree) else GB_OF_BUILD
    needed = 0.1 if (tree / "build/bin").is_dir() else whole
    free = free_gb(tree)
    words = f"{free:.1f} GB free here"
    if free < needed:
        yield problem("disk", f"{words}; the build needs {whole}",
                      f"free some space (du -xh {tree.parent} | sort -h | tail shows the largest folders), or move to another disk")
    else:
        yield ok("disk", words)
    free = free_gb(temporary)
    words = f"{free:.1f} GB free in {temporary}"
    if free < (0.1 if is_assignment(tree) else GB_OF_TESTS):
        yield note("temporary files", f"{words}; the tests need {GB_OF_TESTS}",
                   "mkdir -p build/tmp && TMPDIR=$PWD/build/tmp make test")
    else:
        yield ok("temporary files", words)


# The tree

def permissions(tree, temporary):
    parts = [tree, tree / "build", tree / "build/CMakeCache.txt", tree / "build/bin"]
    locked = [part for part in parts if part.exists() and not os.access(str(part), os.W_OK)]
    if locked:
        yield problem("permissions", f"{locked[0]} cannot be written",
                      f'sudo chown -R "$(id -un)" {locked[0]} && chmod -R u+w {locked[0]}')
    else:
        yield ok("permissions", f"{tree} can be written")
    if not os.access(str(temporary), os.W_OK):
        yield problem("permissions", f"{temporary} cannot be written",
                      "mkdir -p build/tmp && export TMPDIR=$PWD/build/tmp")


def executable(tree):
    folder = tree / "build" if (tree / "build").is_dir() else tree
    if os.statvfs(str(folder)).f_flag & os.ST_NOEXEC:
        yield problem("noexec", f"programs in {folder} cannot run: the file system is mounted noexec",
                      f"move the tree, or: sudo mount -o remount,exec $(df --output=target {folder} | tail -n 1)")


def earlier_build(tree):
    """A build of another tree, or for another processor."""
    cache = tree / "build/CMakeCache.txt"
    if not cache.is_file():
        return
    match = re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", cache.read_text(errors="replace"), re.MULTILINE)
    if match and pathlib.Path(match.group(1)).resolve() != tree.resolve():
        yield problem("build", f"build/ was made for {match.group(1)}", "make clean build")
    program = tree / "build/bin/inspect"
    if program.is_file():
        done = subprocess.run([str(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if done.returncode == -signal.SIGILL:
            yield problem("build", "build/ was made for another processor: illegal instruction", "make clean build")


def golden_files(tree):
    """Every golden file against the SHA256SUMS of its folder. An assignment has some of the folders."""
    golden = tree / "golden"
    lists = sorted(golden.rglob("SHA256SUMS"))
    for needed in (golden / "models/SHA256SUMS", golden / "goldens/SHA256SUMS"):
        if needed not in lists:
            yield problem("golden files", f"{needed.relative_to(tree)} is missing", restore(tree, needed))
    wanted = {path.parent / line.split("  ", 1)[1]: line.split("  ", 1)[0]
              for path in lists for line in path.read_text().splitlines()}
    good = 0
    for path, digest in wanted.items():
        if not path.is_file():
            yield problem("golden files", f"{path.relative_to(tree)} is missing", restore(tree, path))
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield problem("golden files", f"{path.relative_to(tree)} is damaged", restore(tree, path))
        else:
            good += 1
    if good == len(wanted):
        yield ok("golden files", f"{good} files, all intact")


def restore(tree, path):
    name = path.relative_to(tree)
    if (tree / ".git").exists():
        return f"git checkout -- {name}"
    return f"unpack the project again, and copy {name} from there"


# CUDA

def nvcc_compiles(nvcc):
    """nvcc's first message if it fails with this machine's compiler, else nothing."""
    with tempfile.TemporaryDirectory() as folder:
        probe = pathlib.Path(folder) / "probe.cu"
        probe.write_text("__global__ void kernel() {}\n")
        done = subprocess.run([nvcc, "-c", str(probe), "-o", folder + "/probe.o"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    return "" if done.returncode == 0 else first_line(done.stdout) or f"exit code {done.returncode}"


def toolkit(nvcc):
    """The CUDA Toolkit's version, () if there is none, and findings about it."""
    if not nvcc:
        return (), [note("toolkit", "no nvcc; the GPU part is not built (kernels run on the CPU: --device emulated)")]
    match = re.search(r"release ([\d.]*),", output(nvcc, "--version"))
    version = numbers(match.group(1)) if match else ()
    findings = [ok("toolkit", f"CUDA {dotted(version)}, {nvcc}")]
    host = first_line(output("g++", "--version"))
    said = nvcc_compiles(nvcc)
    if said:
        findings.append(note("compiler", f"nvcc does not work with {host}: {said}",
                             "install a g++ that this CUDA Toolkit supports, or configure with -DSPECDEC_CUDA=OFF"))
    else:
        findings.append(ok("compiler", f"nvcc works with {host}"))
    return version, findings


def query(what):
    return first_line(output("nvidia-smi", "--query-gpu=" + what, "--format=csv,noheader"))


def gpu(toolkit_version):
    device = query("name,memory.total,compute_cap")
    if not device:
        yield note("driver", "nvidia-smi is missing or finds no GPU; the GPU part is not built, everything runs on the CPU")
        return
    yield ok("device", device + " (name, memory, compute capability)")
    match = re.search(r"CUDA Version: *([\d.]+)", output("nvidia-smi"))
    served = numbers(match.group(1)) if match else ()
    yield ok("driver", f"{query('driver_version')}, supports CUDA {dotted(served)}")
    if toolkit_version and served[:1] < toolkit_version[:1]:
        yield note("driver", f"too old for programs built with CUDA {dotted(toolkit_version)}",
                   f"update the driver, or install a CUDA Toolkit {dotted(served)} and build again")
    capability = numbers(device.split(",")[-1])
    if toolkit_version[:1] == (13,) and capability < (7, 5):
        yield note("device", f"CUDA 13 does not support compute capability {dotted(capability)}",
                   "install a CUDA Toolkit 12 and build again")


def gpu_run(tree):
    program = tree / "build/bin/02_contiguous_kv_cache"
    if not (program.is_file() and query("name")):
        return
    done = subprocess.run([str(program), "--device", "cuda", "--max-new-tokens", "1", "--quiet"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if done.returncode == 0:
        yield ok("program", f"{program.relative_to(tree)} runs on the GPU")
    else:
        yield note("program", first_line(done.stderr))


def cuda(tree):
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    version, findings = toolkit(nvcc)
    return [*findings, *gpu(version), *gpu_run(tree)]


def sections(tree):
    temporary = pathlib.Path(tempfile.gettempdir())
    jobs = len(os.sched_getaffinity(0)) + 2  # Ninja's own choice
    wanted = LIBRARIES if is_assignment(tree) else LIBRARIES + TEST_LIBRARIES
    yield "Build:", [*tools(), *compiler(), *libraries(wanted, include_folders())]
    yield "Machine:", [*processor(platform.machine(), processor_flags()), *memory(memory_gib(), jobs),
                       *disk(tree, temporary)]
    yield "Project:", [*permissions(tree, temporary), *executable(tree), *earlier_build(tree), *golden_files(tree)]
    yield "Optional:", optional_tools()
    yield "CUDA (optional):", cuda(tree)


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    problems = 0
    for heading, findings in sections(tree):
        print(heading)
        for finding in findings:
            problems += finding.level == "PROBLEM"
            print(f"  {finding.level:8} {finding.what:22} {finding.words}")
            if finding.fix:
                print(" " * 11 + "fix it: " + finding.fix)
    print(f"{problems or 'No'} problem{'' if problems == 1 else 's'}.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(tool.run("doctor", main))
