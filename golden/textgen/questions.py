"""A passage of facts about people, then questions whose answers stand in it."""
from .words import (ANIMALS, COLOURS, FIRST_NAMES, FOODS, HOBBIES, JOBS, MONTHS, SURNAMES, THINGS, TOWNS, WEEKDAYS,
                    a_or_an, chance, how_many)

# Each fact: how the passage says it, how one asks for it, how the answer says it.
# {n} is the person, {v} the value; {i} a second value that only the passage has.
FACTS = {
    "town": (TOWNS, ["{n} lives in {v}.", "{n} has a small flat in {v}.", "{n} moved to {v} in {i}."],
             "Where does {n} live?", "{n} lives in {v}."),
    "job": (JOBS, ["{n} works as a {v}.", "{n} is a {v}.", "{n} became a {v} in {i}."],
            "What is the job of {n}?", "{n} is a {v}."),
    "animal": (ANIMALS, ["{n} has a {i} {v}.", "{n} looks after a {i} {v}.", "{n} calls the {i} {v} a good friend."],
               "Which animal does {n} have?", "{n} has a {v}."),
    "hobby": (HOBBIES, ["{n} likes {v}.", "In the evening {n} enjoys {v}.", "On {i} {n} practises {v}."],
              "What does {n} like to do?", "{n} likes {v}."),
    "food": (FOODS, ["{n} often eats {v}.", "The favourite dish of {n} is {v}.", "{n} cooks {v} every {i}."],
             "What is the favourite dish of {n}?", "The favourite dish of {n} is {v}."),
    "thing": (THINGS, ["{n} bought a {i} {v}.", "{n} found a {i} {v}.", "Last week {n} lost a {i} {v}."],
              None, None),
    "age": ([str(a) for a in range(18, 90)], ["{n} is {v} years old.", "{n}, at {v}, is older than {i}."],
            "How old is {n}?", "{n} is {v} years old."),
    "month": (MONTHS, ["{n} was born in {v}.", "The birthday of {n} is in {v}.", "{n} has a birthday on {i} {v}."],
              "In which month was {n} born?", "{n} was born in {v}."),
    "day": (WEEKDAYS, ["{n} is free on {v}.", "{n} has no work on {v}.", "{n} stays at home on {v}."],
            "On which day is {n} free?", "{n} is free on {v}."),
}
INTRODUCTIONS = ["Read this text and answer the question.", "Here is a short text.", "Please read:", "Text:",
                 "I have a question about this passage.", "Some notes about people I know:", "Have a look at this:"]
FURTHER = ["And one more: {}", "{}", "Thanks. {}", "Another question: {}", "Good. {}", "Now tell me: {}"]
REPLIES = ["{answer}", "{answer}", "According to the text, {answer}", "The text says: \"{evidence}\" So {answer}",
           "{answer} The text says: \"{evidence}\"", "It says: \"{evidence}\" This means that {answer}"]
ASIDES = ["The weather was mild that week.", "Nobody was in a hurry.", "It had rained all night.", "The bus was late again.",
          "Everybody knew the story.", "There was a market on the square.", "The summer had been long.", "🙂"]


def detail(rng, fact: str) -> str:
    """The second value of a fact."""
    if fact in ("animal", "thing"):
        return rng.choice(COLOURS)
    if fact == "age":
        return rng.choice(["most friends", "the others at work", "anyone would guess", "many neighbours"])
    if fact == "month":
        return str(rng.randint(1, 28))
    return rng.choice(WEEKDAYS) if fact in ("hobby", "food") else str(rng.randint(1985, 2023))


def passage(rng, n_people: int, n_facts: int):
    """Sentences about n_people, and what can be asked: (question, answer, value, the sentence it stands in)."""
    people = rng.sample(FIRST_NAMES, n_people)
    if chance(rng, 0.3):
        people = [f"{p} {s}" for p, s in zip(people, rng.sample(SURNAMES, n_people))]
    sentences, askable = [], []
    for person in people:
        for fact in rng.sample(list(FACTS), n_facts):
            values, tellings, question, answer = FACTS[fact]
            value = rng.choice(values)
            fill = lambda t: a_or_an(t.format(n=person, v=value, i=detail(rng, fact)))
            sentences.append(fill(rng.choice(tellings)))
            if question:
                askable.append((fill(question), fill(answer), value, sentences[-1]))
        if chance(rng, 0.25):
            sentences.append(rng.choice(ASIDES))
    if chance(rng, 0.5):
        rng.shuffle(sentences)
    return " ".join(sentences), askable


def document(rng):
    """Messages of a chat with one to five questions, and the value the last one asks for."""
    text, askable = passage(rng, how_many(rng, [1, 2, 2, 3, 3, 4, 5], 16), rng.choice([2, 3, 3, 4, 5]))
    asked = rng.sample(askable, min(len(askable), how_many(rng, [1, 2, 3, 4, 5], 16)))
    messages = []
    for turn, (question, answer, value, evidence) in enumerate(asked):
        if turn == 0:
            user = f"{rng.choice(INTRODUCTIONS)}\n\n{text}\n\n{question}"
        else:
            user = rng.choice(FURTHER).format(question)
        messages += [("user", user), ("assistant", rng.choice(REPLIES).format(answer=answer, evidence=evidence))]
    return messages, value
