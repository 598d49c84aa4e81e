"""Packages of the Python package index: those that a tool imports, and files that others brought there."""
import hashlib
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEEDS = "needs python3-venv and, the first time, a network"


def sha256(file):
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        for block in iter(lambda: opened.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def is_intact(file, digest):
    return file.is_file() and sha256(file) == digest


def last_error(said):
    """Of pip's or venv's words, those that tell what was wrong."""
    return next((line for line in reversed(said.splitlines()) if "ERROR" in line), said.strip()[-200:])


def run(command, folder, watch):
    """Returns what the command says if it fails, or nothing. watch(bytes): while it downloads into the folder."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="downloading.") as scratch:
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=subprocess.STDOUT,
                                       env={**os.environ, "TMPDIR": scratch})
            try:
                while process.poll() is None:
                    watch(size_of(Path(scratch)))
                    time.sleep(0.1)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            said.seek(0)
            return "" if process.returncode == 0 else last_error(said.read().decode("utf-8", "replace")) or "it failed"


def size_of(folder):
    """Of all files below, as far as they stay where they are."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                pass
    return total


def pip(folder, watch=lambda size: None):
    """The command of a pip in an environment of its own. Throws SystemExit."""
    place = folder / "venv"
    program = place / "bin/pip"
    if not (site_packages(folder).is_dir() and program.is_file()):
        shutil.rmtree(place, ignore_errors=True)
        said = run([sys.executable, "-m", "venv", place], folder, watch)
        if said:
            shutil.rmtree(place, ignore_errors=True)
            raise SystemExit(f"python3 -m venv failed; it needs the package python3-venv: {said}")
    return [place / "bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries=1"]


def site_packages(folder):
    """Of this Python's environment; one that another Python made is made anew."""
    return folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def install(folder, requirements, watch=lambda size: None):
    """Lets this process import the packages of a file of requirements."""
    folder.mkdir(parents=True, exist_ok=True)
    said = run([*pip(folder), "install", "--quiet", f"--requirement={requirements}"], folder, watch)
    if said:
        raise SystemExit(f"the packages of {requirements} cannot be installed; this {NEEDS}: {said}")
    site.addsitedir(str(site_packages(folder)))


def download(folder, package, version, file, digest, *options, watch=lambda size: None):
    """The file of a package with this SHA-256, in the folder; what is there already is not loaded again."""
    folder.mkdir(parents=True, exist_ok=True)
    if is_intact(folder / file, digest):
        return folder / file
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{package}=={version} --hash=sha256:{digest}\n", encoding="utf-8")
    said = run([*pip(folder), "download", "--quiet", "--no-deps", "--require-hashes", *options,
                f"--requirement={wanted}", f"--dest={folder}"], folder, watch)
    if said or not is_intact(folder / file, digest):
        raise SystemExit(f"{package} {version} cannot be downloaded; this {NEEDS}: {said or 'another file came'}; "
                         f"or put {file} into {folder}")
    return folder / file
