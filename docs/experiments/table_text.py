"""What the makers of tables share: a total speedup; numbers, rows and paragraphs in Markdown."""
import textwrap


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


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
