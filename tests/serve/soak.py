#!/usr/bin/env python3
"""Clients come and go for some minutes, and a third of them leave in the middle: the server's memory stays flat.

usage: soak.py FOLDER_OF_PROGRAMS SECONDS [CLIENTS]

Prints the memory every tenth of the time. Exit code 1 if it grows, or if a page is left at the end.
"""
import pathlib
import random
import sys
import threading
import time

from serving import COMPLETIONS, Server, Stream
from wire import Closed

PROMPTS = ("Once, in the winter, Sunita came to York.", "Snow fell.", "def add(", "What is 12 + 30?")
GROWTH = 1.05  # of what it takes after a fifth of the time, when its buffers have found their sizes


def resident_mb(pid):
    [line] = [line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def client(server, number, end, served):
    dice = random.Random(number)
    while time.monotonic() < end:
        fields = {"prompt": dice.choice(PROMPTS) * dice.randrange(1, 8), "max_tokens": dice.randrange(10, 200),
                  "temperature": dice.choice((0, 0.8)), "seed": dice.randrange(1 << 32), "rounds": dice.random() < 0.3,
                  "logprobs": dice.choice((None, 2)), "ignore_eos": True}
        try:
            with Stream(server, COMPLETIONS, fields) as stream:
                leaves = dice.random() < 1 / 3
                for i, _ in enumerate(stream.chunks()):
                    if leaves and i == dice.randrange(8):
                        break
            served[number] += 1
        except (Closed, ConnectionError):
            pass  # above a limit


def main(program, seconds, clients=16):
    server = Server(pathlib.Path(program).resolve() / "06_batched_verification", "--no-prefix-cache", "--max-queue", clients)
    end, served = time.monotonic() + seconds, [0] * clients
    threads = [threading.Thread(target=client, args=(server, i, end, served)) for i in range(clients)]
    for thread in threads:
        thread.start()
    seen = []
    for _ in range(10):
        time.sleep(seconds / 10)
        seen.append(resident_mb(server.process.pid))
        print(f"{sum(served)} requests, {seen[-1]:.1f} MB", flush=True)
    for thread in threads:
        thread.join()
    status = server.wait_until_idle()
    code = server.stop()
    print(f"pages left: {status['pages']['used']} and {status['draft_pages']['used']}; exit code {code}")
    flat = max(seen[2:]) <= GROWTH * seen[1]
    print("memory is flat" if flat else "memory grows")
    return 0 if flat and code == 0 and status["pages"]["used"] == status["draft_pages"]["used"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:])))
