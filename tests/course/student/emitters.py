"""Writes a grade in the formats that people and graders read; grade.py makes the record.

The record of a stage:
    {"stage": 4, "name": "greedy speculation", "points": 100, "earned": 85.0, "seconds": 31.4, "notes": [text, ...],
     "tests": [{"task": "4.2", "title": text, "points": 15, "earned": 0.0, "status": "passed" or "failed",
                "visibility": "visible", "seconds": 1.2,
                "checks": [{"name": text, "status": "pass", "message": text, "printed": [line, ...], "seconds": 0.4}]}],
     "leaderboard": [{"name": text, "value": number, "order": "asc" or "desc"}]}
"""
import datetime
import json
import xml.etree.ElementTree as xml

from student.terminal import coloured

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


FORMATS = {"text": text, "gradescope": gradescope, "junit": junit}
