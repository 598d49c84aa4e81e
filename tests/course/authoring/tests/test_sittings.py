"""Chapters in sittings of an hour: each within its limits, each task in one of them, each question answered."""
import pathlib
import tempfile
import unittest

from authoring import pages, sittings
from student import course

DOCS = pages.ROOT / "docs"
GOOD = """# 4.1 A title

**Question.** What?

**Time.** 20 minutes to read, 30 for task 4.1, 10 for the exercises.

```cpp
int a;
```

## Task 4.1: do it

You can now do **task 4.1**. Write it.

## Check yourself

1. Why?

<details>
<summary>Answer</summary>

Because.

</details>

## Exercises

1. Do.

<details>
<summary>Answer</summary>

Done.

</details>

2. Do more.

<details>
<summary>Answer</summary>

More.

</details>

## What you can now say

- It.
"""


class Sittings(unittest.TestCase):
    def test_each_is_within_its_limits(self):
        found = sittings.sittings(DOCS)
        self.assertGreater(len(found), 40)
        for page in found:
            with self.subTest(page=pages.name(page)):
                self.assertEqual(list(sittings.faults(page.read_text(encoding="utf-8"))), [])

    def test_each_question_and_exercise_of_any_page_has_an_answer(self):
        asking = 0
        for page in sorted(DOCS.rglob("*.md")):
            text = page.read_text(encoding="utf-8")
            asking += sum(heading in sittings.ASKING for heading, _ in sittings.sections(text))
            with self.subTest(page=pages.name(page)):
                self.assertEqual(list(sittings.faults_of_answers(text)), [])
        self.assertGreater(asking, 100)

    def test_each_task_is_due_once(self):
        for stage in course.load(pages.ROOT).values():
            texts = [page.read_text(encoding="utf-8") for page in sorted((pages.ROOT / stage.chapter).glob("*.md"))]
            due = [task for text in texts for task in course.POINTER.findall(text)]
            self.assertEqual(sorted(due, key=lambda name: int(name.partition(".")[2])), [task.name for task in stage.tasks])
            self.assertEqual(sum(text.count("\n## Predict, then measure\n") for text in texts), 1, stage.chapter)

    def test_the_landing_page_is_short(self):
        self.assertLess((pages.ROOT / "README.md").read_text(encoding="utf-8").count("\n"), 60)

    def test_the_sittings_of_a_chapter_are_numbered(self):
        for folder in sorted({page.parent for page in sittings.sittings(DOCS)}):
            numbers = sorted(int(page.name.partition("_")[0]) for page in sittings.sittings(DOCS) if page.parent == folder)
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), folder)

    def test_each_page_is_of_a_known_kind(self):
        self.assertEqual(list(sittings.faults_of_kinds(DOCS, sittings.REFERENCE)), [])
        for name, reason in sittings.REFERENCE.items():
            self.assertGreater(len(reason.split()), 3, name)

    def test_a_page_of_no_known_kind_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            docs = pathlib.Path(name)
            (docs / "chapter").mkdir()
            (docs / "loose").mkdir()
            for page in ("chapter/1_one.md", "chapter/README.md", "chapter/more.md", "words.md", "long.md", "loose/README.md"):
                (docs / page).write_text("# A page\n", encoding="utf-8")
            good = ("[a](chapter/README.md), [b](chapter/more.md), [c](chapter/1_one.md#a-page), [d](words.md), "
                    "[e](https://a.org/b.md)\n")
            for more, reference, faults in (("", {"words.md"}, []),
                                            ("", set(), ["words.md is neither"]),
                                            ("[l](long.md)", {"words.md"}, ["long.md is neither"]),
                                            ("[l][]\n\n[l]: loose/README.md", {"words.md"}, ["loose/README.md is neither"]),
                                            ("", {"words.md", "long.md"}, ["long.md, which docs/README.md does not list"]),
                                            ("[n](none.md)", {"words.md", "none.md"}, ["none.md, which is not there"])):
                (docs / "README.md").write_text(good + more, encoding="utf-8")
                with self.subTest(more=more, reference=reference):
                    found = list(sittings.faults_of_kinds(docs, reference))
                    self.assertEqual(len(found), len(faults), found)
                    for fault, words in zip(found, faults):
                        self.assertIn(words, fault)

    def test_front_pages_and_the_guide_repeat_the_minutes(self):
        guide, total = (DOCS / "instructors_guide.md").read_text(encoding="utf-8"), 0
        for folder in sorted({page.parent for page in sittings.sittings(DOCS)}):
            front = sittings.stated((folder / "README.md").read_text(encoding="utf-8"))
            own = {page.name: sum(sittings.times(page.read_text(encoding="utf-8"))) for page in folder.glob("[0-9]*_*.md")}
            self.assertEqual(front, own, folder)
            self.assertRegex(guide, rf"\({folder.name}/README\.md\).* \| {len(own)} \| .*\| {sum(own.values())} \|", folder)
            total += sum(own.values())
        self.assertIn(f"That makes {total:,} minutes, about {total / 60:.0f} hours.", guide)

    def test_what_is_counted(self):
        self.assertEqual(list(sittings.faults(GOOD)), [])
        self.assertEqual(sittings.lengths(GOOD), {"words of prose": 52, "lines of code": 1, "figures": 0, "predictions": 0,
                                                  "tasks": 1, "exercises": 2, "minutes": 60})

    def test_each_fault_is_found(self):
        for old, new, fault in (("Write it.", "word " * 1800, "words of prose; at most 1800"),
                                ("int a;\n", "int a;\n" * 91, "91 lines of code"),
                                ("What?", "What? ![a](b)![a](b)![a](b)", "3 figures"),
                                ("What?", "What?\n\n> **Predict.** It.\n\n> **Predict.** More.", "2 predictions"),
                                ("Write it.", "You can now do **task 4.2**.", "2 tasks"),
                                ("- It.", "- It.\n\n## More", "it ends with"),
                                ("**Question.**", "Question", "question"),
                                ("20 minutes to read", "25 minutes to read", "65 minutes; at most 60"),
                                ("20 minutes to read, 30 for task 4.1, 10 for", "20 minutes to read; no", "two times"),
                                ("1. Why?", "Why?", "Check yourself are numbered []"),
                                ("2. Do more.", "3. Do more.", "numbered [1, 3]"),
                                ("<details>\n<summary>Answer</summary>\n\nMore.\n\n</details>", "More.", "item 2 of Exercises has 0"),
                                ("</summary>\n\nBecause", "</summary>\nBecause", "does not fold"),
                                ("\n\nBecause", "\n\n1. Because", "begins a list")):
            with self.subTest(fault=fault):
                self.assertIn(old, GOOD)
                self.assertTrue(any(fault in found for found in sittings.faults(GOOD.replace(old, new))))


if __name__ == "__main__":
    unittest.main()
