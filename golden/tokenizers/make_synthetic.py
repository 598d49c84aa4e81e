"""Writes a tokenizer.json in Llama 3's exact structure, with a made-up vocabulary.

    python3 make_synthetic.py OUT.json [--pair-merges]

128,000 byte-level BPE entries, 280,147 merges, 256 special tokens. The same bytes with every
Python from 3.9 on; only the standard library is used. --pair-merges writes the newer spelling
of merges, ["a", "b"] instead of "a b".

The vocabulary grows as if it were trained: a word is split by the merges so far, and the joins
that are still missing become new tokens. As in files converted from tiktoken, the merges are
then all splits of each token into two tokens, in the order of the ids.
"""
import json
import sys

import word_pools as pools

ENTRIES = 128000
MERGES = 280147
UNREACHABLE = 588
FILL = 700  # about so many entries at the end make the number of merges exact
NEVER = 1 << 30
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
           "finetune_right_pad_id", "reserved_special_token_2", "start_header_id", "end_header_id",
           "eom_id", "eot_id", "python_tag"]


class Random:
    """A small linear congruential generator, the same in every Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n

    def pick(self, items):
        return items[self.below(len(items))]


def byte_characters():
    """The character that stands for each byte: printable bytes themselves, the others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, others = {}, 0
    for byte in range(256):
        table[byte] = byte if byte in printable else 0x100 + others
        others += byte not in printable
    return table


class Vocabulary:
    """Tokens as bytes; the rank of a token is its id."""

    def __init__(self, table):
        self.rank = {bytes([b]): i for i, b in enumerate(sorted(range(256), key=lambda b: table[b]))}

    def __len__(self):
        return len(self.rank)

    def pieces(self, word):
        """BPE: the pair whose joined token has the lowest rank is merged first."""
        get = self.rank.get
        parts = [word[i:i + 1] for i in range(len(word))]
        ranks = [get(word[i:i + 2], NEVER) for i in range(len(word) - 1)]
        while ranks:
            best = min(ranks)
            if best == NEVER:
                break
            i = ranks.index(best)
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
            del ranks[i]
            if i > 0:
                ranks[i - 1] = get(parts[i - 1] + parts[i], NEVER)
            if i < len(ranks):
                ranks[i] = get(parts[i] + parts[i + 1], NEVER)
        return parts

    def add(self, text):
        """Adds a word and the tokens on the way to it, so that merging reaches it."""
        word = text.encode()
        if word in self.rank:
            return
        parts = self.pieces(word)
        token = parts[0]
        for part in parts[1:]:
            token += part
            self.rank.setdefault(token, len(self.rank))

    def add_alone(self, text):
        """Adds a word without the tokens on the way to it."""
        self.rank.setdefault(text.encode(), len(self.rank))

    def splits(self, token):
        """The ways to make a token from two others, ordered by their ids."""
        halves = ((token[:i], token[i:]) for i in range(1, len(token)))
        rank = self.rank
        return sorted((rank[a], rank[b]) for a, b in halves if a in rank and b in rank)


def add_words(vocabulary, words, forms):
    """Adds each word in several forms; "{}" is the word, "{C}" capitalised, "{U}" in capitals."""
    for word in words:
        for form in forms:
            vocabulary.add(form.format(word, C=word[:1].upper() + word[1:], U=word.upper()))


def add_beginnings(vocabulary):
    """Letter pairs and a space before a letter, as the first merges of a trained tokenizer are."""
    for pair in ("'s 't 're 've 'm 'll 'd th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se "
                 "ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur el ta la ec us ss un ie").split():
        vocabulary.add(pair)
    for letter in "tasiwocbpfmdhrnelguvyjkqxz":
        vocabulary.add(" " + letter)
        vocabulary.add(" " + letter.upper())
    for syllable in "ing ion ent the and tion ation ment ight ould ever able ough ction ster".split():
        vocabulary.add(syllable)


def add_digits(vocabulary):
    """All numbers of two and three digits."""
    for length in (2, 3):
        for number in range(10 ** length):
            vocabulary.add(str(number).zfill(length))


def add_white_space(vocabulary):
    """Runs of spaces, tabs and line ends, and their mixtures."""
    for length in range(2, 84):
        vocabulary.add(" " * length)
    for length in range(2, 21):
        vocabulary.add("\t" * length)
        vocabulary.add("\n" * length)
    for length in range(1, 9):
        vocabulary.add("\r\n" * length)
    for end in ("\n", "\n\n", "\r\n", "\r\n\r\n", "\t\n", " \n"):
        for length in range(1, 17):
            vocabulary.add(" " * length + end)
            vocabulary.add(end + "\t" * length if "\t" not in end and length < 3 else "\t" * length + end)
    for space in "\u00a0\u3000\u2009\u200b\u2028\ufeff":
        for length in (1, 2, 4):
            vocabulary.add(space * length)


def add_punctuation(vocabulary):
    """Clusters of punctuation as in code and markup."""
    marks = "()[]{}<>.,;:!?'\"`-_=+*/\\|&^%$#@~"
    closers = ")]};:,.>\"'"
    for a in marks:
        vocabulary.add(" " + a)
        for b in marks:
            vocabulary.add(a + b)
    for a in marks:
        for b in closers:
            for tail in ("\n", ";\n", "\n\n", ",\r\n", b, ";", "("):
                vocabulary.add(a + b + tail)
            vocabulary.add(" " + a + b)
    for mark in "-=*#/_.~":
        for length in range(3, 65):
            vocabulary.add(mark * length)
            vocabulary.add(" " + mark * length)


def syllables(random, alphabet, count):
    """Consonants and vowels in turn; low indices come more often, so that words share parts."""
    def often_early(items):
        return items[min(random.below(len(items)), random.below(len(items)))]
    return [often_early(alphabet[i % 2]) for i in range(2 * count)]


def add_pseudo_words(vocabulary, random, until):
    """Made-up words of many alphabets: their last syllables, the word, and the word after a space."""
    alphabets = []
    for consonants, vowels, share in pools.ALPHABETS:
        alphabets += [(consonants.split(), vowels.split())] * share
    start = len(vocabulary)
    while len(vocabulary) < until:
        done = (len(vocabulary) - start) / (until - start)
        parts = syllables(random, random.pick(alphabets), 1 + random.below(2 + int(2 * done)))
        for i in reversed(range(len(parts))):
            vocabulary.add("".join(parts[i:]))
        word = "".join(parts)
        form = random.pick([" {}", " {}", " {}", " {C}", "{C}", "_{}", "{U}"])
        add_words(vocabulary, [word], [form])


def add_east_asian(vocabulary, random, until):
    """Words of two or three Chinese characters or Korean syllables; most have just one split."""
    while len(vocabulary) < until:
        first, size = random.pick([(0x4E00, 0x1500), (0x4E00, 0x1500), (0xAC00, 0x800)])
        word = "".join(chr(first + random.below(size)) for _ in range(2 + random.below(2)))
        vocabulary.add(word if random.below(4) else " " + word)


def add_unreachable(vocabulary, random, count):
    """Words that merging never produces: the merge "th" comes before the only split, or there is no split."""
    before = [t for t in vocabulary.rank if t[:1] == b" " and t[-1:] == b"t" and t[1:].isalpha()]
    after = [t for t in vocabulary.rank if t[:1] == b"h" and t.isalpha() and len(t) > 2]
    want = {True: count // 2, False: count - count // 2}
    while want[True] or want[False]:
        word = random.pick(before) + random.pick(after)
        if not want[True]:
            word = word[:-1] + b"q" + random.pick(after)
        if word in vocabulary.rank or len(vocabulary.pieces(word)) < 3:
            continue
        has_split = bool(vocabulary.splits(word))
        if want[has_split]:
            want[has_split] -= 1
            vocabulary.add_alone(word.decode())


def add_fill(vocabulary, missing):
    """The last entries make the count of merges exact: runs of a box-drawing character (n - 1 splits
    for n characters), then pairs of two different ones (one split each)."""
    box = [chr(code) for code in range(0x2500, 0x2580)]
    extra = missing - (ENTRIES - len(vocabulary))  # what one split for each entry leaves over
    for character in box:
        length = 1
        while length < 60 and extra >= length - 1 and (extra or length == 1):
            length += 1
            extra -= length - 2
            vocabulary.add_alone(character * length)
    for number in range(len(box) * len(box)):
        a, b = box[number // len(box)], box[number % len(box)]
        if a != b and len(vocabulary) < ENTRIES:
            vocabulary.add_alone(a + b)


def make_vocabulary(table):
    """All 128,000 entries; what is common comes first."""
    vocabulary, random = Vocabulary(table), Random(3)
    add_beginnings(vocabulary)
    add_digits(vocabulary)
    add_words(vocabulary, pools.ENGLISH, [" {}", "{}", " {C}", "{C}"])
    add_white_space(vocabulary)
    add_punctuation(vocabulary)
    add_words(vocabulary, pools.CODE, [" {}", "{}", ".{}", "_{}", "({}", "\t{}", "{C}", "_{C}"])
    words = pools.GERMAN + pools.FRENCH + pools.OTHER_LATIN + pools.VIETNAMESE + pools.RUSSIAN + pools.GREEK
    add_words(vocabulary, words, [" {}", "{}", " {C}", "{C}"])
    add_words(vocabulary, pools.ARABIC_ETC + pools.EAST_ASIAN, ["{}", " {}"])
    for first, last in pools.RANGES:
        add_words(vocabulary, map(chr, range(first, last + 1)), ["{}"])
    stems = [stem + end for stem in pools.ENGLISH_STEMS for end in pools.ENGLISH_ENDINGS]
    add_words(vocabulary, stems, [" {}", "{}", " {C}"])
    add_words(vocabulary, pools.ENGLISH, [" {}s", " {}ed", " {}ing", " {}er", " {}ly", " {U}", "{U}"])
    add_pseudo_words(vocabulary, random, 124000)
    add_east_asian(vocabulary, random, ENTRIES - FILL - UNREACHABLE)
    add_unreachable(vocabulary, random, UNREACHABLE)
    add_fill(vocabulary, MERGES - sum(len(vocabulary.splits(token)) for token in vocabulary.rank))
    return vocabulary


def special_tokens():
    """The 256 special tokens, names and ids as in Llama 3.2."""
    names = SPECIAL + [f"reserved_special_token_{n}" for n in range(3, 248)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": ENTRIES + i, "content": f"<|{name}|>", **flags} for i, name in enumerate(names)]


def byte_level(add_prefix_space, trim_offsets, use_regex):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets,
            "use_regex": use_regex}


def template():
    """The post-processor: BOS before each sequence."""
    bos = "<|begin_of_text|>"
    parts = [[{"SpecialToken": {"id": bos, "type_id": i}}, {"Sequence": {"id": name, "type_id": i}}]
             for i, name in enumerate("AB")]
    return {"type": "TemplateProcessing", "single": parts[0], "pair": parts[0] + parts[1],
            "special_tokens": {bos: {"id": bos, "ids": [ENTRIES], "tokens": [bos]}}}


def tokenizer_json(pair_merges):
    """The content of the file."""
    table = byte_characters()
    vocabulary = make_vocabulary(table)
    text = {token: token.decode("latin-1").translate(table) for token in vocabulary.rank}
    names = list(text.values())
    merges = [(names[a], names[b]) for token in vocabulary.rank for a, b in vocabulary.splits(token)]
    assert (len(names), len(merges)) == (ENTRIES, MERGES), (len(names), len(merges))
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
             "vocab": {name: i for i, name in enumerate(names)},
             "merges": merges if pair_merges else [a + " " + b for a, b in merges]}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special_tokens(),
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level(False, True, False)]},
            "post_processor": {"type": "Sequence", "processors": [byte_level(True, False, True), template()]},
            "decoder": byte_level(True, True, True), "model": model}


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    files = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if len(files) != 1 or set(options) - {"--pair-merges"}:
        sys.exit("usage: make_synthetic.py OUT.json [--pair-merges]")
    content = json.dumps(tokenizer_json(bool(options)), ensure_ascii=False, indent=2)
    with open(files[0], "w", encoding="utf-8", newline="\n") as file:
        file.write(content)


if __name__ == "__main__":
    main()
