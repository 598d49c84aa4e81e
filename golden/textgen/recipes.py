"""Recipes and other lists: what the list names comes back in the steps."""
from .words import FIRST_NAMES, GOODS, THINGS, TOWNS, WEEKDAYS, chance, how_many, joined, sentence

BASES = "potatoes|rice|noodles|lentils|beans|mushrooms|carrots|pumpkin|spinach|leeks|cabbage|chickpeas|tomatoes|fennel".split("|")
EXTRAS = "onions|garlic|celery|peas|peppers|olives|capers|walnuts|raisins|dates|ginger|parsley|basil|chives|dill|mint".split("|")
LIQUIDS = "milk|cream|stock|water|coconut milk|tomato juice|white wine|apple juice".split("|")
FATS = "butter|olive oil|sunflower oil|sesame oil".split("|")
SPICES = "pepper|paprika|cumin|nutmeg|thyme|curry powder|cinnamon|rosemary|jalapeño flakes".split("|")
STYLES = "quick creamy spicy baked simple warm rustic golden festive light hearty crispy".split()
DISHES = "soup stew pie salad gratin curry bake pan soufflé purée".split()
TOOLS = "pot pan bowl dish casserole".split()
VERBS = "Chop Wash Peel Slice Dice Rinse".split()
PACKING = [w.strip() for w in """passport|toothbrush|raincoat|torch|map|sandwiches|water bottle|first-aid kit|sleeping bag|pocket knife
sun hat|spare socks|notebook|pencils|phone charger|woollen gloves|swimming trunks|bird book|matches|tin opener|rope|soap
towel|plasters|tent pegs|playing cards|tea flask|camera|walking boots|binoculars|umbrella|whistle""".replace("\n", "|").split("|")]


def amount(rng, sort: str) -> str:
    if sort == "solid":
        return rng.choice([f"{rng.choice([50, 100, 150, 200, 250, 300, 400, 500])} g of", f"{rng.randint(2, 9)} handfuls of"])
    if sort == "liquid":
        return rng.choice([f"{rng.choice([50, 100, 150, 200, 250, 300, 500, 750])} ml of", f"{rng.randint(1, 3)} cups of", "½ cup of"])
    return rng.choice([f"{rng.randint(1, 4)} spoons of", "a pinch of", "½ spoon of", "¼ spoon of", "a little"])


def recipe(rng) -> list[str]:
    """Title, ingredients, and steps that go through the ingredients in their order."""
    base, fat, liquid, spice = (rng.choice(p) for p in (BASES, FATS, LIQUIDS, SPICES))
    extras = rng.sample(EXTRAS, rng.choice([1, 2, 2, 3, 4]))
    style, dish, tool = rng.choice(STYLES), rng.choice(DISHES), rng.choice(TOOLS)
    persons, minutes, degrees = rng.randint(2, 8), rng.choice([5, 10, 15, 20, 25, 30, 40, 45, 60]), rng.choice(range(140, 241, 10))
    lines = [f"{sentence(style)} {base} {dish} for {persons}", "", "You need:", f"- {amount(rng, 'solid')} {base}"]
    lines += [f"- {amount(rng, 'solid')} {e}" for e in extras]
    lines += [f"- {amount(rng, 'small')} {fat}", f"- {amount(rng, 'liquid')} {liquid}", f"- {amount(rng, 'small')} {spice}", ""]
    steps = [f"{rng.choice(VERBS)} the {base}."]
    steps += [f"{rng.choice(VERBS)} the {joined(extras)}."]
    steps += [f"Heat the {fat} in a {tool} and add the {extras[0]}." if chance(rng, 0.6) else f"Put the {fat} into a {tool}."]
    steps += [f"Add the {base} and the {liquid}.", f"Season with {spice} and salt."]
    steps += [rng.choice([f"Bake at {degrees} °C for {minutes} minutes.", f"Cook for {minutes} minutes.",
                          f"Leave it on a low heat for {minutes} minutes.", f"Put the {tool} into the oven at {degrees} °C for {minutes} minutes."])]
    steps += [rng.choice([f"Serve the {dish} with the rest of the {extras[-1]}.", f"Serve the {dish} hot.", f"This {dish} is enough for {persons}.",
                          f"Let the {dish} rest, then serve it with {rng.choice(EXTRAS)}.", "Enjoy your meal!"])]
    return lines + [f"{i}. {step}" for i, step in enumerate(steps, 1)]


def packing_list(rng) -> list[str]:
    """What each person brings, then who brings what, the other way round."""
    people = rng.sample(FIRST_NAMES, rng.choice([2, 3, 4]))
    town, day = rng.choice(TOWNS), rng.choice(WEEKDAYS)
    items = rng.sample(PACKING, len(people) * rng.choice([2, 3, 4]))
    each = len(items) // len(people)
    lines = [f"To take along to {town} on {day}", ""]
    for i, person in enumerate(people):
        lines += [f"{person}:"] + [f"- {item}" for item in items[i * each:(i + 1) * each]] + [""]
    lines += ["In short:"]
    for i, person in enumerate(people):
        lines.append(f"- {person} brings the {joined(items[i * each:(i + 1) * each])}.")
    return lines


def plan(rng) -> list[str]:
    """A week's plan with times, and a reminder for each day."""
    who = rng.choice(FIRST_NAMES)
    start, n = rng.randrange(7), rng.choice([2, 3, 4, 5, 7])
    days = [WEEKDAYS[(start + i) % 7] for i in range(n)]
    tasks = [rng.choice([f"buy {rng.randint(2, 40)} {rng.choice(GOODS)}", f"mend the {rng.choice(THINGS)}",
                         f"fetch the {rng.choice(THINGS)} from {rng.choice(TOWNS)}", f"call {rng.choice(FIRST_NAMES)}",
                         f"cook {rng.choice(BASES)} with {rng.choice(EXTRAS)}"]) for _ in days]
    hours = [f"{rng.randint(7, 20)}:{rng.choice(['00', '15', '30', '45'])}" for _ in days]
    lines = [f"Plan of {who}, {days[0]} to {days[-1]}", ""]
    lines += [f"* {day}, {hour}: {task}" for day, hour, task in zip(days, hours, tasks)]
    return lines + ["", "Do not forget:"] + [f"* {who} must {task} on {day} at {hour}." for day, hour, task in zip(days, hours, tasks)]


def document(rng):
    """The text of one to four lists, and where the prompt ends: some lines into the first."""
    make = rng.choice([recipe, recipe, recipe, packing_list, plan])
    lists = [make(rng) for _ in range(how_many(rng, [1, 1, 2, 2, 3, 4], 10))]
    prompt_end = len("\n".join(lists[0][:rng.randint(3, 6)])) + 1
    return "\n\n---\n\n".join("\n".join(lines) for lines in lists) + "\n", prompt_end
