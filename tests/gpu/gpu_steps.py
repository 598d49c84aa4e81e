"""What is done on a GPU, in this order: what is right first, then times, then what looks inside."""
import os
import pathlib
import sys

from bounded import Job, Step

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "golden"
# The tests that take longest begin first.
LONGEST = ("attention_kernel_test", "sampling_judge_kernel_test", "sampling_tree_kernel_test", "matmul_kernel_test",
           "engine_kernel_test", "tensor_core_kernel_test")
# For compute-sanitizer: a tool, a test, and short cases that reach every kernel.
SANITIZED = [
    *((tool, test, cases) for tool in ("racecheck", "memcheck", "synccheck") for test, cases in (
        ("tensor_core_kernel_test", "*TheTileChangesNoBits"),
        ("attention_kernel_test", "*TwoSequences*:*MaskedPages*:*InAQuery*:*BF16Gives*"),
        ("sampling_judge_kernel_test", "*OverlapsAreComputed*/rejection:*OverlapsAreComputed*/non_iterative"))),
    *((tool, test, cases) for tool in ("racecheck", "memcheck") for test, cases in (
        ("sampling_kernel_test", "*TakesLogitsOfAnotherWidth:*KeepsTheHostsTokens"),
        ("sampling_tree_kernel_test", "*RanksTokens:*APathIsPenalised*"),
        ("attention_tree_kernel_test", "*ChainsBesideTrees*:*MovesInTheirOrder*"),
        ("rms_norm_kernel_test", "*FusedWithTheAdd*:*NanAndInfinity*"),
        ("rows_kernel_test", "*FindsTheLowest*:*EmbedReads*:*GatherCopies*"),
        ("matmul_kernel_test", "*StackedParts*"), ("tma_kernel_test", "*TheKernelBefore*"),
        ("split_kernel_test", "*OneWaitsForSeven"), ("warpgroup_kernel_test", "*TheKernelBefore*"))),
    *(("initcheck", test, cases) for test, cases in (
        ("tensor_core_kernel_test", "*LargeAndSmallInputs*"), ("attention_kernel_test", "*TwoSequences*"),
        ("sampling_kernel_test", "*KeepsTheHostsTokens"), ("sampling_tree_kernel_test", "*RanksTokens"))),
    ("memcheck", "engine_kernel_test", "*DependOnTheText*"),
    ("memcheck", "fused_product_kernel_test", "*NanStays*"),
    ("memcheck", "rope_kernel_test", "*TurnsAs*")]
# For ncu: a part of a kernel's name, and the benchmark that launches it.
PROFILED = [("matmul_pipeline", "matmul/shape:3b/matrix:down_proj/step:engine/M:1/"),
            ("attention_piece", "attention/shape:3b/context:4096/step:engine/M:6/"),
            ("matmul_pipeline", "matmul/shape:3b/matrix:gate_up/step:engine/M:512/")]
SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats", "Occupancy", "LaunchStats")
PYTHON = [sys.executable or "python3"]


class Place:
    """Where the programs are, and what runs them: a GPU ("cuda"), or for a rehearsal the emulation."""

    def __init__(self, build, device, capability=0.0):
        self.build, self.device, self.gpu = build, device, device == "cuda"
        self.bin, self.bench = build / "bin", build / "bin/bench" / ("cuda_benchmark" if self.gpu else "cuda_benchmark_emulated")
        self.suffix = "_gpu" if self.gpu else "_emulated"
        # Up to 9.0 there are lessons that it cannot run.
        self.runs_all = self.gpu and capability >= 9.0
        self.models = (["--inflate-target", "3b", "--inflate-draft", "1b"] if self.gpu else
                       ["--target", GOLDEN / "models/draft", "--draft", GOLDEN / "models/draft_small"])

    def test(self, name):
        return self.build / "tests/bin" / (name + self.suffix)

    def tests(self):
        """All that there are, by name."""
        found = sorted(path.name[:-len(self.suffix)] for path in self.test("").parent.glob("*_test" + self.suffix))
        return sorted(found, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))

    def stage(self, name, *words):
        return [self.bin / name, "--device", self.device, *words]


def reach(place):
    command = place.stage("02_contiguous_kv_cache", "--max-new-tokens", "1", "--quiet")
    return Step("reach the device", 60, "tests.log", [Job("a token", command, 60)])


def right(place):
    """All kernel tests, each program in one process, side by side: most of their time is the processor's. None may be
    skipped on a GPU that can run all."""
    skipped = r"\[  SKIPPED \] \w.*" if place.runs_all else ""
    stages = [*PYTHON, REPOSITORY / "tests/cli/test_device.py", place.bin, GOLDEN, place.device]
    jobs = [Job("test_device.py", stages, 150), *(Job(name, [place.test(name)], 100, never=skipped) for name in place.tests())]
    return Step("tests", 160, "tests.log", jobs, parallel=7)


def times(place, out):
    if place.gpu:
        command = [*PYTHON, REPOSITORY / "tests/benchmarks/cuda_bench.py", "--build", place.build, "--samples", "9",
                   "--minutes", "1.6", "--out", out / "cuda.json"]
        return Step("passes and products", 150, "times.log", [Job("cuda_bench.py", command, 150, r"cuda\.json")])
    command = [place.bench, "--samples=1", "--benchmark_filter=^argmax/step:engine/M:1/"]
    return Step("passes and products", 150, "times.log", [Job("one benchmark", command, 150, "argmax")])


def tokens(place):
    """Per second, plain and speculative, in the shapes of Llama 3.2 3B and 1B."""
    words = (*place.models, "--max-new-tokens", "96" if place.gpu else "8", "--ignore-eos", "--output", "json")
    settings = ("--no-speculation", "--spec-length 2", "--spec-length 5")
    jobs = [Job(setting, place.stage("04_greedy_speculation", *words, *setting.split()), 60, '"tokens_per_second"')
            for setting in settings]
    return Step("tokens per second", 90, "times.log", jobs)


def sanitized(place):
    def job(tool, name, program):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--print-limit", "20", *program]
        return Job(f"{tool} {name}", command, 100, "ERROR SUMMARY: 0 errors|0 hazards")
    jobs = [job(tool, test, [place.test(test), f"--gtest_filter={cases}"]) for tool, test, cases in SANITIZED]
    return Step("compute-sanitizer", 120, "sanitizer.log", jobs, parallel=5)


def sanitized_engine(place):
    """Of the draft, with its graphs."""
    models = ("--target", GOLDEN / "models/draft", "--draft", GOLDEN / "models/draft_small")
    words = ("--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--max-new-tokens", "24", "--quiet")
    command = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "20",
               *place.stage("05_rejection_sampling", *models, *words)]
    return Step("memcheck of the engine", 60, "sanitizer.log", [Job("sampling", command, 60, "ERROR SUMMARY: 0 errors")])


def profiles(place):
    sections = [word for name in SECTIONS for word in ("--section", name)]
    jobs = [Job(f"{kernel} {benchmark}", ["ncu", "--clock-control", "none", "-k", f"regex:{kernel}", "-c", "2", *sections,
                                          place.bench, "--samples=1", f"--benchmark_filter={benchmark}"], 25, "Duration")
            for kernel, benchmark in PROFILED]
    return Step("profiles", 60, "profiles.log", jobs)


def steps(place, out):
    return [reach(place), right(place), times(place, out), tokens(place), sanitized(place), sanitized_engine(place),
            profiles(place)]


def environment(place, library=None, tools=()):
    """What every program needs: the golden folder, and where libraries and tools are. A test that cannot reach the GPU
    fails."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    paths = [str(path) for path in (*(library or ()), before) if str(path)]
    found = {"SPECDEC_GOLDEN": str(GOLDEN), "LD_LIBRARY_PATH": ":".join(paths),
             "PATH": ":".join([os.environ.get("PATH", ""), *map(str, tools)])}
    return found | ({"SPECDEC_REQUIRE_GPU": "1"} if place.gpu else {})
