"""The bugs that golden/goldens_sensitivity.py plants in the oracles: each stands once where it says.

Running that file takes what trains models, so no test does; but its bugs must not rot."""
import ast
import unittest
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BUGS = {"LLAMA_BUGS": "llama_float64", "SAMPLING_BUGS": "speculative_sampling", "DRAFTER_BUGS": "drafters_float64"}


class OracleBugs(unittest.TestCase):
    def test_can_be_planted(self):
        module = ast.parse((GOLDEN / "goldens_sensitivity.py").read_text(encoding="utf-8"))
        tables = {node.targets[0].id: ast.literal_eval(node.value) for node in module.body
                  if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in BUGS}
        self.assertEqual(set(tables), set(BUGS))
        for table, oracle in BUGS.items():
            source = (GOLDEN / f"oracle/{oracle}.py").read_text(encoding="utf-8")
            for bug, (right, wrong) in tables[table].items():
                with self.subTest(bug=bug):
                    self.assertEqual(source.count(right), 1)
                    ast.parse(source.replace(right, wrong))


if __name__ == "__main__":
    unittest.main()
