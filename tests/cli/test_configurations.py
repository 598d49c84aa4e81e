"""Every option of CMakeLists.txt is configured on and off, and every preset once. Nothing is built.

usage: test_configurations.py CMAKE ROOT NINJA
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, ROOT, NINJA = sys.argv[1:4]
del sys.argv[1:4]
OPTION = re.compile(r'^option\((SPECDEC_\w+) ', re.MULTILINE)
TEXT = re.compile(r'^set\((SPECDEC_\w+) .* CACHE STRING ', re.MULTILINE)
# The values of the options that are no switches. SPECDEC_CUDA=ON needs nvcc, and has its preset.
VALUES = {"SPECDEC_CUDA": ["AUTO", "OFF"], "SPECDEC_SANITIZE": ["", "thread", "address,undefined"],
          "SPECDEC_MARCH": ["native", "x86-64-v3"], "SPECDEC_OPTIMIZE": ["-O0"]}


class ConfigurationsTest(unittest.TestCase):
    def configure(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([CMAKE, "-S", ROOT, "-B", folder, f"-DCMAKE_MAKE_PROGRAM={NINJA}", *options],
                                  capture_output=True, text=True, check=False)
            said = done.stdout[-500:] + done.stderr[-3000:]
            self.assertEqual(done.returncode, 0, said)
            self.assertNotRegex(done.stderr, r"CMake (Error|Warning)", said)
            self.assertTrue(pathlib.Path(folder, "build.ninja").is_file())

    def test_every_option_on_and_off(self):
        text = pathlib.Path(ROOT, "CMakeLists.txt").read_text(encoding="utf-8")
        self.assertEqual(set(TEXT.findall(text)), set(VALUES))
        switches = OPTION.findall(text)
        self.assertIn("SPECDEC_EMULATION", switches)
        values = VALUES | {name: ["ON", "OFF"] for name in (*switches, "BUILD_TESTING")}
        for name, each in values.items():
            for value in each:
                compiler = ["-DCMAKE_CXX_COMPILER=clang++"] if (name, value) == ("SPECDEC_FUZZ", "ON") else []
                with self.subTest(f"{name}={value}"):
                    if compiler and not shutil.which("clang++"):
                        self.skipTest("no clang++")
                    self.configure("-G", "Ninja", f"-D{name}={value}", *compiler)

    def test_every_preset(self):
        presets = json.loads(pathlib.Path(ROOT, "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        by_name = {preset["name"]: preset for preset in presets}
        for name, preset in by_name.items():
            needs = {"cuda": "nvcc", "tsan": "clang++", "fuzz": "clang++"}.get(name)
            if preset.get("hidden"):
                continue
            with self.subTest(name):
                if needs and not shutil.which(needs):
                    self.skipTest(f"no {needs}")
                self.configure("--preset", name)


if __name__ == "__main__":
    unittest.main()
