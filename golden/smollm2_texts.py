"""The texts that SmolLM2's own heads learn from: the model writes them itself, in batches of stage 6.

    python smollm2_texts.py play > play.jsonl
    06_batched_verification --target DIR --no-speculation --requests play.jsonl --output json > played.jsonl
    python smollm2_texts.py tasks --model DIR --played played.jsonl > tasks.jsonl

`play` are beginnings of a chat, of which the model writes both sides. `tasks` ask for the kinds of work that people give
a model, about passages that it wrote while it played and about texts of textgen. Stage 6 writes fastest with
--max-batch 96 and --kv-dtype bf16, as it was called for the heads that are here.
"""
import argparse
import json
import re
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

import textgen
from textgen.words import FIRST_NAMES, FRUITS, GOODS, THINGS, TOWNS

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
OPENING = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"
GAMES, GAME_TOKENS, TEMPERATURES = 1536, 256, (0.7, 0.9, 1.0)
TASKS, TASK_TOKENS = 9600, 160
LANGUAGES = ["French", "Spanish", "German", "Italian", "Portuguese", "English"]
REWRITE = """Rewrite this text in the past tense.|Rewrite this text in the future tense.|Rewrite the text in the first person.
Rewrite this text in a more formal style.|Rewrite this text in a friendly style.|Correct the spelling mistakes in this text.
Repeat the following text exactly.|Shorten this text to about half its length.|Turn this text into a numbered list.
Rewrite this text in simple words for a child.|Write this text again in the passive voice.|Print this text in the plural.
Rewrite the text so that {a} is called {b}. Change nothing else.|Replace every mention of {a} with {b}. Print the whole text."""
SUMMARISE = """Summarise this text in one sentence.|Summarise this text in two sentences.|Summarise the story in two or three sentences.
Give the main points of this text as a list of three items.|What is this text about?|Write a short summary of this text.
Summarise the following text in one short paragraph.|Summarise the text for a ten-year-old.|Give the text a title."""
EXPLAIN = "What is {}?|How does {} work?|Why is {} important?|Explain {} in simple words.|Tell me about {}.|Give an example of {}."
TOPICS = """gravity|photosynthesis|a volcano|the water cycle|an earthquake|democracy|a black hole|electricity|a magnet|the heart
evolution|a rainbow|a battery|the internet|a computer|a rocket|friction|the moon|the tide|a glacier|a desert|bread|cheese|coffee
tea|chocolate|steel|paper|plastic|a bridge|a telescope|a microscope|a compass|a clock|a bicycle|an aeroplane|a submarine|a lens
sound|light|heat|a mirror|an atom|a molecule|DNA|a virus|the brain|sleep|memory|a dream|language|writing|the printing press|money
trade|a bank|a tax|the stock market|a law|a parliament|the Roman Empire|ancient Egypt|the Renaissance|the French Revolution|a castle
a pyramid|a library|a museum|an orchestra|a violin|jazz|poetry|a novel|a fable|a proverb|chess|football|swimming|yoga|recycling
a forest|a river|an island|the ocean|a whale|a bee|a spider|an owl|a penguin|a dinosaur|a fossil|a mushroom|a fern|an oak
the solar system|a comet|a star|Mars|the Sun|a satellite|a season|snow|thunder|wind|a hurricane|a cloud|salt|iron|gold|a diamond"""
CODE = "Write a {} function that {}.|Write a {} program that {}.|How do I write a {} function that {}?"
CODE_LANGUAGES = ["Python", "Python", "Python", "JavaScript", "C", "Java"]
DOES = """reverses a string|sorts a list of numbers|counts the words of a text|adds two numbers|finds the smallest of three numbers
checks whether a number is prime|computes the factorial of a number|prints the first ten squares|removes duplicates from a list
converts Celsius to Fahrenheit|merges two sorted lists|computes the average of a list|finds the longest word of a sentence
counts how often each letter occurs|checks whether a year is a leap year|prints a multiplication table|reads a file line by line
computes the Fibonacci numbers|swaps two variables|rounds a number to two digits|finds all files of a folder|joins two dictionaries
capitalises each word|computes the area of a circle|generates a random password|validates an e-mail address|parses a date"""
EDIT_CODE = """Add a docstring to this code.|Add type hints to this code.|Rename the variables so that they are clearer.|Explain this code.
Find the error in this code.|Write this code again without comments.|Translate this code to JavaScript.|Write tests for this code."""
MATHS = """{n} has {a} {thing} and buys {b} more. How many {thing} does {n} have now?
{n} gives {b} of {a} {thing} to a friend. How many are left? Explain each step.|What is {a} times {b}? Show your work.
A box holds {b} {thing}. How many {thing} are in {a} boxes?|Compute {a} + {b} + {c}.|Solve the equation {c}x + {b} = {a}.
A rectangle is {a} cm long and {b} cm wide. What is its area?|A {one} costs {a} euros. What do {c} of them cost?
{n} walks {a} kilometres in {c} hours. What is the average speed?|List the multiples of {c} up to {a}.
Write the numbers from {c} to {b}.|Divide {a} by {c}.|What is {c} per cent of {a}?"""


def choose(rng: Random, choices: str) -> str:
    return rng.choice(choices.replace("\n", "|").split("|"))


def play():
    for i in range(GAMES):
        yield {"id": f"play-{i}", "prompt": OPENING, "max_new_tokens": GAME_TOKENS, "temperature": TEMPERATURES[i % 3],
               "top_p": 0.95, "seed": i, "ignore_eos": True}


class Passages:
    """Texts to work on: paragraphs of the model's, and documents of textgen."""

    def __init__(self, turns: list[tuple[str, str]]):
        self.questions = [text for role, text in turns if role == "user" and 20 < len(text) < 500]
        paragraphs = [p.strip() for _, text in turns for p in text.split("\n\n")]
        self.paragraphs = [p for p in paragraphs if 120 < len(p) < 700 and p[-1] in ".!?"]
        self.sentences = [s for p in self.paragraphs for s in re.findall(r"[A-Z][^.!?\n]{15,110}[.!?]", p)]

    def passage(self, rng: Random) -> str:
        if rng.random() < 0.7:
            return rng.choice(self.paragraphs)
        kind = rng.choice(["stories", "recipes"])
        return textgen.document(kind, rng.randrange(10**9)).plain[:rng.randint(200, 600)].rsplit("\n", 1)[0].strip()


def misspelt(rng: Random, text: str) -> str:
    words = text.split(" ")
    for i in rng.sample(range(len(words)), len(words) // 6):
        at = rng.randrange(len(words[i]) or 1)
        words[i] = words[i][:at] + words[i][at + 1:]
    return " ".join(words)


def rewriting(rng: Random, passages: Passages) -> str:
    wish, text = choose(rng, REWRITE), passages.passage(rng)
    if "spelling" in wish:
        text = misspelt(rng, text)
    names = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text) or [rng.choice(text.split())]
    return f"{wish.format(a=rng.choice(names), b=rng.choice(FIRST_NAMES + TOWNS))}\n\n{text}"


def translation(rng: Random, passages: Passages) -> str:
    count = rng.choice([1, 1, 1, 2, 3])
    return f"Translate into {rng.choice(LANGUAGES)}: {' '.join(rng.sample(passages.sentences, count))}"


def summary(rng: Random, passages: Passages) -> str:
    return f"{choose(rng, SUMMARISE)}\n\n" + "\n\n".join(passages.passage(rng) for _ in range(rng.choice([1, 1, 2])))


def question(rng: Random, passages: Passages) -> str:
    """About a topic of the list, or a long word of a passage."""
    words = re.findall(r"\b[a-z]{7,}\b", passages.passage(rng))
    return choose(rng, EXPLAIN).format(rng.choice(words) if words and rng.random() < 0.5 else choose(rng, TOPICS))


def maths(rng: Random, _passages: Passages) -> str:
    return choose(rng, MATHS).format(n=rng.choice(FIRST_NAMES), a=rng.randint(20, 99), b=rng.randint(2, 19), c=rng.randint(2, 9),
                                     thing=rng.choice(GOODS + FRUITS), one=rng.choice(THINGS))


def retrieval(rng: Random, passages: Passages) -> str:
    if rng.random() < 0.5:
        return textgen.document("questions", rng.randrange(10**9)).messages[0][1]
    text = passages.passage(rng)
    words = [w for w in re.findall(r"[A-Za-z]{4,}", text)]
    return f"{text}\n\n{rng.choice(['What does the text say about', 'Which sentence mentions', 'Why does the text mention'])} {rng.choice(words)}?"


def code(rng: Random, _passages: Passages) -> str:
    if rng.random() < 0.6:
        return choose(rng, CODE).format(rng.choice(CODE_LANGUAGES), choose(rng, DOES))
    text = textgen.document("code", rng.randrange(10**9)).plain
    return f"{choose(rng, EDIT_CODE)}\n\n{text[:rng.randint(150, 500)].rsplit(chr(10), 1)[0]}"


def chat(rng: Random, passages: Passages) -> str:
    return rng.choice(passages.questions)


KINDS = [chat, chat, translation, summary, question, maths, retrieval, code, rewriting]


def tasks(passages: Passages):
    """Mostly greedy, as the texts that the heads are judged on. What is asked twice is sampled: greedy answers are the same."""
    asked = set()
    for i in range(TASKS):
        rng = Random(f"task {i}")
        kind = KINDS[i % len(KINDS)]
        text = kind(rng, passages)
        greedy = i // len(KINDS) % 4 and text not in asked
        asked.add(text)
        yield {"id": f"{kind.__name__}-{i}", "chat": text, "max_new_tokens": TASK_TOKENS, "temperature": 0 if greedy else 0.8,
               "seed": i}


def turns_of(tokenizer: Tokenizer, played: Path) -> list[tuple[str, str]]:
    """(role, text) of each turn that was written to its end."""
    turns = []
    for line in played.read_text().splitlines():
        run = json.loads(line)
        if "tokens" not in run:
            continue
        text = "user\n" + tokenizer.decode(run["tokens"], skip_special_tokens=False)
        for turn in text.split("<|im_end|>")[:-1]:
            role, _, said = turn.replace("<|im_start|>", "").strip().partition("\n")
            turns.append((role, said.strip()))
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["play", "tasks"])
    parser.add_argument("--model", type=Path, help="folder of SmolLM2-135M-Instruct, as make real converts it")
    parser.add_argument("--played", type=Path, help="what stage 6 made of the requests of play")
    options = parser.parse_args()
    requests = play()
    if options.what == "tasks":
        tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
        requests = tasks(Passages(turns_of(tokenizer, options.played)))
    for request in requests:
        print(json.dumps(request))


if __name__ == "__main__":
    main()
