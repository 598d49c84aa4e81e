#!/usr/bin/env python3
"""Tests of the conversion from GGUF with the package gguf, which `make real` installs. Without it they are skipped.

    python3 tests/real/test_gguf_to_checkpoint.py [BUILD]        exit code 77: skipped
"""
import importlib.util
import json
import pathlib
import site
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ROOT / "build"
sys.path[:0] = [str(ROOT / "stages/programs/real"), str(ROOT / "tests/benchmarks/peers")]
import gguf_file  # noqa: E402
import gguf_to_checkpoint  # noqa: E402
import package_index  # noqa: E402
from llama_in_gguf import Trouble  # noqa: E402

site.addsitedir(str(package_index.site_packages(BUILD / "real")))
HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("gguf", "numpy"))
if HAS_PACKAGES:
    import gguf
    import numpy

WIDTH, HIDDEN, TOKENS, HEADS, KV_HEADS = 64, 96, 32, 2, 1  # rows of 32 numbers or a multiple, as blocks need


def silent(words):
    pass


def read_tensors(file):
    """name -> (type, shape, bytes) of a safetensors file, in order."""
    header, start = gguf_file.read_safetensors(file)
    data = file.read_bytes()[start:]
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_gguf(file, types, change=None):
    """A Llama of one layer with random numbers, each matrix of the next type in turn. Returns what each tensor is in
    float32, by GGUF's name. change(writer, weights): before anything is written."""
    random, writer = numpy.random.default_rng(7), gguf.GGUFWriter(str(file), "llama")
    for key, value in {"block_count": 1, "context_length": 64, "embedding_length": WIDTH, "feed_forward_length": HIDDEN,
                       "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    keys = WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd": (TOKENS, WIDTH), "output_norm": (WIDTH,), "blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,),
              "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (keys, WIDTH), "blk.0.attn_v": (keys, WIDTH),
              "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_up": (HIDDEN, WIDTH),
              "blk.0.ffn_down": (WIDTH, HIDDEN)}
    weights = {f"{name}.weight": random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    if change:
        change(writer, weights)
    meant = {}
    for number, (name, values) in enumerate(weights.items()):
        kind = types[number % len(types)] if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        meant[name] = gguf.quants.dequantize(data, kind).reshape(values.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


def rounded(values):
    """To bfloat16, ties to even, by the numbers around each value."""
    low = (values.view(numpy.uint32) & 0xffff0000).view(numpy.float32)
    high = ((low.view(numpy.uint32) + 0x10000)).view(numpy.float32)
    below, above = numpy.abs(values - low), numpy.abs(high - values)
    even = (low.view(numpy.uint32) >> 16) % 2 == 0
    return numpy.where((below < above) | ((below == above) & even), low, high)


@unittest.skipUnless(HAS_PACKAGES, "the packages gguf and numpy are missing; make real installs them")
class Conversion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.out.mkdir()

    def convert(self, types=("F32",), change=None, keep=False):
        kinds = [gguf.GGMLQuantizationType[name] for name in types]
        meant = write_gguf(self.folder / "x.gguf", kinds, change)
        self.parameters = gguf_to_checkpoint.convert(self.folder / "x.gguf", self.out, silent, keep)
        return meant

    def test_numbers_of_every_type(self):
        meant = self.convert(("Q8_0", "Q4_0", "F16", "Q5_1", "BF16", "Q4_1", "F32"))
        found = read_tensors(self.out / "model.safetensors")
        self.assertEqual(self.parameters, sum(values.size for values in meant.values()))
        self.assertEqual(len(found), len(meant))
        for name, values in meant.items():
            kind, shape, data = found[gguf_to_checkpoint.llama.hugging_face_name(name)]
            heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
            if heads:  # row i of a half is row 2 i, or 2 i + 1, of the pairs
                pairs = values.reshape(heads, -1, 2, WIDTH)
                values = numpy.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1).reshape(values.shape)
            got = (numpy.frombuffer(data, "<u2").astype(numpy.uint32) << 16).view(numpy.float32).reshape(shape)
            self.assertEqual((kind, got.shape), ("BF16", values.shape), name)
            self.assertTrue(numpy.array_equal(got, rounded(numpy.ascontiguousarray(values))), name)

    def test_kept_weights_are_the_bytes_of_the_file(self):
        for kind in ("Q4_1", "Q8_0", "F32", "F16", "BF16"):
            with self.subTest(kind):
                meant = self.convert((kind,), keep=True)
                self.assertEqual(self.parameters, sum(values.size for values in meant.values()))
                bytes_of = {tensor.name: tensor.data.tobytes() for tensor in gguf.GGUFReader(self.folder / "x.gguf").tensors}
                found = read_tensors(self.out / "model.safetensors")
                for name, values in meant.items():
                    ours, data = gguf_to_checkpoint.llama.hugging_face_name(name), bytes_of[name]
                    groups = values.ndim > 1 and kind[0] == "Q"
                    type_there, shape, data_there = found.pop(f"{ours}.{kind.lower()}" if groups else ours)
                    self.assertEqual(type_there, "U8" if groups else kind if values.ndim > 1 else "F32")
                    self.assertEqual(shape, [len(values), len(data) // len(values)] if groups else list(values.shape))
                    size = len(data) // len(values)
                    rows, rows_there = ([all_rows[at:at + size] for at in range(0, len(data), size)]
                                        for all_rows in (data, data_there))
                    for heads in (heads for part, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS)) if part in name):
                        half = len(rows) // heads // 2
                        rows = [rows[head * 2 * half + 2 * i + odd] for head in range(heads) for odd in (0, 1)
                                for i in range(half)]
                    self.assertEqual(rows_there, rows, name)
                self.assertEqual(found, {})
                self.assertNotIn("torch_dtype", json.loads((self.out / "config.json").read_text()))

    def test_a_tie_is_rounded_to_even_and_infinity_is_refused(self):
        ties = numpy.array([0x3f808000, 0x3f818000, 0x3f808001, 0xbf818000], numpy.uint32).view(numpy.float32)
        self.assertEqual(gguf_to_checkpoint.to_bfloat16(ties).tolist(), [0x3f80, 0x3f82, 0x3f81, 0xbf82])
        for odd in (float("nan"), float("inf"), 3.4028234e38):
            self.assertIsNone(gguf_to_checkpoint.to_bfloat16(numpy.array([1, odd], numpy.float32)))

    def test_the_embedded_models_come_back_as_they_were(self):
        """By way of the file that llama.cpp gets: names, order, types, RoPE's scaling and a tied head."""
        for name in ("models/target", "models/draft"):
            with self.subTest(name):
                original = ROOT / "golden" / name
                config = json.loads((original / "config.json").read_text())
                gguf_file.write(original, self.folder / "x.gguf")
                gguf_to_checkpoint.convert(self.folder / "x.gguf", self.out, silent)
                made = json.loads((self.out / "config.json").read_text())
                for key in ("head_dim", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                            "num_hidden_layers", "rms_norm_eps", "vocab_size", "max_position_embeddings"):
                    self.assertEqual(made[key], config[key], key)
                self.assertEqual(made["tie_word_embeddings"], config["tie_word_embeddings"])
                self.assertEqual(made.get("rope_scaling", {}).get("factor"),
                                 (config.get("rope_scaling") or {}).get("factor"))
                before, after = (read_tensors(folder / "model.safetensors") for folder in (original, self.out))
                self.assertEqual(before.keys(), after.keys())
                for tensor, (kind, shape, data) in before.items():
                    if kind == "BF16":
                        self.assertEqual(after[tensor], (kind, shape, data), tensor)

    def test_a_head_of_its_own(self):
        self.convert(change=lambda writer, weights: weights.update({"output.weight": weights["token_embd.weight"] + 1}))
        self.assertIn("lm_head.weight", read_tensors(self.out / "model.safetensors"))
        self.assertFalse(json.loads((self.out / "config.json").read_text())["tie_word_embeddings"])

    def refused(self, words, types=("F32",), change=None, keep=False):
        with self.assertRaisesRegex(Trouble, words):
            self.convert(types, change, keep)

    def test_what_is_refused_and_why(self):
        def has_nan(writer, weights):
            weights["token_embd.weight"][3, 5] = float("nan")

        def has_bias(writer, weights):
            weights["blk.0.attn_q.bias"] = weights["output_norm.weight"]

        def has_sentencepiece(writer, weights):
            writer.add_string("tokenizer.ggml.model", "llama")
        self.refused("x.gguf: the tensor token_embd.weight has a number that is no finite", change=has_nan)
        self.refused("x.gguf: the tensor blk.0.attn_q.bias: a Llama with biases", change=has_bias)
        self.refused("x.gguf: .*only byte-level BPE", change=has_sentencepiece)

    def test_what_cannot_be_kept(self):
        def has_infinity(writer, weights):
            weights["token_embd.weight"][3] = float("inf")
        self.refused("x.gguf: the tensor token_embd.weight is of type Q5_1; weights are kept of the types Q4_1, Q8_0, F32, F16, "
                     "BF16, so leave out WEIGHTS=kept", types=("Q5_1",), keep=True)
        self.refused("x.gguf: the tensors blk.0.attn_q.weight and blk.0.attn_k.weight are of the types Q4_1 and Q8_0",
                     types=("Q4_1", "Q8_0"), keep=True)
        for kind in ("Q4_1", "Q8_0", "F16"):
            self.refused(f"x.gguf: the tensor token_embd.weight has a number that is no finite {kind}", types=(kind,),
                         change=has_infinity, keep=True)

    def test_a_file_that_is_no_gguf_or_cut_off(self):
        self.convert()
        data = (self.folder / "x.gguf").read_bytes()
        for what, content in {"empty": b"", "other": b"#!/bin/sh\n" * 50, "head": data[:200], "half": data[:len(data) // 2]}.items():
            with self.subTest(what), self.assertRaisesRegex(Trouble, "x.gguf: it is damaged, or no GGUF file"):
                (self.folder / "x.gguf").write_bytes(content)
                gguf_to_checkpoint.convert(self.folder / "x.gguf", self.out, silent)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 0 if HAS_PACKAGES else 77)
