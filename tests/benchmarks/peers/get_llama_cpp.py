"""llama.cpp, built from the source that its Python package brings. What is there already is not made again."""
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
ARCHIVE = f"llama_cpp_python-{VERSION}.tar.gz"
VENDORED = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"


def say(words):
    print(f"peers: {words}", flush=True)


def is_the_archive(file):
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == SHA256


def download(folder):
    archive = folder / ARCHIVE
    if is_the_archive(archive):
        return archive
    say(f"downloading {PACKAGE} {VERSION} (77 MB) from the Python package index")
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    commands = [[sys.executable, "-m", "venv", folder / "venv"],
                [folder / "venv/bin/pip", "download", "--quiet", "--disable-pip-version-check", "--retries=1",
                 "--no-binary=" + PACKAGE, "--no-deps", "--require-hashes", f"--requirement={wanted}", f"--dest={folder}"]]
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stdout.strip()[-200:])
            raise SystemExit(f"{PACKAGE} {VERSION} cannot be downloaded; the first run needs python3-venv and a network: {said}; "
                             f"or put {ARCHIVE} into {folder}")
    return archive


def source(folder):
    """Where llama.cpp's source is."""
    place = folder / VENDORED
    if place.is_dir():
        return place
    archive = download(folder)
    say("unpacking llama.cpp")
    partial = folder / "unpacked.part"
    with tarfile.open(archive) as opened:
        members = [member for member in opened if member.name.startswith(VENDORED)]
        opened.extractall(partial, members, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    place.parent.mkdir(parents=True, exist_ok=True)
    (partial / VENDORED).rename(place)
    shutil.rmtree(partial)
    return place


def build(folder, jobs):
    """The program llama_cpp_peer. A build that was interrupted goes on where it stopped."""
    where = folder / "llama_cpp_build"
    log = folder / "llama_cpp_build.log"
    commands = [["cmake", "-S", HERE, "-B", where, "-D", f"LLAMA_CPP_SOURCE={source(folder)}"],
                ["cmake", "--build", where, "--parallel", str(jobs), "--target", "llama_cpp_peer"]]
    if not (where / "llama_cpp_peer").is_file():
        say(f"building llama.cpp with {jobs} jobs; about 5 minutes of a processor's time, see {log}")
    with log.open("w") as output:
        for command in commands:
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode != 0:
                raise SystemExit(f"llama.cpp's build failed; see {log}")
    return where / "llama_cpp_peer"
