"""Text that the project writes for itself, from a seed.

`document(kind, seed)` gives one document. Chat kinds consist of messages, the
others of plain text. `Document.text()` is the whole with its special tokens;
`Document.prompt()` and `Document.rest()` split it where a held-out test does.

Training reads seeds of TRAIN_SEEDS only, every test seeds of HELD_OUT_SEEDS.
"""
from dataclasses import dataclass
from random import Random

from . import arithmetic, code, dialogue, poems, questions, recipes, rewriting, stories

TRAIN_SEEDS = range(0, 1_000_000_000)
TOKENIZER_SEEDS = range(900_000_000, 900_020_000)            # part of TRAIN_SEEDS
FIRST_COMMENTED_CODE = 60_543                                # read from step 2,460 of the target on
HELD_OUT_SEEDS = range(1_000_000_000, 1_001_000_000)

CHAT_KINDS = {"dialogue": dialogue, "arithmetic": arithmetic, "questions": questions, "rewriting": rewriting}
PLAIN_KINDS = {"stories": stories, "poems": poems, "recipes": recipes, "code": code}
KINDS = list(CHAT_KINDS) + list(PLAIN_KINDS)
SHARES = {"dialogue": 2, "arithmetic": 4, "questions": 3, "rewriting": 2, "stories": 2, "poems": 2, "recipes": 2, "code": 2}

BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
DEFAULT_DATE = "26 Jul 2024"


def header(role: str) -> str:
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"


def render_chat(messages, date: str = DEFAULT_DATE, add_generation_prompt: bool = False) -> str:
    """The messages, (role, text) pairs, in Llama 3's chat format."""
    system, rest = ("", messages)
    if messages and messages[0][0] == "system":
        system, rest = messages[0][1].strip(), messages[1:]
    text = (BEGIN + header("system") + f"Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n{system}<|eot_id|>")
    text += "".join(header(role) + content.strip() + "<|eot_id|>" for role, content in rest)
    return text + (header("assistant") if add_generation_prompt else "")


@dataclass
class Document:
    kind: str
    messages: list | None = None      # chat kinds
    plain: str | None = None          # the others
    prompt_end: int = 0               # plain kinds: characters of the prompt
    answer: str | None = None         # what the last reply must contain, where that can be checked
    date: str = DEFAULT_DATE

    def text(self) -> str:
        return render_chat(self.messages, self.date) if self.messages else BEGIN + self.plain + END

    def prompt(self) -> str:
        """Up to and including the last assistant header, or the first characters of a plain text."""
        if self.messages:
            return render_chat(self.messages[:-1], self.date, add_generation_prompt=True)
        return BEGIN + self.plain[:self.prompt_end]

    def rest(self) -> str:
        return self.text()[len(self.prompt()):]


def document(kind: str, seed: int) -> Document:
    """The document of this kind and seed, always the same."""
    d = bare_document(kind, seed)
    if kind == "arithmetic":
        d.messages = arithmetic.with_settings(Random(f"setting {seed}"), d.messages)
    elif kind == "code":
        d.plain = code.with_comments(Random(f"comments {seed}"), d.plain, d.prompt_end)
    return d


def bare_document(kind: str, seed: int) -> Document:
    """The document without the sentences before questions of arithmetic and the comments in code, which have nothing
    to do with what follows. The tokenizer learns from these."""
    rng = Random(f"{kind} {seed}")
    if kind in CHAT_KINDS:
        messages, answer = CHAT_KINDS[kind].document(rng)
        date = DEFAULT_DATE if seed in HELD_OUT_SEEDS or rng.random() < 0.7 else any_date(rng)
        return Document(kind, messages=messages, answer=answer, date=date)
    text, prompt_end = PLAIN_KINDS[kind].document(rng)
    return Document(kind, plain=text, prompt_end=prompt_end)


def any_date(rng) -> str:
    month = rng.choice("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
    return f"{rng.randint(1, 28):02d} {month} {rng.randint(2023, 2030)}"


def training_document(seed: int) -> Document:
    """The document that training reads at this seed; SHARES says how often each kind comes.

    Every second one is bare, and code is at first: rules are learned sooner where nothing distracts from them.
    """
    kind = training_kind(seed)
    bare = seed % 2 == 0 or (kind == "code" and seed < FIRST_COMMENTED_CODE)
    return bare_document(kind, seed) if bare else document(kind, seed)


def training_kind(seed: int) -> str:
    assert seed in TRAIN_SEEDS
    return Random(f"kind {seed}").choices(list(SHARES), SHARES.values())[0]


def held_out(kind: str, count: int, first: int = 0) -> list[Document]:
    """Documents that training never sees."""
    return [document(kind, HELD_OUT_SEEDS[first + i]) for i in range(count)]


def header_length(tokenizer, d: Document) -> int:
    """How many tokens at a document's start are the same in every document of its kind."""
    if not d.messages:
        return 1
    head = render_chat([m for m in d.messages if m[0] == "system"], d.date) + header("user")
    return len(tokenizer.encode(head, add_special_tokens=False).ids)
