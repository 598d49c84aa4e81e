"""The prompts whose goldens a real model, SmolLM2-135M-Instruct, has: name -> a chat's messages, or a plain text."""

PASSAGE = ("The lighthouse at Cape Orsa was built in 1871 from grey granite. It is 38 metres tall and has 196 steps. The first "
           "keeper, Marta Ilves, lived there for 41 years with her two sons. The lamp burned whale oil until 1894, then "
           "paraffin, and since 1933 it has been electric. The light can be seen from 24 nautical miles away.")
STORY = ("The boy walks to the harbour. He sees a red boat. An old man sits in the boat and mends a net. The boy asks the man "
         "for a job. The man laughs and gives him a rope.")
CODE = """def average(numbers):
    total = 0
    for n in numbers
        total = total + n
    return total / len(number)
"""


def user(text, *before):
    return [*before, {"role": "user", "content": text}]


def turn(role, text):
    return {"role": role, "content": text}


PROMPTS = {
    "short": "The capital of France is",
    "greeting": user("Hello! Who are you?"),
    "free_answer": user("Why is the sky blue? Answer in two sentences."),
    "rewrite-0": user(f"Rewrite this text in the past tense:\n\n{STORY}"),
    "copy": user(f"Repeat this text exactly:\n\n{STORY}"),
    "extract": user(f"{PASSAGE}\n\nHow many steps does the lighthouse have?"),
    "summary": user(f"Summarise this passage in one sentence:\n\n{PASSAGE}"),
    "code_repair": user(f"Correct the errors in this Python function:\n\n```python\n{CODE}```"),
    "code": user("Write a Python function that returns the largest of three numbers."),
    "list": user("List the days of the week, each with the number of letters in its name."),
    "arithmetic": user("Anna has 17 apples and buys 25 more. She gives 8 to Ben. How many apples does she have now?"),
    "json": user('Write this as JSON with the keys "name", "city" and "age": Ivo Lang is 42 and lives in Graz.'),
    "non_ascii": user("Translate into English: « Où est la gare ? » — Łódź, naïve, 東京 🙂"),
    "system": user("What should I cook tonight?", turn("system", "You are a cook. You answer in one short sentence.")),
    "several_turns": user("And how many of them are there?", turn("user", "Name the primary colours."),
                          turn("assistant", "The primary colours are red, yellow and blue.")),
    "long": user("Which of these facts is about time?", turn("user", PASSAGE), turn("assistant", PASSAGE),
                 turn("user", STORY), turn("assistant", STORY)),
}

# Those of beam search: texts that beams are used for, beside some of the prompts above.
BEAM_PROMPTS = {
    "translation": user("Translate into French: The train to Lyon leaves at half past seven."),
    "translation_back": user("Translate into English: Der Zug nach Wien hat zwanzig Minuten Verspätung."),
} | {name: PROMPTS[name] for name in ("summary", "short", "extract", "json")}
