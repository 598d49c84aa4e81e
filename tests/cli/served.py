"""A program that serves, for tests: it has a port of its own, and ends with the test."""
import re
import signal
import subprocess


class Served:
    """with Served(PROGRAM, OPTION...) as served: served.address is "http://127.0.0.1:PORT/"."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, "--serve", "127.0.0.1:0", *map(str, options)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"Serving .+ at (http://127\.0\.0\.1:\d+/)\n", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"{program} says {line!r}, and {self.process.communicate()[1]!r}")
        self.address = found[1]

    def stop(self):
        """Ends it as Ctrl-C does. Returns its exit code and what it said on stderr."""
        self.process.send_signal(signal.SIGINT)
        errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
