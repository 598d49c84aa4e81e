"""What the chapters ask: tasks where they are explained, three questions and some exercises, with answers that fold."""
import re
import unittest

from authoring import pages
from student import course

STAGES = course.load(pages.ROOT)
# What tells the reader that a task has been explained, and what to read before the tasks.
POINTERS = re.compile(r"^You can now do ((?:(?:, | and )?\*\*task \d+\.\d+\*\*)+)\.", re.MULTILINE)
TASK = re.compile(r"\*\*task (\d+\.\d+)\*\*")
NEEDED = re.compile(r"^  For the tasks, read sections (.+?) first, about .+; the other sections can wait\.$", re.MULTILINE)
SECTIONS = re.compile(r"(\d+)(?: to (\d+))?")
ITEM = re.compile(r"^(\d+)\. ", re.MULTILINE)
# As both a code host and the site read it: tags at the margin, and apart from the text.
ANSWER = re.compile(r"\n\n<details>\n<summary>[^\n<]+</summary>\n\n(.+?)\n\n</details>\n\n", re.DOTALL)


def items(section):
    """The numbered items of a section, (number, text), without the text of their answers."""
    parts = ITEM.split(ANSWER.sub(lambda answer: answer[0].replace(answer[1], "..."), section))[1:]
    return list(zip(map(int, parts[::2]), parts[1::2]))


class Chapters(unittest.TestCase):
    def setUp(self):
        self.texts = {number: (pages.ROOT / stage.chapter).read_text(encoding="utf-8")
                      for number, stage in STAGES.items()}
        self.chapters = {number: dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
                         for number, text in self.texts.items()}

    def test_a_task_is_due_once_and_in_the_section_that_explains_it(self):
        for number, sections in self.chapters.items():
            due = [(task, heading.partition(". ")[0]) for heading, text in sections.items()
                   for pointer in POINTERS.findall(text) for task in TASK.findall(pointer)]
            self.assertEqual(sorted(due), [(task.name, str(task.section)) for task in STAGES[number].tasks])
            self.assertEqual(len(re.findall(r"\*\*[Tt]ask \d", self.texts[number])), len(due), f"chapter {number}")

    def test_what_to_read_before_the_tasks_has_all_that_they_need(self):
        for number, text in self.texts.items():
            (listed,) = NEEDED.findall(text)
            read = {section for first, last in SECTIONS.findall(listed)
                    for section in range(int(first), int(last or first) + 1)}
            self.assertLessEqual({task.section for task in STAGES[number].tasks}, read, f"chapter {number}")

    def test_questions_come_before_the_exercises(self):
        for sections in self.chapters.values():
            self.assertEqual(list(sections)[-4:-1], ["Questions", "Exercises", "Summary"])

    def test_there_are_three_questions_with_an_answer_each(self):
        for number, sections in self.chapters.items():
            questions = items(sections["Questions"])
            self.assertEqual([item for item, _ in questions], [1, 2, 3], f"chapter {number}")
            for item, words in questions:
                self.assertEqual(words.count("<details>"), 1, f"question {item} of chapter {number}")

    def test_exercises_have_an_answer_but_for_those_that_ask_for_a_program(self):
        for number, sections in self.chapters.items():
            exercises = items(sections["Exercises"])
            self.assertEqual([item for item, _ in exercises], list(range(1, len(exercises) + 1)), f"chapter {number}")
            for item, words in exercises:
                self.assertLessEqual(words.count("<details>"), 1, f"exercise {item} of chapter {number}")
                if not words.startswith("*Programming"):
                    self.assertIn("<details>", words, f"exercise {item} of chapter {number}")

    def test_what_folds_is_well_formed(self):
        for number, sections in self.chapters.items():
            text = "".join(sections.values())
            self.assertEqual(len(re.findall("</?details>", text)), 2 * len(ANSWER.findall(text)), f"chapter {number}")
            for answer in ANSWER.findall(text):
                self.assertNotRegex(answer, r"\A\d+\. ", "a number with a full stop begins a list")


if __name__ == "__main__":
    unittest.main()
