"""Runs the commands that the pages show, and compares what they print with what the pages show.

Looked at are code blocks without a language (or sh, console) of two kinds:
- Lines that begin with `$ ` are commands, with the lines that complete them; what follows is output.
  Each line of it must occur in the real output, in this order; `...` stands for anything, and times
  and addresses are not compared. A command fails the check if its output differs, or if it ends with another exit
  code than 0 and the page shows no output of it.
- Without such lines, those that begin with `build/bin/` are commands, and must end with exit code 0.
Left out are commands with a placeholder (DIR), those for a GPU, and checks of which the page shows no
output, as they are tests of their own.

A comment in the line before a block changes that:
    <!-- not run: reason -->           the block is left out
    <!-- slow -->                      it is left out but with SPECDEC_FULL=1
    <!-- file: requests.jsonl -->      the block is not run, but is the text of this file
    <!-- output of: COMMAND -->        the whole block is output, of this command
    <!-- first: COMMAND -->            runs before the block, and prints nothing
The commands of a page share a folder that looks like the project's root. `$prompt` is what any page
sets it to. `make TARGET` is not run, but the Makefile must have the target.

usage: python3 tests/course commands BUILD [PAGE...]     BUILD: the build directory; all Markdown pages by default
exit code: 1 where a command fails
"""
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from authoring import pages

Block = collections.namedtuple("Block", "line marks lines")    # lines of the page
Step = collections.namedtuple("Step", "line command shown")    # shown: lines, or None if none are
MARK = re.compile(r"<!-- (not run|slow|file|output of|first)(?:: (.*?))? -->\s*$")
FENCE = re.compile(r"((?:> ?| )*)```(\w*)\s*$")
LEFT_OUT = re.compile(r"--device cuda|\bDIR\b|^make ")
ADDRESS = re.compile(r"\(\S+\+0x[0-9a-f]+\)|\(BuildId: \w+\)|0x[0-9a-f]+|==\d+==|pid=\d+")
TIME = re.compile(r"(\b\d[\d,.]*|\.\.\.) ?(ms|s|tokens/s|GB|samples)\b|\b(c|v|v\(\d+\)) \d+\.\d+|\d+\.\d\d by (the clock|\w+)")
LONG_FRACTION = re.compile(r"\d+\.\d{7,}")
END = "@@ end of step"
SECONDS = 600  # for a block


def blocks(text):
    """The blocks of a page that may hold commands, or text of files."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        fence, number = FENCE.match(lines[number]), number + 1
        if not fence:
            continue
        begin, prefix = number, len(fence[1])
        while number < len(lines) and lines[number][prefix:].rstrip() != "```":
            number += 1
        marks = marks_above(lines, begin - 1)
        if fence[2] in ("", "sh", "console") or "file" in marks:
            yield Block(begin, marks, [line[prefix:] for line in lines[begin:number]])
        number += 1


def marks_above(lines, fence):
    """The marks in the comments that stand directly above the fence in line `fence`."""
    marks = {}
    while fence and MARK.search(lines[fence - 1]):
        fence -= 1
        kind, words = MARK.search(lines[fence]).groups()
        marks[kind] = words or ""
    return marks


def is_complete(command):
    """Whether the shell does not wait for more lines."""
    shell = subprocess.run(["bash", "-n", "-c", command], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False, text=True)
    return not (command.endswith("\\") or "end of file" in shell.stderr or "end-of-file" in shell.stderr
                or "unexpected EOF" in shell.stderr)


def steps(block):
    """The commands of a block, each with the output that the page shows."""
    if "output of" in block.marks:
        return [Step(block.line, block.marks["output of"], block.lines)]
    if not any(line.startswith("$ ") for line in block.lines):
        return [Step(block.line + i + 1, line, None) for i, line in enumerate(block.lines)
                if line.startswith("build/bin/")]
    found, open_command = [], False
    for i, line in enumerate(block.lines):
        if open_command:
            command = found[-1].command + "\n" + re.sub(r"^> ", "", line)
            found[-1] = found[-1]._replace(command=command)
        elif line.startswith("$ "):
            found.append(Step(block.line + i + 1, line[2:], []))
        elif found:
            found[-1].shown.append(line)
        open_command = bool(found) and not found[-1].shown and not is_complete(found[-1].command)
    return found


def is_left_out(step):
    return LEFT_OUT.search(step.command) or step.shown is None and step.command.endswith("--check")


def comparable(line):
    """A line without what differs from run to run and in the last digits from machine to machine."""
    line = LONG_FRACTION.sub(lambda number: f"{float(number[0]):.5f}", TIME.sub("TIME", ADDRESS.sub("", line)))
    return re.sub(r"\s+", " ", line).strip()


def missing(shown, printed):
    """The first shown line that was not printed after those before it, or None."""
    rest = iter([comparable(line) for line in printed])
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in re.split(r" ?\.\.\. ?", comparable(line)))
        if pattern.strip("\\[].* ") and not any(re.fullmatch(pattern, other) for other in rest):
            return line
    return None


def fault(step, printed, code):
    """What is wrong with a step that printed these lines and ended with this exit code, or None."""
    if code is None:
        return f"it did not end within {SECONDS} s, or the shell stopped before"
    line = missing(step.shown or [], printed)
    if line is not None:
        return f"the page shows a line that is not printed (exit code {code}):\n    {line}"
    if code and not (code < 126 and any(step.shown or [])):
        return f"exit code {code}"
    return None


def run_shell(script, folder, variables):
    """What a script prints, stdout and stderr together."""
    shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env={**os.environ, **variables}, text=True,
                             encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return shell.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        return shell.communicate()[0]


def run_block(block, folder, variables):
    """Runs a block: (step, what is wrong, printed lines) for each of its commands."""
    todo = [step for step in steps(block) if not is_left_out(step)]
    if not todo:
        return []
    first = block.marks.get("first", "")
    script = "".join(f"{step.command}\ncode=$?; echo; echo '{END}' $code\n" for step in todo)
    printed = run_shell(f"{first}\n{script}", folder, variables).replace(f"{folder}/", "")
    parts = re.split(rf"^{END} (\d+)\n", printed, flags=re.MULTILINE)
    results = []
    for i, step in enumerate(todo):
        code = int(parts[2 * i + 1]) if 2 * i + 1 < len(parts) else None
        lines = parts[2 * i].splitlines() if 2 * i < len(parts) else []
        results.append((step, fault(step, lines, code), lines))
    return results


def unknown_targets(text):
    """The targets of `make` in commands that the Makefile does not have: (line, target)."""
    known = set(re.findall(r"[\w-]+", " ".join(re.findall(
        r"^([\w -]+):(?!=)", (pages.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))))
    prose = pages.without_blocks(text).split("\n")
    for match in re.finditer(r"(?m)(`|^(?:> )?(?:\$ )?)make ([a-z][\w-]*)", text):
        line = prose[text.count("\n", 0, match.start())]
        if match[2] not in known and (match[1] == "`" or not line.strip("> ")):  # code, and not a line that begins so
            yield text.count("\n", 0, match.start()) + 1, match[2]


def project_folder(folder, build):
    """Makes an empty folder look like the project's root, with this build directory."""
    for path in pages.ROOT.iterdir():
        if not path.name.startswith(".") and path.name != "build":
            (folder / path.name).symlink_to(path)
    (folder / "build").symlink_to(build)


def run_page(page, build, variables, report):
    """Runs the commands of a page; returns how many there were, and how many blocks were left out."""
    text = page.read_text(encoding="utf-8")
    for line, target in unknown_targets(text):
        report(line, f"make {target}", "the Makefile has no such target", [])
    commands = left_out = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        project_folder(folder, build)
        for block in blocks(text):
            if "file" in block.marks:
                (folder / block.marks["file"]).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
            elif "not run" in block.marks or "slow" in block.marks and not os.environ.get("SPECDEC_FULL"):
                left_out += 1
            else:
                begin = time.monotonic()
                for step, wrong, printed in run_block(block, folder, variables):
                    commands += 1
                    if wrong:
                        report(step.line, step.command, wrong, printed)
                if os.environ.get("SPECDEC_TIMES"):
                    print(f"{time.monotonic() - begin:6.1f} s  {pages.name(page)}:{block.line}")
    return commands, left_out


def prompt_of(all_pages):
    """What the pages set `$prompt` to."""
    texts = (page.read_text(encoding="utf-8") for page in all_pages)
    prompts = {prompt for text in texts for prompt in re.findall(r'^(?:> )?\$ prompt="(.*)"$', text, re.MULTILINE)}
    if len(prompts) != 1:
        raise SystemExit(f"commands: the pages set $prompt to {len(prompts)} different texts: {prompts}")
    return prompts.pop()


def main(arguments):
    if not arguments or not pathlib.Path(arguments[0], "bin").is_dir():
        print("usage: python3 tests/course commands BUILD [PAGE...]", file=sys.stderr)
        return 2
    faults = []
    build, variables = pathlib.Path(arguments[0]).resolve(), {"prompt": prompt_of(pages.pages())}
    commands = left_out = 0
    for page in pages.pages(arguments[1:]):
        def report(line, command, wrong, printed, page=page):
            faults.append(line)
            print(f"{pages.name(page)}:{line}: {command}\n  {wrong}")
            print("".join(f"  | {text}\n" for text in printed[-30:]), end="", flush=True)
        counts = run_page(page, build, variables, report)
        commands, left_out = commands + counts[0], left_out + counts[1]
    print(f"{commands} commands of the pages ran, {len(faults)} not as shown; {left_out} blocks were left out")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
