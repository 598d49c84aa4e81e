#!/usr/bin/env python3
"""The lists of what users choose by name: --help offers what the stage takes, and the chapters' tables have the same.

usage: test_lists.py PROGRAMS ROOT
"""
import pathlib
import re
import sys
import unittest

from programs import ProgramTest, run_program

GREEDY, SAMPLING, BATCH, ADAPTIVE, TREES, SELF, BEAMS = (
    "04_greedy_speculation", "05_rejection_sampling", "06_batched_verification", "07_adaptive_drafting", "08_token_trees",
    "09_self_drafting", "10_beam_search")
LISTS = {"--draft-kind": (GREEDY, SAMPLING, BATCH, ADAPTIVE, TREES, SELF, BEAMS), "--early-stopping": (BEAMS,), "--acceptance": (SAMPLING, BATCH, ADAPTIVE),
         "--draft-length": (ADAPTIVE, TREES), "--siblings": (TREES, SELF), "--tree": (TREES, SELF), "--self-draft": (SELF, BEAMS)}
SIZES = {"N": "3", "3x2x1": "2x1"}  # of a tree, to try
# What an entry of stages 8 and 9 goes with.
NEEDS = {"random": ["--tree", "chains:1"], "ngram": ["--tree", "chains:1"], "suffix": ["--tree", "grow:8"], "block": ["--tree", "chains:1"],
         "k-sequential": ["--tree", "chains:2", "--temperature", "1"], "chains:3": ["--temperature", "1"],
         "distinct:2x1": ["--temperature", "1"]}


def listed(stage, option):
    """The list below an option's line in --help: {name: its line of help}."""
    text = run_program(PROGRAMS / stage, "--help")[1]
    own_lines = re.search(rf"^  {option} .*\n((?: {{30}}.*\n)*)", text, re.M)[1]
    return dict(re.findall(r"^ {32}(\S+) +(\S.*)$", own_lines, re.M))


def table(page, name):
    """The first column of a table of a chapter, without its quotes."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)`", text.split(f"<!-- table: {name} -->")[1].split("<!-- end table -->")[0], re.M)


class ListsTest(ProgramTest):
    def test_a_stage_takes_what_its_help_offers(self):
        for option, stages in LISTS.items():
            for stage in stages:
                names = listed(stage, option)
                self.assertGreater(len(names), 1, (stage, option))
                for name in names:
                    name = re.sub(r":(\S+)", lambda sizes: f":{SIZES[sizes[1]]}", name)
                    more = NEEDS.get(name, []) if stage in (TREES, SELF) else []
                    code, _, errors = run_program(PROGRAMS / stage, option, name, *more, "--prompt", "Once",
                                                  "--max-new-tokens", "2", "--quiet")
                    self.assertEqual(code, 0, (stage, option, name, errors))

    def test_each_entry_has_a_line(self):
        for option, stages in LISTS.items():
            for name, line in listed(stages[0], option).items():
                self.assertRegex(line, r"^[^ ].{8,}$", (option, name))

    def test_errors_have_the_same_names(self):
        for option, stage, wrong in (("--acceptance", SAMPLING, "best"), ("--siblings", TREES, "best"),
                                     ("--tree", TREES, "bush:3"), ("--fallback", ADAPTIVE, "best,lookup")):
            names = listed(stage, "--draft-kind" if option == "--fallback" else option)
            self.expect_bad_input(", ".join(names), PROGRAMS / stage, option, wrong)
        for option, stage in (("--draft-kind", SELF), ("--draft-length", TREES), ("--self-draft", SELF)):
            self.expect_bad_input("{" + ",".join(listed(stage, option)) + "}", PROGRAMS / stage, option, "best")

    def test_chapters_have_the_same_names(self):
        self.assertEqual(table("05_rejection_sampling/5_other_rules.md", "rules"), list(listed(SAMPLING, "--acceptance")))
        self.assertEqual(table("08_token_trees/6_other_rules.md", "trees-rules"), list(listed(TREES, "--siblings")))
        drafters = set(listed(GREEDY, "--draft-kind"))
        self.assertEqual(drafters - set(table("04_greedy_speculation/more.md", "draft-kinds")), {"self"})
        chapters = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/09_self_drafting").glob("*.md")]
        for name in listed(SELF, "--self-draft"):
            self.assertTrue(any(f"--self-draft {name}" in text for text in chapters), name)
        chapter = " ".join((ROOT / "docs/08_token_trees/README.md").read_text(encoding="utf-8").split())
        self.assertEqual(re.findall(r"`([^`]+)`", chapter.split("explains the shapes ")[1].split(".")[0]), list(listed(TREES, "--tree")))
        texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/07_adaptive_drafting").glob("*.md")]
        for name in (*listed(ADAPTIVE, "--draft-length"), *set(listed(ADAPTIVE, "--draft-kind")) - drafters):
            self.assertTrue(any(re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", text) for text in texts), name)


if __name__ == "__main__":
    PROGRAMS, ROOT = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    unittest.main()
