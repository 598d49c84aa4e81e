"""A small Llama in PyTorch, written to be trained on a CPU.

The parameters have the names that transformers gives them, so a state_dict
goes from one to the other unchanged. `check_against_transformers` shows that
both compute the same logits.
"""
import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file
from torch import nn

from train_tokenizer import BOS, EOS_IDS, generation_config, write_json

ROPE = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
ROPE_THETA = 500000.0
NORM_EPS = 1e-5
EMBEDDING_STD = 0.3


@dataclass(frozen=True)
class Shape:
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int = 4096
    max_seq_len: int = 2048


SHAPES = {
    "target": Shape(d_model=192, n_layers=6, n_heads=3, n_kv_heads=1, head_dim=128, d_ff=768),
    "draft": Shape(d_model=128, n_layers=2, n_heads=4, n_kv_heads=1, head_dim=64, d_ff=256),
    "draft_small": Shape(d_model=64, n_layers=2, n_heads=4, n_kv_heads=1, head_dim=64, d_ff=128),
    "draft_large": Shape(d_model=192, n_layers=3, n_heads=4, n_kv_heads=1, head_dim=64, d_ff=512),
}


def plain_frequencies(head_dim: int, theta: float) -> torch.Tensor:
    """Inverse frequencies of rotary embeddings, [head_dim / 2]."""
    return 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)


def rope_frequencies(head_dim: int) -> torch.Tensor:
    """The same with Llama 3's scaling: short wavelengths stay, long ones are stretched by `factor`, those between
    are blended."""
    inv = plain_frequencies(head_dim, ROPE_THETA)
    wavelength = 2 * math.pi / inv
    old, low, high = (ROPE["original_max_position_embeddings"],
                      ROPE["low_freq_factor"], ROPE["high_freq_factor"])
    s = (old / wavelength - low) / (high - low)
    blended = (1 - s) * inv / ROPE["factor"] + s * inv
    scaled = torch.where(wavelength > old / low, inv / ROPE["factor"], inv)
    between = (wavelength <= old / low) & (wavelength >= old / high)
    return torch.where(between, blended, scaled)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Half-split rotary embedding: element i pairs with i + head_dim / 2. x: [B, H, T, D]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, NORM_EPS)


class Attention(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(s.d_model, s.n_heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.d_model, s.n_kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.d_model, s.n_kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.n_heads * s.head_dim, s.d_model, bias=False)

    def forward(self, x, cos, sin, cache=None, mask=None):
        """x: [B, T, d_model]. cache: a list of this layer's (k, v), extended in place."""
        B, T, _ = x.shape
        heads = lambda y, n: y.view(B, T, n, self.s.head_dim).transpose(1, 2)
        q = rotate(heads(self.q_proj(x), self.s.n_heads), cos, sin)
        k = rotate(heads(self.k_proj(x), self.s.n_kv_heads), cos, sin)
        v = heads(self.v_proj(x), self.s.n_kv_heads)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = [k, v]
        groups = self.s.n_heads // self.s.n_kv_heads
        k, v = (y.repeat_interleave(groups, dim=1) for y in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask,
                                             is_causal=mask is None and T > 1)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))


class MLP(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.gate_proj = nn.Linear(s.d_model, s.d_ff, bias=False)
        self.up_proj = nn.Linear(s.d_model, s.d_ff, bias=False)
        self.down_proj = nn.Linear(s.d_ff, s.d_model, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.input_layernorm = RMSNorm(s.d_model)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = RMSNorm(s.d_model)
        self.mlp = MLP(s)

    def forward(self, x, cos, sin, cache=None, mask=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocab_size, s.d_model)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.n_layers))
        self.norm = RMSNorm(s.d_model)


class Llama(nn.Module):
    """Decoder with a tied head: logits are products with the embedding rows."""

    def __init__(self, s: Shape, stored: bool = False):
        """stored: its weights will be read from a file."""
        super().__init__()
        self.shape = s
        self.model = Body(s)
        self.register_buffer("inv_freq", rope_frequencies(s.head_dim), persistent=False)
        if not stored:
            self.initialise()

    def initialise(self):
        """Random weights, except that the first two layers begin as a circuit that copies.

        Outputs into the residual start at zero. Embeddings are large enough for the
        layers' outputs not to drown them; the final norm makes up for it.
        """
        for name, p in self.named_parameters():
            if "embed" in name:
                nn.init.normal_(p, std=EMBEDDING_STD)
            elif "o_proj" in name or "down_proj" in name:
                nn.init.zeros_(p)
            elif p.ndim == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)
        nn.init.constant_(self.model.norm.weight, 0.3)
        self.begin_with_induction()

    @torch.no_grad()
    def begin_with_induction(self):
        """Head 0 of layer 0 looks one position back, head 0 of layer 1 for a position whose predecessor
        equals the present token ("induction"). Training would find this by itself, but late.

        Channel 0 of every embedding is a constant, which lets layer 0 attend by distance alone:
        cos(f (distance - 1)), summed over the fast frequencies f, peaks at distance 1. Its values, the
        predecessor's embedding, land in directions that only the keys of layer 1 read; there only
        the slow frequencies are used, since a match must count at any distance.
        """
        first, second = (layer.self_attn for layer in self.model.layers[:2])
        E, half = self.shape.d_model, self.shape.head_dim // 2
        slow = torch.nonzero(self.inv_freq < 0.003).flatten()
        slow = torch.cat((slow, slow + half))
        directions = torch.linalg.qr(torch.randn(E, E))[0]
        n = min(len(slow), E // 2)
        read, write, slow = directions[:, :n].T, directions[:, n:2 * n], slow[:n]
        self.model.embed_tokens.weight[:, 0] = 4 * EMBEDDING_STD
        for attention in (first, second):
            attention.k_proj.weight *= 0.1
            attention.q_proj.weight[:2 * half] *= 0.1
        fast = 3.0 * (self.inv_freq > 0.1)
        first.q_proj.weight[:half, 0] = fast
        first.k_proj.weight[:half, 0] = fast * self.inv_freq.cos()
        first.k_proj.weight[half:, 0] = fast * self.inv_freq.sin()
        first.v_proj.weight[:n] = read
        first.o_proj.weight[:, :n] = EMBEDDING_STD * write
        second.q_proj.weight[slow] = 3.0 * read
        second.k_proj.weight[slow] = 3.0 * write.T
        second.v_proj.weight[:n] = read
        second.o_proj.weight[:, :n] = 6 * EMBEDDING_STD * read.T

    def stream(self, x, caches=None, positions=None, mask=None):
        """Rows of the residual stream: what enters the first block, x [B, T, d_model], and what leaves each one."""
        if positions is None:
            positions = torch.arange(x.shape[1])
        angles = positions[..., None].float() * self.inv_freq      # [T, D/2] or [B, T, D/2]
        cos, sin = angles.cos(), angles.sin()
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        rows = [x]
        for i, layer in enumerate(self.model.layers):
            rows.append(layer(rows[-1], cos, sin, None if caches is None else caches[i], mask))
        return rows

    def hidden(self, tokens, **kwargs):
        """Last hidden states after the final norm. tokens: [B, T]; result: [B, T, d_model]."""
        return self.model.norm(self.stream(self.model.embed_tokens(tokens), **kwargs)[-1])

    def head(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)

    def forward(self, tokens, **kwargs):
        return self.head(self.hidden(tokens, **kwargs))


def llama_config(s: Shape) -> dict:
    """config.json with the fields of Llama 3.2."""
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": BOS, "eos_token_id": EOS_IDS, "head_dim": s.head_dim, "hidden_act": "silu",
        "hidden_size": s.d_model, "initializer_range": 0.02, "intermediate_size": s.d_ff,
        "max_position_embeddings": s.max_seq_len, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": s.n_heads, "num_hidden_layers": s.n_layers, "num_key_value_heads": s.n_kv_heads,
        "pretraining_tp": 1, "rms_norm_eps": NORM_EPS, "rope_scaling": ROPE, "rope_theta": ROPE_THETA,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": transformers.__version__,
        "use_cache": True, "vocab_size": s.vocab_size}


def save(model: Llama, folder: Path):
    """Writes config.json and model.safetensors (bf16) through transformers, then checks what was written."""
    config = {k: v for k, v in llama_config(model.shape).items() if k != "torch_dtype"}
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    missing, unexpected = theirs.load_state_dict(model.state_dict(), strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    folder.mkdir(parents=True, exist_ok=True)
    theirs.to(torch.bfloat16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    write_json(folder / "generation_config.json", generation_config())
    (folder / "config.json").write_text(json.dumps(llama_config(model.shape), indent=2, sort_keys=True) + "\n")
    check_against_transformers(folder)


def load(folder: Path) -> Llama:
    """The saved model, computing in float32."""
    config = json.loads((folder / "config.json").read_text())
    model = Llama(Shape(
        d_model=config["hidden_size"], n_layers=config["num_hidden_layers"], n_heads=config["num_attention_heads"],
        n_kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"], d_ff=config["intermediate_size"],
        vocab_size=config["vocab_size"], max_seq_len=config["max_position_embeddings"]), stored=True)
    model.load_state_dict({k: v.float() for k, v in load_file(folder / "model.safetensors").items()})
    if config.get("rope_scaling") is None:
        model.inv_freq = plain_frequencies(model.shape.head_dim, config["rope_theta"])
    return model.eval()


@torch.no_grad()
def check_against_transformers(folder: Path):
    """Both implementations give the same logits for random tokens, up to rounding in float32."""
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    tokens = torch.randint(0, theirs.config.vocab_size, (2, 700), generator=torch.Generator().manual_seed(0))
    a, b = load(folder)(tokens), theirs(tokens).logits
    error = ((a - b).norm() / b.norm()).item()
    assert error <= 1e-5, f"relative difference {error} from transformers"
