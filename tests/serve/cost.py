#!/usr/bin/env python3
"""What the server costs: the same 16 requests from a file and over HTTP, by turns, on a quiet machine.

    python3 tests/serve/cost.py BUILD [ROUNDS]

Each round runs the file with the program, and streams the requests from a server of the same options, all at once. The
tokens are the same, so the ratio of the tokens per second is that of the seconds: from the first request to the last
token. Printed are the medians of the rounds, for the embedded pair and for the pair inflated to 134m and 14m.
"""
import json
import pathlib
import selectors
import statistics
import sys
import tempfile
import time

from serving import COMPLETIONS, Server
from wire import Connection, request_bytes

from batches import run_lines, write_requests

PROMPTS = ("Once, in the winter, Sunita came to York.", "Snow fell.", "def add(", "The sun shone. The")
PAIRS = {"embedded": [200], "134m, 14m": [40, "--inflate-target", "134m", "--inflate-draft", "14m"]}  # tokens, options


def requests(tokens):
    return [{"id": str(i), "prompt": PROMPTS[i % len(PROMPTS)], "max_new_tokens": tokens, "ignore_eos": True,
             "temperature": 0.8 * (i % 2), "seed": i} for i in range(16)]


def from_file(program, file, options):
    """Seconds, and tokens."""
    _, summary = run_lines(program, "--requests", file, *options)
    return summary["seconds"], summary["stats"]["emitted"]


def over_http(server, lines):
    """Seconds until every stream has ended. The client reads, and looks at nothing, so that it takes no time."""
    connections = [Connection(server.port) for _ in lines]
    bodies = [request_bytes("POST", COMPLETIONS, {
        **{name: line[name] for name in ("prompt", "ignore_eos", "temperature", "seed")},
        "max_tokens": line["max_new_tokens"], "stream": True}) for line in lines]
    waiting = selectors.DefaultSelector()
    start = time.perf_counter()
    for connection, body in zip(connections, bodies):
        connection.send(body)
        waiting.register(connection.socket, selectors.EVENT_READ, connection)
    while waiting.get_map():
        for key, _ in waiting.select():
            key.data.receive()
            if b"data: [DONE]" in key.data.buffer[-40:]:
                waiting.unregister(key.data.socket)
    seconds = time.perf_counter() - start
    for connection in connections:
        connection.close()
    return seconds


def served(program, lines, options):
    """The same of a server that has served nothing before, as a program that reads a file has not."""
    server = Server(program, *options)
    try:
        return over_http(server, lines)
    finally:
        server.stop()


def measure(program, tokens, options, rounds):
    """The medians of both, in tokens per second, and of the ratio of their seconds."""
    options, lines, pairs = ["--no-prefix-cache", *options], requests(tokens), []
    with tempfile.TemporaryDirectory() as folder:
        file = write_requests(pathlib.Path(folder) / "requests.jsonl", lines)
        for _ in range(rounds):
            seconds, emitted = from_file(program, file, options)
            pairs.append((seconds, served(program, lines, options)))
    files, answers = map(statistics.median, zip(*pairs))
    return emitted / files, emitted / answers, statistics.median(answer / file for file, answer in pairs)


def main(build, rounds=9):
    for name, (tokens, *options) in PAIRS.items():
        of_file, of_server, ratio = measure(pathlib.Path(build) / "bin/06_batched_verification", tokens, options, rounds)
        print(json.dumps({"pair": name, "requests": 16, "rounds": rounds, "tokens_per_second_from_a_file": round(of_file, 1),
                          "tokens_per_second_served": round(of_server, 1), "cost": f"{100 * (ratio - 1):.1f} %"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
