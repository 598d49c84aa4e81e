"""One transformer layer that drafts from the target's rows: EAGLE, EAGLE-3 and MTP.

Row i of the layer has the target's feature of token i and the embedding of token i + 1, and says what token i + 2
is. Its position is i. A drafted row has the layer's own output before it as feature. The three differ in what the
feature is, where norms are, what is put side by side in which order, and what is fed back.
"""
import torch
import torch.nn.functional as F
from torch import nn

from drafting import Drafter, Seen, at
from model import MLP, NORM_EPS, ROPE, ROPE_THETA, RMSNorm, Shape, plain_frequencies, rope_frequencies, rotate

THETA = 10000.0                             # of the EAGLEs, without Llama 3's scaling
FEATURE_BLOCKS = [0, 2, 4]                  # EAGLE-3 reads the rows that leave these


class Attention(nn.Module):
    """From rows at places of a text to the text's rows up to there, and to drafts of the same place."""

    def __init__(self, s: Shape, width: int):
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(width, s.n_heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(width, s.n_kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(width, s.n_kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.n_heads * s.head_dim, s.d_model, bias=False)

    def heads(self, y):
        """[B, T, heads x D] as [B, n_heads, T, D]; query heads share key heads."""
        y = y.unflatten(-1, (-1, self.s.head_dim)).transpose(1, 2)
        return y.repeat_interleave(self.s.n_heads // y.shape[1], dim=1)

    def cached(self, x, cos, sin):
        return rotate(self.heads(self.k_proj(x)), cos, sin), self.heads(self.v_proj(x))

    def forward(self, x, cos, sin, text, mask, drafts):
        """x: [B, A, width]; text: (keys, values) [B, H, L, D]; mask: [B, A, L]; drafts: those of each place alone."""
        q, L = rotate(self.heads(self.q_proj(x)), cos, sin), mask.shape[-1]
        scores = [(q @ text[0].transpose(-1, -2)).masked_fill(~mask[:, None], -torch.inf)]
        scores += [(q * k).sum(-1, keepdim=True) for k, _ in drafts]
        weights = (torch.cat(scores, dim=-1).float() * self.s.head_dim ** -0.5).softmax(-1).to(text[1].dtype)
        out = weights[..., :L] @ text[1]
        for i, (_, v) in enumerate(drafts):
            out = out + weights[..., L + i, None] * v
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A Llama layer; some have no norm at their entrance."""

    def __init__(self, s: Shape, width: int, norms: tuple):
        super().__init__()
        for name in norms:
            setattr(self, name, RMSNorm(s.d_model))
        self.self_attn = Attention(s, width)
        self.post_attention_layernorm = RMSNorm(s.d_model)
        self.mlp = MLP(s)
        for name, p in self.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                nn.init.zeros_(p)
            elif p.ndim == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)


class FeatureLayer(Drafter):
    """The layer; what the kinds do differently is below."""
    decay, steps, prefix = 0.8, 4, ""       # prefix: of its tensors' names

    def __init__(self, s: Shape, inv_freq: torch.Tensor):
        super().__init__()
        self.s = s
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def features(self, seen: Seen) -> torch.Tensor:
        """Of the text's tokens, [B, L, d_model]."""
        return self.read(seen)

    def turn(self, positions):
        angles = positions[..., None].float() * self.inv_freq
        return angles.cos()[:, None], angles.sin()[:, None]

    def rows(self, target, seen: Seen, places: torch.Tensor, count: int) -> torch.Tensor:
        """[count, B, A, d_model], as they are fed back."""
        embed, layer, (B, L) = target.model.embed_tokens, self.layer(), seen.tokens.shape
        positions = torch.arange(L - 1)
        features = self.features(seen)[:, :-1]
        x, residual = self.combine(embed(seen.tokens[:, 1:]), features)
        text = layer.self_attn.cached(x, *self.turn(positions[None]))
        mask = positions < places[..., None]
        x, residual, drafts, made = at(x, places - 1), at(residual, places - 1), [], []
        for i in range(count):
            cos, sin = self.turn(places - 1 + i)
            if i > 0:
                x, residual = self.combine(embed(seen.tokens.gather(1, places + i)), made[-1])
                drafts.append(layer.self_attn.cached(x, cos, sin))
            y = residual + layer.self_attn(x, cos, sin, text, mask, drafts)
            made.append(y + layer.mlp(layer.post_attention_layernorm(y)))
        return torch.stack(made)

    def whole(self, embeddings, features):
        """The rows of a text, each of which sees those before it, [B, T, d_model]."""
        layer, T = self.layer(), embeddings.shape[1]
        (x, residual), (cos, sin) = self.combine(embeddings, features), self.turn(torch.arange(T)[None])
        mask = torch.ones(1, T, T, dtype=torch.bool).tril()
        y = residual + layer.self_attn(x, cos, sin, layer.self_attn.cached(x, cos, sin), mask, [])
        return y + layer.mlp(layer.post_attention_layernorm(y))

    def tensors(self) -> dict:
        return {self.prefix + name: p for name, p in self.state_dict(keep_vars=True).items()}

    def llama_config(self, vocab_size: int, rope: dict) -> dict:
        s = self.s
        return {"attention_bias": False, "head_dim": s.head_dim, "hidden_act": "silu", "hidden_size": s.d_model,
                "intermediate_size": s.d_ff, "max_position_embeddings": s.max_seq_len, "model_type": "llama",
                "num_attention_heads": s.n_heads, "num_hidden_layers": 1, "num_key_value_heads": s.n_kv_heads,
                "rms_norm_eps": NORM_EPS, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                "vocab_size": vocab_size} | rope


def begin_as_feature(linear: nn.Linear, first: int):
    """The matrix begins by handing on the part of its input from column `first` on."""
    width = linear.out_features
    nn.init.normal_(linear.weight, std=0.1 * linear.in_features ** -0.5)
    with torch.no_grad():
        linear.weight[:, first:first + width] += torch.eye(width)


class Eagle(FeatureLayer):
    """Li et al. 2024: [embedding, feature after the final norm], no norm before attention nor before the head."""
    steps = 1                               # as published: one row, and the feature itself is learnt

    def __init__(self, s: Shape, bias: bool = False):
        super().__init__(s, plain_frequencies(s.head_dim, THETA))
        self.fc = nn.Linear(2 * s.d_model, s.d_model, bias=bias)
        self.layers = nn.ModuleList([Block(s, s.d_model, ())])
        begin_as_feature(self.fc, s.d_model)

    def layer(self):
        return self.layers[0]

    def read(self, seen):
        return seen.hidden

    def combine(self, embedding, feature):
        x = self.fc(torch.cat((embedding, feature), dim=-1))
        return x, x

    def more_loss(self, rows, seen, places):
        """Of the feature: the row that the target will compute at the place. It counts ten times as much."""
        return 10 * F.smooth_l1_loss(rows[0].float(), at(seen.hidden, places).float())

    def config(self):
        return self.llama_config(self.s.vocab_size, {"rope_scaling": None, "rope_theta": THETA}) | {
            "architectures": ["LlamaForCausalLMEagle"]} | ({"bias": False} if self.fc.bias is None else {})


class Eagle3(FeatureLayer):
    """Li et al. 2025: three features through one matrix; [norm of embedding, norm of feature]; its own vocabulary."""

    def __init__(self, s: Shape, kept: torch.Tensor, blocks=tuple(FEATURE_BLOCKS)):
        """kept: the target's ids that it can say, in rising order. blocks: it reads the rows that leave these."""
        super().__init__(s, plain_frequencies(s.head_dim, THETA))
        self.blocks = list(blocks)
        self.fc = nn.Linear(len(blocks) * s.d_model, s.d_model, bias=False)
        self.midlayer = Block(s, 2 * s.d_model, ("hidden_norm", "input_layernorm"))
        self.norm = RMSNorm(s.d_model)
        self.lm_head = nn.Linear(s.d_model, len(kept), bias=False)
        self.register_buffer("d2t", kept - torch.arange(len(kept)))
        self.register_buffer("t2d", torch.zeros(s.vocab_size, dtype=torch.bool).index_fill(0, kept, True))
        begin_as_feature(self.fc, (len(blocks) - 1) * s.d_model)

    def begin_like(self, target):
        """The head and its norm begin as the target's."""
        with torch.no_grad():
            self.norm.weight.copy_(target.model.norm.weight)
            self.lm_head.weight.copy_(target.model.embed_tokens.weight[self.kept()])
        return self

    def kept(self):
        return self.d2t + torch.arange(len(self.d2t))

    def layer(self):
        return self.midlayer

    def read(self, seen):
        return torch.cat([seen.stream[i + 1] for i in self.blocks], dim=-1)

    def features(self, seen):
        return self.fc(self.read(seen))

    def combine(self, embedding, feature):
        layer = self.midlayer
        return torch.cat((layer.input_layernorm(embedding), layer.hidden_norm(feature)), dim=-1), feature

    def says(self, target, rows):
        return self.lm_head(self.norm(rows))

    def config(self):
        return self.llama_config(self.s.vocab_size, {"rope_scaling": None, "rope_theta": THETA}) | {
            "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": len(self.d2t),
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": self.blocks}}


class Mtp(FeatureLayer):
    """DeepSeek-V3's module, used for every draft: [norm of embedding, norm of feature], then a whole layer."""

    def __init__(self, s: Shape, n_layers: int, after_norm: bool = False):
        """n_layers: of the target; the module has the number after them. after_norm: where it reads the target."""
        super().__init__(s, rope_frequencies(s.head_dim))
        self.after_norm = after_norm
        self.prefix = f"model.layers.{n_layers}."
        block = Block(s, s.d_model, ("input_layernorm",))
        for name, part in block.named_children():
            setattr(self, name, part)
        self.enorm, self.hnorm = RMSNorm(s.d_model), RMSNorm(s.d_model)
        self.eh_proj = nn.Linear(2 * s.d_model, s.d_model, bias=False)
        self.shared_head = nn.Module()
        self.shared_head.norm = RMSNorm(s.d_model)
        begin_as_feature(self.eh_proj, s.d_model)

    def begin_like(self, target):
        with torch.no_grad():
            self.shared_head.norm.weight.copy_(target.model.norm.weight)
        return self

    def layer(self):
        return self

    def read(self, seen):
        return seen.hidden if self.after_norm else seen.stream[-1]

    def combine(self, embedding, feature):
        x = self.eh_proj(torch.cat((self.enorm(embedding), self.hnorm(feature)), dim=-1))
        return self.input_layernorm(x), x

    def says(self, target, rows):
        return target.head(self.shared_head.norm(rows))

    def config(self):
        rope = {"rope_scaling": ROPE, "rope_theta": ROPE_THETA}
        layers = int(self.prefix.split(".")[2])
        return self.llama_config(self.s.vocab_size, rope) | {
            "architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers, "num_nextn_predict_layers": 1,
            "target_hidden_post_norm": self.after_norm}
