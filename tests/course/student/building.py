"""Builds what the checks of a stage run, each program for itself, so that a source which does not
compile spoils only the programs that contain it."""
import os
import re
import subprocess
from pathlib import Path

import terminal
from student import reward

ERROR = re.compile(r"^\S+:\d+(:\d+)?: (fatal )?error: |undefined reference to|^\S*ld: ")
STEP = re.compile(r"\[(\d+)/(\d+)\] ")  # of Ninja's lines
FEW = 2  # steps, which are not worth a word: looking for new files, and at CMake's
SHOWN = 8
BYTES_A_COMPILATION = 600 << 20  # of the largest file of an assignment
CONTROL_GROUPS = Path("/sys/fs/cgroup")


def own_programs(stage):
    """The names of the programs that the checks of a stage run."""
    return [f"course_probe_{stage.number:02}", stage.folder, *["golden_report"] * (stage.number > 0),
            *reward.SO_FAR.get(stage.number, [])]


def programs_of(stages, number):
    """The same for stages 0 to `number`, those of `number` first."""
    return list(dict.fromkeys(name for n in sorted(stages, reverse=True) if n <= number for name in own_programs(stages[n])))


def configure(root, build):
    """Configures a build folder that is not yet one. Returns what went wrong, or None."""
    cache = build / "CMakeCache.txt"
    made_for = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    if made_for and Path(made_for[1]).resolve() != root.resolve():
        return f"{build} was made in {made_for[1]}: remove it (make clean)"
    if (build / "build.ninja").exists():
        return None
    done = subprocess.run(["cmake", "--preset", "cpu", "-B", str(build)], cwd=root, text=True,
                          capture_output=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def jobs():
    """As many compilations at a time as there are processors, and memory for; or what JOBS says."""
    asked = os.environ.get("JOBS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return max(1, min(len(os.sched_getaffinity(0)), memory() // BYTES_A_COMPILATION))


def memory(groups=CONTROL_GROUPS):
    """Bytes that are free, or that a container allows, if that is less."""
    free = 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1])
    own = [line.split(":", 2)[2].lstrip("/") for line in Path("/proc/self/cgroup").read_text().splitlines()]
    limits = [path.read_text().strip() for group in ("", *own)
              for path in (groups / group / "memory.max", groups / "memory" / group / "memory.limit_in_bytes")
              if path.is_file()]
    return min([free, *(int(limit) for limit in limits if limit.isdigit())])


def build(folder, targets):
    """Builds targets; returns target -> compiler errors, of those that could not be built."""
    if _ninja(folder, targets, show_progress=True).returncode == 0:
        return {}
    broken = {}
    for target in targets:
        done = _ninja(folder, [target])
        if done.returncode != 0:
            broken[target] = first_errors(done.stdout)
    return broken


def _ninja(folder, targets, show_progress=False):
    command = ["ninja", "-C", str(folder), "-j", str(jobs()), "-k", "0", *targets]
    show = terminal.Progress("building") if show_progress else None
    lines = []
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            lines.append(line)
            step = STEP.match(line)
            if show and step and int(step[2]) > FEW:
                show.step(int(step[1]), int(step[2]))
    if show:
        show.end()
    return subprocess.CompletedProcess(command, process.returncode, "".join(lines))


def first_errors(output):
    """The lines of a compiler's output that say what is wrong, and the lines below the first."""
    lines = [line[3:] if line.startswith("../") else line for line in terminal.printable(output).splitlines()
             if not line.startswith("ninja: ")]
    first = next((i for i, line in enumerate(lines) if ERROR.search(line)), None)
    return lines[-SHOWN:] if first is None else lines[first:first + SHOWN]
