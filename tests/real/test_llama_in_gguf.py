#!/usr/bin/env python3
"""Tests of what becomes of a GGUF file's names, numbers and tokenizer, as far as that needs no package."""
import json
import math
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "stages/programs/real"), str(ROOT / "tests/benchmarks/peers")]
import gguf_file  # noqa: E402
import llama_in_gguf as llama  # noqa: E402
import tokenizer_in_gguf as tokenizer  # noqa: E402
from llama_in_gguf import Fields, Trouble  # noqa: E402

TARGET = ROOT / "golden/models/target"
SIZES = {"general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64, "llama.embedding_length": 8,
         "llama.feed_forward_length": 6, "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
         "llama.attention.layer_norm_rms_epsilon": 9.999999747378752e-06, "llama.rope.freq_base": 10000.0,
         "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.eot_token_id": 3}


def config_of(changes=None, shapes=None, factors=()):
    """A small Llama's, whose fields and tensors are changed; None takes one away."""
    fields = {key: value for key, value in {**SIZES, **(changes or {})}.items() if value is not None}
    plain = llama.shapes_of({"hidden_size": 8, "intermediate_size": 6, "vocab_size": 5, "num_attention_heads": 2,
                             "num_key_value_heads": 1, "head_dim": 4, "num_hidden_layers": 2, "tie_word_embeddings": True})
    found = {name: shape for name, shape in {**plain, **(shapes or {})}.items() if shape is not None}
    return llama.config_of(Fields(fields), found, list(factors))


class Names(unittest.TestCase):
    def test_every_name_of_a_checkpoint_comes_back(self):
        names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", *llama.shapes_of(
            config_of())]
        for name in names:
            self.assertEqual(llama.hugging_face_name(gguf_file.gguf_name(name)), name)

    def test_other_tensors_are_refused(self):
        for name, words in {"blk.0.attn_q.bias": "with biases", "blk.0.ffn_gate_inp.weight": "none of a Llama's",
                            "rope_factors_long.weight": "none of a Llama's", "blk.0.attn_q": "none of a Llama's"}.items():
            with self.subTest(name), self.assertRaisesRegex(Trouble, words):
                llama.hugging_face_name(name)

    def test_only_q_and_k_turn(self):
        config = config_of()
        turning = {name: llama.heads_that_turn(name, config) for name in llama.shapes_of(config)}
        self.assertEqual({name: heads for name, heads in turning.items() if heads},
                         {f"model.layers.{layer}.self_attn.{kind}_proj.weight": heads
                          for layer in (0, 1) for kind, heads in (("q", 2), ("k", 1))})


def turned(vector, pairs, angles):
    """RoPE of a head whose pairs are these places."""
    result = list(vector)
    for (a, b), angle in zip(pairs, angles):
        result[a] = vector[a] * math.cos(angle) - vector[b] * math.sin(angle)
        result[b] = vector[a] * math.sin(angle) + vector[b] * math.cos(angle)
    return result


class Rope(unittest.TestCase):
    def test_rows_of_q_and_k_turn_as_before(self):
        """Rotating rows i and i + D/2, then reordering, is reordering, then rotating rows 2i and 2i + 1."""
        order = llama.adjacent_pairs(8, 1)
        vector, angles = [0.5, -1.0, 2.0, 3.0, -4.0, 5.0, 6.0, -7.0], [0.1, 0.2, 0.3, 0.4]
        halves = turned(vector, [(i, i + 4) for i in range(4)], angles)
        adjacent = turned([vector[row] for row in order], [(2 * i, 2 * i + 1) for i in range(4)], angles)
        self.assertEqual([halves[row] for row in order], adjacent)
        self.assertEqual(llama.adjacent_pairs(8, 2), [0, 2, 1, 3, 4, 6, 5, 7])

    def test_factors(self):
        """Beside Hugging Face's formula for the frequencies, as common/rope_frequencies.cpp has it."""
        factors = llama.rope_factors({"factor": 32.0, **llama.LLAMA3_SCALING}, 500000.0, 128)
        self.assertEqual((len(factors), factors[0], factors[-1]), (64, 1, 32))
        for i, factor in enumerate(factors):
            frequency = 500000.0 ** (-2 * i / 128)
            wavelength = 2 * math.pi / frequency
            kept = (8192 / wavelength - 1) / 3
            blended = (1 - kept) * frequency / 32 + kept * frequency
            scaled = frequency / 32 if wavelength > 8192 else frequency if wavelength < 2048 else blended
            self.assertAlmostEqual(frequency / factor / scaled, 1, 12)


class Config(unittest.TestCase):
    def test_a_small_one(self):
        config = config_of()
        self.assertEqual((config["head_dim"], config["rms_norm_eps"], config["tie_word_embeddings"]), (4, 1e-05, True))
        self.assertEqual((config["bos_token_id"], config["eos_token_id"]), (1, [2, 3]))
        self.assertNotIn("rope_scaling", config)
        self.assertFalse(config_of(shapes={"lm_head.weight": (5, 8)})["tie_word_embeddings"])
        self.assertEqual(config_of({"llama.attention.head_count_kv": None}, {
            f"model.layers.{layer}.self_attn.{kind}_proj.weight": (8, 8) for layer in (0, 1) for kind in "kv"}
        )["num_key_value_heads"], 2)

    def test_llama_3s_scaling_is_recognised(self):
        for factor in (8.0, 32.0):
            scaling = {"factor": factor, **llama.LLAMA3_SCALING}
            self.assertEqual(llama.rope_scaling(llama.rope_factors(scaling, 500000.0, 64), 500000.0, 64), scaling)
        with self.assertRaisesRegex(Trouble, "not Llama 3's scaling"):
            llama.rope_scaling([4.0] * 32, 500000.0, 64)
        with self.assertRaisesRegex(Trouble, "not Llama 3's scaling"):
            llama.rope_scaling(llama.rope_factors(scaling, 500000.0, 64)[:-1], 500000.0, 64)

    def test_shortest_decimals(self):
        self.assertEqual([llama.shortest(value) for value in (9.999999747378752e-06, 100000.0, 0.10000000149011612)],
                         [1e-05, 100000.0, 0.1])

    def test_what_is_refused_and_why(self):
        cases = {
            "another architecture": ({"general.architecture": "qwen2"}, {}, "'qwen2'; only 'llama'"),
            "a part of a model": ({"split.count": 3}, {}, "split file"),
            "experts": ({"llama.expert_count": 8}, {}, "llama.expert_count is 8"),
            "an unknown key": ({"llama.attention.sliding_window": 4096}, {}, "sliding_window is 4096"),
            "another scaling": ({"llama.rope.scaling.type": "yarn"}, {}, "'yarn'"),
            "a scaling's factor": ({"llama.rope.scaling.factor": 4.0}, {}, "scaling.factor is 4.0"),
            "no layers' number": ({"llama.block_count": None}, {}, "block_count is missing"),
            "no layers": ({"llama.block_count": 0}, {}, "block_count is 0"),
            "heads by layer": ({"llama.attention.head_count": [2, 2]}, {}, "must be one int"),
            "a size that is a truth value": ({"llama.block_count": True}, {}, "must be one int"),
            "an epsilon that is no number": ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, {}, "must be one float"),
            "a part of each head": ({"llama.rope.dimension_count": 2}, {}, "rope.dimension_count is 2 where a head has 4"),
            "a tensor that is missing": ({}, {"model.norm.weight": None}, "no tensor for model.norm"),
            "a tensor of another shape": ({}, {"model.norm.weight": (7,)}, r"has the shape \[7\]"),
            "a tensor too many": ({}, {"model.layers.2.input_layernorm.weight": (8,)}, "none of this name")}
        for what, (changes, shapes, words) in cases.items():
            with self.subTest(what), self.assertRaisesRegex(Trouble, words):
                config_of(changes, shapes)


def fields_of(file, pre, **more):
    """What a GGUF file has of a tokenizer.json."""
    data = json.loads(file.read_text(encoding="utf-8"))
    added = {token["id"]: token["content"] for token in data["added_tokens"]}
    tokens = {**{id: text for text, id in data["model"]["vocab"].items()}, **added}
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": [tokens[id] for id in range(len(tokens))],
            "tokenizer.ggml.token_type": [3 if id in added else 1 for id in range(len(tokens))],
            "tokenizer.ggml.merges": data["model"]["merges"],
            "tokenizer.ggml.bos_token_id": min(added), **more}


class Tokenizer(unittest.TestCase):
    def setUp(self):
        self.fields = fields_of(TARGET / "tokenizer.json", "llama-bpe")

    def files(self, **changes):
        fields = {**self.fields, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
        return tokenizer.files_of(Fields(fields), 4096, 2048)

    def test_llama_3s_is_the_file_that_it_was(self):
        expected = json.loads((TARGET / "tokenizer.json").read_text(encoding="utf-8"))
        expected["model"]["merges"] = [merge.split(" ") for merge in expected["model"]["merges"]]  # the newer spelling
        self.assertEqual(json.loads(self.files()["tokenizer.json"]), expected)

    def test_the_template_and_the_special_tokens_stand_in_the_configuration(self):
        self.fields["tokenizer.chat_template"] = "{{ 'x' }}"
        config = json.loads(self.files(eos_token_id=3849)["tokenizer_config.json"])
        self.assertEqual([config[key] for key in ("bos_token", "eos_token", "chat_template", "model_max_length")],
                         ["<|begin_of_text|>", "<|eot_id|>", "{{ 'x' }}", 2048])

    def test_smollms_splits_digits_and_puts_nothing_before_a_text(self):
        made = json.loads(self.files(pre="smollm")["tokenizer.json"])
        self.assertEqual([part["type"] for part in made["pre_tokenizer"]["pretokenizers"]], ["Digits", "ByteLevel"])
        self.assertEqual((made["post_processor"], made["model"]["ignore_merges"]), (None, False))

    def test_a_file_without_a_tokenizer_gives_none(self):
        self.assertEqual(self.files(model="none"), {})

    def test_tokens_that_are_not_used_are_left_out(self):
        types = self.fields["tokenizer.ggml.token_type"]
        types[100], types[-1] = 5, 4
        made = json.loads(self.files()["tokenizer.json"])
        self.assertEqual(len(made["model"]["vocab"]), 3839)
        self.assertEqual((made["added_tokens"][-1]["id"], made["added_tokens"][-1]["special"]), (4095, False))

    def test_what_is_refused_and_why(self):
        tokens, types = self.fields["tokenizer.ggml.tokens"], self.fields["tokenizer.ggml.token_type"]
        cases = {"SentencePiece": ({"model": "llama"}, "only byte-level BPE"),
                 "a pre-tokenizer that is not known": ({"pre": "qwen2"}, "'qwen2'; known are 'gpt-2'"),
                 "none": ({"pre": None}, "pre is missing"),
                 "two tokens alike": ({"tokens": [*tokens[:-1], tokens[0]]}, "two tokens are"),
                 "a token of another type": ({"token_type": [6, *types[1:]]}, "has the type 6"),
                 "types that are missing": ({"token_type": types[1:]}, "do not fit"),
                 "more tokens than rows": ({"tokens": [*tokens, "x"], "token_type": [*types, 1]}, "do not fit"),
                 "a merge of three": ({"merges": ["a b c"]}, "'a b c' is not two tokens"),
                 "a beginning that is no token": ({"bos_token_id": 5000}, "bos_token_id is 5000")}
        for what, (changes, words) in cases.items():
            with self.subTest(what), self.assertRaisesRegex(Trouble, words):
                self.files(**changes)


if __name__ == "__main__":
    unittest.main()
