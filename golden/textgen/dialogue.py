"""Everyday conversations in chat form: small talk, advice, words in other languages, plans."""
from .words import (ANIMALS, COLOURS, EMOJI, FEELINGS, FIRST_NAMES, FOODS, GOODS, HOBBIES, JOBS, MONTHS, PLACES, SEASONS,
                    SURNAMES, THINGS, TOWNS, WEEKDAYS, a_or_an, chance, how_many, joined, sentence)

LANGUAGES = ["German", "French", "Spanish"]
DICTIONARY = {
    "bread": ("Brot", "pain", "pan"), "water": ("Wasser", "eau", "agua"), "house": ("Haus", "maison", "casa"),
    "dog": ("Hund", "chien", "perro"), "cat": ("Katze", "chat", "gato"), "tree": ("Baum", "arbre", "árbol"),
    "door": ("Tür", "porte", "puerta"), "key": ("Schlüssel", "clé", "llave"), "school": ("Schule", "école", "escuela"),
    "cheese": ("Käse", "fromage", "queso"), "apple": ("Apfel", "pomme", "manzana"), "brother": ("Bruder", "frère", "hermano"),
    "mother": ("Mutter", "mère", "madre"), "moon": ("Mond", "lune", "luna"), "sun": ("Sonne", "soleil", "sol"),
    "snow": ("Schnee", "neige", "nieve"), "night": ("Nacht", "nuit", "noche"), "morning": ("Morgen", "matin", "mañana"),
    "bird": ("Vogel", "oiseau", "pájaro"), "book": ("Buch", "livre", "libro"), "green": ("grün", "vert", "verde"),
    "yellow": ("gelb", "jaune", "amarillo"), "small": ("klein", "petit", "pequeño"), "spoon": ("Löffel", "cuillère", "cuchara"),
    "window": ("Fenster", "fenêtre", "ventana"), "garden": ("Garten", "jardin", "jardín"), "milk": ("Milch", "lait", "leche"),
    "bridge": ("Brücke", "pont", "puente"), "summer": ("Sommer", "été", "verano"), "heart": ("Herz", "cœur", "corazón"),
}
OPPOSITES = dict(p.split() for p in """hot cold|big small|old new|early late|full empty|open closed|wet dry|loud quiet|high low
light dark|fast slow|happy sad|rich poor|strong weak|near far|thick thin|heavy light|deep shallow|hard soft|clean dirty
young old|narrow wide|sweet sour|brave timid""".replace("\n", "|").split("|"))
SURE = ["Sure.", "Of course.", "Gladly.", "Certainly!", "With pleasure.", "Yes."]
MORE = ["Is there anything else?", "Can I help with something else?", "Let me know how it goes.", "Have fun!", "",
        "", "", "I hope that helps.", "🙂", "Good luck!"]
SYSTEMS = ["You are a helpful assistant.", "You answer in short sentences.", "You are a friendly guide in {town}.",
           "You help {name} with everyday questions.", "Be polite and brief.", "You work in the {place} of {town}."]
TIPS = {
    "sleep": ["go to bed at the same hour", "read a quiet book", "leave the phone in the {place}", "open the window", "drink warm milk"],
    "visit {town}": ["see the {place}", "eat {food} by the water", "take the boat on {day}", "rent a bicycle", "climb the old tower",
                     "ask for {name} at the {place}"],
    "learn {hobby}": ["practise on {day}", "ask {name}, who is good at {hobby}", "begin with ten minutes a day", "look for a club in {town}",
                      "watch others first"],
    "look after a {animal}": ["give it fresh water", "clean its place on {day}", "play with it in the {place}", "buy good food for the {animal}",
                              "see the vet in {month}"],
    "cook {food}": ["buy everything on {day}", "chop the onions first", "use a big pot", "taste before you add salt", "ask {name} for help"],
    "clean the {place}": ["open the windows", "begin at the top", "put the {thing} into a box", "wash the floor last", "do it with {name} on {day}"],
}


def values(rng) -> dict:
    pick = rng.choice
    return dict(name=pick(FIRST_NAMES), town=pick(TOWNS), place=pick(PLACES), food=pick(FOODS), day=pick(WEEKDAYS),
                hobby=pick(HOBBIES), animal=pick(ANIMALS), month=pick(MONTHS), thing=pick(THINGS), colour=pick(COLOURS),
                feeling=pick(FEELINGS), season=pick(SEASONS), job=pick(JOBS), goods=pick(GOODS), surname=pick(SURNAMES),
                emoji=pick(EMOJI), n=rng.randint(2, 30), hour=rng.randint(6, 22))


def translation(rng, v):
    word, which = rng.choice(list(DICTIONARY)), rng.randrange(3)
    foreign, language = DICTIONARY[word][which], LANGUAGES[which]
    return (rng.choice([f"How do you say \"{word}\" in {language}?", f"What is the {language} word for {word}?",
                        f"I need the word {word} in {language}."]),
            rng.choice([f"In {language}, \"{word}\" is \"{foreign}\".", f"The {language} word for {word} is \"{foreign}\"."]))


def opposite(rng, v):
    word = rng.choice(list(OPPOSITES))
    return f"What is the opposite of {word}?", f"The opposite of {word} is {OPPOSITES[word]}."


def calendar(rng, v):
    pool, sort = rng.choice([(WEEKDAYS, "day"), (MONTHS, "month")])
    i = rng.randrange(len(pool))
    after = chance(rng, 0.6)
    other = pool[(i + (1 if after else -1)) % len(pool)]
    side = "after" if after else "before"
    return f"Which {sort} comes {side} {pool[i]}?", f"{other} comes {side} {pool[i]}."


def tips(rng, v):
    topic = rng.choice(list(TIPS))
    chosen = rng.sample(TIPS[topic], rng.choice([2, 3, 3, 4]))
    topic = topic.format(**v)
    lines = [f"{i}. {sentence(tip.format(**v))}." for i, tip in enumerate(chosen, 1)]
    number = ["two", "three", "four"][len(chosen) - 2]
    return (a_or_an(rng.choice([f"How can I {topic}?", f"Give me {number} tips: I want to {topic}.", f"I want to {topic}. Any advice?"])),
            a_or_an(rng.choice([f"Here are {number} ideas to {topic}:", f"To {topic}, try this:"]) + "\n\n" + "\n".join(lines)))


def feeling(rng, v):
    reason = rng.choice(["lost my {thing}", "am going to {town} on {day}", "have to get up at {hour}", "bought a {colour} {thing}",
                         "met {name} again", "finished my work", "broke the {thing}", "must talk to Mr {surname}"]).format(**v)
    mirrored = reason.replace("my ", "your ").replace("am going", "are going")
    good = v["feeling"] in ("happy", "proud", "calm", "cheerful", "grateful", "brave", "excited", "curious", "surprised")
    reply = rng.choice(["That is good to hear.", "How nice!", "I am glad."] if good else ["I am sorry to hear that.", "That is not easy.", "Oh no!"])
    return a_or_an(f"I feel {v['feeling']} today, because I {reason}."), a_or_an(f"{reply} You {mirrored}, so it is natural to feel {v['feeling']}.")


def message(rng, v):
    what = rng.choice(["the {thing} is broken", "we need {n} {goods}", "the {animal} is ill", "I come on {day}", "dinner is at {hour}",
                       "the meeting in {town} is in {month}", "I found the {colour} {thing}"]).format(**v)
    closing = rng.choice(["Best wishes", "Thank you", "Yours", "See you soon"])
    return (f"Write a short message to {v['name']}: {what}.",
            f"Dear {v['name']},\n\n{rng.choice(['I hope you are well.', 'just a short note:', 'here is some news.'])} {sentence(what)}.\n\n{closing} {v['emoji']}")


def list_of(rng, v):
    sort, pool = rng.choice([("animals", ANIMALS), ("colours", COLOURS), ("foods", FOODS), ("hobbies", HOBBIES), ("jobs", JOBS), ("towns", TOWNS),
                             ("names", FIRST_NAMES), ("things", THINGS)])
    n = rng.randint(2, 6)
    number = ["two", "three", "four", "five", "six"][n - 2]
    return f"Name {number} {sort}.", f"{number.capitalize()} {sort}: {joined(rng.sample(pool, n))}."


TOPICS = [translation, opposite, calendar, tips, tips, feeling, message, list_of]


def document(rng):
    """Messages of a chat with one to six exchanges; no exact answer to check."""
    v = values(rng)
    messages = []
    if chance(rng, 0.25):
        messages.append(("system", rng.choice(SYSTEMS).format(**v)))
    for turn in range(how_many(rng, [1, 1, 2, 2, 3, 4, 6], 30)):
        question, answer = rng.choice(TOPICS)(rng, values(rng))
        if turn == 0 and chance(rng, 0.4):
            question = rng.choice(["Hello! ", "Hi, I am {name}. ", "Good morning. ", "Hey there. "]).format(**v) + question
            if v["name"] in question and chance(rng, 0.5):
                answer = f"Hello {v['name']}! " + answer
        elif chance(rng, 0.3):
            answer = f"{rng.choice(SURE)} {answer}"
        if turn and chance(rng, 0.3):
            question = rng.choice(["Thank you! ", "Thanks. ", "I see. ", "Good. ", "OK. "]) + question
        if chance(rng, 0.3):
            answer = f"{answer} {rng.choice(MORE)}".strip()
        messages += [("user", question), ("assistant", answer)]
    return messages, None
