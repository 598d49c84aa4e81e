"""The tool that looks for turns of phrase finds each of them in prose, and none in code."""
import unittest

from authoring import pages, style

GOOD = """Each request gets 5 tokens per round, because a round emits at least one token.
People who teach can grade a class. `somebody` is code, and so is

```
nobody lies at hand
```

[a link](somebody.md) <!-- whoever -->

A request on its way to the engine waits behind the pool. A token is accepted with probability 0.65, and a prompt is
drafted with 1 draft model, or with 1,024 rows. In which order? Another request behind the first has a right to say so.
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
                            ("right, for it is", "because"), ("5 tokens a round", "per"), ("3 rows a token", "per"),
                            ("tokens behind a rejection", "after"), ("the rows behind the cut", "after"),
                            ("tokens behind an accepted eos", "after"), ("accepted with 0.65", "probability"),
                            ("accepted with 1, and so", "probability"), ("rejected with 1/3", "probability"),
                            ("drawn with 20 %", "probability"), ("it comes out with p(x)", "probability"),
                            ("kept with min(1, p/q)", "probability"),
                            ("is accepted with p / q = 0.25", "probability"),
                            ("with which probability", "with what"), ("from which c on", "from what"),
                            ("row 0 decides about d1", "judges"), ("12 GB suffice", "enough"), ("2 blocks suffice", "enough"),
                            ("a right program", "correct"), ("a right sampler", "correct"), ("bytes on their way", "in flight"),
                            ("the program says 0.87", "prints"), ("what does the formula say", "predicts"),
                            ("the clock says 1.1", "shows"), ("the target says so", "emits"), ("what q says", "assigns"),
                            ("how many times as many", "factor"), ("it is no bug", "not a bug"), ("rows that are no tokens", "not"),
                            ("auto takes a GPU", "uses"), ("in another order", "different"), ("has other bits", "different"),
                            ("it runs nevertheless", "even so")):
            with self.subTest(text=text):
                found = self.found(f"One line.\n{text}.")
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, style.advice(found[0]))

    def test_what_programs_and_tools_print_is_looked_at(self):
        source = """// nobody
  fail("the request {} "  // somebody
       "is to be"
       " refused", '"', "lies");
"""
        self.assertEqual(list(style.texts_of_source(source)), [(2, "the request {} "), (3, "is to be refused"), (4, "lies")])
        source = 'help("for {x} whoever")\nprint(f"5 tokens {a} round "\n      "of late")\n'
        self.assertEqual(sorted(style.texts_of_tool(source)), [(1, "for {x} whoever"), (2, "5 tokens {} round of late")])
        names = {name for name, _ in style.programs(pages.ROOT)}
        for name in ("stages/programs/run/options.cpp", "tests/course/student/predict.py", "stages/programs/doctor.py"):
            self.assertIn(name, names)
        self.assertTrue(any(page.name == "hints.md" for page in pages.pages()))

    def test_the_line_is_named(self):
        self.assertEqual(list(style.findings("a\nb\nat hand")), [(3, "at hand")])

    def test_a_phrase_may_cross_lines(self):
        self.assertEqual(list(style.findings("it\nis\nto be"))[0][0], 2)
        (line, words), = style.findings("> Quoted. With\n> which probability?")
        self.assertEqual((line, style.advice(words)), (1, "with what probability"))


if __name__ == "__main__":
    unittest.main()
