"""llama.cpp, built from the source that its Python package brings. What is there already is not made again."""
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "stages/programs/real"))
import package_index  # noqa: E402

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
ARCHIVE = f"llama_cpp_python-{VERSION}.tar.gz"
VENDORED = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"


def say(words):
    print(f"peers: {words}", flush=True)


def download(folder):
    if not (folder / ARCHIVE).is_file():
        say(f"downloading {PACKAGE} {VERSION} (77 MB) from the Python package index")
    return package_index.download(folder, PACKAGE, VERSION, ARCHIVE, SHA256, f"--no-binary={PACKAGE}")


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
