"""The page of a server, in headless Chromium: what a visitor clicks, types and sees.

    test_page.py BIN                                      the tests
    test_page.py BIN --photograph FILE.png [OPTION]...    the picture of the docs, from stage 6 with these options

exit code: 77 (NOT CHECKED) where there is no Chromium
"""
import json
import pathlib
import sys
import tempfile
import threading
import unittest
import urllib.request

from serving import Server, Usual

from chromium import CHROMIUM, Browser  # where serving has them from
from programs import run_program_json

BIN = pathlib.Path(sys.argv[1]).resolve()
PROMPT = "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat."
SLOW = ("--inflate-target", "134m")  # the same text at a speed at which a person can stop it
SIZES = [(1280, False), (1280, True), (390, False), (390, True)]  # width, dark
# A request's text as the page shows it: the tokens that were emitted, without the stand-ins beside spaces and new lines.
TEXT = """[...document.querySelectorAll('#runs .running')].map(box => [...box.children].filter(part => part.className !== 'rejected'
  && !part.className.startsWith('rejected ')).map(part => [...part.childNodes].filter(node => node.nodeType === 3)
  .map(node => node.data).join('')).join(''))"""
# A round as the server may send it, with markup in each text: a tree, and a bonus.
EVIL = "<img src=x onerror=alert(1)>"
ROUND = {"drafts": [{"text": f"{EVIL}{i}", "parent": parent, "verdict": verdict} for i, (parent, verdict) in enumerate([
             (-1, "accepted"), (-1, "rejected"), (0, "rejected"), (0, "accepted"), (2, "not reached")])],
         "last": {"text": f"{EVIL}5", "kind": "bonus"},
         "tokens": [{"text": f"{EVIL}0", "kind": "accepted"}, {"text": f"{EVIL}3", "kind": "accepted"},
                    {"text": f"{EVIL}5", "kind": "bonus"}]}


def page_of(server):
    return f"http://127.0.0.1:{server.port}/"


def visit(browser, server, width=1280, dark=False):
    browser.look(width, dark=dark)
    browser.open("about:blank")
    browser.open(page_of(server))
    browser.wait("document.getElementById('connection').textContent.startsWith('●')")


def put(browser, name, value):
    browser.run(f"document.getElementById({json.dumps(name)}).value = {json.dumps(value)}; true")


def text_of(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


class Page(Usual):
    PROGRAM = BIN / "06_batched_verification"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.open("about:blank")  # away from a server that has ended
        self.browser.complaints.clear()

    def wait(self, script):
        return self.browser.wait(script)

    def test_a_request_beside_plain_decoding(self):
        plain = run_program_json(BIN / "01_naive_decoder", "--prompt", PROMPT, "--max-new-tokens", "40")["text"]
        for width, dark in SIZES:
            visit(self.browser, self.server, width, dark)
            self.browser.click("#prompt")
            self.browser.run("document.getElementById('prompt').select()")
            self.browser.type(PROMPT)
            put(self.browser, "max_tokens", 40)
            self.browser.press("Enter", modifiers=2)
            self.wait("document.getElementById('verdict').textContent !== ''")
            self.assertEqual(text_of(self.browser, "#verdict"),
                             f"✓ Plain decoding wrote the same text: {len(plain)} characters are equal.")
            self.assertEqual(self.browser.run(TEXT), [plain, plain])
            rounds = self.browser.run("[...document.querySelectorAll('#runs .strip')].map(strip => strip.children.length)")
            self.assertEqual(rounds[1], 40)
            self.assertLess(rounds[0], 40)
            kept, corrected = (self.browser.run(f"document.querySelectorAll('#runs .running .{kind}').length") for kind in (
                "accepted", "correction"))
            for words in (f"40tokens in {rounds[0]} rounds", f"{kept / (kept + corrected):.3f}alpha: {kept} of {kept + corrected} tested",
                          f"{40 / rounds[0]:.2f}tokens per pass"):
                self.assertIn(words, text_of(self.browser, "#runs .tiles"))
            for kind in ("accepted", "rejected", "correction", "bonus"):
                self.assertGreater(self.browser.run(f"document.querySelectorAll('#runs .running .{kind}').length"), 0, kind)
            self.assertIn("measured speedup", text_of(self.browser, "#speed"))
            self.assertRegex(text_of(self.browser, "#gauges"), r"batch\d+ of 16pages\d+ of \d+draft’s pages\d+ of \d+")
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, "it is wider than its window")
            self.assertGreater(len(self.browser.photograph()), 20000)
        self.assertEqual(self.browser.complaints, [])

    def test_a_message_is_answered(self):
        visit(self.browser, self.server)
        self.browser.click("input[value='chat/completions']")
        put(self.browser, "prompt", "Where is the cat?")
        put(self.browser, "max_tokens", 12)
        self.browser.click("#send")
        self.wait("document.getElementById('verdict').textContent !== ''")
        chat = run_program_json(BIN / "02_contiguous_kv_cache", "--chat", "Where is the cat?", "--max-new-tokens", "12")
        self.assertEqual(self.browser.run(TEXT)[0], chat["text"])

    def test_texts_of_a_seed_are_equal_where_the_rule_promises_it(self):
        for rule, words in (("coupled", "✓ Plain decoding wrote the same text"), ("rejection", "The texts differ from character")):
            visit(self.browser, self.server)
            for name, value in (("temperature", 1), ("seed", 3), ("acceptance", rule), ("max_tokens", 60)):
                put(self.browser, name, value)
            self.browser.click("#send")
            self.wait("document.getElementById('verdict').textContent !== ''")
            self.assertIn(words, text_of(self.browser, "#verdict"))
        self.assertEqual(self.browser.run("document.getElementById('verdict').className"), "note")

    def test_rounds_are_walked_by_keys(self):
        visit(self.browser, self.server)
        self.browser.click("#beside")
        self.browser.click("#send")
        self.wait("document.getElementById('runs').textContent.includes('Complete.')")
        last = self.browser.run("document.querySelector('#runs .strip').children.length")
        self.assertEqual(text_of(self.browser, "#runs h3"), f"Round {last} of {last}")
        for _ in range(60):  # from the button that sends to the strip
            self.browser.press("Tab")
            if self.browser.run("!!document.activeElement.closest('.strip')"):
                break
        for key, r in (("ArrowUp", last - 1), ("Home", 1), ("ArrowDown", 2), ("End", last)):
            self.browser.press(key)
            self.assertEqual(text_of(self.browser, "#runs h3"), f"Round {r} of {last}")
            self.assertEqual(self.browser.run("document.activeElement.querySelector('.index').textContent"), str(r))

    def test_texts_are_never_markup(self):
        visit(self.browser, self.server)
        self.browser.run(f"""const evil = newRun({json.dumps(EVIL)});
            $('runs').append(evil.section); take(evil, {{rounds: [{json.dumps(ROUND)}]}})""")
        self.wait("document.querySelectorAll('#runs .tree li').length > 0")
        self.assertEqual(self.browser.run("document.images.length"), 0)
        shown = self.browser.run("[...document.querySelectorAll('#runs .tree li li')].map(li => li.firstChild.textContent)")
        self.assertEqual(shown, [f"{EVIL.replace(' ', '␣')}{node} {said}" for node, said in (
            (0, "accepted"), (2, "rejected"), (4, "not reached"), (3, "accepted"), (5, "bonus"), (1, "rejected"))])
        self.assertEqual(self.browser.run("document.querySelectorAll('#runs .tree .on-path').length"), 3)
        self.assertEqual(self.browser.run("document.querySelector('#runs .running').textContent"), "".join(f"{EVIL}{i}" for i in (1, 0, 2, 3, 5)))
        self.assertEqual(self.browser.complaints, [])

    def test_errors_of_the_server_are_told(self):
        visit(self.browser, self.server)
        put(self.browser, "spec_length", 10 ** 8)
        self.browser.click("#send")
        self.wait("document.querySelector('#runs .error')?.textContent ?? ''")
        self.assertRegex(text_of(self.browser, "#runs .error"), "^400: .*100000000")
        self.assertEqual(self.browser.run("document.activeElement.id"), "spec_length")
        self.assertEqual(self.browser.run("$('spec_length').getAttribute('aria-invalid')"), "true")

    def test_a_key_is_asked_for(self):
        with tempfile.NamedTemporaryFile("w", suffix=".key") as file:
            file.write("sesame\n")
            file.flush()
            server = Server(self.PROGRAM, "--api-key-file", file.name)
            self.addCleanup(server.stop)
            self.browser.look(390)
            self.browser.open(page_of(server))
            self.wait("!document.getElementById('key-form').hidden")
            self.browser.type("sesame")  # where the focus is
            self.browser.press("Enter", text="\r")
            self.wait("document.getElementById('connection').textContent.startsWith('●')")
            self.browser.click("#send")
            self.wait("document.getElementById('verdict').textContent.startsWith('✓')")

    def test_requests_have_lanes_and_are_stopped(self):
        server = Server(self.PROGRAM, *SLOW)
        self.addCleanup(server.stop)
        visit(self.browser, server)
        put(self.browser, "max_tokens", 400)
        self.browser.click("#send")
        self.wait("document.querySelectorAll('#lanes .is-running').length")
        self.wait("document.querySelectorAll('#runs .strip li').length > 3")
        lane = text_of(self.browser, "#lanes .is-running")
        self.assertRegex(lane, r"running, \d+ tokens? in \d+ rounds?, \d+ of \d+ drafts accepted, \d+ pages?")
        self.browser.press("Escape")
        self.wait("document.getElementById('runs').textContent.includes('Stopped: ')")
        self.wait("server.batch.running === 0 && server.requests.length === 0")  # the server notices
        self.wait("document.querySelectorAll('#lanes .is-gone').length")
        self.assertIn("Not started.", text_of(self.browser, "#runs"))


def ask(address, prompt):
    """Another visitor's request, to its end."""
    body = json.dumps({"prompt": prompt, "max_tokens": 1000, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"{address}v1/completions", body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request).read()
    except OSError:
        pass  # the picture is taken, and the server has ended


def photograph(path, *options):
    """The picture of the docs: a request and its comparison, and then others that run."""
    browser = Browser()
    server = Server(Page.PROGRAM, *options)
    visit(browser, server, 1320)
    put(browser, "max_tokens", 48)
    browser.click("#send")
    browser.wait("document.getElementById('verdict').textContent !== ''")
    for prompt in ("Behind the bridge", "In the evening"):
        threading.Thread(target=ask, args=(page_of(server), prompt), daemon=True).start()
    browser.wait("Math.max(...[...document.querySelectorAll('.is-running .ticks')].map(ticks => ticks.children.length)) > 12")
    pathlib.Path(path).write_bytes(browser.photograph())
    browser.close()
    server.stop()


if __name__ == "__main__":
    if not CHROMIUM:
        print("NOT CHECKED: there is no chromium")
        sys.exit(77)
    if sys.argv[2:3] == ["--photograph"]:
        photograph(*sys.argv[3:])
    else:
        unittest.main(argv=[sys.argv[0]])
