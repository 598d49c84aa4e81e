"""What the tests of many requests share: the requests, and what programs make of them together and alone."""
import json

from programs import run_program, run_program_json, without_advice

PROMPT = "Once, in the winter, Sunita came to York."
# Greedy and sampled, with speculation and without, ended by an eos, a stop text, the length.
REQUESTS = [
    {"id": "greedy", "prompt": PROMPT, "max_new_tokens": 40},
    {"id": "same beginning", "prompt": PROMPT + " It was cold.", "max_new_tokens": 30},
    {"id": "sampled", "prompt": PROMPT, "temperature": 0.8, "seed": 3},
    {"id": "other seed", "prompt": PROMPT, "temperature": 0.8, "seed": 4},
    {"id": "filtered", "prompt": "The", "temperature": 1.2, "top_k": 20, "top_p": 0.9, "seed": 1 << 63},
    {"id": "penalty", "prompt": "The sun shone. The", "repetition_penalty": 1.3, "max_new_tokens": 25},
    {"id": "no speculation", "prompt": "Snow fell.", "no_speculation": True, "max_new_tokens": 20},
    {"id": "plain sampling", "prompt": "Snow fell.", "no_speculation": True, "temperature": 1, "seed": 9},
    {"id": "chat", "chat": "What is 12 + 30?", "max_new_tokens": 60},
    {"id": "system", "chat": "What is 12 + 30?", "system": "You are a calculator.", "max_new_tokens": 60},
    {"id": "ids", "prompt_ids": [3840, 846, 260], "max_new_tokens": 12, "spec_length": 2},
    {"id": "long drafts", "prompt": "def add(", "spec_length": 5, "max_new_tokens": 33, "ignore_eos": True},
    {"id": "stops", "prompt": PROMPT, "stop": ["a", "zebra"]},
    {"id": "coupled", "prompt": "Snow fell.", "temperature": 0.9, "acceptance": "coupled", "seed": 5},
    {"id": "lenient", "prompt": "Snow fell.", "temperature": 0.9, "lenience": 0.5, "seed": 6},
    {"id": "tight", "prompt": "Snow fell. The sun shone.", "max_new_tokens": 20, "max_context": 31},
]


def run_lines(program, *arguments):
    """The objects of the requests, and the summary."""
    code, text, errors = run_program(program, "--output", "json", *map(str, arguments))
    assert (code, without_advice(errors)) == (0, ""), errors
    *results, last = [json.loads(line) for line in text.splitlines()]
    return results, last["summary"]


def run_alone(program, request, *more):
    """What a program makes of a request's fields as its options."""
    arguments = [*more]
    for name, value in request.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif name == "stop":
            arguments += [argument for text in value for argument in (option, text)]
        elif name not in ("id", "arrival"):
            arguments += [option, ",".join(map(str, value)) if isinstance(value, list) else value]
    return run_program_json(program, *map(str, arguments))


def write_requests(path, requests):
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return path
