"""The record of a grade, and its three forms held against what graders document that they read."""
import json
import re
import unittest
import xml.etree.ElementTree as xml

from student import checks, course, emitters, grade

NUMBER, TEXT = (int, float), str
VISIBILITY = ("hidden", "after_due_date", "after_published", "visible")
FORMATS = ("text", "html", "simple_format", "md", "ansi")
# A field's values: a type, a list of words, or what a list or an object consists of.
# https://gradescope-autograders.readthedocs.io/en/latest/specs/, section "Output format".
GRADESCOPE_TEST = {"score": NUMBER, "max_score": NUMBER, "status": ("passed", "failed"), "name": TEXT,
                   "name_format": FORMATS, "number": TEXT, "output": TEXT, "output_format": FORMATS, "tags": [TEXT],
                   "visibility": VISIBILITY, "extra_data": {}}
GRADESCOPE = {"score": NUMBER, "execution_time": NUMBER, "output": TEXT, "output_format": FORMATS,
              "test_output_format": FORMATS, "test_name_format": FORMATS, "visibility": VISIBILITY,
              "stdout_visibility": VISIBILITY, "extra_data": {}, "tests": [GRADESCOPE_TEST],
              "leaderboard": [{"name": TEXT, "value": (int, float, str), "order": ("asc", "desc")}]}
# Ant's schema (github.com/windyroad/JUnit-Schema): element -> (attributes that must be there, others, children).
JUNIT = {
    "testsuites": ({}, {}, "testsuite*"),
    "testsuite": ({"name": ".+", "timestamp": r"\d{4}(-\d\d){2}T\d\d:\d\d:\d\d", "hostname": ".+", "tests": r"\d+",
                   "failures": r"\d+", "errors": r"\d+", "time": r"\d+(\.\d+)?", "package": ".*", "id": r"\d+"},
                  {"skipped": r"\d+"}, "properties testcase* system-out system-err"),
    "properties": ({}, {}, "property*"),
    "property": ({"name": ".+", "value": ".*"}, {}, ""),
    "testcase": ({"name": ".*", "classname": ".*", "time": r"\d+(\.\d+)?"}, {}, "(skipped|error|failure)?"),
    "failure": ({"type": ".*"}, {"message": ".*"}, ""),
    "error": ({"type": ".*"}, {"message": ".*"}, ""),
    "skipped": ({}, {}, ""), "system-out": ({}, {}, ""), "system-err": ({}, {}, "")}


def wrong_json(value, schema, where="results"):
    """Yields what is not as a schema of the kind above has it."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for name, field in value.items():
            if schema and name not in schema:
                yield f"{where}.{name} is unknown"
            elif schema:
                yield from wrong_json(field, schema[name], f"{where}.{name}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for i, entry in enumerate(value):
            yield from wrong_json(entry, schema[0], f"{where}[{i}]")
    elif isinstance(schema, tuple) and isinstance(schema[0], str):
        if value not in schema:
            yield f"{where} is {value!r}, none of {schema}"
    elif not isinstance(value, schema) or isinstance(value, bool):
        yield f"{where} is {value!r}"


def wrong_gradescope(results):
    found = list(wrong_json(results, GRADESCOPE))
    yield from found or wrong_scores(results)


def wrong_scores(results):
    tests = results.get("tests", [])
    if "score" not in results and (not tests or not all("score" in test for test in tests)):
        yield "there is a score neither on top nor on each test"
    for test in tests:
        if test.get("score", 0) > test.get("max_score", 0):
            yield f"{test['name']} has more than its maximum"


def wrong_junit(element):
    needed, others, children = JUNIT.get(element.tag, (None, None, None))
    if needed is None:
        yield f"{element.tag} is unknown"
        return
    for name in set(needed) - set(element.attrib):
        yield f"{element.tag} lacks {name}"
    for name, value in element.attrib.items():
        pattern = {**needed, **others}.get(name)
        if pattern is None or not re.fullmatch(pattern, value, re.DOTALL):
            yield f"{element.tag}: {name} is {value!r}"
    pattern = "".join(f"({word[:-1]} )*" if word.endswith("*") else f"({word[:-1]} )?" if word.endswith("?")
                      else f"{word} " for word in children.split())
    if not re.fullmatch(pattern, "".join(f"{child.tag} " for child in element)):
        yield f"{element.tag} has {[child.tag for child in element]}"
    for child in element:
        yield from wrong_junit(child)


def sample(hidden=False):
    """A record in which each status occurs."""
    tasks = [course.Task("4.1", "accept drafts", 2, 60, "a.cpp"), course.Task("4.2", "roll back & <forget>", 3, 40, "b.cpp")]
    results = []
    for i, (task, status) in enumerate((("4.1", checks.PASS), ("4.1", checks.FAIL), ("4.1", checks.ERROR),
                                        ("4.2", checks.NOT_CHECKED), ("4.2", checks.PASS))):
        check = course.Check(f"check_{i}", task, [], "a bug", "json", [], ["tokens"])
        message = {checks.FAIL: "length: 12, not 14\nusually: a bug", checks.NOT_CHECKED: "needs task 4.1"}.get(status, "")
        results.append(checks.Result(check, status, message, printed=["said <this>"] * (status == checks.ERROR), seconds=0.25,
                                     facts=[("tokens", [1, 2, 3, 4]), ("stats.target_forwards", 2)]))
    if hidden:
        check = course.Check("hidden_4", "4.2", [], "", "probe", "x", hidden=True)
        results.append(checks.Result(check, checks.FAIL, "length: 3 is wrong"))
    stage = course.Stage(4, "04_greedy_speculation", "docs/04_greedy_speculation.md", tasks, [])
    return grade.record_of(stage, results, "after_published", ["a note"], 12.34)


class Record(unittest.TestCase):
    def test_checks_share_their_task_s_points(self):
        record = sample()
        self.assertEqual([(t["task"], t["points"], t["earned"], t["status"]) for t in record["tests"]],
                         [("4.1", 60, 20, "failed"), ("4.2", 40, 20, "failed")])
        self.assertEqual((record["points"], record["earned"]), (100, 40))

    def test_hidden_cases_decide_on_half(self):
        record = sample(hidden=True)
        self.assertEqual([(t["points"], t["earned"], t["visibility"]) for t in record["tests"]],
                         [(60, 20, "visible"), (20, 10, "visible"), (20, 0, "after_published")])

    def test_counters_that_were_checked_stand_on_the_leaderboard(self):
        names = [(entry["name"], entry["value"], entry["order"]) for entry in sample()["leaderboard"]]
        self.assertEqual(names, [("points", 40, "desc"), ("target forwards per token, check_0", 0.5, "asc"),
                                 ("target forwards per token, check_4", 0.5, "asc"), ("seconds", 12.3, "asc")])


class Emitters(unittest.TestCase):
    def test_text(self):
        text = emitters.text(sample())
        for words in ("Stage 4, greedy speculation: 40 of 100 points\n", "    20/60  4.1 accept drafts\n",
                      "fail: check_1: length: 12, not 14\n", "usually: a bug\n", "| said <this>\n",
                      "not checked: check_3: needs task 4.1\n", "note: a note\n"):
            self.assertIn(words, text)
        self.assertNotIn("\033", text)

    def test_gradescope(self):
        for hidden in (False, True):
            results = json.loads(emitters.gradescope(sample(hidden)))
            self.assertEqual(list(wrong_gradescope(results)), [])
            self.assertEqual([test["number"] for test in results["tests"]], ["4.1", "4.2", "4.2"][:2 + hidden])
            self.assertEqual(results["stdout_visibility"], "hidden")
        self.assertEqual(results["tests"][2]["visibility"], "after_published")

    def test_junit(self):
        root = xml.fromstring(emitters.junit(sample()).encode("utf-8"))
        self.assertEqual(list(wrong_junit(root)), [])
        self.assertEqual({name: root[0].get(name) for name in ("tests", "failures", "errors", "skipped")},
                         {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"})
        self.assertEqual([child.tag for case in root.iter("testcase") for child in case], ["failure", "error", "skipped"])

    def test_the_validators_see_what_is_wrong(self):
        for change, words in (({"tests": []}, "neither"), ({"stdout_visibility": "shown"}, "stdout_visibility"),
                              ({"grade": 3}, "unknown"), ({"leaderboard": [{"order": "up"}]}, "order"),
                              ({"tests": [{"score": 2, "max_score": 1, "name": "x"}]}, "maximum"),
                              ({"tests": [{"score": "2"}]}, "score is '2'"), ({"execution_time": True}, "execution_time"),
                              ({"tests": [{"score": 2, "max_score": 2, "status": "ok"}]}, "none of"),
                              ({"tests": [{"score": 2, "max_score": 2, "number": 4.1}]}, "number")):
            results = {**json.loads(emitters.gradescope(sample())), **change}
            self.assertRegex("\n".join(wrong_gradescope(results)), words)
        good = emitters.junit(sample())
        for old, new, words in (("<testcase ", "<case ", "case"), (' hostname="localhost"', "", "lacks hostname"),
                                ('tests="5"', 'tests="five"', "tests is 'five'"), ("<system-err />", "", "testsuite has"),
                                ('type="fail"', 'kind="fail"', "kind")):
            bad = good.replace(old, new).replace("</testcase>", "</case>" if new == "<case " else "</testcase>")
            self.assertNotEqual(bad, good)
            self.assertRegex("\n".join(wrong_junit(xml.fromstring(bad.encode("utf-8")))), words)


if __name__ == "__main__":
    unittest.main()
