"""What the makers of tables share: a register of them; a total speedup; numbers, rows and paragraphs in Markdown."""
import textwrap

TEXTS = ["arithmetic", "dialogue", "code", "rewriting", "recipes", "stories", "questions", "poems"]
STALE = "**Measured before the last changes of the sources.** "


class Tables(dict):
    """Name -> function of results, which returns the table's text. As a decorator it adds a function under its own name,
    after the prefix. A function may return heads, in one string with bars between them, and rows. otherwise: the text of
    a table without rows."""

    def __init__(self, prefix="", otherwise=None):
        super().__init__()
        self.prefix, self.otherwise = prefix, otherwise

    def __call__(self, make):
        def made(results):
            found = make(results)
            if isinstance(found, str):
                return found
            heads, rows = found
            return markdown(heads.split("|"), rows) if rows or self.otherwise is None else self.otherwise
        self[self.prefix + make.__name__.replace("_", "-")] = made
        return make


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


def speedup_by_time(texts):
    """Of equally long texts, one after another: each has the seconds of plain decoding, and its speedup."""
    return sum(plain for plain, _ in texts) / sum(plain / speedup for plain, speedup in texts) if texts else None


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
