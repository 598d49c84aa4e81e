"""The spelling check on pages made for the purpose."""
import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from authoring import spelling

PAGE = """# A {0} heading
`mispelt` in code, [a link](mispelt.md), <mispelt>, https://mispelt.org, $mispelt$, a_mispelt_name.
<!-- mispelt -->
> ```
> mispelt
> ```

RMSNorm's rows, GoogleTest, the model's logit, up-to-date.
{0}'s.
"""


class SpellingTest(unittest.TestCase):
    def unknown(self, page):
        words = {"heading", "code", "link", "rows", "the", "model", "logit", "date"}
        return list(spelling.unknown(page, words))

    def test_prose_alone_is_looked_at(self):
        self.assertEqual(self.unknown(PAGE.format("model")), [])

    def test_an_unknown_word_is_found_with_its_line(self):
        self.assertEqual(self.unknown(PAGE.format("mispelt")),
                         [(1, "mispelt"), (9, "mispelt's")])

    def test_sentences_begin_with_capitals_and_names_have_them_inside(self):
        self.assertEqual(self.unknown("The Heading. Mispelt: RMSNorm"), [(1, "Mispelt")])

    def test_accents_and_round_apostrophes(self):
        self.assertEqual(self.unknown("the model’s naïveté"), [(1, "naïveté")])

    def run_tool(self, text, english):
        output = io.StringIO()
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(output):
            page, words = pathlib.Path(directory) / "p.md", pathlib.Path(directory) / "words"
            page.write_text(text)
            if english:
                words.write_text(english)
            with mock.patch.object(spelling, "ENGLISH", words):
                return spelling.main([str(page)]), output.getvalue()

    def test_exit_codes(self):
        self.assertEqual(self.run_tool("good", "good\n")[0], 0)
        code, output = self.run_tool("good goood", "good\n")
        self.assertEqual(code, 1)
        self.assertIn("p.md:1: goood", output)

    def test_no_word_list_is_no_pass(self):
        code, output = self.run_tool("goood", None)
        self.assertEqual(code, 77)
        self.assertIn("NOT CHECKED", output)


if __name__ == "__main__":
    unittest.main()
