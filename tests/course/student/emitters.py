"""Writes a grade in the formats that people and graders read; grade.py makes the record.

The record of a stage:
    {"stage": 4, "name": "greedy speculation", "points": 100, "earned": 85.0, "seconds": 31.4, "notes": [text, ...],
     "tests": [{"task": "4.2", "title": text, "points": 15, "earned": 0.0, "status": "passed" or "failed",
                "visibility": "visible", "seconds": 1.2,
                "checks": [{"name": text, "status": "pass", "message": text, "printed": [line, ...], "seconds": 0.4}]}],
     "leaderboard": [{"name": text, "value": number, "order": "asc" or "desc"}]}
"""
import base64
import datetime
import json
import os
import xml.etree.ElementTree as xml

from terminal import coloured
from tool import Trouble

COLOURS = {"pass": "green", "fail": "red", "error": "red", "not checked": "grey"}


def number(points):
    """Points as people write them: 15, 7.5."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def explanation(check):
    """What a check says, as lines."""
    first, *rest = check["message"].splitlines() or [""]
    return [f"{check['status']}: {check['name']}" + (f": {first}" if first else ""), *(f"  {line}" for line in rest),
            *(f"  | {line}" for line in check["printed"])]


def title(test):
    return f"{test['task']} {test['title']}" + ("" if test["visibility"] == "visible" else " (hidden cases)")


def text(record, stream=None):
    """For a terminal."""
    lines = [coloured(f"Stage {record['stage']}, {record['name']}: {number(record['earned'])} of "
                      f"{number(record['points'])} points", "bold", stream)]
    for test in record["tests"]:
        points = f"{number(test['earned'])}/{number(test['points'])}"
        colour = "green" if test["status"] == "passed" else "red"
        lines.append(f"  {coloured(f'{points:>9}', colour, stream)}  {title(test)}")
        for check in test["checks"]:
            if check["status"] != "pass":
                lines += [" " * 13 + coloured(line, COLOURS[check["status"]], stream) for line in explanation(check)]
    lines += [f"note: {note}" for note in record["notes"]]
    lines += [f"{entry['name']}: {number(entry['value'])}" for entry in record["leaderboard"]]
    return "\n".join(lines) + "\n"


def gradescope(record, stream=None):
    """results.json of Gradescope's autograder specification: one test a task, and one more for its
    hidden cases. https://gradescope-autograders.readthedocs.io/en/latest/specs/"""
    tests = [{"score": test["earned"], "max_score": test["points"], "status": test["status"], "name": title(test),
              "number": test["task"], "output": "\n".join(line for c in test["checks"] for line in explanation(c)),
              "output_format": "text", "tags": [f"stage {record['stage']}", f"task {test['task']}"],
              "visibility": test["visibility"]} for test in record["tests"]]
    result = {"execution_time": round(record["seconds"], 1), "output": "\n".join(record["notes"]),
              "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden", "tests": tests,
              "leaderboard": record["leaderboard"]}
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"


def junit(record, stream=None):
    """JUnit XML, as Ant's schema has it and Jenkins reads it: a test case for each check."""
    checks = [(test, check) for test in record["tests"] for check in test["checks"]]
    counted = {status: str(sum(check["status"] == status for _, check in checks)) for status in COLOURS}
    root = xml.Element("testsuites")
    suite = xml.SubElement(root, "testsuite", {
        "name": f"stage {record['stage']}", "package": "specdec", "id": "0", "hostname": "localhost",
        "timestamp": datetime.datetime.now().strftime("%Y-%m-%dT%H:%M:%S"), "time": f"{record['seconds']:.3f}",
        "tests": str(len(checks)), "failures": counted["fail"], "errors": counted["error"],
        "skipped": counted["not checked"]})
    properties = xml.SubElement(suite, "properties")
    for name in ("points", "earned"):
        xml.SubElement(properties, "property", {"name": name, "value": number(record[name])})
    for test, check in checks:
        case = xml.SubElement(suite, "testcase", {"classname": title(test), "name": check["name"],
                                                  "time": f"{check['seconds']:.3f}"})
        said = "\n".join(explanation(check))
        if check["status"] == "not checked":
            xml.SubElement(case, "skipped").text = said
        elif check["status"] != "pass":
            kind = {"fail": "failure", "error": "error"}[check["status"]]
            xml.SubElement(case, kind, {"type": check["status"], "message": check["message"].split("\n")[0]}).text = said
    xml.SubElement(suite, "system-out").text = "\n".join(record["notes"])
    xml.SubElement(suite, "system-err")
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def by_task(record):
    """The tests of a record, one for each task, for graders that show all they are given: points of hidden cases count,
    and what these say stays away."""
    tasks = {}
    for test in record["tests"]:
        entry = tasks.setdefault(test["task"], {"name": f"{test['task']} {test['title']}", "points": 0, "earned": 0,
                                                "passed": True, "checks": [], "lines": []})
        entry["points"] += test["points"]
        entry["earned"] += test["earned"]
        entry["passed"] &= test["status"] == "passed"
        if test["visibility"] == "visible":
            entry["checks"] += test["checks"]
            entry["lines"] += [line for check in test["checks"] if check["status"] != "pass" for line in explanation(check)]
        else:
            entry["lines"].append(f"hidden cases: {number(test['earned'])} of {number(test['points'])} points")
    return tasks


def autolab(record, stream=None):
    """What Autolab reads from an autograder's stdout: for students all lines, of which the last but one describes stages
    of tests, and the last has the scores, by problem, and a row of the scoreboard. A task is a problem and a stage.
    https://docs.autolabproject.com/lab/ and https://docs.autolabproject.com/features/formatted-feedback/"""
    tasks = by_task(record)
    lines = []
    for task in tasks.values():
        lines.append(f"{number(task['earned'])}/{number(task['points'])}  {task['name']}")
        lines += [f"  {line}" for line in task["lines"]]
    lines += [f"note: {note}" for note in record["notes"]]
    feedback = {"_presentation": "semantic", "stages": [task["name"] for task in tasks.values()]}
    for task in tasks.values():
        feedback[task["name"]] = {check["name"]: {"passed": True} if check["status"] == "pass" else
                                  {"passed": False, "hint": explanation(check)[0]} for check in task["checks"]}
    scores = {"scores": {name: round(task["earned"], 2) for name, task in tasks.items()},
              "scoreboard": [record["earned"], round(record["seconds"], 1)]}
    return "\n".join([*lines, json.dumps(feedback), json.dumps(scores)]) + "\n"


def github(record, stream=None):
    """The output `result` of a step in a workflow of GitHub Classroom, as its own graders write it and its reporter reads
    it: base64 of JSON with a test for each task. Made to be written into the file GITHUB_OUTPUT.
    https://github.com/classroom-resources/autograding-grading-reporter"""
    tests = []
    for task in by_task(record).values():
        failed = "error" if any(check["status"] == "error" for check in task["checks"]) else "fail"
        tests.append({"name": task["name"], "status": "pass" if task["passed"] else failed,
                      "score": round(task["earned"], 2), "message": "\n".join(task["lines"]) or None, "test_code": "",
                      "filename": "", "line_no": 0})
    statuses = {test["status"] for test in tests}
    worst = next((status for status in ("error", "fail") if status in statuses), "pass")
    result = {"version": 1, "status": worst, "max_score": record["points"], "tests": tests}
    return f"result={base64.b64encode(json.dumps(result).encode()).decode()}\n"


# result.json's field -> the variable of Classroom 50's runner that has it.
CLASSROOM50 = {"classroom": "CLASSROOM", "assignment": "ASSIGNMENT", "assignment_type": "ASSIGNMENT_TYPE", "owner": "OWNER",
               "submission": "SUBMISSION_TAG", "commit": "COMMIT_URL", "release": "RELEASE_URL"}


def classroom50(record, stream=None):
    """result.json of Classroom 50, whose runner says in the environment what is graded. Points are whole numbers there, so
    each task's are rounded down. Raises Trouble elsewhere than in that runner.
    https://github.com/foundation50/classroom50/wiki/Advanced-Autograding"""
    missing = [name for name in CLASSROOM50.values() if not os.environ.get(name)]
    if missing:
        raise Trouble(f"{missing[0]} is not set: FORMAT=classroom50 is for autograders that Classroom 50's runner starts")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # the runner knows the commit's
    tests = [{"test-name": task["name"], "passed": task["passed"], "score": int(round(task["earned"], 2)),
              "max-score": int(task["points"]), "output": "\n".join(task["lines"])} for task in by_task(record).values()]
    result = {"schema": "classroom50/result/v1", **{field: os.environ[name] for field, name in CLASSROOM50.items()},
              "review": os.environ.get("REVIEW_URL") or os.environ["COMMIT_URL"], "datetime": now,
              **{field: sum(test[field] for test in tests) for field in ("score", "max-score")}, "tests": tests}
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"


FORMATS = {"text": text, "gradescope": gradescope, "junit": junit, "autolab": autolab, "github": github,
           "classroom50": classroom50}
