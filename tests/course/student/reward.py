"""What a student sees of their own code at work: a part of it after the first task of a stage where one can be shown,
the whole program and its counters after the last."""
import subprocess

from student import checks
from terminal import coloured, printable

# Options that show a few rounds of each stage's program, or passes where it has no rounds.
SHORT = {0: [], 1: ["--explain", "--max-new-tokens", "8"], 2: ["--explain", "--max-new-tokens", "8"],
         3: ["--explain", "--max-new-tokens", "8"], 4: ["--explain", "--max-new-tokens", "7"],
         5: ["--explain", "--max-new-tokens", "7", "--temperature", "0.8", "--seed", "7"],
         6: ["--explain", "--workload", "poisson:rate=inf,n=4", "--max-batch", "3", "--max-new-tokens", "12", "--ignore-eos"],
         7: ["--explain", "--max-new-tokens", "7", "--temperature", "0.8", "--seed", "7", "--draft-of-draft", "bigram"],
         8: ["--explain", "--max-new-tokens", "7", "--tree", "top:2x2x1"],
         9: ["--explain", "--max-new-tokens", "7", "--tree", "chains:1", "--prompt", "def add(a, b):"]}
WITH_TRACES = (4, 5, 7, 8, 9)
SO_FAR = {4: ["first_round"]}  # programs that show a part
SECONDS = 60


def show_so_far(build, stage):
    """Prints what the stage's code does as far as it is written."""
    for name in SO_FAR.get(stage.number, []):
        try:
            done = subprocess.run([str(build / "course" / name)], check=False, timeout=SECONDS, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, errors="replace")
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout:
            print(f"\n{coloured('Your code so far', 'bold')}\n{printable(done.stdout)}", end="")


def show(root, build, stage, results):
    """Prints a short run of the stage's program, what it counts beside the reference, and what to look at."""
    command = [str(build / "bin" / stage.folder), *SHORT.get(stage.number, []), *stage.options]
    shown = f"build/bin/{' '.join(command).split('/bin/')[1]}"
    print(f"\n{coloured('All tasks pass. This is your own code:', 'bold')} {shown}\n", flush=True)
    try:
        subprocess.run(command, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"it did not finish: {error}")
    counters = counted(root, stage, results)
    if counters:
        print(f"\n{'counted by the last check':30}{'yours':>10}{'reference':>12}")
        for name, own, reference in counters:
            print(f"{name:30}{own:>10}{reference:>12}")
    if stage.number in WITH_TRACES:
        print(f"\nTo go through its rounds one by one: build/bin/{stage.folder} --trace trace.json, then open\n"
              "docs/trace_viewer.html in a browser, and trace.json in it.")


def counted(root, stage, results):
    """(name, own, reference) of the counters that the first check of the whole program compares."""
    result = next((r for of_task in results.values() for r in of_task if r.check.kind == "json"), None)
    if result is None:
        return []
    reference = dict(checks.load_expected(root, stage)[result.check.name]["0"])
    return [(name.split(".")[-1].replace("_", " "), own, reference[name]) for name, own in result.facts if isinstance(own, int)]
