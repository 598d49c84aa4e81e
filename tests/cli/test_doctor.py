"""make doctor, on machines that are made up: what it says of toolkit, driver and device."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

DOCTOR = pathlib.Path(sys.argv.pop(1))

NVCC = """case "$1" in
  --version) echo "Cuda compilation tools, release {toolkit}, V{toolkit}.1" ;;
  *) {compiles} ;;
esac"""
SMI = """case "$*" in
  *name,memory*) echo "A GPU, 81559 MiB, {capability}" ;;
  *driver_version*) echo "550.1" ;;
  *) echo "| Driver Version: 550.1  CUDA Version: {served} |" ;;
esac"""


def doctor(**programs):
    """What it prints where these programs are found first."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in programs.items():
            path = pathlib.Path(folder) / name.replace("_", "-")
            path.write_text("#!/bin/sh\n" + body + "\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        path = folder + os.pathsep + os.environ["PATH"]
        return subprocess.run([str(DOCTOR)], env={**os.environ, "PATH": path},
                              capture_output=True, text=True, check=False).stdout


def gpu(served="13.0", capability="9.0"):
    return SMI.format(served=served, capability=capability)


def nvcc(toolkit="13.0", compiles="true"):
    return NVCC.format(toolkit=toolkit, compiles=compiles)


class DoctorTest(unittest.TestCase):
    def test_says_what_is_good(self):
        said = doctor(nvcc=nvcc(), nvidia_smi=gpu())
        self.assertRegex(said, r"ok +toolkit +CUDA 13\.0")
        self.assertRegex(said, r"ok +compiler +nvcc works with g\+\+")
        self.assertRegex(said, r"ok +device +A GPU, 81559 MiB, 9\.0")
        self.assertRegex(said, r"ok +driver +550\.1, serves CUDA 13\.0")
        self.assertNotIn("mend it", said)

    def test_a_driver_older_than_the_toolkit(self):
        said = doctor(nvcc=nvcc(), nvidia_smi=gpu(served="12.4"))
        self.assertRegex(said, r"note +driver +too old for programs built with CUDA 13\.0")
        self.assertIn("mend it: update the driver, or install a CUDA Toolkit 12.4", said)

    def test_a_gpu_that_the_toolkit_has_no_code_for(self):
        said = doctor(nvcc=nvcc(), nvidia_smi=gpu(capability="6.1"))
        self.assertRegex(said, r"note +device +CUDA 13 has no code for compute capability 6\.1")
        self.assertIn("mend it: install a CUDA Toolkit 12", said)

    def test_a_compiler_that_nvcc_does_not_know(self):
        said = doctor(nvcc=nvcc(compiles="echo unsupported GNU version >&2; exit 1"),
                      nvidia_smi=gpu())
        self.assertRegex(said, r"note +compiler +nvcc does not work with .*unsupported GNU version")
        self.assertIn("mend it: install a g++", said)

    def test_no_gpu(self):
        said = doctor(nvcc=nvcc(), nvidia_smi="exit 9")
        self.assertRegex(said, r"note +driver +nvidia-smi is missing or finds no GPU")


if __name__ == "__main__":
    unittest.main()
