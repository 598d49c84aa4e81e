"""What the makers of tables share: a register of them; what was measured; numbers, rows and paragraphs in Markdown."""
import statistics
import textwrap

TEXTS = ["arithmetic", "dialogue", "code", "rewriting", "recipes", "stories", "questions", "poems"]
STALE = "**Measured before the last changes of the sources.** "


class Tables(dict):
    """Name -> function of results, which returns the table's text. As a decorator it adds a function under its own name,
    after the prefix. A function may return heads, in one string with bars between them, and rows. otherwise: the text of
    a table without rows. unmeasured: of all tables without results."""

    def __init__(self, prefix="", otherwise=None, unmeasured=None):
        super().__init__()
        self.prefix, self.otherwise, self.unmeasured = prefix, otherwise, unmeasured

    def __call__(self, make):
        def made(results):
            found = self.unmeasured if self.unmeasured and results.data is None else make(results)
            if isinstance(found, str):
                return found
            heads, rows = found
            return markdown(heads.split("|"), rows) if rows or self.otherwise is None else self.otherwise
        self[self.prefix + make.__name__.replace("_", "-")] = made
        return make


class Entries(list):
    """What was measured: flat objects, each with what names its setting, mostly with the kind of text, and with numbers."""

    def of(self, **wanted):
        return Entries(e for e in self if all(e.get(name) == value for name, value in wanted.items()))

    def by(self, *names):
        """The values of these names -> the entries that have them, in order; of one name without a tuple."""
        found = {}
        for e in self:
            key = tuple(e.get(name) for name in names)
            found.setdefault(key if len(names) > 1 else key[0], Entries()).append(e)
        return found

    def total(self, name):
        return sum(e[name] for e in self)

    def ratio(self, above, below):
        """Of two totals; None where the second is 0."""
        return self.total(above) / self.total(below) if self.total(below) else None

    def speedup(self, name="gain"):
        """Of all texts together, by time, where it is known: they are equally long, one after another."""
        seconds = [(1 / e["plain_tokens_per_second"], e[name]) for e in self if e.get(name) is not None]
        return sum(plain for plain, _ in seconds) / sum(plain / gain for plain, gain in seconds) if seconds else None

    def rate(self, name):
        """Tokens per second: all tokens over all seconds, as if all texts were equally long."""
        return statistics.harmonic_mean(e[name] for e in self)

    def rates(self):
        """Plain, with speculation, and their quotient, as cells."""
        plain, fast = self.rate("plain_tokens_per_second"), self.rate("tokens_per_second")
        return [number(plain, 0), number(fast, 0), f"**{number(fast / plain, 1)}x**"]


class Results:
    """A file of results, or None where there is none. stale: the sources have changed since."""

    def __init__(self, data, stale=False):
        self.data, self.stale = data, stale


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def numbers(entry, names):
    """Of an entry; with other digits than two where a name says so: "alpha c:3"."""
    words = (word.partition(":") for word in names.split())
    return [number(entry.get(name), int(digits or 2)) for name, _, digits in words]


def markdown(heads, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [heads, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]]) + "\n"


def prose(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def machine(part):
    """Where and when times were measured, from an entry with date, machine, device and build."""
    build, m = part["build"] or {"compiler": "unknown", "flags": "unknown"}, part["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in m["caches"].items())
    return (f"{part['date']}, {m['cpu']}, {part['device']}, caches {caches}; one thread reads "
            f"{m['read_bandwidth_one_thread_gb_per_s']} GB/s from memory. {build['compiler']}, `{build['flags']}`.")


def smoke(part):
    return " A smoke test: these times mean nothing." if part["quick"] else ""
