"""Why a build has no CUDA: what the programs say of it is what the configuration found, on made-up machines.

usage: test_cuda_configuration.py CMAKE SPECDEC_CUDA.cmake PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, FILE, PROGRAM = sys.argv[1:4]
del sys.argv[1:4]
REASON = "without CUDA: "
SMI = """#!/bin/sh
case "$*" in -L) echo "GPU 0: A GPU" ;; *) echo "{capability}" ;; esac
"""


class CudaConfigurationTest(unittest.TestCase):
    def reason(self, capability, *options):
        """What the configuration keeps for the programs. capability: of the machine's GPU; empty: it has none."""
        with tempfile.TemporaryDirectory() as folder:
            smi = pathlib.Path(folder) / "nvidia-smi"
            smi.write_text(SMI.format(capability=capability) if capability else "#!/bin/sh\nexit 9\n")
            smi.chmod(0o755)
            script = pathlib.Path(folder) / "script.cmake"
            script.write_text(f'include("{FILE}")\nmessage("{REASON}${{SPECDEC_WHY_NO_CUDA}}")\n')
            done = subprocess.run([CMAKE, *options, "-P", script], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        return done.stderr.strip().removeprefix(REASON)

    def test_it_says_what_was_missing(self):
        no_nvcc = "-DSPECDEC_NVCC="
        self.assertEqual(self.reason("9.0", "-DSPECDEC_CUDA=OFF"), "it was configured with SPECDEC_CUDA=OFF")
        self.assertEqual(self.reason("", "-DSPECDEC_CUDA=AUTO"),
                         "no GPU was found when it was configured, and SPECDEC_CUDA=ON was not given")
        self.assertEqual(self.reason("7.5", "-DSPECDEC_CUDA=AUTO"),
                         "the GPU that was found has compute capability 7.5, and the kernels need 8.0")
        self.assertEqual(self.reason("9.0", "-DSPECDEC_CUDA=AUTO", no_nvcc),
                         "no working nvcc was found when it was configured")

    def test_the_programs_say_one_of_these(self):
        done = subprocess.run([PROGRAM, "--device", "cuda", "--max-new-tokens", "1"], capture_output=True, text=True,
                              check=False)
        if "built without CUDA" not in done.stderr:
            self.skipTest("built with CUDA")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^\w+: --device cuda: built without CUDA: (it was configured with|no GPU was found|"
                                      r"the GPU that was found has|no working nvcc was found)[^\n]*; use --device cpu\n$")


if __name__ == "__main__":
    unittest.main()
