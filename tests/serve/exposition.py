"""Prometheus' text format, version 0.0.4, read strictly."""
import math
import re

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


def value_of(text):
    assert re.fullmatch(r"[+-]Inf|NaN|[-+0-9.eE]+", text), text  # what float() takes beyond that is refused
    return float(text)


def labels_of(text):
    """{name: value} of {name="value",...}"""
    if not text:
        return {}
    pairs = LABEL.findall(text)
    assert "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}" == text, text
    assert len(dict(pairs)) == len(pairs), text
    return dict(pairs)


class Family:
    def __init__(self, name):
        self.name, self.help, self.type = name, None, None
        self.samples = []  # (name, labels, value)

    def value(self, suffix=""):
        """The sum over all labels."""
        return sum(value for name, _, value in self.samples if name == self.name + suffix)

    def check(self):
        assert self.help and self.type, f"{self.name} without HELP or TYPE"
        keys = [(name, tuple(sorted(labels.items()))) for name, labels, _ in self.samples]
        assert len(set(keys)) == len(keys), f"{self.name} has a sample twice"
        if self.type == "counter":
            assert self.name.endswith("_total"), self.name
        if self.type in ("counter", "histogram"):
            assert all(value >= 0 for _, _, value in self.samples), self.name
        if self.type == "histogram":
            self.check_histogram()
        else:
            assert {name for name, _, _ in self.samples} <= {self.name}, self.samples

    def check_histogram(self):
        series = {}
        for name, labels, value in self.samples:
            bound = labels.pop("le", None)
            assert (bound is not None) == name.endswith("_bucket"), name
            one = series.setdefault(tuple(sorted(labels.items())), {"bounds": [], "counts": []})
            if bound is not None:
                one["bounds"].append(value_of(bound))
                one["counts"].append(value)
            else:
                one[name[len(self.name):]] = value
        for one in series.values():
            assert set(one) == {"bounds", "counts", "_sum", "_count"}, one
            assert one["bounds"] == sorted(set(one["bounds"])) and one["bounds"][-1] == math.inf, one
            assert one["counts"] == sorted(one["counts"]) and one["counts"][-1] == one["_count"], one


def parse(text):
    """{name: Family}. Throws AssertionError for whatever a strict reader refuses."""
    assert text.endswith("\n"), "the last line has no end"
    families, family = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            if family is None or family.name != name:
                assert name not in families, f"{name} is not in one piece"
                family = families[name] = Family(name)
            assert kind in ("HELP", "TYPE") and not family.samples, line
            key = kind.lower()
            assert getattr(family, key) is None, line
            assert kind == "HELP" or rest in ("counter", "gauge", "histogram"), line
            setattr(family, key, rest)
        else:
            found = SAMPLE.fullmatch(line)
            assert found and family and re.fullmatch(re.escape(family.name) + "(_bucket|_sum|_count)?", found[1]), line
            family.samples.append((found[1], labels_of(found[2]), value_of(found[3])))
    for family in families.values():
        family.check()
    return families
