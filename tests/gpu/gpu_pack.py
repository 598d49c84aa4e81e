#!/usr/bin/env python3
"""Builds what runs on a GPU, on a machine that has nvcc and needs no GPU, and packs it into one file for gpu_check.py.

    python3 tests/gpu/gpu_pack.py [--architecture 90-real] [--march x86-64-v3] [--out FILE] [--limit MIB]

The machine with the GPU needs the same sources, Python 3.9 and cuBLAS, but no compiler and no network. The file and the
tracked files must be at most MIB mebibytes (64) together, so that they can be carried there.
"""
import argparse
import io
import json
import lzma
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / part) for part in ("docs/experiments", "stages/programs")]
import run  # noqa: E402
import tool  # noqa: E402

# What every machine has, and what is larger than all the rest.
LEFT_THERE = re.compile(r"(lib(c|m|gcc_s|stdc\+\+|pthread|dl|rt|cublas|cublasLt)|ld-linux-x86-64)\.so")
# The programs are larger together than xz's own window, and much of them is equal.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 2**28}]
FLAGS_OF = ("/common/llama.cpp", "cuda/matmul/matmul_1_naive.cu")  # what run.build_of() and cuda_bench.py look up


def build(options):
    subprocess.run(["cmake", "--preset", "cuda", "-B", options.build, f"-DCMAKE_CUDA_ARCHITECTURES={options.architecture}",
                    f"-DSPECDEC_MARCH={options.march}"], cwd=REPOSITORY, check=True)
    subprocess.run(["cmake", "--build", options.build, "--target", "gpu_programs"], cwd=REPOSITORY, check=True)


def programs(folder):
    """What gpu_check.py runs, as paths from the build: not stage 0, which has no models."""
    found = [*(file for file in folder.glob("bin/[01][0-9]_*") if not file.name.startswith("00_")), *folder.glob("tests/bin/*_test_gpu"), *folder.glob("bin/bench/cuda_benchmark")]
    if len({file.parent for file in found}) < 3:
        raise tool.Trouble(f"{folder} lacks programs, tests or the benchmark: was it built with nvcc?")
    return sorted(file.relative_to(folder).as_posix() for file in found)


def libraries(files):
    """The shared libraries that another machine may lack, by name."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    found = {name: path for name, path in re.findall(r"^\s+(\S+) => (/\S+)", listed, re.MULTILINE)}
    return {name: path for name, path in sorted(found.items()) if not LEFT_THERE.match(name)}


def about(options):
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return {"commit": done.stdout.strip() or "unknown", "sources_sha256": run.sources_sha256("cuda.json"),
            "architecture": options.architecture, "march": options.march}


def flags(folder):
    """The part of compile_commands.json that results quote; all of it has 10 MB."""
    commands = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    return [c for c in commands if c["file"].endswith(FLAGS_OF)]


def add_text(pack, name, value):
    text = json.dumps(value).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    pack.addfile(entry, io.BytesIO(text))


def write(options):
    """The pack: programs without symbols, libraries, and what it was made from."""
    names = programs(options.build)
    with lzma.open(options.out, "w", filters=FILTERS) as file, tarfile.open(fileobj=file, mode="w") as pack, \
         tempfile.TemporaryDirectory() as folder:
        for name in names:
            stripped = pathlib.Path(folder) / pathlib.Path(name).name
            subprocess.run(["strip", "-o", stripped, options.build / name], check=True)
            pack.add(stripped, f"build/{name}")
        for name, path in libraries([options.build / name for name in names]).items():
            pack.add(pathlib.Path(path).resolve(), f"lib/{name}")
        add_text(pack, "build/compile_commands.json", flags(options.build))
        add_text(pack, "about.json", about(options))


def tracked_bytes():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return sum((REPOSITORY / name).lstat().st_size for name in names.split("\0") if (REPOSITORY / name).exists() and name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/gpu", help="where to build")
    parser.add_argument("--out", type=pathlib.Path, default=REPOSITORY / "build/gpu-check.tar.xz")
    parser.add_argument("--architecture", default="90-real", help="CMake's name of the GPU's (default: %(default)s)")
    parser.add_argument("--march", default="x86-64-v3", help="of the processor there (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=64, help="MiB of the pack and the tracked files (default: %(default)s)")
    parser.add_argument("--no-build", action="store_true", help="pack what is there")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not options.no_build:
        build(options)
    write(options)
    mib = [size / 2**20 for size in (options.out.stat().st_size, tracked_bytes())]
    print(f"{options.out}: {mib[0]:.1f} MiB, with the tracked files {sum(mib):.1f} MiB")
    if sum(mib) > options.limit:
        raise tool.Trouble(f"that is more than {options.limit:g} MiB")


if __name__ == "__main__":
    sys.exit(tool.run("gpu_pack", main))
