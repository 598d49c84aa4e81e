"""docs/trace_viewer.html's own script in Node, on a document that is made up."""
import json
import pathlib
import re
import shutil
import subprocess

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/trace_viewer.html"
NODE = shutil.which("node")

# A line in: a trace's text as JSON. A line out: what the page says of it (nothing, where it shows it),
# what was thrown, the lines of each round, what contradicts itself, and how long it took to open it and to look at each of its rounds.
HARNESS = """
class Element {
  constructor() { this.style = {}; this.children = []; this.textContent = ''; this.hidden = true; this.dataset = {};
    this.classList = {toggle() {}}; this.parentElement = this; this.scrollTop = 0; this.offsetHeight = 0; }
  setAttribute(name, value) { if (name.startsWith('data-')) this.dataset[name.slice(5)] = String(value); }
  append(...children) { for (const child of children) this.children.push(child); }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  querySelectorAll(what) { return what === 'button' ? this.children.map(() => new Element()) : []; }
  querySelector() { return null; }
  contains() { return false; }
  scrollIntoView() {}
  getBoundingClientRect() { return {top: 0}; }
  addEventListener() {}
}
const elements = {};
globalThis.document = {getElementById: id => elements[id] ??= new Element(), createElement: name => Object.assign(new Element(), {name}),
                       addEventListener() {}, activeElement: null};
globalThis.location = {hash: ''};
globalThis.history = {replaceState() {}};
globalThis.window = {addEventListener() {}};
// The text of each thing that a user can choose, and of all else.
const textOf = part => typeof part === 'string' ? part : part.children.map(textOf).filter(Boolean).join(' ');
const linesOf = part => part.name === 'button' || !part.children?.some(child => child.name)
  ? [textOf(part)] : part.children.flatMap(linesOf);
const page = new Function(PAGE + `
return {open, step: lines => trace.rounds.map((r, i) => { choose(i); return lines($("round-body")); })};`)();
require('readline').createInterface({input: process.stdin}).on('line', line => {
  elements.message = new Element();
  const begin = Date.now();
  let thrown = '', rounds = [];
  try {
    page.open(JSON.parse(line), 'it');
    if (!elements.message.textContent) rounds = page.step(linesOf);
  } catch (error) { thrown = String(error); }
  const notes = linesOf(document.getElementById('note-list'));
  console.log(JSON.stringify({said: elements.message.textContent, thrown, rounds, notes, seconds: (Date.now() - begin) / 1000}));
});
"""


class TracePage:
    def __init__(self):
        script = re.search(r"<script>\n(.*?)</script>", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
        self.node = subprocess.Popen([NODE, "-e", f"const PAGE = {json.dumps(script)};{HARNESS}"], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.node.communicate()

    def answer(self, text):
        """What the page does with a trace. It never throws and never takes long."""
        self.node.stdin.write(json.dumps(text) + "\n")
        self.node.stdin.flush()
        answer = json.loads(self.node.stdout.readline())
        assert answer["thrown"] == "", answer
        assert answer["seconds"] < 5, answer
        assert "\n" not in answer["said"], answer
        return answer

    def says(self, text):
        """The page's complaint of a trace, or nothing where it shows it."""
        return self.answer(text)["said"]
