"""What the tests of programs share: running them, and what bad input must look like."""
import functools
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest


def run_program(program, *arguments):
    """Exit code, stdout, stderr."""
    done = subprocess.run([program, *arguments], capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def without_advice(errors):
    """What a program said, without the line about what the authors of the embedded target recommend for chats."""
    lines = errors.splitlines(keepends=True)
    advice = [line for line in lines if "generation_config.json recommends" in line]
    assert len(advice) <= 1, errors
    return "".join(line for line in lines if line not in advice)


def run_program_json(program, *arguments):
    """The one line of JSON that a program prints, and nothing else but that advice."""
    code, text, errors = run_program(program, "--output", "json", *arguments)
    assert (code, without_advice(errors)) == (0, ""), errors
    assert text.count("\n") == 1, "one line"
    return json.loads(text)


class ProgramTest(unittest.TestCase):
    @functools.cached_property
    def folder(self):
        """A folder of the test's own, which goes with it."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def expect_bad_input(self, words, program, *arguments):
        """Exit code 2, nothing on stdout, one line on stderr that begins with the program's name."""
        code, text, errors = run_program(program, *arguments)
        self.assertEqual((code, text), (2, ""), errors)
        self.assertEqual(errors.count("\n"), 1, f"one line: {errors}")
        self.assertTrue(errors.startswith(pathlib.Path(program).name + ": "), errors)
        self.assertIn(words, errors)

    def expect_help_and_version(self, program, words):
        """Both are good and go to stdout; the help has these words, and the version names the processors it is for."""
        cache = (pathlib.Path(program).resolve().parents[1] / "CMakeCache.txt").read_text(encoding="utf-8")
        march = re.search(r"^SPECDEC_MARCH:\w+=(.+)$", cache, re.MULTILINE)[1]
        for option, expected in (("--help", words), ("--version", f" (compiled with -march={march})\n")):
            code, text, errors = run_program(program, option)
            self.assertEqual((code, errors), (0, ""))
            self.assertIn(expected, text)
        self.assertRegex(text, r"^specdec \d+\.\d+\.\d+ ")


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return tensors


def read_tensors(path):
    """The same of a file that has F32 alone: {name: (shape, bytes)}."""
    tensors = read_safetensors(path)
    assert all(dtype == "F32" for dtype, _, _ in tensors.values())
    return {name: (shape, data) for name, (_, shape, data) in tensors.items()}


def write_safetensors(path, tensors):
    """tensors: as read_safetensors gives them."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def with_nan(folder, tensor, row, out):
    """A copy of a model whose tensor, in F32, has NaN in a row."""
    shutil.copytree(folder, out)
    tensors = read_safetensors(out / "model.safetensors")
    dtype, shape, data = tensors[tensor]
    assert dtype == "F32", dtype
    begin, end = 4 * shape[-1] * row, 4 * shape[-1] * (row + 1)
    tensors[tensor] = dtype, shape, data[:begin] + struct.pack("<f", float("nan")) * shape[-1] + data[end:]
    write_safetensors(out / "model.safetensors", tensors)
    return out
