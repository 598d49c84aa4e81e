"""The site's navigation follows the table of contents: what comes next is what a reader reads next."""
import importlib.util
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]


def hooks():
    """docs/site/hooks.py, without the library that only the site's formulas need."""
    sys.modules.setdefault("latex2mathml", types.ModuleType("latex2mathml"))
    converter = types.ModuleType("latex2mathml.converter")
    converter.convert = None
    sys.modules.setdefault("latex2mathml.converter", converter)
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs/site/hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flat(navigation):
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
            continue
        for below in entry.values():
            yield from flat(below if isinstance(below, list) else [below])


class NavigationTest(unittest.TestCase):
    def setUp(self):
        self.pages = list(flat(hooks().navigation(ROOT / "docs")))

    def test_each_page_is_there_once(self):
        self.assertEqual(len(self.pages), len(set(self.pages)))
        sittings = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("*/[0-9]*_*.md")]
        self.assertGreater(len(sittings), 60)
        self.assertEqual(set(sittings) - set(self.pages), set())

    def test_the_site_opens_with_the_landing_page(self):
        self.assertEqual(self.pages[:3], ["index.md", "README.md", "00_before_you_start.md"])
        self.assertEqual(hooks().landing("![a](docs/a.svg) [b](docs/b/README.md#c) [d](LICENSE) [e](stages/x) [f](https://g) [h](#i)"),
                         "![a](a.svg) [b](b/README.md#c) [d](../LICENSE) [e](../stages/x) [f](https://g) [h](#i)")

    def test_sittings_of_a_chapter_follow_each_other(self):
        for folder in sorted({page.parent for page in (ROOT / "docs").glob("*/[0-9]*_*.md")}):
            wanted = sorted(folder.glob("[0-9]*_*.md"), key=lambda page: int(page.name.split("_")[0]))
            found = [page for page in self.pages if (ROOT / "docs" / page) in wanted]
            self.assertEqual(found, [page.relative_to(ROOT / "docs").as_posix() for page in wanted])

    def test_theory_comes_in_two_parts(self):
        order = ["04_greedy_speculation/7_speed.md", "theory/README.md", "theory/3_bytes_and_rows.md",
                 "05_rejection_sampling/README.md", "theory/4_measured_alpha.md", "theory/more.md",
                 "06_batched_verification/README.md"]
        places = [self.pages.index(page) for page in order]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
