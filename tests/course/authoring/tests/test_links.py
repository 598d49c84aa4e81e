"""The link check on pages made for the purpose."""
import pathlib
import tempfile
import unittest

from authoring import links

OTHER = """# Stage 4: greedy speculation
## 3. What `roll_back` does, and *why*
## 3. What `roll_back` does, and *why*
## [A link](x.md) & a K+1
<a id="by-hand"></a>
```
# not a heading
```
"""


class LinksTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        (self.folder / "other.md").write_text(OTHER)
        (self.folder / "a (1).cpp").write_text("one\ntwo\n")

    def faults(self, text):
        page = self.folder / "page.md"
        page.write_text(text)
        return [(number, wrong) for number, _, wrong in links.faults(page)]

    def test_anchors_are_those_of_github(self):
        self.assertEqual(links.anchors(OTHER), {
            "stage-4-greedy-speculation", "3-what-roll_back-does-and-why",
            "3-what-roll_back-does-and-why-1", "a-link--a-k1", "by-hand"})

    def test_good_links(self):
        for text in ("[a](other.md)", "![a](other.md \"title\")", "[a](./)", "[a](other.md#by-hand)",
                     "[a](a%20(1).cpp#L2)", "# Here\n[a](#here)", "[a][b]\n\n[b]: other.md",
                     "<img src='other.md'>", "[a](https://example.org/a_(b)?c=d#e)",
                     "<https://example.org>", "[a](mailto:a@b.org)",
                     "`[a](none.md)`", "```\n[a](none.md)\n```", "> ```\n> [a](none.md)\n> ```",
                     "<!-- [a](none.md) -->"):
            self.assertEqual(self.faults(text), [], text)

    def test_broken_links(self):
        for text, wrong in (("[a](none.md)", "no such file"),
                            ("![a](none.svg)", "no such file"),
                            ("<img src=\"none.png\">", "no such file"),
                            ("[a][b]\n\n[b]: none.md", "no such file"),
                            ("[a][b]", "nothing defines"),
                            ("[a](other.md#stage-4)", "no heading"),
                            ("[a](other.md#not-a-heading)", "no heading"),
                            ("[a](#Here)\n# Here", "no heading"),
                            ("[a](a%20(1).cpp#L3)", "no line 3"),
                            ("[a](/docs/x.md)", "is relative"),
                            ("[a]()", "is relative"),
                            ("[a](https:/example.org)", "no address"),
                            ("[a](https://example)", "no address"),
                            ("<http://>", "no address")):
            found = self.faults(text)
            self.assertEqual(len(found), 1, text)
            self.assertIn(wrong, found[0][1], text)

    def test_the_line_is_named(self):
        self.assertEqual(self.faults("one\n```\ntwo\n```\n\n[a](none.md)")[0][0], 6)

    def test_pages_that_the_contents_lack(self):
        contents = self.folder / "README.md"
        contents.write_text("[a](other.md#by-hand)")
        self.assertEqual(links.unlisted(contents), [])
        (self.folder / "new.md").write_text("")
        (self.folder / "chapter").mkdir()
        (self.folder / "chapter/README.md").write_text("")
        (self.folder / "chapter/1_page.md").write_text("")
        self.assertEqual(links.unlisted(contents), ["chapter/README.md", "new.md"])
        self.assertEqual(links.unlisted(self.folder / "chapter/README.md"), ["1_page.md"])


if __name__ == "__main__":
    unittest.main()
