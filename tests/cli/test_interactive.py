"""The pages of docs/interactive: their numbers are right, and they run in a browser.

    test_interactive.py ROOT BIN trace      the prepared traces are what the programs print now
    test_interactive.py ROOT BIN node       the pages' functions against exact arithmetic and formulas.py
    test_interactive.py ROOT BIN browser    the pages in headless Chromium, wide and as narrow as a telephone

exit code: 77 (NOT CHECKED) where there is no Node or no Chromium
"""
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from fractions import Fraction

from chromium import CHROMIUM
from programs import run_program_json

ROOT, BIN, PART = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
sys.path[:0] = [str(ROOT / "docs/experiments"), str(ROOT / "docs/interactive")]
import formulas  # noqa: E402
import interactive_trace  # noqa: E402

FOLDER = ROOT / "docs/interactive"
NODE = shutil.which("node")
MOST = 20  # the largest K of speedup.html
RULES = ("right", "threshold", "skipped")


def text_of(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def exact(p_weights, q_weights, rule):
    """What a rule of areas.html does with each token, in fractions."""
    p, q = ([Fraction(weight, sum(weights)) for weight in weights] for weights in (p_weights, q_weights))
    owed = [max(Fraction(0), a - b) for a, b in zip(p, q)]
    residual = [x / sum(owed) for x in owed] if sum(owed) else p
    if rule == "threshold":
        accepted = [b if a >= b else Fraction(0) for a, b in zip(p, q)]
    else:
        accepted = [min(a, b) for a, b in zip(p, q)]
    correction = p if rule == "skipped" else residual
    emitted = [x + (1 - sum(accepted)) * y for x, y in zip(accepted, correction)]
    return {"p": p, "q": q, "alpha": sum(map(min, p, q)), "accepted": accepted, "emitted": emitted,
            "rejected": [b - x for b, x in zip(q, accepted)], "correction": correction,
            "distance": sum(abs(a - b) for a, b in zip(emitted, p)) / 2}


class TracePage(unittest.TestCase):
    def test_they_are_the_trace_viewer_with_a_trace(self):
        for name in interactive_trace.PAGES:
            page = text_of(name)
            self.assertTrue(page == interactive_trace.page_of(name, interactive_trace.trace_of(page)),
                            "the trace viewer has changed: python3 docs/interactive/interactive_trace.py")

    def test_the_programs_print_these_traces_now(self):
        for name in interactive_trace.PAGES:
            self.compare(interactive_trace.trace_of(text_of(name)), interactive_trace.run(name, BIN), name)

    def compare(self, shown, now, where):
        """Counts, tokens and verdicts are equal. Probabilities are close: other machines round in another way."""
        if isinstance(now, float):
            self.assertAlmostEqual(shown, now, delta=1e-3, msg=where)
        elif isinstance(now, dict):
            self.assertEqual(set(shown), set(now), where)
            for key in set(now) - {"distributions"}:  # whose order may depend on the last bit
                self.compare(shown[key], now[key], f"{where}.{key}")
        elif isinstance(now, list):
            self.assertEqual(len(shown), len(now), where)
            for i, (one, other) in enumerate(zip(shown, now)):
                self.compare(one, other, f"{where}[{i}]")
        else:
            self.assertEqual(shown, now, where)

    def test_the_pages_fetch_nothing(self):
        for name in ("areas.html", "speedup.html", *interactive_trace.PAGES):
            with self.subTest(name):
                page = text_of(name)
                self.assertIn("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'", page)
                self.assertIsNone(re.search(r"\b(src|href|action)=|@import|url\(|fetch\(|//\w+\.\w+", page))
                self.assertIn("<noscript>", page)


def in_node(name, functions, body, cases):
    """Runs `body`, a function of a case, for each of the cases, with these functions of a page's script."""
    script = re.search(r"<script>\n(.*?)</script>", text_of(name), re.DOTALL)[1]
    code = f"""globalThis.document = {{addEventListener() {{}}}};
        const page = new Function({json.dumps(script)} + '\\nreturn {{{functions}}};')();
        const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
        console.log(JSON.stringify(cases.map(one => {{ const {{{functions}}} = page; {body} }})));"""
    done = subprocess.run([NODE, "-e", code], input=json.dumps(cases), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Functions(unittest.TestCase):
    def close(self, found, expected, message):
        self.assertAlmostEqual(found, float(expected), delta=1e-12, msg=str(message))

    def test_the_tables_are_those_of_stage_0(self):
        [found] = in_node("areas.html", "TOKENS, CONTEXTS", "return {TOKENS, CONTEXTS};", [0])
        toy = run_program_json(BIN / "00_toy_speculation")
        self.assertEqual(found["TOKENS"], toy["vocabulary"])
        for row, word in enumerate(toy["vocabulary"]):
            for name, table in (("p", "target_probs"), ("q", "draft_probs")):
                self.assertEqual([weight / 100 for weight in found["CONTEXTS"][word][name]], toy[table][row], word)

    def test_what_a_rule_emits_is_exact(self):
        weights = [row for row in itertools.product((0, 1, 3), repeat=3) if any(row)]
        cases = [(p, q, rule) for p in weights for q in weights for rule in RULES]
        found = in_node("areas.html", "RULES, analyse, overlap, normalised", """
            const p = normalised(one[0]), q = normalised(one[1]);
            return {...analyse(p, q, RULES[one[2]]), alpha: overlap(p, q)};""", cases)
        for case, numbers in zip(cases, found):
            expected = exact(*case)
            for name in ("accepted", "rejected", "correction", "emitted"):
                for one, other in zip(numbers[name], expected[name]):
                    self.close(one, other, (case, name))
            for name in ("alpha", "distance"):
                self.close(numbers[name], expected[name], (case, name))
            if case[2] == "right":
                self.assertEqual(expected["distance"], 0)

    def test_one_decision_follows_the_rule(self):
        """With a generator of its own the histogram is near the exact distribution."""
        rows = {"the": ([5, 70, 5, 20], [25, 45, 20, 10]), "cat": ([0, 10, 60, 30], [20, 0, 40, 40])}
        cases = [(*row, rule) for row in rows.values() for rule in RULES]
        found = in_node("areas.html", "RULES, decide, normalised", """
            const p = normalised(one[0]), q = normalised(one[1]), rule = RULES[one[2]], counts = p.map(() => 0);
            let seed = 1, wrong = 0;
            const random = () => {  // mulberry32
              let t = seed = (seed + 0x6D2B79F5) | 0;
              t = Math.imul(t ^ (t >>> 15), t | 1);
              t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
              return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
            };
            for (let i = 0; i < 40000; i++) {
              const {draft, u, accepted, token} = decide(p, q, rule, random);
              wrong += accepted !== (u < rule.accept(p[draft], q[draft])) || (accepted && token !== draft);
              counts[token]++;
            }
            return {share: counts.map(count => count / 40000), wrong};""", cases)
        for case, numbers in zip(cases, found):
            expected = exact(*case)
            self.assertEqual(numbers["wrong"], 0, case)
            for one, other in zip(numbers["share"], expected["emitted"]):
                self.assertAlmostEqual(one, float(other), delta=0.01, msg=str(case))

    def test_the_ends_of_the_uniform_draw_nothing_impossible(self):
        weights = [(0, *row, 0) for row in itertools.product((1, 3, 7, 9), repeat=3)]
        cases = [(p, q, rule, u) for p in weights[::5] for q in weights for rule in RULES for u in (0, 1 - 2 ** -53)]
        cases += [((0, 10, 60, 30), (20, 0, 40, 40), rule, u) for rule in RULES for u in (0, 1 - 2 ** -53)]
        found = in_node("areas.html", "RULES, decide, normalised",
                        "return decide(normalised(one[0]), normalised(one[1]), RULES[one[2]], () => one[3]);", cases)
        for (p, q, rule, _), end in zip(cases, found):
            self.assertGreater(q[end["draft"]], 0, (p, q, rule))
            self.assertGreater(exact(p, q, rule)["emitted"][end["token"]], 0, (p, q, rule))

    def test_the_speedup_is_that_of_formulas_py(self):
        tenths = [i / 10 for i in range(11)]
        cases = [{"alpha": alpha, "c": c, "growing": growing, "v": time, "w": time - 1}
                 for alpha in [*tenths, 0.95, 0.99] for c in (0, 0.018, 0.2, 0.385, 0.7, 1)
                 for growing in (False, True) for time in (1, 1.1, 1.452, 3.26)]
        found = in_node("speedup.html", "emitted, speedup, bestK, whyNone, MOST", """
            const K = Array.from({length: MOST + 1}, (_, i) => i);
            return {emitted: K.map(k => emitted(one.alpha, k)), speedup: K.map(k => speedup(one, k)), best: bestK(one),
                    why: whyNone(one)};""", cases)
        for case, numbers in zip(cases, found):
            alpha, c = case["alpha"], case["c"]
            factors = [1.0]
            for K in range(1, MOST + 1):
                v = 1 + case["w"] * K if case["growing"] else case["v"]
                factors.append(formulas.walltime_factor(alpha, K, c, v))
                self.close(numbers["emitted"][K], formulas.emitted(alpha, K), case)
                if alpha < 1:
                    self.assertAlmostEqual(numbers["emitted"][K], (1 - alpha ** (K + 1)) / (1 - alpha), 9)
            self.assertEqual(len(numbers["speedup"]), MOST + 1)
            for one, other in zip(numbers["speedup"], factors):
                self.close(one, other, case)
            self.assertAlmostEqual(factors[numbers["best"]], max(factors), delta=1e-11, msg=str(case))
            if case["v"] == 1:  # and w = 0
                self.assertEqual(numbers["best"] == 0, alpha <= c, case)
                if c > 0:  # a free draft is worth more with every K, by less than formulas.py looks at
                    self.assertEqual(numbers["best"], formulas.best_K(alpha, c, most=MOST), case)
            if numbers["best"] == 0 and (case["growing"] or case["v"] == 1):
                self.assertLessEqual(alpha, c + case["w"] * case["growing"] + 1e-12)
                self.assertIn("alpha is not above c", numbers["why"])

    def test_the_presets_are_those_of_the_book(self):
        [presets] = in_node("speedup.html", "PRESETS", "return PRESETS;", [0])
        for name, target in (("3b-1b", "3B"), ("8b-1b", "8B")):
            self.assertEqual((presets[name]["c"], presets[name]["v"]), (round(formulas.bytes_c("1B", target), 3), 1))
        chapter = " ".join((ROOT / "docs/04_greedy_speculation/7_speed.md").read_text(encoding="utf-8").split())
        c, v = map(float, re.search(r"median c of ([\d.]+) and a median v of ([\d.]+\d)", chapter).groups())
        embedded = presets["embedded"]
        self.assertEqual(embedded["c"], c)
        self.assertAlmostEqual(1 + 5 * embedded["w"], v)
        self.assertIn(f"c = {c:.2f}, and v = {v:.2f} for 6 rows", embedded["source"])


# Appended to a page: does what a reader does, and leaves what the page then shows where --dump-dom finds it.
DRIVER = """<script>
document.addEventListener('DOMContentLoaded', () => {
  const get = id => document.getElementById(id);
  const put = (id, value, type = 'input') => {
    get(id).value = value;
    get(id).dispatchEvent(new Event(type, {bubbles: true}));
  };
  const shown = {}, number = id => Number(get(id).textContent.replace(/[x,]/g, ''));
  const table = id => [...get(id).tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => Number(cell.textContent)));
  document.documentElement.style.width = 'WIDTHpx';  // headless windows have at least 500
  window.dispatchEvent(new Event('resize'));
  ACTIONS
  const right = element => element.getBoundingClientRect().right;
  shown.outside = [...document.querySelectorAll('section, section :is(table, svg, input, button)')].filter(element =>
    right(element) > (element.parentElement.closest('section') ? right(element.parentElement.closest('section')) : WIDTH))
    .map(element => element.outerHTML.slice(0, 80));
  document.body.innerHTML = '<pre id="shown"></pre>';
  get('shown').textContent = 'SHOWN' + encodeURIComponent(JSON.stringify(shown)) + 'END';
});
</script>
</body>"""


class Browser(unittest.TestCase):
    def show(self, name, actions="", width=1200, text=None):
        """What the actions note in `shown`. A complaint of the browser's console is a failure. text: of the page, if it
        is not a file."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, name)
            driver = DRIVER.replace("WIDTH", str(width)).replace("ACTIONS", actions)
            page.write_text((text or text_of(name)).replace("</body>", driver), encoding="utf-8")
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                 f"--window-size={width},900", "--enable-logging=stderr", "--dump-dom", page.as_uri()],
                capture_output=True, text=True, errors="replace", timeout=100, check=False)
        self.assertEqual([line for line in done.stderr.splitlines() if "CONSOLE" in line], [], name)
        found = re.search(r"SHOWN(.*?)END", done.stdout)
        self.assertIsNotNone(found, f"{name} shows nothing: {done.stderr[-2000:]}")
        shown = json.loads(urllib.parse.unquote(found[1]))
        self.assertEqual(shown["outside"], [], f"{name} does not fit into {width} pixels")
        return shown

    def test_areas_shows_what_the_sliders_say(self):
        p, q = [10, 0, 70, 35], [40, 25, 7, 0]
        actions = "".join(f"put('{name}-{x}', {weight});" for name, row in (("p", p), ("q", q)) for x, weight in enumerate(row))
        for rule in RULES:
            actions += f"""
              document.querySelector('input[value={rule}]').click();
              shown.{rule} = {{alpha: number('alpha'), distance: number('distance'), table: table('numbers')}};"""
        actions += """
          get('draw').click();
          shown.one = [number('drawn'), get('decision').textContent];
          get('draw-many').click();
          shown.drawn = number('drawn');
          shown.sampled = get('sampled').textContent;
          put('p-0', 0); put('p-2', 0); put('p-3', 0);  // the last weight of a column cannot go
          shown.last = [...document.querySelectorAll('#sliders output')].map(output => output.value);
          shown.undrawn = get('sampled').textContent;"""
        for width in (1200, 390):
            shown = self.show("areas.html", actions, width)
            for rule in RULES:
                expected = exact(p, q, rule)
                for name in ("alpha", "distance"):
                    self.assertAlmostEqual(shown[rule][name], float(expected[name]), delta=6e-4, msg=(rule, name))
                for row, *columns in zip(shown[rule]["table"], *(expected[name] for name in (
                        "accepted", "rejected", "correction", "emitted", "p"))):
                    for one, other in zip(row, columns):
                        self.assertAlmostEqual(one, float(other), delta=6e-4, msg=rule)
            self.assertEqual((shown["one"][0], shown["drawn"]), (1, 1001))
            self.assertRegex(shown["one"][1], r"^draft (the|cat|saw), .*(accepted\.|rejected\. Correction: .*)$")
            expected = float(exact(p, q, "skipped")["distance"])
            self.assertIn(f"towards {expected:.3f}.", shown["sampled"])
            self.assertLess(abs(float(re.search(r"from p: ([\d.]+)\.", shown["sampled"])[1]) - expected), 0.1)
            self.assertEqual(shown["last"][0::2], ["0.000", "0.000", "0.000", "1.000"])
            self.assertEqual(shown["undrawn"], "Nothing is drawn yet.")

    def test_speedup_shows_what_the_numbers_say(self):
        actions = """
          const note = name => { shown[name] = {speedup: number('speedup'), steps: get('steps').textContent,
            verdict: get('verdict').textContent, table: table('numbers'), curve: get('curve').textContent}; };
          get('preset-3b-1b').click(); note('bytes');
          put('alpha', 0.38); put('K', 3); note('alpha_below_c');
          put('K', ''); put('alpha', 7); note('nonsense');
          get('preset-embedded').click(); put('alpha-slider', 0.8); put('K-slider', 16); note('embedded');
          document.querySelector('input[value=constant]').click(); put('v', 3.26); note('constant');"""
        cases = {"bytes": (0.8, 0.385, 5, lambda K: 1), "alpha_below_c": (0.38, 0.385, 3, lambda K: 1),
                 "nonsense": (0.38, 0.385, 3, lambda K: 1), "embedded": (0.8, 0.19, 16, lambda K: 1 + 0.12 * K),
                 "constant": (0.8, 0.19, 16, lambda K: 3.26)}
        for width in (1200, 390):
            shown = self.show("speedup.html", actions, width)
            for name, (alpha, c, chosen, v) in cases.items():
                factors = [1, *(formulas.walltime_factor(alpha, K, c, v(K)) for K in range(1, MOST + 1))]
                self.assertAlmostEqual(shown[name]["speedup"], factors[chosen], delta=6e-3, msg=name)
                self.assertIn(f"= {factors[chosen]:.3f}.", shown[name]["steps"], name)
                for K, row in enumerate(shown[name]["table"], 1):
                    for one, other in zip(row, (formulas.emitted(alpha, K), K * c + v(K), factors[K])):
                        self.assertAlmostEqual(one, other, delta=6e-4, msg=(name, K))
                best = factors.index(max(factors))
                self.assertIn(f"The best K is {best}, with {factors[best]:.2f}x." if best else
                              f"no K from 1 to {MOST} is faster", shown[name]["verdict"], name)
                self.assertEqual(f"best: K = {best}," in shown[name]["curve"], best > 0, name)
            self.assertIn("alpha is not above c (0.38 ≤ 0.385)", shown["alpha_below_c"]["verdict"])
            self.assertIn("K = 16 does not pay", shown["embedded"]["verdict"])

    def test_trace_shows_the_rounds(self):
        trace = interactive_trace.trace_of(text_of("trace.html"))
        for width in (1200, 390):
            shown = self.show("trace.html", """
              shown.rounds = get('strip').children.length;
              shown.facts = get('facts').textContent;
              shown.notes = get('notes').hidden;
              get('next').click();
              shown.round = get('round-title').textContent;""", width)
            self.assertEqual(shown["rounds"], len(trace["rounds"]))
            self.assertIn(f"alpha: {trace['stats']['accepted']} accepted of {trace['stats']['tested']} tested", shown["facts"])
            self.assertTrue(shown["notes"], "the trace contradicts itself")
            self.assertEqual(shown["round"], f"Round 2 of {len(trace['rounds'])}")

    def test_trees_are_walked_by_keys(self):
        trace = json.loads((ROOT / "tests/fuzz/corpus/traces/trees").read_text(encoding="utf-8"))
        page = interactive_trace.page_of("trace.html", trace)
        for width in (1200, 390):
            shown = self.show("trees.html", """
              const key = (name, shiftKey) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: name, shiftKey, bubbles: true}));
              const tree = () => get('round-body').querySelector('.tree');
              const chosen = () => tree().querySelector('[aria-pressed=true] .verdict').textContent;
              shown.levels = tree().querySelectorAll('.on-path .on-path .on-path').length;
              shown.buttons = tree().querySelectorAll('button').length;
              shown.verdicts = [chosen()];
              for (let i = 0; i < 3; i++) { key('ArrowRight', true); shown.verdicts.push(chosen()); }
              tree().querySelector('.is-untested > button').click();
              shown.clicked = chosen();
              key('ArrowRight', false);
              shown.round = get('round-title').textContent;""", width, page)
            first = trace["rounds"][0]
            self.assertEqual(shown["buttons"], len(first["tree"]["nodes"]) + 1)
            self.assertEqual(shown["levels"], first["accepted"] - 1)  # the third node and the bonus behind it
            self.assertEqual(shown["verdicts"], ["rejected", "accepted", "accepted", "bonus"])
            self.assertEqual(shown["clicked"], "not reached")
            self.assertEqual(shown["round"], "Round 2 of 3")

    def test_beams_are_walked_by_keys(self):
        trace = interactive_trace.trace_of(text_of("beams.html"))
        for width in (1200, 390):
            shown = self.show("beams.html", """
              const key = (name, shiftKey) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: name, shiftKey, bubbles: true}));
              const buttons = () => [...get('round-body').querySelectorAll('.tree button')];
              const chosen = () => buttons().findIndex(button => button.getAttribute('aria-pressed') === 'true');
              shown.rounds = get('strip').children.length;
              shown.steps = [...get('strip').querySelectorAll('.count')].map(count => count.textContent);
              shown.notes = get('notes').hidden;
              key('ArrowRight', false);
              shown.chosen = [chosen()];
              for (let i = 0; i < 2; i++) { key('ArrowLeft', true); shown.chosen.push(chosen()); }
              buttons()[0].click();
              shown.clicked = [chosen(), get('token-body').textContent];
              shown.round = get('round-title').textContent;
              shown.beams = get('running').querySelectorAll('.beams li').length;
              for (let r = 0; r < shown.rounds; r++) key('ArrowRight', false);
              shown.found = [...get('running').querySelectorAll('.beams li')].map(item => item.textContent);""", width)
            self.assertEqual(shown["rounds"], len(trace["rounds"]))
            self.assertEqual(shown["steps"], [f"+{len(round_['steps'])}" for round_ in trace["rounds"]])
            self.assertTrue(shown["notes"], "the trace contradicts itself")
            last = shown["chosen"][0]
            self.assertGreater(last, 1)
            self.assertEqual(shown["chosen"], [last, last - 1, last - 2])
            self.assertEqual(shown["clicked"][0], 0)
            self.assertIn(f"What step {trace['rounds'][1]['start'] + 1} ranked", shown["clicked"][1])
            self.assertEqual(shown["round"], f"Round 2 of {len(trace['rounds'])}")
            self.assertEqual(shown["beams"], trace["beams"])
            self.assertEqual([float(text.rsplit("score ", 1)[1].replace("−", "-")) for text in shown["found"]],
                             [round(found["score"], 4) for found in trace["hypotheses"]])


if __name__ == "__main__":
    PARTS = {"trace": (TracePage, True, ""), "node": (Functions, NODE, "node"), "browser": (Browser, CHROMIUM, "chromium")}
    tests, there, program = PARTS[PART]
    if not there:
        print(f"NOT CHECKED: there is no {program}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], tests.__name__])
