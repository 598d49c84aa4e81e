"""The record of a grade, and its three forms held against what graders document that they read."""
import base64
import json
import os
import re
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

import tool
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
# https://docs.autolabproject.com/lab/: the last line; features/formatted-feedback/: the line before it, whose other fields
# are the stages that it names, of tests by name. A scoreboard's row has numbers (features/scoreboards/).
AUTOLAB = {"scores": {}, "scoreboard": [NUMBER]}
AUTOLAB_TEST = {"passed": bool, "hint": TEXT}
# What GitHub Classroom's graders write and its reporter reads (autograding-grading-reporter, src/*.js).
GITHUB = {"version": int, "status": ("pass", "fail", "error"), "max_score": NUMBER,
          "tests": [{"name": TEXT, "status": ("pass", "fail", "error"), "score": NUMBER, "message": (TEXT, type(None)),
                     "test_code": TEXT, "filename": TEXT, "line_no": int}]}
# github.com/foundation50/classroom50, schemas/result-v1.schema.json; of a test, more fields are allowed.
CLASSROOM50 = {"schema": ("classroom50/result/v1",), "classroom": TEXT, "assignment": TEXT,
               "assignment_type": ("individual", "group"), "owner": TEXT, "submission": TEXT, "commit": TEXT,
               "release": TEXT, "review": TEXT, "datetime": TEXT, "score": int, "max-score": int,
               "tests": [{"test-name": TEXT, "passed": bool, "score": int, "max-score": int, "output": TEXT}]}
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
    elif not isinstance(value, schema) or isinstance(value, bool) and schema is not bool:
        yield f"{where} is {value!r}"


def lacking(value, schema, where="results"):
    """Yields the fields of a schema that are not there."""
    if isinstance(schema, dict) and isinstance(value, dict):
        for name, field in schema.items():
            yield from lacking(value[name], field, f"{where}.{name}") if name in value else [f"{where} lacks {name}"]
    elif isinstance(schema, list) and isinstance(value, list):
        for i, entry in enumerate(value):
            yield from lacking(entry, schema[0], f"{where}[{i}]")


def wrong_autolab(text):
    *shown, feedback, autoresult = text.splitlines()
    feedback, autoresult = json.loads(feedback), json.loads(autoresult)
    yield from [*wrong_json(autoresult, AUTOLAB), *lacking(autoresult, {"scores": {}})]
    yield from (f"the score of {name} is {score!r}" for name, score in autoresult["scores"].items()
                if not isinstance(score, NUMBER) or isinstance(score, bool))
    if feedback.get("_presentation") != "semantic":
        yield "the feedback is not semantic"
    yield from wrong_json(feedback.get("stages"), [TEXT], "stages")
    if sorted(feedback) != sorted(["_presentation", "stages", *feedback.get("stages", [])]):
        yield f"the stages are {feedback.get('stages')}, not {list(feedback)}"
    for stage in feedback.get("stages", []):
        for name, test in feedback.get(stage, {}).items():
            yield from [*wrong_json(test, AUTOLAB_TEST, name), *lacking(test, {"passed": bool}, name)]


def wrong_github(text):
    line = re.fullmatch(r"result=([A-Za-z0-9+/]+=*)\n", text)
    if not line:
        yield "it is not one line of base64"
        return
    result = json.loads(base64.b64decode(line[1]))
    found = [*wrong_json(result, GITHUB), *lacking(result, GITHUB)]
    yield from found
    if not found and sum(test["score"] for test in result["tests"]) > result["max_score"]:
        yield "it is more than its maximum"


def wrong_classroom50(text):
    result = json.loads(text)
    found = [*wrong_json(result, CLASSROOM50), *lacking(result, {**CLASSROOM50, "tests": [{
        name: field for name, field in CLASSROOM50["tests"][0].items() if name != "output"}]})]
    yield from found
    if found:
        return
    yield from (f"{name} is empty" for name, value in result.items() if value == "")
    for name, pattern in (("submission", "submit/.*"), ("datetime", r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ")):
        if not re.fullmatch(pattern, result[name]):
            yield f"{name} is {result[name]!r}"
    for entry in (result, *result["tests"]):
        if not 0 <= entry["score"] <= entry["max-score"]:
            yield f"{entry['score']} of {entry['max-score']} points"
    if any(result[name] != sum(test[name] for test in result["tests"]) for name in ("score", "max-score")):
        yield "it is not the sum of its tests"


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


RUNNER = {"CLASSROOM": "cs101", "ASSIGNMENT": "stage-4", "ASSIGNMENT_TYPE": "individual", "OWNER": "ada", "USERNAME": "ada",
          "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d", "COMMIT_URL": "https://example.com/commit/1",
          "RELEASE_URL": "https://example.com/releases/1", "REVIEW_URL": "https://example.com/compare/0...1"}


def on_runner(**changes):
    """An environment as Classroom 50's runner makes it; a change to None takes a variable away."""
    variables = {name: value for name, value in {**RUNNER, **changes}.items() if value is not None}
    return unittest.mock.patch.dict(os.environ, variables, clear=True)


def sample(hidden=False):
    """A record in which each status occurs."""
    tasks = [course.Task("4.1", "accept drafts", 60, "a.cpp", "docs/04_x"), course.Task("4.2", "roll back & <forget>", 40, "b.cpp", "docs/04_x")]
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
    stage = course.Stage(4, "04_greedy_speculation", tasks, [])
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

    def test_autolab(self):
        for hidden in (False, True):
            text = emitters.autolab(sample(hidden))
            self.assertEqual(list(wrong_autolab(text)), [])
            *shown, feedback, autoresult = text.splitlines()
            self.assertEqual(json.loads(autoresult), {"scores": {"4.1": 20.0, "4.2": 10 if hidden else 20},
                                                      "scoreboard": [30 if hidden else 40, 12.3]})
            self.assertEqual(json.loads(feedback)["4.1 accept drafts"],
                             {"check_0": {"passed": True},
                              "check_1": {"passed": False, "hint": "fail: check_1: length: 12, not 14"},
                              "check_2": {"passed": False, "hint": "error: check_2"}})
            self.assertIn("note: a note", shown)
            self.assertIn("  fail: check_1: length: 12, not 14", shown)

    def test_github(self):
        for hidden in (False, True):
            text = emitters.github(sample(hidden))
            self.assertEqual(list(wrong_github(text)), [])
            result = json.loads(base64.b64decode(text[len("result="):]))
            self.assertEqual([(test["name"], test["status"], test["score"]) for test in result["tests"]],
                             [("4.1 accept drafts", "error", 20),
                              ("4.2 roll back & <forget>", "fail", 10 if hidden else 20)])
            self.assertEqual((result["status"], result["max_score"]), ("error", 100))
            self.assertIn("fail: check_1: length: 12, not 14", result["tests"][0]["message"])
        mixed = sample(hidden=True)
        mixed["tests"][2]["status"] = "passed"  # which the visible cases of the task are not
        self.assertFalse(emitters.by_task(mixed)["4.2"]["passed"])
        good = sample()
        for test in good["tests"]:
            test.update(status="passed", earned=test["points"],
                        checks=[{**check, "status": "pass"} for check in test["checks"]])
        result = json.loads(base64.b64decode(emitters.github(good)[len("result="):]))
        self.assertEqual((result["status"], [(test["status"], test["message"]) for test in result["tests"]]),
                         ("pass", [("pass", None)] * 2))

    def test_classroom50(self):
        for hidden in (False, True):
            with on_runner():
                text = emitters.classroom50(sample(hidden))
            self.assertEqual(list(wrong_classroom50(text)), [])
            result = json.loads(text)
            self.assertEqual((result["score"], result["max-score"], result["owner"]), (30 if hidden else 40, 100, "ada"))
        with on_runner(REVIEW_URL=None):
            self.assertEqual(json.loads(emitters.classroom50(sample()))["review"], RUNNER["COMMIT_URL"])
        for name in emitters.CLASSROOM50.values():
            with on_runner(**{name: None}), self.assertRaisesRegex(tool.Trouble, f"^{name} is not set"):
                emitters.classroom50(sample())

    def test_classroom50_has_whole_points(self):
        record = sample()
        record["tests"][0]["earned"], record["tests"][1]["earned"] = 19.999999, 7.5
        with on_runner():
            result = json.loads(emitters.classroom50(record))
        self.assertEqual([test["score"] for test in result["tests"]], [20, 7])
        self.assertEqual(result["score"], 27)

    def test_hidden_cases_say_nothing_but_their_points(self):
        record = sample(hidden=True)
        with on_runner():
            for form in ("autolab", "github", "classroom50"):
                text = emitters.FORMATS[form](record)
                text = base64.b64decode(text[len("result="):]).decode() if form == "github" else text
                self.assertIn("hidden cases: 0 of 20 points", text)
                self.assertNotIn("hidden_4", text)
                self.assertNotIn("is wrong", text)

    def test_the_new_validators_see_what_is_wrong(self):
        def autolab(change):
            *shown, feedback, autoresult = emitters.autolab(sample()).splitlines()
            feedback, autoresult = json.loads(feedback), json.loads(autoresult)
            change(feedback, autoresult)
            return wrong_autolab("\n".join([*shown, json.dumps(feedback), json.dumps(autoresult)]))

        def github(change):
            result = json.loads(base64.b64decode(emitters.github(sample())[len("result="):]))
            change(result)
            return wrong_github(f"result={base64.b64encode(json.dumps(result).encode()).decode()}\n")

        def classroom50(change):
            with on_runner():
                result = json.loads(emitters.classroom50(sample()))
            change(result)
            return wrong_classroom50(json.dumps(result))
        for found, words in (
                (autolab(lambda f, a: a["scores"].update({"4.1": "20"})), "score of 4.1 is '20'"),
                (autolab(lambda f, a: a.update(scoreboard=["20"])), "scoreboard"),
                (autolab(lambda f, a: a.pop("scores") and a.update(scores={}, points=3)), "points is unknown"),
                (autolab(lambda f, a: f.pop("_presentation")), "not semantic"),
                (autolab(lambda f, a: f["stages"].append("4.3")), "stages are"),
                (autolab(lambda f, a: f["4.1 accept drafts"]["check_0"].update(passed=1)), "passed is 1"),
                (github(lambda r: r.update(status="passed")), "status is 'passed'"),
                (github(lambda r: r.pop("max_score")), "lacks max_score"),
                (github(lambda r: r["tests"][0].pop("line_no")), "lacks line_no"),
                (github(lambda r: r["tests"][0].update(message=3)), "message is 3"),
                (github(lambda r: r.update(max_score=1)), "more than its maximum"),
                (wrong_github("{}"), "not one line of base64"),
                (classroom50(lambda r: r.update(schema="v2")), "schema is 'v2'"),
                (classroom50(lambda r: r.update(score=1.5)), "score is 1.5"),
                (classroom50(lambda r: r.pop("review")), "lacks review"),
                (classroom50(lambda r: r["tests"][0].pop("passed")), "lacks passed"),
                (classroom50(lambda r: r["tests"][0].update(passed=1)), "passed is 1"),
                (classroom50(lambda r: r.update(datetime="yesterday")), "datetime is 'yesterday'"),
                (classroom50(lambda r: r.update(submission="tag")), "submission is 'tag'"),
                (classroom50(lambda r: r.update(owner="")), "owner is empty"),
                (classroom50(lambda r: r.update(score=101)), "101 of 100"),
                (classroom50(lambda r: r.update(score=3)), "not the sum")):
            self.assertIn(words, "\n".join(found))

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
