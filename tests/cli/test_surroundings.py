"""Programs in hostile surroundings: outputs that cannot be written, inputs that are no files.

usage: test_surroundings.py BIN GOLDEN

Each class of trouble is tried on all programs and all options that it concerns: exit code 2 and one
line, or no trouble at all; never a signal, never a hang, never a file that is half there.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import unittest

from programs import ProgramTest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDEN = pathlib.Path(sys.argv.pop(1)).resolve()
STAGES = sorted(path for path in BIN.glob("[0-9][0-9]_*") if os.access(path, os.X_OK))
PROGRAMS = STAGES + [BIN / "inspect"]
SHORT = ["--max-new-tokens", "3"]
SECONDS = 120  # ends a hang


def arguments(program):
    """A short run that prints something."""
    return [] if program.name in ("inspect", "00_toy_speculation") else [*SHORT, "--prompt", "Once"]


def call(program, *options, **files):
    """Exit code, stdout, stderr; None for a stream that goes elsewhere."""
    files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files}
    done = subprocess.run([program, *map(str, options)], check=False, timeout=SECONDS, **files)
    text = [stream.decode(errors="replace") if stream is not None else None for stream in (done.stdout, done.stderr)]
    return done.returncode, *text


def options_that_take(program, pattern):
    """The options whose value --help calls something like that."""
    return re.findall(rf"(--[a-z-]+) (?:{pattern})\b", call(program, "--help")[1])


def over(programs):
    """A test of each of them."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for program in programs:
                with self.subTest(program=program.name):
                    test(self, program)
        return run
    return decorate


class SurroundingsTest(ProgramTest):
    def expect_refusal(self, result, *words):
        code, _, errors = result
        self.assertEqual(code, 2, errors)
        self.assertEqual(errors.count("\n"), 1, f"one line: {errors}")
        for word in words:
            self.assertIn(word, errors)

    def expect_nothing_left(self, *names):
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(names))

    # ---- standard streams ----

    def runs(self, program):
        """Everything that prints: a run, its JSON, the help, and the check where it is quick."""
        yield arguments(program)
        yield [*arguments(program), "--output", "json"]
        yield ["--help"]
        if program.name in ("00_toy_speculation", "03_paged_kv_cache"):
            yield ["--check"]

    @over(PROGRAMS)
    def test_a_full_stdout_is_an_error(self, program):
        for options in self.runs(program):
            with open("/dev/full", "wb") as full:
                code, _, errors = call(program, *options, stdout=full)
            self.assertEqual(code, 2, (options, errors))
            self.assertEqual(errors.count("standard output cannot be written: No space left"), 1, errors)

    @over(PROGRAMS)
    def test_a_closed_stdout_is_an_error(self, program):
        for options in self.runs(program):
            code, _, errors = call(program, *options, stdout=None, preexec_fn=lambda: os.close(1))
            self.assertEqual(code, 2, (options, errors))
            self.assertIn("standard output cannot be written", errors)

    @over(PROGRAMS)
    def test_a_full_or_closed_stderr_does_not_matter(self, program):
        want = call(program, *arguments(program))[:2]
        for options, code in ((arguments(program), want), (["--nonsense"], (2, ""))):
            with open("/dev/full", "wb") as full:
                self.assertEqual(call(program, *options, stderr=full)[:2], code)
            closed = call(program, *options, stderr=None, preexec_fn=lambda: os.close(2))
            self.assertEqual(closed[:2], code)

    @over(PROGRAMS)
    def test_all_streams_closed(self, program):
        code, _, _ = call(program, *arguments(program), stdin=None, stdout=None, stderr=None,
                          preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(code, 2)

    @over(PROGRAMS)
    def test_a_reader_that_goes_away_is_no_error(self, program):
        for options in self.runs(program):
            reader, writer = os.pipe()
            os.close(reader)
            code, _, errors = call(program, *options, stdout=writer)
            os.close(writer)
            self.assertEqual(code, 0, (options, errors))
            self.assertNotIn("standard output", errors)

    @over(STAGES[1:])
    def test_a_reader_that_goes_away_takes_no_file_along_silently(self, program):
        reader, writer = os.pipe()
        os.close(reader)
        report = self.folder / "report"
        code, _, errors = call(program, *arguments(program), "--report", report, stdout=writer)
        os.close(writer)
        self.assertTrue(code == 0 and report.exists() or code == 2 and "before --report was written" in errors,
                        (code, errors))
        report.unlink(missing_ok=True)

    # ---- values that are missing ----

    @over(PROGRAMS)
    def test_an_option_is_no_value_of_the_one_before(self, program):
        options = options_that_take(program, "[A-Z]+(?:[|,][A-Z]+)*")
        self.assertGreater(len(options), 0)
        for option in options:
            for value in ("--help", "--nonsense"):
                result = call(program, option, value, cwd=self.folder)
                self.expect_refusal(result, f"{option} takes ", f"{value} follows it")
                self.assertEqual(result[1], "")
        self.expect_nothing_left()

    # ---- files that are written ----

    def outputs(self, program):
        return [option for option in options_that_take(program, "FILE")
                if option in ("--report", "--trace", "--dump", "--dump-logits", "--write-tree-profile")]

    def test_there_are_outputs(self):
        found = {program.name[:2]: self.outputs(program) for program in STAGES[1:]}
        for stage, options in found.items():
            with self.subTest(stage):
                want = {"--report"} | ({"--trace"} if "04" <= stage else set())
                self.assertEqual(set(options) & {"--report", "--trace"}, want)
                self.assertEqual({"--dump", "--dump-logits"} <= set(options), stage <= "05")

    @over(PROGRAMS)
    def test_what_cannot_be_written_is_refused_before_the_work(self, program):
        (self.folder / "file").write_text("")
        for option in self.outputs(program):
            for bad in (self.folder / "no" / "file", self.folder / "file" / "below", self.folder, "/proc/nothing"):
                # So much work that nobody would wait for it.
                result = call(program, "--prompt", "Once", "--max-new-tokens", "400", "--ignore-eos", option, bad)
                self.expect_refusal(result, str(bad))
                self.assertEqual(result[1], "", f"{option}: no work before it is refused")

    @over(PROGRAMS)
    def test_devices_and_pipes_and_links_stay_what_they_are(self, program):
        for option in self.outputs(program):
            null = self.folder / "null"
            os.symlink("/dev/null", null)
            self.assertEqual(call(program, *arguments(program), option, null)[0], 0)
            self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
            self.assertTrue(null.is_symlink())
            null.unlink()

            target, link = self.folder / "target", self.folder / "link"
            os.symlink("target", link)  # to nothing yet, and relative
            for _ in range(2):
                self.assertEqual(call(program, *arguments(program), option, link)[0], 0)
                self.assertTrue(link.is_symlink() and target.is_file() and not target.is_symlink())
            written = target.read_bytes()
            self.expect_nothing_left("target", "link")
            target.unlink()
            link.unlink()

            fifo = self.folder / "fifo"
            os.mkfifo(fifo)
            with open(self.folder / "read", "wb") as copy, subprocess.Popen(["cat", fifo], stdout=copy):
                self.assertEqual(call(program, *arguments(program), option, fifo)[0], 0)
            self.assertEqual((self.folder / "read").stat().st_size > 0, len(written) > 0)
            (self.folder / "read").unlink()
            self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
            fifo.unlink()

            there, back = os.pipe()  # as the shell's >(command)
            with open(self.folder / "read", "wb") as copy, subprocess.Popen(["cat"], stdin=there, stdout=copy):
                os.close(there)
                self.assertEqual(call(program, *arguments(program), option, f"/dev/fd/{back}", pass_fds=[back])[0], 0)
                os.close(back)
            self.assertEqual((self.folder / "read").stat().st_size > 0, len(written) > 0)
            (self.folder / "read").unlink()
            self.expect_nothing_left()

    @over(STAGES[1:])
    def test_a_report_to_stdout_follows_the_text(self, program):
        out = self.folder / "out"
        with open(out, "wb") as stream:
            code, _, errors = call(program, *arguments(program), "--report", "/dev/stdout", stdout=stream)
        self.assertEqual(code, 0, errors)
        text = call(program, *arguments(program))[1]
        self.assertTrue(out.read_text().startswith(text), "the text is still there")
        self.assertIn('"stats"', out.read_text())

    def test_a_signal_leaves_no_partial_file(self):
        # A pipe that nobody reads holds the program while its file is open: --dump first, then the rest.
        program = BIN / "02_contiguous_kv_cache"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            dump = self.folder / "dump"
            with subprocess.Popen([program, "--prompt", "Once " * 100, "--dump", dump, *SHORT],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                while child.poll() is None and not list(self.folder.iterdir()):
                    pass
                child.send_signal(number)
                child.wait(SECONDS)
            left = [path.name for path in self.folder.iterdir()]
            self.assertIn(left, ([], ["dump"]), "whole or not at all")
            dump.unlink(missing_ok=True)

    @over(STAGES[1:])
    def test_what_a_run_reads_is_not_written_over(self, program):
        models = self.copy_of_models()
        before = {path.name: path.read_bytes() for path in models.iterdir()}
        hard, link = self.folder / "hard", self.folder / "link"
        os.link(models / "model.safetensors", hard)
        link.symlink_to(models / "config.json")
        option, *others = self.outputs(program)
        named = "--draft" if "--draft DIR" in call(program, "--help")[1] else "--target"
        for path in (models / "model.safetensors", models / "config.json", models / "tokenizer.json", hard, link):
            result = call(program, *arguments(program), named, models, option, path)
            self.expect_refusal(result, f"{option} {path}: {named} reads this file")
        embedded = GOLDEN / "models" / "target" / "model.safetensors"
        weights = embedded.read_bytes()
        self.expect_refusal(call(program, *arguments(program), option, embedded), "--target reads this file")
        self.assertEqual(embedded.read_bytes(), weights)
        self.assertEqual({path.name: path.read_bytes() for path in models.iterdir()}, before)
        for other in others:
            result = call(program, *arguments(program), *("--tree", "top:2") * (other == "--write-tree-profile"), option,
                          self.folder / "out", other, models / ".." / "out")
            self.expect_refusal(result, f"{option} and {other} are both")
        self.expect_nothing_left("models", "hard", "link")
        result = call(program, *arguments(program), "--target", models, option, models / "new")
        self.assertEqual(result[0], 0, "a new file beside the model is none of its files")
        shutil.rmtree(models)
        hard.unlink()
        link.unlink()

    # ---- files that are read ----

    def copy_of_models(self):
        models = self.folder / "models"
        shutil.copytree(GOLDEN / "models" / "draft", models)
        return models

    def inputs(self, program):
        """Options with a path, and the file in it that is no file. None: the path itself."""
        model_files = [path.name for path in (GOLDEN / "models" / "draft").iterdir()]
        for option in options_that_take(program, "DIR"):
            if option in ("--target", "--draft"):
                for name in model_files:
                    yield option, name
        for option in options_that_take(program, "FILE|SHAPE"):
            if option in ("--draft-text", "--cost-profile", "--tree-profile", "--inflate-target", "--inflate-draft"):
                yield option, None

    def needed(self, option):
        return {"--draft-text": ["--draft-kind", "bigram"], "--cost-profile": ["--spec-length", "auto", "--draft-kind", "llama"],
                "--tree-profile": ["--tree", "best:6"]}.get(option, [])

    @over(PROGRAMS)
    def test_an_input_that_is_no_regular_file_is_refused(self, program):
        for option, name in self.inputs(program):
            models = self.copy_of_models()
            path = models / name if name else self.folder / "input"
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            result = call(program, *arguments(program), option, models if name else path, *self.needed(option))
            shutil.rmtree(models)
            path.unlink(missing_ok=True)
            if name in ("generation_config.json", "special_tokens_map.json") and result[0] == 0:
                continue  # a file that this program does not read
            if name in ("tokenizer.json", "tokenizer_config.json") and option == "--draft" and result[0] == 0:
                continue
            self.expect_refusal(result, path.name, "is not a regular file")

    @over(PROGRAMS)
    def test_paths_that_lead_nowhere_are_told_in_plain_words(self, program):
        loop = self.folder / "loop"
        loop.symlink_to("loop")
        for option in options_that_take(program, "DIR|FILE|SHAPE|DIR\\|KIND"):
            for path in ("loop", "loop/below", "a" * 300, "no\x1b[2J\nline"):
                more = [*self.needed(option), *(["--check"] if option == "--goldens" else arguments(program))]
                code, text, errors = call(program, option, path, *more, cwd=self.folder)
                if code == 0:  # a file like any other, whose name is odd
                    self.assertIn(option, [*self.outputs(program), "--cost-profile"])
                    (self.folder / path).unlink()
                    continue
                self.assertEqual((code, errors.count("\n")), (2, 1), (option, path, errors))
                self.assertNotIn("filesystem error", errors)
                self.assertNotIn("\x1b", errors)
        loop.unlink()

    def test_megabytes_and_control_characters_are_not_repeated(self):
        huge = "\x1b[2J" * 20000  # the longest argument has 128 kB
        for program in PROGRAMS:
            for words in ([huge], ["--" + huge], ["--output", huge], ["--seed", huge], ["--target", huge]):
                code, _, errors = call(program, *words)
                with self.subTest(program.name):
                    self.assertEqual((code, errors.count("\n")), (2, 1))
                    self.assertLess(len(errors), 4000)
                    self.assertNotIn("\x1b", errors)
        models = self.copy_of_models()
        (models / "config.json").write_text(json.dumps({"model_type": huge * 50}))
        code, _, errors = call(PROGRAMS[-1], "--target", models)
        self.assertEqual((code, errors.count("\n"), "\x1b" in errors, len(errors) < 4000), (2, 1, False, True))

    @over([stage for stage in STAGES if "--requests" in call(stage, "--help")[1]])
    def test_requests_without_an_end_are_refused(self, program):
        with open("/dev/zero", "rb") as zero:
            self.expect_refusal(call(program, "--requests", "-", stdin=zero), "stdin: byte 0 is NUL")
        with subprocess.Popen(["yes", '{"prompt": "' + "a" * 100000 + '"}'], stdout=subprocess.PIPE) as endless:
            result = call(program, "--requests", "-", stdin=endless.stdout)
            endless.kill()
        self.expect_refusal(result, "stdin: more than ", " of requests")
        with open(self.folder / "large", "wb") as large:
            large.truncate(1 << 40)  # a hole
        self.expect_refusal(call(program, "--requests", self.folder / "large"), "large: more than ", " of requests")

    def test_goldens_that_are_no_regular_files_are_refused(self):
        files = [path.name for path in (GOLDEN / "goldens" / "draft").iterdir()]
        self.assertIn("manifest.json", files)
        for file in files:
            # All stages read the manifest; stage 2 reads every file.
            for program in STAGES[1:] if file == "manifest.json" else [BIN / "02_contiguous_kv_cache"]:
                goldens = self.folder / "goldens"
                shutil.copytree(GOLDEN / "goldens" / "draft", goldens)
                (goldens / file).unlink()
                os.mkfifo(goldens / file)
                result = call(program, "--check", "--target", GOLDEN / "models" / "draft", "--goldens", goldens)
                shutil.rmtree(goldens)
                with self.subTest(program=program.name, file=file):
                    self.expect_refusal(result, file, "is not a regular file")

    @over([stage for stage in STAGES if "--requests" in call(stage, "--help")[1]])
    def test_requests_may_come_through_a_pipe(self, program):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        with subprocess.Popen(["sh", "-c", f"echo '{json.dumps({'prompt': 'Once'})}' > {fifo}"]):
            code, _, errors = call(program, *SHORT, "--requests", fifo)
        self.assertEqual(code, 0, errors)
        fifo.unlink()

    # ---- values and places ----

    @over(PROGRAMS)
    def test_an_empty_value_is_an_error(self, program):
        options = options_that_take(program, "[A-Z]+(?:[|,][A-Z]+)*")
        self.assertGreater(len(options), 0)
        for option in options:
            # An option that follows is not the value.
            for words in ([option, ""], [option + "="], [option + "=", "--output=json"]):
                if option == "--output" and len(words) == 2 and words[1]:
                    continue
                more = ["--chat", "Hi"] if option == "--system" else []
                code, text, errors = call(program, *words, *more, cwd=self.folder)
                self.assertEqual((code, text, errors.count("\n")), (2, "", 1), (words, errors))
        self.expect_nothing_left()

    @over(PROGRAMS)
    def test_a_deleted_working_directory_is_no_trouble(self, program):
        place = self.folder / "place"
        takes_target = program.name != "00_toy_speculation"
        for options in (["--output", "json"], [], ["--target", GOLDEN / "models" / "draft"] if takes_target else []):
            place.mkdir(exist_ok=True)
            want = call(program, *arguments(program), *options)[0]
            code, _, errors = call(program, *arguments(program), *options, cwd=place,
                                   preexec_fn=lambda place=place: os.rmdir(place))
            self.assertEqual(code, want, errors)

    @over(PROGRAMS)
    def test_a_home_that_cannot_be_read_is_no_trouble(self, program):
        environment = {**os.environ, "HOME": "/nowhere", "XDG_CACHE_HOME": "/nowhere"}
        self.assertEqual(call(program, *arguments(program), env=environment)[0], 0)


if __name__ == "__main__":
    unittest.main()
