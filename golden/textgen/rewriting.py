"""A short text and the wish to change one thing in it: nearly all of the answer is copied from the prompt."""
import re

from . import poems, stories
from .words import (ANIMALS, COLOURS, FEELINGS, FIRST_NAMES, FOODS, PLACES, SURNAMES, THINGS, TOWNS, WEEKDAYS, a_or_an,
                    chance, how_many)

POOLS = [FIRST_NAMES, SURNAMES, TOWNS, THINGS, COLOURS, WEEKDAYS, ANIMALS, PLACES, FOODS]
LETTER = """Dear {name}, the {colour} {thing} from {town} came on {day}.
I put the {thing} in the {place} beside the {thing2}.
{name} took the {colour} {thing} to the {place}. It was {kind} work.
On {day} {name} went to {town} and came back with a {thing} and some {food}.
The {animal} slept beside the {colour} {thing} in the {place}.
At the {place} there was {food} for everybody, and {name} brought the {animal}.
{name} was {feeling}, for the {thing} was no longer in the {place}.
We meet {name} on {day} at the {place} in {town}.
Please bring the {thing} and {food}; {name} will bring the {animal}.
The train to {town} leaves on {day} at {hour}. {name} waits near the {place}.
{name} painted the {thing} {colour} and gave it to {friend}.
{friend} wrote from {town}: "The {animal} is well and eats {food}."
It is {degrees} °C in {town} – too cold for the {animal}, says {name}.
In the {place} hangs a {colour} {thing} that once belonged to {friend}.
Nobody in {town} had seen such a {colour} {animal} before {day}.
"{food_question} {food} again?" asked {friend}. {name} only smiled.
{name} and {friend} will clean the {place} on {day} and then cook {food}.
A {colour} {animal} ran off with the {thing} of {friend}.
For {friend}: one {thing}, one {thing2}, {n} candles and a {colour} {animal}.
{name} says the {place} is {feeling_of_place} when {friend} plays there.""".split("\n")
WISHES = ["Put {new} in place of {old} in this text:", "Replace {old} by {new}:", "Write this again with {new} instead of {old}:",
          "Change {old} to {new} in the following text.", "Rewrite the text. Use {new}, not {old}.",
          "In this note, {old} should be {new}."]
ADDITIONS = ["Add this at the end: {extra}", "Put one more sentence after the text: {extra}", "The text should end with: {extra}"]
ACCEPTED = ["Here is the new text:", "Of course:", "Done:", "Gladly. Here it is:", "Sure!", "This is the changed text:", "Here you are:"]
CLOSINGS = ["Does it read well like that?", "Tell me if you want another change.", "The rest stays as it was.", "Nothing else is different.",
            "I hope you like it.", "Shall I change more?", "🙂"]
AGAIN = ["Now put {new} in place of {old}.", "And now {new} instead of {old}, please.", "Once more, with {new} instead of {old}.",
         "Thanks! Also change {old} to {new}."]


def letter(rng, n_sentences: int) -> str:
    """Sentences whose words are drawn anew, except that some names and things come back."""
    pick = rng.choice
    name, town, thing = pick(FIRST_NAMES), pick(TOWNS), pick(THINGS)
    fill = lambda t: t.format(
        name=name if chance(rng, 0.5) else pick(FIRST_NAMES), town=town if chance(rng, 0.5) else pick(TOWNS),
        thing=thing if chance(rng, 0.5) else pick(THINGS), thing2=pick(THINGS), colour=pick(COLOURS), day=pick(WEEKDAYS),
        animal=pick(ANIMALS), place=pick(PLACES), food=pick(FOODS), feeling=pick(FEELINGS), n=rng.randint(2, 40),
        friend=f"{pick(['Mr', 'Mrs', 'Dr'])} {pick(SURNAMES)}", hour=f"{rng.randint(6, 22)}:{rng.randint(0, 59):02d}",
        degrees=rng.randint(-12, 9), kind=pick("slow hard easy dirty long dull careful".split()),
        feeling_of_place=pick("loud quiet full lively empty warm".split()),
        food_question=pick(["Is it", "Do we have", "Is there", "What,"]))
    return ("\n" if chance(rng, 0.2) else " ").join(a_or_an(fill(t)) for t in rng.sample(LETTER, n_sentences))


def some_text(rng) -> str:
    source = rng.random()
    if source < 0.15:
        return poems.verse(rng, rng.choice([3, 4, 5, 6]))
    if source < 0.35:
        return " ".join(stories.Scene(rng).paragraph() for _ in range(rng.choice([1, 1, 2])))
    return letter(rng, how_many(rng, [2, 3, 3, 4, 4, 5, 6], 15))


def replacement(rng, text: str):
    """A word of the text, one of the same sort, and the text with the one in place of the other."""
    present = [(word, pool) for pool in POOLS for word in pool if re.search(rf"\b{re.escape(word)}\b", text)]
    if not present:
        return None
    old, pool = rng.choice(present)
    new = rng.choice([w for w in pool if not re.search(rf"\b{re.escape(w)}\b", text)])
    return old, new, a_or_an(re.sub(rf"\b(?<!an )(an? )?{re.escape(old)}\b",
                                    lambda m: ("a " if m[1] else "") + new, text))


def document(rng):
    """Messages of a chat with one or two changes, and the last rewritten text."""
    text = some_text(rng)
    messages = []
    for turn in range(rng.choice([1, 1, 1, 2])):
        changed = replacement(rng, text)
        if changed is None or chance(rng, 0.15):
            extra = letter(rng, 1)
            wish, rewritten = rng.choice(ADDITIONS).format(extra=extra), f"{text} {extra}"
        else:
            old, new, rewritten = changed
            wish = rng.choice(AGAIN if turn else WISHES).format(old=old, new=new)
        answer = f"{rng.choice(ACCEPTED)}\n\n{rewritten}"
        if chance(rng, 0.5):
            answer += "\n\n" + rng.choice(CLOSINGS)
        messages += [("user", wish if turn else f"{wish}\n\n{text}"), ("assistant", answer)]
        text = rewritten
    return messages, rewritten
