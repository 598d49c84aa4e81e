#!/usr/bin/env python3
"""Tests of peers/gguf_file.py, which writes checkpoints for llama.cpp, against the descriptions of both formats."""
import json
import math
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import gguf_file  # noqa: E402

TINY = {"hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 4, "vocab_size": 3, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500000.0}
SCALED = {**TINY, "head_dim": 128, "rope_scaling": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                    "original_max_position_embeddings": 8192, "rope_type": "llama3"}}


def write_tiny(folder):
    """A checkpoint of bfloat16 numbers; row r of a matrix has the number r + 1 in all columns."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, sizes in (("model.norm", [4]), ("model.layers.0.self_attn.q_proj", [8, 4]),
                        ("model.layers.0.self_attn.k_proj", [4, 4]), ("model.layers.0.self_attn.v_proj", [4, 4])):
        rows = [struct.pack("<f", row + 1)[2:] * (sizes[1] if len(sizes) > 1 else 1) for row in range(sizes[0])]
        header[name + ".weight"] = {"dtype": "BF16", "shape": sizes, "data_offsets": [len(data), len(data + b"".join(rows))]}
        data += b"".join(rows)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(TINY))


class Reader:
    """Of a GGUF file, written from the format's description and not from the writer."""

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, version, tensors, pairs = self.take("<4sIQQ")
        assert (magic, version) == (b"GGUF", 3), (magic, version)
        self.pairs = {}
        for _ in range(pairs):
            key, (kind,) = self.text(), self.take("<I")
            self.pairs[key] = self.text() if kind == 8 else self.take({4: "<I", 6: "<f"}[kind])[0]
        infos = []
        for _ in range(tensors):
            name, (dims,) = self.text(), self.take("<I")
            infos.append((name, self.take(f"<{dims}Q"), *self.take("<IQ")))
        start = -(-self.at // 32) * 32
        self.tensors = {name: (sizes, kind, start + offset) for name, sizes, kind, offset in infos}

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        length, = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def numbers(self, name):
        sizes, kind, begin = self.tensors[name]
        count = math.prod(sizes)
        if kind == 0:
            return list(struct.unpack_from(f"<{count}f", self.data, begin))
        assert kind == 30, kind
        return [struct.unpack("<f", b"\0\0" + self.data[at:at + 2])[0] for at in range(begin, begin + 2 * count, 2)]


def turned(vector, pairs, angles):
    """RoPE of a head whose pairs are these places."""
    result = list(vector)
    for (a, b), angle in zip(pairs, angles):
        result[a] = vector[a] * math.cos(angle) - vector[b] * math.sin(angle)
        result[b] = vector[a] * math.sin(angle) + vector[b] * math.cos(angle)
    return result


class Conversion(unittest.TestCase):
    def test_names(self):
        names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
                 "model.layers.12.input_layernorm": "blk.12.attn_norm",
                 "model.layers.3.post_attention_layernorm": "blk.3.ffn_norm",
                 "model.layers.0.self_attn.o_proj": "blk.0.attn_output", "model.layers.0.mlp.down_proj": "blk.0.ffn_down"}
        for name, other in names.items():
            self.assertEqual(gguf_file.gguf_name(name + ".weight"), other + ".weight")

    def test_rows_of_q_and_k_turn_as_before(self):
        """Rotating rows i and i + D/2, then reordering, is reordering, then rotating rows 2i and 2i + 1."""
        order = gguf_file.adjacent_pairs(8, 1)
        vector, angles = [0.5, -1.0, 2.0, 3.0, -4.0, 5.0, 6.0, -7.0], [0.1, 0.2, 0.3, 0.4]
        halves = turned(vector, [(i, i + 4) for i in range(4)], angles)
        adjacent = turned([vector[row] for row in order], [(2 * i, 2 * i + 1) for i in range(4)], angles)
        self.assertEqual([halves[row] for row in order], adjacent)
        self.assertEqual(gguf_file.adjacent_pairs(8, 2), [0, 2, 1, 3, 4, 6, 5, 7])

    def test_a_file_that_another_reader_reads(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_tiny(folder)
            gguf_file.write(folder, folder / "out.gguf")
            self.assertEqual(sorted(file.name for file in folder.iterdir()), ["config.json", "model.safetensors", "out.gguf"])
            file = Reader((folder / "out.gguf").read_bytes())
        self.assertEqual(file.tensors["blk.0.attn_q.weight"][:2], ((4, 8), 30))
        self.assertEqual(file.numbers("blk.0.attn_q.weight")[::4], [1, 3, 2, 4, 5, 7, 6, 8])
        self.assertEqual(file.numbers("blk.0.attn_k.weight")[::4], [1, 3, 2, 4])
        self.assertEqual(file.numbers("blk.0.attn_v.weight")[::4], [1, 2, 3, 4])
        self.assertEqual((file.tensors["output_norm.weight"][1], file.numbers("output_norm.weight")), (0, [1, 2, 3, 4]))
        self.assertNotIn("rope_freqs.weight", file.tensors)
        self.assertTrue(all(begin % 32 == 0 for _, _, begin in file.tensors.values()))
        self.assertEqual(file.pairs["llama.attention.head_count_kv"], 1)
        self.assertEqual(file.pairs["tokenizer.ggml.model"], "none")
        self.assertAlmostEqual(file.pairs["llama.attention.layer_norm_rms_epsilon"], 1e-5, 10)

    def test_factors_of_rope(self):
        """Beside Hugging Face's formula for the frequencies, as common/rope_frequencies.cpp has it."""
        factors = gguf_file.factors_of(SCALED)
        self.assertEqual((len(factors), factors[0], factors[-1]), (64, 1, 32))
        for i, factor in enumerate(factors):
            frequency = 500000.0 ** (-2 * i / 128)
            wavelength = 2 * math.pi / frequency
            kept = (8192 / wavelength - 1) / 3
            blended = (1 - kept) * frequency / 32 + kept * frequency
            scaled = frequency / 32 if wavelength > 8192 else frequency if wavelength < 2048 else blended
            self.assertAlmostEqual(frequency / factor / scaled, 1, 12)
        self.assertEqual(gguf_file.factors_of(TINY), [])

    def test_numbers_become_float32(self):
        self.assertEqual(gguf_file.as_float32(struct.pack("<f", -1.5)[2:], "BF16"), struct.pack("<f", -1.5))
        self.assertEqual(gguf_file.as_float32(struct.pack("<2e", 0.25, -3), "F16"), struct.pack("<2f", 0.25, -3))


if __name__ == "__main__":
    unittest.main()
