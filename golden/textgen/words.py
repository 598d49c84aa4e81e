"""Word pools and small helpers that all kinds of text share."""
import re

FIRST_NAMES = """Anna Ben Clara David Emma Felix Grace Hugo Ida Jonas Kira Leo Mia Noah Olga Paul Rosa Sam Tessa Uwe
Vera Walter Yara Zoë Chloë Renée André Björn Jürgen Søren Łukasz Zofia José María Inés Raúl Núria João Élise Héloïse
François Márta Zoltán Ágnes Dvora Amir Leila Farid Nadia Tariq Priya Arjun Meera Ravi Sunita Kenji Yuki Haruto Aiko
Mei Lin Wei Jin Minh Linh Kofi Ama Kwame Zuri Amina Thabo Naledi Sipho Lars Ingrid Astrid Freja Mikkel Sven Elin Aino
Eero Mika Olena Taras Ivana Marek Petra Tomáš Jana Nikos Eleni Luca Giulia Marco Bianca Carlos Lucía Diego Valeria
Owen Bronwyn Fiona Callum Aoife Niamh Oscar Ruth Simon Hannah Judith Peter Martha Victor Wanda Edgar Nora Otto Lena""".split()
SURNAMES = """Müller Weber Koch Brandt Lindqvist Sørensen Hansen Núñez García Moreau Lefèvre Dubois Rossi Conti Novák Dvořák
Kowalski Nowak Horváth Popescu Tanaka Sato Nguyen Tran Patel Sharma Okafor Mensah Dlamini Haddad Karimi Petrov Virtanen
Murphy Walsh Fraser Baker Carter Fisher Turner Hill Marsh Stone Brook Field Ferreira Almeida Çelik Yılmaz Öztürk""".split()
TOWNS = """Zürich Bern Basel Lyon Nîmes Orléans Köln Lübeck Görlitz Malmö Örebro Århus Oslo Tromsø Tampere Tartu Riga Gdańsk
Łódź Brno Plzeň Győr Pécs Graz Linz Trento Parma Ravenna Bari Cádiz Málaga León Évora Porto Braga Coimbra Galway Cork
Leeds York Bath Dundee Utrecht Delft Ghent Bruges Split Zadar Varna Patras Izmir Tunis Fez Accra Nairobi Pune Kochi
Osaka Nara Kyoto Hanoi Cusco Quito Salta Mérida Oaxaca Québec Halifax""".split()
JOBS = """baker teacher nurse carpenter gardener painter pilot farmer tailor plumber librarian cook florist dentist potter
driver translator photographer mechanic beekeeper fisherman violinist chemist postman waiter engineer sailor welder""".split()
ANIMALS = """cat dog horse goat rabbit parrot tortoise hen duck donkey hamster ferret pony canary goose sheep""".split()
COLOURS = """red blue green yellow black white grey brown purple orange pink silver golden violet turquoise crimson""".split()
THINGS = """lamp bicycle kite drum violin ladder basket blanket mirror clock kettle umbrella suitcase hammer teapot coat
scarf guitar telescope notebook compass lantern boat map key ring coin bottle candle box letter camera hat bell vase
puzzle chair bucket shovel whistle sledge backpack necklace""".split()
FRUITS = """apples pears plums cherries lemons oranges peaches figs melons grapes apricots limes""".split()
GOODS = """pencils stamps marbles shells buttons eggs books cards stickers tickets candles coins nails cups bricks tiles
beads ribbons postcards""".split()
PLACES = """kitchen garden cellar attic barn workshop library station harbour market park school bakery museum hospital
theatre orchard stable greenhouse garage bridge lighthouse mill castle hotel café""".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASONS = "spring summer autumn winter".split()
FOODS = """soup bread rice noodles cheese salad pancakes porridge dumplings stew omelette pie curry risotto toast
crêpes gnocchi jalapeños muesli""".split()
HOBBIES = """chess painting swimming singing hiking knitting fishing cycling pottery dancing reading skating climbing
rowing gardening baking""".split()
FEELINGS = """happy tired proud nervous calm curious hungry sleepy cheerful lonely grateful worried brave surprised
excited annoyed""".split()
EMOJI = "🙂 🎉 🌧 ☀️ 🐝 🍎 🚲 🎈 🌍 ⭐ 🐈 🍞".split()


def a_or_an(text: str) -> str:
    """The text with "an" where a vowel follows: "an apple"."""
    return re.sub(r"\b([Aa]) (?=[aeiouAEIOUéöÖÉ])", r"\1n ", text)


def joined(words, last="and") -> str:
    """Words as an English list: "a, b and c"."""
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"


def sentence(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]


def chance(rng, probability: float) -> bool:
    return rng.random() < probability


def how_many(rng, usual: list[int], long: int) -> int:
    """One of the usual numbers; once in 25 times the large one, which makes a long document."""
    return long if chance(rng, 0.04) else rng.choice(usual)
