"""The tool that looks for turns of phrase finds each of them in prose, and none in code."""
import unittest

from authoring import style

GOOD = """Each request gets 5 tokens per round, because a round emits at least one token.
People who teach can grade a class. `somebody` is code, and so is

```
nobody lies at hand
```

[a link](somebody.md) <!-- whoever -->
"""


class Style(unittest.TestCase):
    def found(self, text):
        return [words for _, words in style.findings(text)]

    def test_good_prose_passes(self):
        self.assertEqual(self.found(GOOD), [])

    def test_each_pattern_is_found_with_its_advice(self):
        for text, words in (("Whoever fits is admitted", "a request"), ("somebody else's keys", "name the thing"),
                            ("the alpha of late", "recent"), ("the tasks are to be done", "must be"),
                            ("it has to be so", "must be"), ("in place of the draft", "instead"), ("in the place of it", "instead"),
                            ("the file at hand", "available"), ("the row lies there", "the verb"), ("the row stands there", "the verb"),
                            ("so many tokens", "fixed number"), ("as against vLLM", "unlike"), ("we mend it", "fix"),
                            ("right, for it is", "because"), ("5 tokens a round", "per"), ("3 rows a token", "per")):
            with self.subTest(text=text):
                found = self.found(f"One line.\n{text}.")
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, style.advice(found[0]))

    def test_the_line_is_named(self):
        self.assertEqual(list(style.findings("a\nb\nat hand")), [(3, "at hand")])

    def test_a_phrase_may_cross_lines(self):
        self.assertEqual(list(style.findings("it\nis\nto be"))[0][0], 2)


if __name__ == "__main__":
    unittest.main()
