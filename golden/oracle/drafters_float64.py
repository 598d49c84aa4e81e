"""The drafters of golden/heads in NumPy float64: what a round drafts, one token after the other.

    target = Model("golden/models/target")
    drafter = load("golden/heads/eagle", target)
    drafter.read([3840, 71, 305, 12])                            # a text, and with it each round that begins in it
    rows, logits, tokens = drafter.draft(place=2, count=5)       # after 305, the pending token

The kind of a drafter is found by its tensors. Shapes: T tokens of the text, E d_model, K count.
"""
import json
from pathlib import Path

import numpy as np

from .llama_float64 import (Checkpoint, Config, Tensors, attention, forward, forward_rows, inverse_frequencies,
                            rms_norm, rotate, silu)


MTP_OF_QWEN = {"fc": "eh_proj", "norm": "shared_head.norm", "pre_fc_norm_hidden": "hnorm", "pre_fc_norm_embedding": "enorm"}


class Model:
    """A Llama whose passes leave all rows and the cache."""

    def __init__(self, folder):
        checkpoint = Checkpoint(folder)
        self.config, self.weights, self.newest = checkpoint.config, checkpoint.in_memory(), (None, None)

    def embed(self, ids):
        return self.weights["model.embed_tokens.weight"][np.asarray(ids)]

    def says(self, rows):
        return rows @ self.weights["model.embed_tokens.weight" if self.config.tied else "lm_head.weight"].T

    def read(self, ids):
        """All tensors of a pass over a text, and the (k, v) of each layer. The newest text is not read twice."""
        if self.newest[0] != ids:
            cache = []
            self.newest = ids, (forward(self.config, self.weights, ids, cache), cache)
        return self.newest[1]

    def read_after(self, cache, length, x):
        """The final rows of x [K, E], read after the first `length` tokens of a text."""
        start = [(k[:length], v[:length]) for k, v in cache]
        return forward_rows(self.config, self.weights, x, start)["final_norm"]


def tokens_of(weights, rows):
    """The target's tokens of a head's rows."""
    return rows + weights["d2t"][rows].astype(int) if "d2t" in weights else rows


def said_by_target(target, weights, rows):
    """Logits of the target's head, for a drafter of fewer tokens those alone."""
    logits = target.says(rows)
    return logits[..., tokens_of(weights, np.arange(len(weights["d2t"])))] if "d2t" in weights else logits


class Heads:
    """Medusa's, a block each (Cai et al., equation 1), or blockwise ones, one network (Stern et al., section 4)."""

    def __init__(self, weights, target):
        self.weights, self.target = weights, target

    def read(self, ids):
        self.seen = self.target.read(ids)[0]["final_norm"]

    def text_tensors(self, length):
        """What it read, of the text's first tokens."""
        return {"read": self.seen[:length]}

    def residual_blocks(self, head, row):
        """The blocks of a head, one after another."""
        w, block = self.weights, 0
        while f"{head}.{block}.linear.weight" in w:
            row = row + silu(w[f"{head}.{block}.linear.weight"] @ row + w[f"{head}.{block}.linear.bias"])
            block += 1
        return row

    def draft(self, place, count):
        row, w = self.seen[place - 1], self.weights
        if "up.weight" in w:
            rows = row + (w["down.weight"] @ silu(w["up.weight"] @ row)).reshape(-1, len(row))
        else:
            n = sum(name.endswith(".0.linear.weight") for name in w)
            rows = np.stack([self.residual_blocks(head, row) for head in range(n)])
        if "0.1.weight" in w:
            logits = np.stack([w[f"{i}.1.weight"] @ row for i, row in enumerate(rows[:count])])
        else:
            logits = said_by_target(self.target, w, rows[:count])
        return rows[:count], logits, tokens_of(w, logits.argmax(axis=1))


class Ahead:
    """A model that reads inputs without a meaning of their own after the pending token: look-ahead tokens, or masks."""

    def __init__(self, model, inputs):
        """inputs: of each number of drafts but the first, [any, E]"""
        self.model, self.inputs = model, inputs

    def read(self, ids):
        tensors, self.cache = self.model.read(ids)
        self.seen = tensors["final_norm"]

    def text_tensors(self, _length):
        return {}

    def draft(self, place, count):
        later = self.model.read_after(self.cache, place + 1, self.inputs[:count - 1])
        rows = np.concatenate([self.seen[place:place + 1], later])
        logits = self.model.says(rows)
        return rows, logits, logits.argmax(axis=1)


class FeatureLayer:
    """EAGLE, EAGLE-3 or MTP: row i has the feature of token i and the embedding of token i + 1; its position is i."""

    def __init__(self, folder, weights, target, module=0):
        self.fields = json.loads((folder / "config.json").read_text())
        self.config, self.weights, self.target = Config(self.fields), weights, target
        self.kind = "eagle3" if "midlayer.hidden_norm.weight" in weights else "eagle" if "fc.weight" in weights else "mtp"
        self.prefix = {"eagle3": "midlayer.", "eagle": "layers.0.",
                       "mtp": f"model.layers.{self.config.n_layers + module}."}[self.kind]

    def norm(self, x, name):
        return rms_norm(x, self.weights[name + ".weight"], self.config.norm_eps)

    def rows_of(self, seen):
        """Those of the target that it reads. [T, E], or [T, 3 E]"""
        if self.kind == "eagle" or self.kind == "mtp" and self.fields.get("target_hidden_post_norm", True):
            return seen["final_norm"]
        if self.kind == "mtp":
            return seen[f"layers.{self.target.config.n_layers - 1}.residual"]
        layers = self.fields["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        return np.concatenate([seen[f"layers.{i}.residual"] for i in layers], axis=1)

    def text_tensors(self, length):
        return {"read": self.seen[:length], "text_rows": self.text_rows[:length]}

    def combine(self, embeddings, features):
        """What attention reads, and what its output is added to."""
        w = self.weights
        if self.kind == "eagle3":
            sides = [self.norm(embeddings, "midlayer.input_layernorm"), self.norm(features, "midlayer.hidden_norm")]
            return np.concatenate(sides, axis=1), features
        if self.kind == "eagle":
            x = np.concatenate([embeddings, features], axis=1) @ w["fc.weight"].T + w.get("fc.bias", 0)
            return x, x
        sides = [self.norm(embeddings, self.prefix + "enorm"), self.norm(features, self.prefix + "hnorm")]
        x = np.concatenate(sides, axis=1) @ w[self.prefix + "eh_proj.weight"].T
        return self.norm(x, self.prefix + "input_layernorm"), x

    def empty(self):
        """A cache without rows."""
        none = np.zeros((0, self.config.n_kv_heads * self.config.head_dim))
        return none, none

    def layer(self, x, residual, cache, prefix=None):
        """New rows after those of the cache, a (k, v). Returns the layer's output and the longer cache."""
        prefix = prefix or self.prefix
        weight = lambda name: self.weights[f"{prefix}{name}.weight"].T
        past, inv_freq = len(cache[0]), inverse_frequencies(self.config)
        q, k = (rotate(x @ weight(f"self_attn.{name}_proj"), inv_freq, past) for name in "qk")
        k, v = np.concatenate([cache[0], k]), np.concatenate([cache[1], x @ weight("self_attn.v_proj")])
        y = residual + attention(q, k, v, self.config) @ weight("self_attn.o_proj")
        z = self.norm(y, prefix + "post_attention_layernorm")
        return y + (silu(z @ weight("mlp.gate_proj")) * (z @ weight("mlp.up_proj"))) @ weight("mlp.down_proj"), (k, v)

    def says(self, rows):
        if self.kind == "eagle3":
            normed, own = self.norm(rows, "norm"), self.weights.get("lm_head.weight")
            return normed @ own.T if own is not None else said_by_target(self.target, self.weights, normed)
        return self.target.says(rows if self.kind == "eagle" else self.norm(rows, self.prefix + "shared_head.norm"))

    def read(self, ids):
        self.ids, self.seen = ids, self.rows_of(self.target.read(ids)[0])
        self.features = self.seen @ self.weights["fc.weight"].T if self.kind == "eagle3" else self.seen
        x, residual = self.combine(self.target.embed(ids[1:]), self.features[:-1])
        self.text_rows, self.cache = self.layer(x, residual, self.empty())

    def draft(self, place, count):
        """Its own rows stand in for features that the target has not computed yet."""
        cache = tuple(part[:place - 1] for part in self.cache)
        feature, token = self.features[place - 1], self.ids[place]
        rows, logits, tokens = [], [], []
        for _ in range(count):
            row, cache = self.layer(*self.combine(self.target.embed([token]), feature[None]), cache)
            rows, logits, feature = rows + [row[0]], logits + [self.says(row)[0]], row[0]
            token = int(tokens_of(self.weights, logits[-1].argmax()))
            tokens.append(token)
        return np.stack(rows), np.stack(logits), np.array(tokens)


class InOnePass(FeatureLayer):
    """P-EAGLE: each draft but the first has the embedding of a mask token, and mask_hidden for the target's rows."""

    def text_tensors(self, length):
        return {"read": self.seen[:length]}

    def blocks(self, embeddings, features, caches):
        """As layer(), through all blocks, each with its cache."""
        (x, residual), longer = self.combine(embeddings, features), []
        for i, cache in enumerate(caches):
            prefix = f"layers.{i}." if i else self.prefix
            if i:
                x, residual = self.norm(row, prefix + "input_layernorm"), row
            row, cache = self.layer(x, residual, cache, prefix)
            longer.append(cache)
        return row, longer

    def read(self, ids):
        self.ids, self.seen = ids, self.rows_of(self.target.read(ids)[0])
        self.features = self.seen @ self.weights["fc.weight"].T
        empty = [self.empty() for _ in range(self.config.n_layers)]
        _, self.caches = self.blocks(self.target.embed(ids[1:]), self.features[:-1], empty)

    def draft(self, place, count):
        caches = [tuple(part[:place - 1] for part in cache) for cache in self.caches]
        tokens = [self.ids[place]] + [self.fields["pard_token"]] * (count - 1)
        mask = self.weights["mask_hidden"].reshape(1, -1) @ self.weights["fc.weight"].T
        features = np.concatenate([self.features[place - 1:place], np.tile(mask, (count - 1, 1))])
        rows, _ = self.blocks(self.target.embed(tokens), features, caches)
        logits = self.says(rows)
        return rows, logits, tokens_of(self.weights, logits.argmax(axis=1))


class Modules:
    """MTP with a module for each draft, all of which run over the whole text."""

    def __init__(self, modules):
        self.modules, self.weights = modules, modules[0].weights

    def read(self, ids):
        self.ids, self.seen = ids, self.modules[0].rows_of(self.modules[0].target.read(ids)[0])

    def text_tensors(self, length):
        return {"read": self.seen[:length]}

    def draft(self, place, count):
        """The rows of a module are the features of the next one, for the token after."""
        text, features, rows, logits = list(self.ids[:place + 1]), self.seen[:place], [], []
        for i, module in enumerate(self.modules[:count]):
            x, residual = module.combine(module.target.embed(text[i + 1:]), features)
            features, _ = module.layer(x, residual, module.empty())
            rows.append(features[-1])
            logits.append(module.says(features[-1:])[0])
            text.append(int(logits[-1].argmax()))
        return np.stack(rows), np.stack(logits), np.array(text[place + 1:])


def as_bf16(numbers):
    """Rounded to the nearest, ties to even."""
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32).astype(np.float64)


def names_of_qwen(name, fields):
    """A tensor of Qwen's MTP by the names of DeepSeek's: that of one module, or one that all modules have."""
    first, (part, _, rest) = fields["num_hidden_layers"], name.partition(".")
    if part == "layers":
        module, _, rest = rest.partition(".")
        return [f"model.layers.{first + int(module)}.{rest}.weight"]
    return [f"model.layers.{first + i}.{MTP_OF_QWEN[name]}.weight" for i in range(fields["mtp_num_hidden_layers"])]


def read_weights(folder):
    """An int8 matrix times the scales of its rows; the tensors of Qwen's MTP by the names of DeepSeek's."""
    stored, weights = Tensors(folder).in_memory(), {}
    for name, tensor in stored.items():
        if name + "_scale" in stored:
            tensor = as_bf16(tensor.astype(np.float32) * stored[name + "_scale"].astype(np.float32))
        if name.startswith("mtp."):
            tensor = tensor + (tensor.ndim == 1)                # of its norms, the file has what is more than 1
            for name in names_of_qwen(name[4:-7], json.loads((folder / "config.json").read_text())):
                weights[name] = tensor
        elif not name.endswith("_scale"):
            weights[name] = tensor
    return weights


def load(folder, target):
    """The drafter of a folder, for this target."""
    folder, weights = Path(folder), read_weights(Path(folder))
    fields = json.loads((folder / "config.json").read_text())
    if "lookahead.weight" in weights:
        return Ahead(target, weights["lookahead.weight"])
    if "model.embed_tokens.weight" in weights:
        model, mask = Model(folder), fields["pard_token"]
        return Ahead(model, np.tile(model.embed(mask), (64, 1)))
    if "mask_hidden" in weights:
        return InOnePass(folder, weights, target)
    modules = fields.get("num_nextn_predict_layers", fields.get("mtp_num_hidden_layers", 1))
    if modules > 1:
        return Modules([FeatureLayer(folder, weights, target, i) for i in range(modules)])
    if "fc.weight" in weights or any("eh_proj" in name for name in weights):
        return FeatureLayer(folder, weights, target)
    return Heads(weights, target)
