"""Finds misspelt words in the pages: those that neither the English word list of the system
(Debian package wbritish) nor docs/words.txt has.

Code, formulas in dollars, addresses, names with capitals inside and words of one or two letters are
not looked at.

usage: python3 tests/course spelling [PAGE...]     all Markdown pages by default
exit code: 1 where a word is unknown; 77 (NOT CHECKED) where the system has no English word list
"""
import pathlib
import re
import sys

from authoring import pages

ENGLISH = pathlib.Path("/usr/share/dict/british-english")
TERMS = pages.ROOT / "docs/words.txt"
NO_PROSE = re.compile(
    r"\$\$.+?\$\$|\$[^\s$][^$\n]*\$"          # formulas
    r"|\]\([^)\n]*\)|<[^>\n]+>|https?://\S+"  # link targets, tags, addresses
    r"|\S*[_\\/@=^]\S*", re.DOTALL)           # paths, names of code, formulas in text
WORD = re.compile(r"(?<![\w'’.+&#])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w])")


def words_of(text):
    """The words of a text in lower case."""
    return {word.strip().lower() for word in text.splitlines() if not word.startswith("#")}


def known(word, words):
    """Whether the word, or what stands before its 's, is one of the words."""
    word = word.replace("’", "'").lower()
    return word in words or re.sub(r"'s?$", "", word) in words


def looked_at(word):
    return len(word) > 2 and not any(letter.isupper() for letter in word[1:])


def unknown(text, words):
    """The unknown words of a page's text: (line number, word)."""
    prose = NO_PROSE.sub(pages.blank, pages.without_code(text))
    for number, line in enumerate(prose.split("\n"), 1):
        for word in WORD.findall(line):
            if looked_at(word) and not known(word, words):
                yield number, word


def main(arguments):
    if not ENGLISH.exists():
        print(f"spelling: NOT CHECKED: {ENGLISH} is missing (Debian package wbritish)")
        return 77
    words = words_of(ENGLISH.read_text(encoding="utf-8")) | words_of(TERMS.read_text(encoding="utf-8"))
    wrong = 0
    for page in pages.pages(arguments):
        for number, word in unknown(page.read_text(encoding="utf-8"), words):
            wrong += 1
            print(f"{pages.name(page)}:{number}: {word}: fix it, or add it to docs/words.txt")
    if not wrong:
        print("no word is misspelt")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
