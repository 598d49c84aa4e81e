"""What all experiments share: running a program, the prompts, where and from what it was measured, and the files of
results."""
import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(REPOSITORY / "tests/benchmarks"))  # where experiments find programs.py and rounds.py after this file


class Progress:
    """A line on stderr that counts, on a terminal only."""

    def __init__(self, name, total):
        self.name, self.total, self.done = name, total, 0
        self.shown = sys.stderr.isatty()

    def step(self):
        self.done += 1
        if self.shown:
            print(f"\r{self.name}: {self.done} of {self.total}   ", end="\n" if self.done == self.total else "",
                  file=sys.stderr, flush=True)


# --- running a program ---

def run(program, words):
    """The program's stdout; stops everything with the program's own message if it fails."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, [program, *words]))}\nended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def program(build, name):
    """A program of a build."""
    file = next((file for file in (build / "bin" / name, build / "bin/bench" / name) if file.is_file()), None)
    if file is None:
        raise SystemExit(f"{build / 'bin' / name} is not there: make build")
    return file


def traced(program, words):
    """The trace of a run. The program measures no times for it, which would take longer than the run."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        run(program, [*words, "--quiet", "--trace", file])
        return json.loads(file.read_text(encoding="utf-8"))


def timed(program, words):
    return json.loads(run(program, [*words, "--output", "json"]))


def prompt_words(ids, tokens):
    """The options of a run that continues a prompt by so many tokens, at most."""
    return ["--prompt-ids", ",".join(map(str, ids)), "--max-new-tokens", tokens]


def goldens(ids=None, model="target"):
    """Prompts with what the model answers, of these ids or all: id, kind, prompt_ids, tokens."""
    lines = (REPOSITORY / f"golden/goldens/{model}/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    return [golden for golden in map(json.loads, lines) if ids is None or golden["id"] in ids]


def by_kind(prompts, most):
    """The first prompts of each kind of text."""
    seen = {}
    for prompt in prompts:
        if len(seen.setdefault(prompt["kind"], [])) < most:
            seen[prompt["kind"]].append(prompt)
    return seen


def first_of_each_kind(prompts, most):
    chosen = [prompt["id"] for group in by_kind(prompts, most).values() for prompt in group]
    return [prompt for prompt in prompts if prompt["id"] in chosen]


def summed(of_prompts, counted, **named):
    """An entry for each kind of text: what names the setting, and the sums of what counted(prompt) gives of its prompts:
    numbers, and counters, which become sorted pairs."""
    entries, progress = [], Progress(" ".join(map(str, named.values())), len(of_prompts))
    for kind, group in by_kind(of_prompts, len(of_prompts)).items():
        total = {}
        for prompt in group:
            for name, value in counted(prompt).items():
                total[name] = total[name] + value if name in total else value
            progress.step()
        entries.append({**named, "text": kind, **{name: sorted(map(list, value.items())) if isinstance(value, dict) else value
                                                  for name, value in total.items()}})
    return entries


# --- statistics ---

def ratio(above, below):
    return round(above / below, 6) if below else None


def standard_error(by_prompt):
    """Of sum accepted / sum tested. by_prompt: (stratum, accepted, tested) of each prompt, its seeds together. The
    tests of one text are not independent, so the prompts are what was drawn, from the kinds of text as strata."""
    tested = sum(t for _, _, t in by_prompt)
    if tested == 0:
        return None
    alpha = sum(a for _, a, _ in by_prompt) / tested
    variance = stratified_variance([(s, a - alpha * t) for s, a, t in by_prompt])
    return None if variance is None else round(math.sqrt(variance) / tested, 6)


def stratified_variance(deviations):
    """Of the sum of the deviations of drawn prompts: (stratum, deviation) of each. None where a stratum has only one."""
    variance = 0
    for stratum in dict.fromkeys(s for s, _ in deviations):
        rest = [deviation for s, deviation in deviations if s == stratum]
        if len(rest) < 2:
            return None
        mean = sum(rest) / len(rest)
        variance += len(rest) / (len(rest) - 1) * sum((r - mean) ** 2 for r in rest)
    return variance


# --- where it was run ---

def read_bandwidth():
    """GB/s of one thread that looks for a byte which is not there."""
    data = b"\2" * (1 << 28)
    best = 0
    for _ in range(5):
        start = time.perf_counter()
        data.find(b"\1")
        best = max(best, len(data) / (time.perf_counter() - start) / 1e9)
    return round(best, 1)


def machine():
    cpu = platform.machine()
    try:
        cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1]
    except (OSError, TypeError):
        pass
    caches = {}
    for folder in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (folder / "type").read_text().strip() != "Instruction":
                caches["L" + (folder / "level").read_text().strip()] = (folder / "size").read_text().strip()
        except OSError:
            pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": cpu, "cores": os.cpu_count(), "caches": caches, "memory_gb": round(memory / 1e9, 1),
            "kernel": platform.release(), "read_bandwidth_one_thread_gb_per_s": read_bandwidth()}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def build_of(folder):
    """The flags that the programs were compiled with, without paths and warnings."""
    try:
        commands = json.loads((folder / "compile_commands.json").read_text())
        command = next(c["command"] for c in commands if c["file"].endswith("/common/llama.cpp")).split()
        compiler = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    except (OSError, StopIteration, ValueError):
        return None
    return {"compiler": compiler, "flags": " ".join(w for w in command if re.match(r"-(O|m|f|std|DNDEBUG)", w))}


# What decides the numbers of a file of results, and what of it does not.
MODELS = ("golden/models/**/*",)
CODE = ("kernels/**/*", "common/**/*", "stages/**/*")
GPU, EMULATION = "kernels/cuda", "kernels/emulation/"
SOURCES = {
    "bench.json": ((*CODE, "tests/benchmarks/**/*", "tests/checkpoint_builder.cpp"),
                   (GPU, EMULATION, "tests/benchmarks/cuda", "tests/benchmarks/peers")),
    "cuda.json": (("kernels/*", "kernels/cuda/**/*", "common/**/*", "tests/benchmarks/c*", "tests/benchmarks/kernel_program*"), ()),
    "peers.json": (("kernels/**/*", "common/**/*", "stages/03_paged_kv_cache/*", "tests/benchmarks/peers/*"), (GPU, EMULATION))}
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".txt", ".cmake", ".json", ".safetensors"}


def sources_sha256(file="", root=REPOSITORY):
    """Over name and content of all that decides the numbers of a file of results."""
    patterns, left_out = SOURCES.get(file, ((*CODE, *MODELS), ()))
    digest = hashlib.sha256()
    for source in (source for pattern in patterns for source in sorted(root.glob(pattern))):
        name = source.relative_to(root).as_posix()
        if source.suffix in SUFFIXES and source.is_file() and not name.startswith(left_out):
            digest.update(name.encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


def is_stale(file, results):
    """Whether the sources have changed since."""
    return results["sources_sha256"] != sources_sha256(file)


# --- the files of results ---

def measured_parts(doc, file, parts, clocked=()):
    """The main function of an experiment. parts: name -> function(options), which returns what the file gets under that
    name, with the date and the sources; for those in `clocked` also with the machine and the build."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}; keeps the rest of the file")
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / file)
    parser.add_argument("--quick", action="store_true", help="a smoke test, whose numbers mean nothing")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in parts]:
        parser.error(f"there is no part {unknown[0]}, only {', '.join(parts)}")
    for name in options.parts or parts:
        made = {"date": datetime.date.today().isoformat(), "quick": options.quick, "sources_sha256": sources_sha256()}
        if name in clocked:
            made.update(machine=machine(), build=build_of(options.build))
        found = parts[name](options)
        results = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
        results[name] = {**made, **found}
        options.out.write_text(dump(results), encoding="utf-8")
    print(options.out)


def dump(value, depth=0):
    """JSON with a line for each entry of what is long, so that a diff can be read."""
    text, inner = json.dumps(value, ensure_ascii=False), "\n" + " " * (depth + 1)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    if len(text) > 600 and any(isinstance(part, (dict, list)) for part in parts):
        entries = [dump(part, depth + 1) for part in parts]
        if isinstance(value, dict):
            entries = [f"{json.dumps(key)}: {entry}" for key, entry in zip(value, entries)]
        text = text[0] + inner + ("," + inner).join(entries) + inner[:-1] + text[-1]
    return text if depth else text + "\n"
