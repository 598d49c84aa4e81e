#!/usr/bin/env python3
"""Tests of the programs that peers_bench.py runs for this project's side. It looks at texts, never at times.

    test_specdec_peer.py SPECDEC_PEER WRITE_MODEL
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SPECDEC_PEER, WRITE_MODEL = sys.argv.pop(1), sys.argv.pop(1)
import peers_bench  # noqa: E402
from peers_bench import ROOT, turns  # noqa: E402


class OurPeer(unittest.TestCase):
    def test_it_writes_the_golden_text_with_and_without_speculation(self):
        text, = peers_bench.golden_texts(["stories-0"])
        models = [ROOT / "golden/models" / name for name in ("target", "draft")]
        with turns.Peer([SPECDEC_PEER, 2, 512, 4096, "stored", *models]) as peer:
            plain = peer.ask("plain", 40, *text["prompt_ids"])
            fast = peer.ask("speculate", 40, 4, *text["prompt_ids"])
            draft = peer.ask("draft", 40, *text["prompt_ids"])
            seconds = peer.ask("pass", 4, 4, 64, 3)["seconds"]
        golden = text["tokens"][:40]
        self.assertEqual((plain["tokens"][:len(golden)], plain["rounds"]), (golden, 40))
        for margin, wanted in zip(plain["margins"], text["margins"]):
            self.assertAlmostEqual(margin, wanted, delta=1e-3)
        self.assertEqual(fast["tokens"][:40], plain["tokens"])
        self.assertEqual(fast["margins"][:40], plain["margins"])
        self.assertLess(fast["rounds"], 25)
        self.assertNotEqual(draft["tokens"], plain["tokens"])
        self.assertTrue(len(seconds) == 3 and min(seconds) > 0)

    def test_orders_and_words_that_it_does_not_know(self):
        target = ROOT / "golden/models/target"
        for order in ("sing 1", "plain 4", "speculate 4 2 1", "draft 4 1"):  # without a draft
            done = subprocess.run([SPECDEC_PEER, "1", "64", "4096", "int8", target], input=order + "\n", capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2, f"no such order: {order}\n"))
        done = subprocess.run([SPECDEC_PEER, "1"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr[:6]), (2, "usage:"))

    def test_a_written_inflated_model_writes_the_same_text(self):
        with tempfile.TemporaryDirectory() as name:
            for shape, kind in (("none", "f32"), ("14m", "stored")):
                subprocess.run([WRITE_MODEL, ROOT / "golden/models/draft", shape, kind, f"{name}/{shape}"], check=True)
            texts = []
            for place in (ROOT / "golden/models/draft", f"{name}/none", f"{name}/14m"):
                with turns.Peer([SPECDEC_PEER, 2, 64, 4096, "stored", place]) as peer:
                    texts.append(peer.ask("plain", 12, 3840, 40, 851)["tokens"])
            written = (pathlib.Path(name) / "none/model.safetensors").read_bytes()
            header = json.loads(written[8:8 + int.from_bytes(written[:8], "little")])
            self.assertEqual({entry["dtype"] for entry in header.values()}, {"F32"})
            self.assertEqual(json.loads((pathlib.Path(name) / "14m/config.json").read_text())["vocab_size"], 49152)
        self.assertEqual(texts, [texts[0]] * 3)


if __name__ == "__main__":
    unittest.main()
