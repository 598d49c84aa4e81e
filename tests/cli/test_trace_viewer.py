"""The trace viewer, the script that gives it a sample, and the drawing that it shares with the server's page: what is no
trace is told in one line, and at once.

    test_trace_viewer.py ROOT

The page's own functions run in Node where there is one: its checks, and what it draws of a round, on a
document that is made up. Without Node those tests are skipped.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from trace_page import NODE, PAGE, TracePage

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
TREES = ROOT / "tests/fuzz/corpus/traces/trees"  # of stage 8, three rounds
BEAMS = ROOT / "tests/fuzz/corpus/traces/beams"  # of stage 10
SCRIPT = ROOT / "docs/interactive/embed_trace.py"
sys.path.insert(0, str(SCRIPT.parent))
import shared_drawing  # noqa: E402

HUGE = 2 ** 53


def sample():
    return json.loads(re.search(r'id="sample">\n(.*?)</script>', PAGE.read_text(encoding="utf-8"), re.DOTALL)[1])


def changed(change):
    """The sample's text after a change."""
    trace = sample()
    change(trace)
    return json.dumps(trace)


def changed_tree(change):
    """The text of a trace of trees after a change of its first round's tree, or of the round itself."""
    trace = json.loads(TREES.read_text(encoding="utf-8"))
    change(trace["rounds"][0]["tree"])
    return json.dumps(trace)


def changed_beams(change):
    """The text of a trace of beams after a change of its second round."""
    trace = json.loads(BEAMS.read_text(encoding="utf-8"))
    change(trace["rounds"][1])
    return json.dumps(trace)


def comb(round_):
    """Branches in a row: each draft has a sibling."""
    last = len(round_["tree"]) - 1
    for i in range(200):
        round_["tree"] += [{"token": 1, "parent": last, "kind": "draft"}, {"token": 2, "parent": last, "kind": "draft"}]
        last = len(round_["tree"]) - 1


def became_of_drafts(round_):
    """Of each text that a round drafted, found or ended, from the end of the text that all beams share: what became of it.
    A text is its tokens."""
    texts = []
    for node in round_["tree"]:
        texts.append((*(texts[node["parent"]] if node["parent"] >= 0 else ()), node["token"]))
    levels, ended = [[texts[beam["node"]] for beam in round_["beams"]]], []
    for step in round_["steps"]:
        ended += [(*levels[-1][one["beam"]], one["token"]) for one in step["candidates"] if one["fate"] == "ends"]
        levels.append([(*levels[-1][one["beam"]], one["token"]) for one in step["beams"]])
    ran, left = {text for level in levels for text in level}, {*levels[-1], *ended}
    for text in [text for text, node in zip(texts, round_["tree"]) if node["kind"] == "draft"]:
        is_kept = any(other[:len(text)] == text for other in left)
        yield text, ("kept" if is_kept else "died") if text in ran else (
            "lost" if text[:-1] in ran and text[:-1] not in levels[-1] else "never reached")
    for text in set(levels[-1]) - set(texts):
        yield text, "kept, not drafted"
    for text in ended:
        yield text, "ended"


def tall_tree(tree):
    tree["nodes"] = [{**tree["nodes"][0], "parent": i - 1, "depth": i} for i in range(100)]


def drawn(round_, parent=-1):
    """The tokens of a tree from top to bottom with what became of them. The last one follows the path."""
    nodes = round_["tree"]["nodes"]
    for i, node in enumerate(nodes):
        if node["parent"] == parent:
            yield node["token"], node["verdict"]
            yield from drawn(round_, i)
    if parent == (round_["tree"]["path"] or [-1])[-1]:
        yield round_["last"]["token"], round_["last"]["kind"]


def visible(text):
    return text.replace(" ", "␣").replace("\n", "⏎")


def caches(length, page_size):
    """A cache of so many tokens, in a trace that says how large its pages are."""
    def change(trace):
        trace["page_size"] = page_size
        for when in ("before", "after"):
            trace["rounds"][0][when]["target"]["length"] = length
    return change


def deep(key):
    """A trace with more lists in each other than Python's or a page's functions can call themselves."""
    return changed(lambda trace: trace.update({key: "HERE"})).replace('"HERE"', "[" * 900 + "]" * 900)


# name -> (text, words of the page's complaint, words of the script's). None: it takes the trace.
TRACES = {
    "the sample": (lambda: changed(lambda t: None), None, None),
    "2^53 tokens drafted": (lambda: changed(lambda t: t["rounds"][0].update(drafted=HUGE)), "rounds[0].drafted", None),
    "2^53 as the start": (lambda: changed(lambda t: t["rounds"][0].update(start=HUGE)), "rounds[0].start", None),
    "2^53 tokens cached": (lambda: changed(caches(HUGE, 1)), "length is 9007199254740992; it should be a whole number from 0 to", None),
    "a billion tokens cached in pages of one": (lambda: changed(caches(10 ** 9, 1)), None, None),
    "a token 2^53": (lambda: changed(lambda t: t["tokens"].append(HUGE)), "tokens[", None),
    "a page size of 2^53": (lambda: changed(lambda t: t.update(page_size=HUGE)), "page_size", None),
    "200,000 tokens": (lambda: changed(lambda t: t["rounds"][0]["emitted"].extend([1] * 200000)), "emitted has 200006 items", None),
    "200,000 rounds": (lambda: changed(lambda t: t.update(rounds=[{}] * 200000)), "rounds has 200000 items", None),
    "200,000 pages": (lambda: changed(lambda t: t["rounds"][0]["after"]["target"].update(pages=[1] * 200000)), "pages has", None),
    "many rows": (lambda: changed(lambda t: t["rounds"][0]["last"].update(distributions={"tokens": [[1, .1, .1, .1]] * 5000})),
                  "tokens has 5000 items", None),
    "a rule that is a list": (lambda: changed(lambda t: t.update(rule=[1])), "rule is [1]; it should be a string", None),
    "deep": (lambda: deep("stats"), "lists and objects in each other", "lists and objects in each other"),
    "deeper than Python": (lambda: "[" * 100000 + "]" * 100000, "lists and objects in each other", "no JSON"),
    "a number beyond float64": (lambda: changed(lambda t: t["stats"].update(more=1)).replace('"more": 1', '"more": 2e308'),
                                None, "a number that is too large"),
    "half a character": (lambda: changed(lambda t: t["pieces"].update({"1": "\ud800"})), None, "has a text that is none"),
    "trees": (lambda: changed_tree(lambda t: None), None, None),
    "a trace of trees without trees": (lambda: changed(lambda t: t.update(format="specdec-trace-2")),
                                       "rounds[0].tree is missing", None),
    "a tree in a trace without trees": (lambda: changed(lambda t: t["rounds"][0].update(tree=[1])), None, None),
    "a node before its parent": (lambda: changed_tree(lambda t: t["nodes"][0].update(parent=3)),
                                 "nodes[0].parent is 3", None),
    "a node on another level": (lambda: changed_tree(lambda t: t["nodes"][1].update(depth=2)), "nodes[1].depth is 2", None),
    "a tree of 100 levels": (lambda: changed_tree(tall_tree), "nodes[64].depth is 64", None),
    "5,000 nodes": (lambda: changed_tree(lambda t: t["nodes"].extend(t["nodes"][:1] * 5000)), "nodes has 5007 items", None),
    "no such verdict": (lambda: changed_tree(lambda t: t["nodes"][0].update(verdict="kept")), "nodes[0].verdict is", None),
    "a trial of no node": (lambda: changed_tree(lambda t: t["trials"][0].update(node=7)), "trials[0].node is 7", None),
    "a node without trials": (lambda: changed_tree(lambda t: t.update(trials=[])), None, None),
    "beams": (lambda: changed_beams(lambda r: None), None, None),
    "a trace of beams without beams": (lambda: changed(lambda t: t.update(format="specdec-trace-3")), "hypotheses is missing", None),
    "beams in a trace without beams": (lambda: changed(lambda t: t["rounds"][0].update(search={}, items=[1])), None, None),
    "a beam of no node": (lambda: changed_beams(lambda r: r["beams"][0].update(node=99)), "beams[0].node is 99", None),
    "a candidate of no beam": (lambda: changed_beams(lambda r: r["steps"][0]["candidates"][0].update(beam=9)),
                               "steps[0].candidates[0].beam is 9", None),
    "no such fate": (lambda: changed_beams(lambda r: r["steps"][0]["candidates"][0].update(fate="lives")),
                     "candidates[0].fate is", None),
    "a score that is none": (lambda: changed_beams(lambda r: r["steps"][0]["beams"][0].update(score="low")),
                             "steps[0].beams[0].score is", None),
    "a draft before its parent": (lambda: changed_beams(lambda r: r["tree"][1].update(parent=1)), "tree[1].parent is 1", None),
    "100 steps": (lambda: changed_beams(lambda r: r["steps"].extend(r["steps"] * 100)), "this page shows up to 64", None),
    "200 branches in a row": (lambda: changed_beams(comb), "branches more than 128 times in a row", None),
    "no trace": (lambda: "{}", 'no "format"', "no trace"),
    "no JSON": (lambda: "{", "no JSON", "no JSON"),
}


class SharedDrawing(unittest.TestCase):
    def test_pages_hold_it_as_it_is(self):
        for path in shared_drawing.PAGES:
            page = path.read_text(encoding="utf-8")
            self.assertTrue(shared_drawing.filled(page) == page, f"{path}: python3 docs/interactive/shared_drawing.py")

    def test_pages_take_text_as_text_and_load_nothing(self):
        for path in shared_drawing.PAGES:
            page = path.read_text(encoding="utf-8")
            self.assertIsNone(re.search(r"(inner|outer)HTML|insertAdjacent|document\.write|eval\(|new Function|srcdoc", page), path)
            self.assertIsNone(re.search(r"<[^>]*\s(src|href|action|on\w+)=|@import|url\(|\w//\w+\.\w+", page), path)

    def test_the_servers_page_runs_only_its_own_script(self):
        page = shared_drawing.PAGES[1].read_text(encoding="utf-8")
        [policy] = re.findall(r'content="(default-src[^"]*)"', page)
        self.assertNotIn("unsafe", policy)
        for element in ("script", "style"):
            self.assertIn(f"{element}-src 'sha256-{shared_drawing.hash_of(page, element)}'", policy)
            self.assertNotEqual(shared_drawing.hash_of(page.replace(f"</{element}>", f" </{element}>"), element),
                                shared_drawing.hash_of(page, element))


class TraceViewer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def embed(self, data, page=None):
        page = page or shutil.copy(PAGE, self.folder / "page.html")
        (self.folder / "trace.json").write_bytes(data)
        return subprocess.run([sys.executable, SCRIPT, self.folder / "trace.json", "--page", page], text=True,
                              capture_output=True, check=False)

    def expect_line(self, done, words, name):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), (name, done.stderr))
        self.assertTrue(done.stderr.startswith("embed_trace: "), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual((self.folder / "page.html").read_bytes(), PAGE.read_bytes(), name)

    def test_a_sample_is_embedded_whole_or_not_at_all(self):
        for name, (text, _, words) in TRACES.items():
            with self.subTest(name):
                done = self.embed(text().encode("utf-8"))
                if words:
                    self.expect_line(done, words, name)
                else:
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["page.html", "trace.json"])

    def test_bytes_that_are_no_text_are_told(self):
        self.expect_line(self.embed(b"\xff\xfe{}"), "cannot be read", "bytes")

    def test_only_a_plain_file_is_replaced(self):
        text = changed(lambda t: None).encode()
        shutil.copy(PAGE, self.folder / "page.html")
        (self.folder / "link.html").symlink_to("page.html")
        self.assertEqual(self.embed(text, self.folder / "link.html").returncode, 0)
        self.assertTrue((self.folder / "link.html").is_symlink())
        shutil.copy(PAGE, self.folder / "page.html")
        self.expect_line(self.embed(text, "/dev/null"), "/dev/null", "a device")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    @unittest.skipUnless(NODE, "there is no node")
    def test_the_page_shows_a_trace_or_says_at_once_why_not(self):
        page = TracePage()
        self.addCleanup(page.close)
        for name, (text, words, _) in TRACES.items():
            with self.subTest(name):
                said = page.says(text())
                self.assertIn(words, said) if words else self.assertEqual(said, "")

    @unittest.skipUnless(NODE, "there is no node")
    def test_the_page_draws_trees(self):
        page = TracePage()
        self.addCleanup(page.close)
        answer = page.answer(TREES.read_text(encoding="utf-8"))
        self.assertEqual(answer["notes"], [""], "the trace contradicts itself")
        trace = json.loads(TREES.read_text(encoding="utf-8"))
        for round_, lines in zip(trace["rounds"], answer["rounds"], strict=True):
            shown = [line for line in lines if "path q" in line or line.endswith(round_["last"]["kind"])]
            want = list(drawn(round_))
            self.assertEqual(len(shown), len(want))
            for line, (token, verdict) in zip(shown, want):
                self.assertEqual(line.replace(" ", "").find(visible(trace["pieces"][str(token)])), 0)
                self.assertIn(verdict, line)
            self.assertEqual(sum("of 3 tried" in line for line in shown),
                             sum(node["drafts"] == 3 for node in round_["tree"]["nodes"]))
        merged = [line for line in answer["rounds"][0] if "1 of 3 tried" in line]
        self.assertEqual(merged, ["␣ S u n i t a accepted 1 of 3 tried path q 0.935"])

    @unittest.skipUnless(NODE, "there is no node")
    def test_the_page_tells_a_tree_that_contradicts_itself(self):
        page = TracePage()
        self.addCleanup(page.close)
        for change, words in ((lambda t: t["trials"].pop(), "trials for"),
                              (lambda t: t["nodes"][0].update(verdict="rejected"), "not the node that it follows"),
                              (lambda t: t["nodes"][0].update(token=1), "emitted is not")):
            self.assertIn(words, " ".join(page.answer(changed_tree(change))["notes"]))

    @unittest.skipUnless(NODE, "there is no node")
    def test_the_page_draws_beams(self):
        page = TracePage()
        self.addCleanup(page.close)
        answer, trace = page.answer(BEAMS.read_text(encoding="utf-8")), json.loads(BEAMS.read_text(encoding="utf-8"))
        self.assertEqual(answer["notes"], [""], "the trace contradicts itself")
        seen = set()
        for round_, lines in zip(trace["rounds"], answer["rounds"], strict=True):
            want = collections.Counter((visible(trace["pieces"][str(text[-1])]), said) for text, said in became_of_drafts(round_))
            beams = re.compile(r"(.*) (kept, not drafted|kept|died|lost|ended|never reached)( beam \d+ after step \d+)?( −[\d.]+)?")
            found = [beams.fullmatch(line) for line in lines]
            shown = collections.Counter((match[1].replace(" ", ""), match[2]) for match in found if match)
            self.assertEqual(shown, want)
            seen |= {said for _, said in shown}
            self.assertEqual(sum(bool(re.search(r" beam \d+ −?[\d.]+$", line)) for line in lines), len(round_["beams"]))
        self.assertGreaterEqual(seen, {"kept", "kept, not drafted", "died", "lost", "never reached", "ended"})

    @unittest.skipUnless(NODE, "there is no node")
    def test_the_page_tells_beams_that_contradict_themselves(self):
        page = TracePage()
        self.addCleanup(page.close)
        for change, words in ((lambda r: r.update(rows=r["rows"] + 1), "nodes are beams or drafts"),
                              (lambda r: r.update(start=r["start"] + 1), "the next round starts with"),
                              (lambda r: r["steps"][-1]["beams"].pop(), "are not the candidates that run on"),
                              (lambda r: r["steps"][0]["candidates"].reverse(), "not in the order of their sums"),
                              (lambda r: r["steps"][0]["beams"][0].update(node=0), "another node than its draft"),
                              (lambda r: r.update(finished=True), "more rounds follow"),
                              (lambda r: r.update(text=r["text"] + 1), "its texts are not those of the next round")):
            self.assertIn(words, " ".join(page.answer(changed_beams(change))["notes"]))


if __name__ == "__main__":
    unittest.main()
