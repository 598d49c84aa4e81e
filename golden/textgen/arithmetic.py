"""Arithmetic in chat form: the steps are written down and end in "The answer is N."."""
from .rewriting import letter
from .words import FIRST_NAMES, FRUITS, GOODS, chance, how_many

OPENINGS = ["Let me work it out step by step.", "Step by step:", "Here are the steps.", "Let us see.", "First the steps:",
            "I split it into small steps.", "We go digit by digit.", "No problem."]
ASKING = ["What is {}?", "Please compute {}.", "How much is {}?", "Can you work out {} for me?", "Calculate {}.",
          "I need {}. What does it make?", "Tell me {}, please.", "Solve {}."]
AGAIN = ["And {}?", "Now {}.", "What about {}?", "Next: {}.", "Then {}, please.", "Good. And {}?", "Thanks! Now {}."]


def add_steps(a: int, b: int) -> list[str]:
    """Column addition of two numbers below 100."""
    ones, tens = a % 10 + b % 10, a // 10 + b // 10
    carry = ones // 10
    steps = [f"Ones: {a % 10} + {b % 10} = {ones}, write {ones % 10}, carry {carry}."]
    steps.append(f"Tens: {a // 10} + {b // 10} + {carry} = {tens + carry}.")
    return steps


def subtract_steps(a: int, b: int) -> list[str]:
    """Column subtraction of two numbers below 100, a >= b."""
    borrow = int(a % 10 < b % 10)
    ones = a % 10 + 10 * borrow
    steps = [f"Ones: {ones} - {b % 10} = {ones - b % 10}, borrow {borrow}."]
    steps.append(f"Tens: {a // 10} - {b // 10} - {borrow} = {a // 10 - b // 10 - borrow}.")
    return steps


def multiply_steps(a: int, b: int) -> list[str]:
    """A number below 10 times one below 100, split into tens and ones."""
    tens, ones = a * (b // 10) * 10, a * (b % 10)
    return [f"Split {b} into {b // 10 * 10} and {b % 10}.",
            f"{a} × {b // 10 * 10} = {tens}.", f"{a} × {b % 10} = {ones}.", f"{tens} + {ones} = {tens + ones}."]


def problem(rng):
    """A question, the steps of its solution, and the answer."""
    kind = rng.choice("++--×")
    if kind == "+":
        a, b = rng.randint(11, 99), rng.randint(11, 99)
        return "+", a, b, add_steps(a, b), a + b
    if kind == "-":
        b, a = sorted((rng.randint(11, 99), rng.randint(11, 99)))
        return "-", a, b, subtract_steps(a, b), a - b
    a, b = rng.randint(2, 9), rng.randint(11, 19)
    return "×", a, b, multiply_steps(a, b), a * b


def told_as_story(rng, sign: str, a: int, b: int) -> str:
    """The same problem in words."""
    one, two = rng.sample(FIRST_NAMES, 2)
    what = rng.choice(FRUITS + GOODS)
    if sign == "+":
        return rng.choice([
            f"{one} has {a} {what} and {two} has {b}. How many {what} do they have together?",
            f"{one} had {a} {what} and bought {b} more. How many {what} are there now?",
            f"There are {a} {what} in one box and {b} in the other. How many {what} are there in all?",
            f"{one} found {a} {what}, then {two} brought {b} {what}. How many is that?"])
    if sign == "-":
        return rng.choice([
            f"{one} had {a} {what} and gave {b} of them to {two}. How many {what} are left?",
            f"Of {a} {what}, {b} were sold. How many remain?",
            f"{one} needs {a} {what} and has {b}. How many {what} are missing?",
            f"{one} had {a} {what} and lost {b}. How many {what} does {one} still have?"])
    return rng.choice([
        f"There are {a} boxes with {b} {what} each. How many {what} is that?",
        f"{one} buys {a} bags of {b} {what}. How many {what} does {one} have?",
        f"{a} children bring {b} {what} each. How many {what} do they bring?"])


def document(rng):
    """Messages of a chat about one to four problems, and the last answer."""
    messages = []
    for turn in range(how_many(rng, [1, 1, 1, 2, 2, 3, 4], 20)):
        sign, a, b, steps, answer = problem(rng)
        if chance(rng, 0.45):
            question = told_as_story(rng, sign, a, b)
            opening = f"We need {a} {sign} {b}."
        else:
            question = rng.choice(AGAIN if turn else ASKING).format(f"{a} {sign} {b}")
            opening = rng.choice(OPENINGS)
        lines = [opening] + steps + [f"The answer is {answer}."]
        messages += [("user", question), ("assistant", "\n".join(lines))]
    return messages, str(answer)


def with_settings(rng, messages):
    """The chat with one or two sentences before each question that have nothing to do with it."""
    return [(role, f"{letter(rng, rng.choice([1, 2]))} {text}" if role == "user" else text) for role, text in messages]
