"""make doctor, on made-up machines and trees: each thing that can be broken, and what fixes it.

    test_doctor.py stages/programs/doctor.py
"""
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

DOCTOR = pathlib.Path(sys.argv.pop(1)).resolve()
PROJECT = DOCTOR.parents[2]
sys.path.insert(0, str(DOCTOR.parent))  # as if it were run

NVCC = """case "$1" in
  --version) echo "Cuda compilation tools, release {toolkit}, V{toolkit}.1" ;;
  *) {compiles} ;;
esac"""
SMI = """case "$*" in
  *name,memory*) echo "A GPU, 81559 MiB, {capability}" ;;
  *driver_version*) echo "550.1" ;;
  *) echo "| Driver Version: 550.1  CUDA Version: {served} |" ;;
esac"""
GPP = """case "$1" in -dumpversion) echo {0} ;; *) echo "g++ (A distribution {0}.1.0-2) {0}.1.0" ;; esac"""
DF = """echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
case "$2" in {tree}) echo "/dev/a 1 1 {tree_kib} 9% /" ;; *) echo "/dev/b 1 1 {kib} 9% /b" ;; esac"""


def load(script):
    loader = importlib.machinery.SourceFileLoader(script.stem, str(script))
    with unittest.mock.patch.object(sys, "dont_write_bytecode", True):
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(script.stem, loader))
        loader.exec_module(module)
    return module


doctor = load(DOCTOR)


@contextlib.contextmanager
def made_up_tree():
    """A project with a few golden files, readable by all users."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder).resolve()
        tree.chmod(0o755)
        for folder, content in (("golden/models", b"{}"), ("golden/goldens", b"01234567")):
            (tree / folder / "a").mkdir(parents=True)
            (tree / folder / "a/b.json").write_bytes(content)
            (tree / folder / "SHA256SUMS").write_text(f"{hashlib.sha256(content).hexdigest()}  a/b.json\n")
        (tree / ".git").mkdir()
        yield tree


@contextlib.contextmanager
def no_root():
    """Root may write everywhere, so its tests run as an unprivileged user."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def run(tree=None, path=None, **programs):
    """Exit code and text of the doctor, with these programs found first. No GPU unless one of them provides it."""
    if tree is None:
        with made_up_tree() as tree:
            return run(tree, path, **programs)
    programs = {"nvcc": nvcc(), "nvidia_smi": "exit 9", **programs}
    with tempfile.TemporaryDirectory() as folder:
        for name, body in programs.items():
            program = pathlib.Path(folder) / name.replace("_", "-").replace("gpp", "g++")
            program.write_text("#!/bin/sh\n" + body + "\n")
            program.chmod(0o755)
        path = folder + os.pathsep + (os.environ["PATH"] if path is None else path)
        environment = {**os.environ, "PATH": path}
        environment.pop("CXX", None)
        done = subprocess.run([sys.executable, str(DOCTOR), str(tree)], env=environment, capture_output=True, text=True,
                              check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def gpu(served="13.0", capability="9.0"):
    return SMI.format(served=served, capability=capability)


def nvcc(toolkit="13.0", compiles="true"):
    return NVCC.format(toolkit=toolkit, compiles=compiles)


class ToolsTest(unittest.TestCase):
    def expect_problem(self, words, fix, result):
        code, said = result
        self.assertEqual(code, 1, said)
        self.assertRegex(said, f"PROBLEM +{words}")
        self.assertIn(f"fix it: {fix}", said)

    def test_an_old_compiler(self):
        old = run(gpp=GPP.format(11))
        self.expect_problem(r"g\+\+ .*g\+\+ 12 or newer is needed", "", old)
        self.assertIn("CXX=g++-12 make clean build", old[1])
        self.assertRegex(run(gpp=GPP.format(12))[1], r"ok +g\+\+ +g\+\+ \(A distribution")

    def test_an_old_cmake(self):
        self.expect_problem("cmake .*version 3.22.1; 3.24 or newer", "python3 -m pip install --user 'cmake>=3.24'",
                            run(cmake="echo cmake version 3.22.1"))

    def test_an_old_python(self):
        self.expect_problem("python3 .*Python 3.8.10; 3.9 or newer", "install python3 3.9 or newer",
                            run(python3="echo Python 3.8.10"))

    def test_a_machine_with_nothing(self):
        code, said = run(path="", df="echo head; echo /dev/a 1 1 9999999 9% /", apt_get="true")
        self.assertEqual(code, 1)
        for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build"), (r"g\+\+", r"g\+\+")):
            self.assertRegex(said, f"PROBLEM +{tool} +not found\n +fix it: (sudo )?apt-get install -y {package}\n")

    def test_another_distribution(self):
        said = run(path="", df="echo head; echo /dev/a 1 1 9999999 9% /")[1]
        self.assertIn("fix it: install it with your package manager (Debian's name: ninja-build)", said)

    def test_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            include = pathlib.Path(folder)
            (include / "pcre2.h").write_text("#define PCRE2_MAJOR 10\n#define PCRE2_MINOR 39\n")
            (include / "fmt").mkdir()
            (include / "fmt/format.h").write_text("")
            found = {finding.what: finding for finding in doctor.libraries(doctor.LIBRARIES, [include])}
        self.assertEqual((found["fmt/format.h"].level, found["CLI/CLI.hpp"].level), ("ok", "PROBLEM"))
        self.assertIn("libcli11-dev", found["CLI/CLI.hpp"].fix)
        self.assertIn("version 10.39; 10.40 or newer", found["pcre2.h"].words)

    def test_assignments_need_no_test_libraries(self):
        with made_up_tree() as tree:
            self.assertNotIn("gtest", run(tree)[1])
            (tree / "tests/course/teacher").mkdir(parents=True)
            self.assertIn("gtest", run(tree)[1])

    def test_make_says_that_python_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([shutil.which("make"), "-C", str(PROJECT), "doctor"], env={"PATH": folder},
                                  capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("python3 is missing; fix it: apt-get install python3", done.stdout)


class MachineTest(unittest.TestCase):
    def only(self, findings):
        self.assertEqual(len(findings), 1, findings)
        return findings[0]

    def test_memory(self):
        self.assertEqual(self.only(list(doctor.memory(8, 4))).level, "ok")
        some = self.only(list(doctor.memory(2, 4)))
        self.assertEqual((some.level, some.fix), ("note", "CMAKE_BUILD_PARALLEL_LEVEL=2 make build"))
        self.assertEqual(self.only(list(doctor.memory(0.5, 4))).level, "PROBLEM")

    def test_processor(self):
        self.assertEqual([f.level for f in doctor.processor("x86_64", ["avx2", "fma", "f16c"])], ["ok", "ok"])
        self.assertIn("no fma, f16c", list(doctor.processor("x86_64", ["avx2"]))[1].words)
        self.assertEqual([f.level for f in doctor.processor("aarch64", [])], ["ok"])
        self.assertEqual(list(doctor.processor("riscv64", []))[1].level, "PROBLEM")

    def test_disk(self):
        with made_up_tree() as tree:
            self.assertRegex(run(tree, df=DF.format(tree=tree, tree_kib=1000000, kib=500000))[1], r"ok +disk +1\.0 GB")
            (tree / "tests/course/teacher").mkdir(parents=True)
            code, said = run(tree, df=DF.format(tree=tree, tree_kib=1000000, kib=500000))
            self.assertEqual(code, 1)
            self.assertRegex(said, r"PROBLEM +disk +1\.0 GB free here; the build needs 1\.7\n +fix it: ")
            self.assertRegex(said, r"note +temporary files +0\.5 GB free in .*\n +fix it: .*TMPDIR=")
            (tree / "build/bin").mkdir(parents=True)
            said = run(tree, df=DF.format(tree=tree, tree_kib=1000000, kib=9000000))[1]
            self.assertRegex(said, r"ok +disk +1\.0 GB free here")
            self.assertRegex(said, r"ok +temporary files +9\.2 GB")


class TreeTest(unittest.TestCase):
    def test_golden_files_of_this_project(self):
        self.assertEqual([f.level for f in doctor.golden_files(PROJECT)], ["ok"])
        hash_files = load(PROJECT / "golden/hash_files.py")
        for folder in hash_files.FOLDERS:
            listed = [folder / line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
            self.assertEqual(listed, hash_files.golden_files(folder))
            self.assertTrue(listed)

    def test_a_flipped_bit_in_a_golden_file(self):
        with made_up_tree() as tree:
            self.assertIn("2 files, all intact", run(tree)[1])
            (tree / "golden/goldens/a/b.json").write_bytes(b"01234566")
            code, said = run(tree)
        self.assertEqual(code, 1)
        self.assertIn("golden/goldens/a/b.json is damaged\n", said)
        self.assertIn("fix it: git checkout -- golden/goldens/a/b.json\n", said)
        self.assertNotIn("models", said)

    def test_missing_golden_files(self):
        with made_up_tree() as tree:
            (tree / "golden/models/a/b.json").unlink()
            self.assertIn("golden/models/a/b.json is missing\n", run(tree)[1])
            (tree / ".git").rmdir()
            self.assertIn("unpack the project again, and copy golden/models/a/b.json from there", run(tree)[1])
            (tree / "golden/models/SHA256SUMS").unlink()
            self.assertIn("golden/models/SHA256SUMS is missing\n", run(tree)[1])

    def test_a_folder_that_cannot_be_written(self):
        with made_up_tree() as tree:
            tree.chmod(0o777)
            (tree / "build").mkdir()
            (tree / "build").chmod(0o777)
            with no_root():
                self.assertEqual([f.level for f in doctor.permissions(tree, tree)], ["ok"])
            (tree / "build").chmod(0o555)
            with no_root():
                locked, temporary = doctor.permissions(tree, tree / "build")
        self.assertEqual(locked.words, f"{tree}/build cannot be written")
        self.assertIn(f'sudo chown -R "$(id -un)" {tree}/build', locked.fix)
        self.assertIn("export TMPDIR=", temporary.fix)

    def test_a_file_system_without_programs(self):
        with made_up_tree() as tree:
            self.assertEqual(list(doctor.executable(tree)), [])
            with unittest.mock.patch.object(os, "statvfs") as status:
                status.return_value.f_flag = os.ST_NOEXEC
                self.assertIn("mount -o remount,exec", list(doctor.executable(tree))[0].fix)

    def test_a_build_from_elsewhere(self):
        with made_up_tree() as tree:
            (tree / "build/bin").mkdir(parents=True)
            cache, program = tree / "build/CMakeCache.txt", tree / "build/bin/inspect"
            cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={tree}\n")
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o755)
            self.assertEqual(list(doctor.earlier_build(tree)), [])
            cache.write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
            program.write_text("#!/bin/sh\nkill -ILL $$\n")
            there, other = doctor.earlier_build(tree)
        self.assertEqual((there.words, there.fix), ("build/ was made for /elsewhere", "make clean build"))
        self.assertIn("another processor", other.words)


class CudaTest(unittest.TestCase):
    def test_says_what_is_good(self):
        said = run(nvcc=nvcc(), nvidia_smi=gpu())[1]
        self.assertRegex(said, r"ok +toolkit +CUDA 13\.0")
        self.assertRegex(said, r"ok +compiler +nvcc works with g\+\+")
        self.assertRegex(said, r"ok +device +A GPU, 81559 MiB, 9\.0")
        self.assertRegex(said, r"ok +driver +550\.1, supports CUDA 13\.0")
        self.assertNotIn("fix it", said[said.index("CUDA (optional)"):])

    def test_a_driver_older_than_the_toolkit(self):
        said = run(nvcc=nvcc(), nvidia_smi=gpu(served="12.4"))[1]
        self.assertRegex(said, r"note +driver +too old for programs built with CUDA 13\.0")
        self.assertIn("fix it: update the driver, or install a CUDA Toolkit 12.4", said)

    def test_a_gpu_that_the_toolkit_has_no_code_for(self):
        said = run(nvcc=nvcc(), nvidia_smi=gpu(capability="6.1"))[1]
        self.assertRegex(said, r"note +device +CUDA 13 does not support compute capability 6\.1")
        self.assertIn("fix it: install a CUDA Toolkit 12", said)

    def test_a_compiler_that_nvcc_does_not_know(self):
        said = run(nvcc=nvcc(compiles="echo unsupported GNU version >&2; exit 1"), nvidia_smi=gpu())[1]
        self.assertRegex(said, r"note +compiler +nvcc does not work with .*unsupported GNU version")
        self.assertIn("fix it: install a g++", said)

    def test_no_gpu(self):
        said = run(nvcc=nvcc(), nvidia_smi="exit 9")[1]
        self.assertRegex(said, r"note +driver +nvidia-smi is missing or finds no GPU")


if __name__ == "__main__":
    unittest.main()
