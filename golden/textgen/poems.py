"""Short poems made of freely chosen words: hard to predict, so a draft is often wrong."""
from .words import COLOURS, EMOJI, MONTHS, SEASONS, a_or_an, chance, how_many, sentence

# Each field: things, what they do, what they are like, where they are.
FIELDS = {
    "sea": ("wave gull sail harbour tide foam pebble anchor oar reef buoy island shore current whale ferry rope net".split(),
            "drifts rolls breaks shines returns sinks rises calls turns glitters sways roars waits whispers".split(),
            "salty deep restless cold green endless slow foaming distant windy blue shallow wide bitter".split(),
            "under the cliffs|on the sand|beyond the pier|along the coast|behind the dunes|in the bay|over the rocks".split("|")),
    "forest": ("oak fern owl moss beetle mushroom squirrel branch root thrush clearing pine acorn leaf fox badger bark nest".split(),
               "grows listens hides rustles falls climbs sleeps sings creaks bends wakes wanders trembles gathers".split(),
               "mossy dark tall tangled damp ancient hollow shady soft wild crooked fragrant hidden quiet".split(),
               "under the leaves|between the trunks|near the stream|in the thicket|behind the ferns|on the path|above the roots".split("|")),
    "town": ("tram bell window chimney square lamp baker stair roof clock alley poster pigeon bench door bridge tower café".split(),
             "rings hurries opens closes hums gleams smokes knocks passes laughs echoes lingers flickers pauses".split(),
             "crowded narrow bright noisy dusty lit busy paved tiled rusty empty painted leaning late".split(),
             "at the corner|across the street|over the roofs|near the station|in the yard|beside the fountain|behind the shop".split("|")),
    "field": ("lark poppy plough mill barley crow scarecrow furrow gate cart hare sheaf hedge meadow bee clover stork fence".split(),
              "ripens ploughs hops nods sways steams blooms circles rests stretches glows yawns fades returns".split(),
              "golden ripe flat stony wide sunny muddy fallow sweet warm dry open drowsy tender".split(),
              "beyond the hedge|by the barn|in the stubble|along the ditch|over the hill|at the gate|among the poppies".split("|")),
    "winter": ("snow icicle sledge robin fire frost glove star chimney pond coat breath candle wolf blanket kettle drift ice".split(),
               "freezes melts crackles settles glitters sleeps waits drifts shivers glows darkens thaws falls stays".split(),
               "white frozen pale bare silent early brittle long icy blue starry numb soft still".split(),
               "on the sill|under the eaves|by the stove|across the pond|in the drift|behind the glass|over the lane".split("|")),
}
TITLES = ["{A} {n}", "The {a} {n}", "{N} in {month}", "Of {n} and {m}", "{season}, {n}", "To {n} and {m}", "A {n} {place}"]
LINES = ["the {a} {n} {v} {p}", "a {n} {v}, {a} and {b}", "{p} {v} a {a} {n}", "and the {n} {v}", "{a} is the {n} {p}",
         "where {a} {n} meets {b} {m}", "no {n} {v} {p}", "{n}, {m} and a {a} night", "O {a} {n} – how it {v}!",
         "I saw the {n} {p}", "you {p}, the {n} too", "all {season} the {a} {n} {v}", "only the {n} {v}",
         "{a} {n}, {b} {m}", "does the {n} dream of {m}?", "{colour} {n} {p}", "like a {n} that {v}", "one {n} {v}, one {m} waits"]


class Deck:
    """Deals words without repeating one until all are used."""

    def __init__(self, rng, words):
        self.rng, self.words, self.left = rng, list(words), []

    def deal(self) -> str:
        if not self.left:
            self.left = self.words[:]
            self.rng.shuffle(self.left)
        return self.left.pop()


def filler(rng):
    """A function that fills a line with words of one field."""
    nouns, verbs, likes, places = (Deck(rng, w) for w in FIELDS[rng.choice(list(FIELDS))])
    colours = Deck(rng, COLOURS)

    def fill(template: str) -> str:
        like, place = likes.deal(), places.deal()
        return a_or_an(template.format(
            n=nouns.deal(), m=nouns.deal(), v=verbs.deal(), a=like, b=likes.deal(), A=sentence(like), N=sentence(nouns.deal()),
            p=place, place=place, month=rng.choice(MONTHS), season=rng.choice(SEASONS), colour=colours.deal()))
    return fill


def verse(rng, n_lines: int, fill=None) -> str:
    fill = fill or filler(rng)
    return "\n".join(fill(rng.choice(LINES)) for _ in range(n_lines))


def document(rng):
    """The text of one to four poems, and where the prompt ends: in the first, after some lines."""
    poems, prompt_end = [], 0
    for number in range(how_many(rng, [1, 1, 2, 2, 3, 4], 20)):
        fill = filler(rng)
        verses = [verse(rng, rng.choice([2, 3, 4, 4, 5]), fill) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
        body = "\n\n".join(verses)
        if number == 0:
            title = sentence(fill(rng.choice(TITLES)))
            prompt_end = len(title) + 2 + body.index("\n") + 1
            poems.append(f"{title}\n\n{body}")
        else:
            poems.append(f"{sentence(fill(rng.choice(TITLES)))}\n\n{body}")
        if chance(rng, 0.1):
            poems[-1] += " " + rng.choice(EMOJI)
    return "\n\n***\n\n".join(poems) + "\n", prompt_end
