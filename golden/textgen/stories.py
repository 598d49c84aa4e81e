"""Small stories: somebody wants something, meets others on the way, and comes home."""
from .words import (ANIMALS, COLOURS, EMOJI, FEELINGS, FIRST_NAMES, FOODS, PLACES, SEASONS, SURNAMES, THINGS, TOWNS,
                    WEEKDAYS, a_or_an, chance, how_many, sentence)

LIKES = """clever quiet old young kind stubborn patient shy merry careful forgetful tall""".split()
WANTS = """wanted to find the {thing}|had lost the {colour} {thing}|was looking for a {colour} {thing}|hoped to sell the {thing}
had promised to mend the {thing}|had to bring the {thing} to {town}|wished for nothing but a {thing}
had dreamed of a {colour} {thing}|needed a new {thing} before {day}""".replace("\n", "|").split("|")
OPENINGS = ["In {town} there lived a {like} {job} named {name}.", "Once, in the {season}, {name} came to {town}.",
            "{name} was a {like} child from {town}.", "Long ago a {like} {job} called {name} lived near the {place}.",
            "On {day} morning {name} woke up and felt {feeling}.", "Nobody in {town} knew {name}, the {like} {job}.",
            "This is the story of {name} and the {colour} {thing}.", "It was {season}, and {name} was {feeling}."]
JOBS = "baker tailor painter farmer sailor teacher gardener piper miller potter clockmaker fisherman".split()
WEATHER = ["It rained", "The sun shone", "A cold wind blew", "Snow fell", "Fog lay over the fields", "It was {degrees} °C and clear",
           "Thunder rolled far away", "The stars came out", "Everything was still", "Leaves whirled about"]
WAYS = ["{name} walked to the {place}", "{name} ran past the {place}", "{name} climbed up to the {place}",
        "{name} took the road to {town}", "{name} rode to the {place} on a {animal}", "{name} looked into the {place}",
        "{name} waited by the {place}", "{name} crept around the {place}", "{name} went back to the {place}"]
TIMES = ["At noon", "In the evening", "The next day", "After a while", "On {day}", "Before dawn", "Two hours later", "Soon",
         "That night", "Then"]
MEETINGS = ["There sat {other}, eating {food}.", "{other} was there with a {colour} {animal}.", "A {animal} stood in the way.",
            "At the door {other} was cleaning a {thing2}.", "{other}, who was {feeling}, came along.",
            "Behind a {thing2} somebody was laughing: it was {other}."]
ASKED = ["\"Have you seen {a_wanted}?\" asked {name}.", "\"I am looking for {a_wanted},\" said {name}.",
         "{name} told {other} about {a_wanted}.", "\"Where can I find {a_wanted}?\" {name} asked."]
ANSWERS = ["\"No,\" said {other}, \"but try the {place}.\"", "\"Ask the {animal} in the {place},\" said {other}.",
           "\"Only if you give me your {food},\" said {other}.", "{other} shook the head and pointed to the {place}.",
           "\"It may be under the {thing2},\" whispered {other}.", "\"First help me with the {thing2},\" said {other}."]
ACTS = ["{name} shared some {food}.", "{name} was {feeling}.", "The {animal} followed.", "Together they moved the {thing2}.",
        "{name} sat down and thought.", "They ate {food} and talked until {day}.", "{name} gave {other} a {colour} {thing2}.",
        "A {colour} bird flew up.", "Somewhere a bell rang.", "{name} sang a little song 🙂.", "Nothing happened."]
ENDINGS = ["There, under a {thing2}, lay {a_wanted}.", "And in the {place} {name} found {a_wanted} at last.",
           "{other} had kept {a_wanted} all the time.", "{name} never found {a_wanted}, but found a friend in {other}.",
           "The {animal} had carried {a_wanted} to the {place}."]
LAST = ["{name} went home and was {feeling}.", "From then on {name} and {other} were friends.", "They celebrated with {food}.",
        "And that is why people in {town} still talk about it.", "{name} slept well that night.", "What a day {emoji}"]


class Scene:
    """Fills a story's sentences: its hero and aim stay, the rest is drawn anew."""

    def __init__(self, rng):
        self.rng = rng
        self.name, self.other = rng.sample(FIRST_NAMES, 2)
        self.colour, self.thing = rng.choice(COLOURS), rng.choice(THINGS)
        self.a_wanted = f"the {self.colour} {self.thing}"
        self.home = rng.choice(TOWNS)

    def meet_someone(self):
        first = self.rng.choice(FIRST_NAMES)
        self.other = first if chance(self.rng, 0.6) else f"{self.rng.choice(['Mr', 'Mrs'])} {self.rng.choice(SURNAMES)}"

    def fill(self, template: str) -> str:
        pick = self.rng.choice
        text = template.format(
            name=self.name, other=self.other, a_wanted=self.a_wanted, colour=pick(COLOURS), thing=self.thing,
            thing2=pick(THINGS), town=pick(TOWNS) if chance(self.rng, 0.3) else self.home, job=pick(JOBS), like=pick(LIKES),
            place=pick(PLACES), animal=pick(ANIMALS), food=pick(FOODS), feeling=pick(FEELINGS), day=pick(WEEKDAYS),
            season=pick(SEASONS), degrees=self.rng.randint(-9, 30), emoji=pick(EMOJI))
        return sentence(a_or_an(text))

    def paragraph(self) -> str:
        """One stop on the way: how the hero got there, who was there, what was said and done."""
        rng, parts = self.rng, []
        if chance(rng, 0.5):
            parts.append(self.fill(rng.choice(WEATHER)) + ".")
        way = self.fill(rng.choice(WAYS))
        parts.append(self.fill(rng.choice(TIMES)) + " " + way + "." if chance(rng, 0.7) else way + ".")
        if chance(rng, 0.75):
            self.meet_someone()
            parts.append(self.fill(rng.choice(MEETINGS)))
            if chance(rng, 0.7):
                parts += [self.fill(rng.choice(ASKED)), self.fill(rng.choice(ANSWERS))]
        parts += [self.fill(act) for act in rng.sample(ACTS, rng.choice([0, 1, 1, 2, 3]))]
        return " ".join(parts)


def document(rng):
    """The text of a story, and where the prompt ends: after its first paragraph and a few words."""
    scene = Scene(rng)
    want = rng.choice(WANTS).format(thing=scene.thing, colour=scene.colour, town=rng.choice(TOWNS), day=rng.choice(WEEKDAYS))
    opening = scene.fill(rng.choice(OPENINGS)) + " " + a_or_an(f"{scene.name} {want}.")
    paragraphs = [scene.paragraph() for _ in range(how_many(rng, [1, 2, 3, 3, 4, 5, 7, 10], 32))]
    ending = scene.fill(rng.choice(ENDINGS)) + " " + scene.fill(rng.choice(LAST))
    text = "\n\n".join([opening] + paragraphs + [ending]) + "\n"
    return text, len(opening) + 2
