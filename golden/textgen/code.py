"""Small programs: classes with fields and methods that repeat the fields' names."""
from .rewriting import letter
from .words import ANIMALS, JOBS, THINGS, chance, how_many

FIELD_TYPES = {
    "int": ("count size age number level weight height score price total limit index width length year".split(),
            lambda rng: str(rng.choice([0, 1, 2, 5, 10, 100, rng.randint(3, 99)]))),
    "str": ("name title colour town label owner street language author kind message".split(),
            lambda rng: rng.choice(['""', '"none"', '"new"', '"Zoë"', '"café"', '"?"'])),
    "bool": ("open ready active visible full broken sold".split(), lambda rng: rng.choice(["True", "False"])),
    "list": ("items parts notes friends pages tags orders scores".split(), lambda rng: "[]"),
}
CLASS_PREFIXES = "Old Big Small Fast Wooden Open Shared Local Simple Paper Glass Garden Travel City".split()
DONE = ["return self", "return True", "return None"]


def class_name(rng) -> list[str]:
    """The words of a class's name."""
    noun = rng.choice(THINGS + ANIMALS + JOBS)
    return [rng.choice(CLASS_PREFIXES).lower(), noun] if chance(rng, 0.5) else [noun]


def methods_for(rng, field: str, type_: str) -> list[str]:
    """One method that works with a field, chosen among those that suit its type."""
    step = rng.choice([1, 2, 5, 10])
    limit = rng.randint(2, 99)
    if type_ == "int":
        return rng.choice([
            [f"def add_{field}(self, {field}: int) -> int:", f"    self.{field} += {field}", f"    return self.{field}"],
            [f"def raise_{field}(self):", f"    self.{field} = self.{field} + {step}", f"    {rng.choice(DONE)}"],
            [f"def is_{field}_above(self, limit: int = {limit}) -> bool:", f"    return self.{field} > limit"],
            [f"def check_{field}(self):", f"    if self.{field} < {limit}:",
             f'        raise ValueError("{field} is below {limit}")', f"    return self.{field}"],
            [f"def double_{field}(self) -> int:", f"    return 2 * self.{field}"]])
    if type_ == "str":
        return rng.choice([
            [f"def set_{field}(self, {field}: str):", f"    self.{field} = {field}.strip()", f"    {rng.choice(DONE)}"],
            [f"def has_{field}(self) -> bool:", f'    return self.{field} != ""'],
            [f"def show_{field}(self):", f'    print("{field}:", self.{field})'],
            [f"def upper_{field}(self) -> str:", f"    return self.{field}.upper()"]])
    if type_ == "bool":
        return rng.choice([
            [f"def is_{field}(self) -> bool:", f"    return self.{field}"],
            [f"def toggle_{field}(self):", f"    self.{field} = not self.{field}", f"    return self.{field}"]])
    item = field.rstrip("s")
    return rng.choice([
        [f"def add_{item}(self, {item}):", f"    self.{field}.append({item})", f"    return len(self.{field})"],
        [f"def clear_{field}(self):", f"    self.{field} = []", f"    {rng.choice(DONE)}"],
        [f"def print_{field}(self):", f"    for {item} in self.{field}:", f"        print({item})"],
        [f"def find_{item}(self, name: str):", f"    for {item} in self.{field}:",
         f"        if {item}.name == name:", f"            return {item}", "    return None"]])


def a_class(rng, words: list[str]) -> str:
    """A class of two to six fields with its constructor and some methods."""
    sorts = [(f, t) for t, (names, _) in FIELD_TYPES.items() for f in names]
    fields = rng.sample(sorts, rng.choice([2, 3, 3, 4, 5, 6]))
    lines = [f"class {''.join(w.capitalize() for w in words)}:"]
    if chance(rng, 0.6):
        lines += [f'    """A {" ".join(words)} with {fields[0][0]} and {fields[1][0]}."""', ""]
    arguments = ", ".join(f"{f}: {t} = {FIELD_TYPES[t][1](rng)}" if t != "list" else f"{f}: {t}"
                          for f, t in sorted(fields, key=lambda x: x[1] != "list"))
    lines.append(f"    def __init__(self, {arguments}):")
    lines += [f"        self.{f} = {f}" for f, _ in sorted(fields, key=lambda x: x[1] != "list")]
    for field, type_ in fields:
        chosen = [methods_for(rng, field, type_) for _ in range(rng.choice([0, 1, 1, 2]))]
        for method in {m[0]: m for m in chosen}.values():
            lines += [""] + ["    " + line for line in method]
    return "\n".join(lines)


def a_function(rng) -> str:
    """A function that goes through a list."""
    thing = rng.choice(THINGS + ANIMALS)
    field = rng.choice(FIELD_TYPES["int"][0])
    things = thing + "s"
    head = rng.choice([
        (f"def count_{things}({things}: list, limit: int = {rng.randint(1, 50)}) -> int:",
         ["total = 0", f"for {thing} in {things}:", f"    if {thing}.{field} > limit:", "        total += 1", "return total"]),
        (f"def largest_{thing}({things}: list):",
         [f"best = {things}[0]", f"for {thing} in {things}:", f"    if {thing}.{field} > best.{field}:", f"        best = {thing}", "return best"]),
        (f"def sum_{field}({things}: list) -> int:",
         ["total = 0", f"for {thing} in {things}:", f"    total += {thing}.{field}", "return total"]),
        (f"def names_of({things}: list) -> list:",
         ["names = []", f"for {thing} in {things}:", f"    names.append({thing}.name)", "return names"])])
    return "\n".join([head[0]] + ["    " + line for line in head[1]])


def document(rng):
    """The text of a file, and where the prompt ends: within its first class or function."""
    parts = []
    for _ in range(how_many(rng, [1, 2, 2, 3, 4, 5], 14)):
        parts.append(a_class(rng, class_name(rng)) if chance(rng, 0.7) else a_function(rng))
    lines = parts[0].split("\n")
    keep = max(2, min(len(lines) - 2, rng.randint(3, 9)))
    prompt_end = len("\n".join(lines[:keep])) + 1
    return "\n\n\n".join(parts) + "\n", prompt_end


def with_comments(rng, text: str, prompt_end: int) -> str:
    """The file with a remark before every third definition after the prompt; its words say nothing about the code."""
    lines = []
    for line in text[prompt_end:].split("\n"):
        if line.lstrip().startswith(("def ", "class ")) and chance(rng, 0.35):
            indent = line[:len(line) - len(line.lstrip())]
            lines.append(f"{indent}# {letter(rng, 1)}")
        lines.append(line)
    return text[:prompt_end] + "\n".join(lines)
