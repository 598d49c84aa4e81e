#include "stages/programs/comparator/wrong_variants.h"

#include <algorithm>
#include <cmath>

#include "common/rope_frequencies.h"

namespace specdec {
namespace {

using Kind = TensorKind;
using Variants = std::vector<WrongVariant>;
using Kinds = std::vector<Kind>;
using U = const Upstream&;  // short, to keep the tables readable

const Kinds kNorms{Kind::kAttnNorm, Kind::kMlpNorm, Kind::kFinalNorm};
const Kinds kRopes{Kind::kQRope, Kind::kKRope};
const Kinds kMatrices{Kind::kQ,    Kind::kK,  Kind::kV,      Kind::kAttnResidual,
                      Kind::kGate, Kind::kUp, Kind::kMlpOut, Kind::kLogits};

Variants embedding_variants() {
  return {
      {{Kind::kEmbedding},
       "the embedding is multiplied by sqrt(d_model), as some models do; Llama takes it as it is",
       [](U u) { return std::sqrt(u.want().cols) * u.want(); }},
      {{Kind::kEmbedding},
       "these are the rows of the token ids + 1: ids and rows of the table both count from 0",
       [](U u) { return u.embedding(+1); }},
      {{Kind::kEmbedding},
       "these are the rows of the token ids - 1: ids and rows of the table both count from 0",
       [](U u) { return u.embedding(-1); }},
  };
}

Variants norm_variants() {
  return {
      {kNorms, "the norm's weight is missing: multiply each element by it after dividing",
       [](U u) { return u.norm([](NormRule& rule) { rule.apply_weight = false; }); }},
      {kNorms, "the norm is skipped: these are the values that enter it",
       [](U u) { return u.norm_input(); }},
      {kNorms, "eps (rms_norm_eps) is missing, or far too small: divide by sqrt(mean(x^2) + eps)",
       [](U u) { return u.norm([](NormRule& rule) { rule.eps_inside = 0; }); }},
      {kNorms, "eps is added outside the root: divide by sqrt(mean(x^2) + eps), eps inside",
       [](U u) {
         return u.norm([](NormRule& rule) { std::swap(rule.eps_inside, rule.eps_outside); });
       }},
      {kNorms, "eps is not the model's rms_norm_eps, but 1e-6",
       [](U u) { return u.norm([](NormRule& rule) { rule.eps_inside = 1e-6; }); }},
      {kNorms, "eps is not the model's rms_norm_eps, but 1e-5",
       [](U u) { return u.norm([](NormRule& rule) { rule.eps_inside = 1e-5; }); }},
      {kNorms, "divided by the root of the sum of squares: it must be the root of their mean",
       [](U u) { return u.norm([](NormRule& rule) { rule.sum_for_mean = true; }); }},
      {kNorms, "the mean is subtracted, as LayerNorm does: RMSNorm only divides",
       [](U u) { return u.norm([](NormRule& rule) { rule.subtract_mean = true; }); }},
      {kNorms, "multiplied by (1 + weight), as Gemma does: Llama multiplies by the weight itself",
       [](U u) { return u.norm([](NormRule& rule) { rule.weight_offset = 1; }); }},
  };
}

Variants norm_weight_variants() {
  return {
      {{Kind::kAttnNorm},
       "the weights of the wrong norm: post_attention_layernorm instead of input_layernorm",
       [](U u) { return u.norm_of(u.layer_input(), u.weight(Kind::kMlpNorm)); }},
      {{Kind::kMlpNorm},
       "the weights of the wrong norm: input_layernorm instead of post_attention_layernorm",
       [](U u) { return u.norm_of(u.norm_input(), u.weight(Kind::kAttnNorm)); }},
      {{Kind::kMlpNorm},
       "the norm reads what enters the layer: it must read attn_residual, after attention",
       [](U u) { return u.norm_of(u.layer_input(), u.weight(Kind::kMlpNorm)); }},
      {kNorms, "the norm's weights are the previous layer's: is the layer's index off by one?",
       [](U u) { return u.norm_of(u.norm_input(), u.weight(u.kind(), -1)); }},
      {kNorms, "the norm's weights are the next layer's: is the layer's index off by one?",
       [](U u) { return u.norm_of(u.norm_input(), u.weight(u.kind(), +1)); }},
  };
}

Variants matrix_variants() {
  return {
      {{Kind::kQ, Kind::kK, Kind::kV, Kind::kGate, Kind::kUp},
       "the matrix multiplies what enters the norm: the norm is skipped",
       [](U u) {
         return u.linear(u.kind() >= Kind::kGate ? u.of(Kind::kAttnResidual) : u.layer_input());
       }},
      {kMatrices,
       "the weight matrix is read transposed: it is stored [outputs, inputs], so y = W x takes the "
       "dot product with each of its rows",
       [](U u) {
         return u.linear(u.linear_input(), u.weight(u.kind()), WeightLayout::kInputsByOutputs);
       }},
      {kMatrices, "the weights are the previous layer's: is the layer's index off by one?",
       [](U u) { return u.linear(u.linear_input(), u.weight(u.kind(), -1)); }},
      {kMatrices, "the weights are the next layer's: is the layer's index off by one?",
       [](U u) { return u.linear(u.linear_input(), u.weight(u.kind(), +1)); }},
      {{Kind::kK}, "k and v are swapped: this is v", [](U u) { return u.of(Kind::kV); }},
      {{Kind::kV}, "k and v are swapped: this is k", [](U u) { return u.of(Kind::kK); }},
      {{Kind::kQ},
       "RoPE has already turned q: q is the value before RoPE, q_rope the value after it",
       [](U u) { return u.of(Kind::kQRope); }},
      {{Kind::kK},
       "RoPE has already turned k: k is the value before RoPE, k_rope the value after it",
       [](U u) { return u.of(Kind::kKRope); }},
      {{Kind::kV},
       "RoPE is applied to v: it turns q and k only",
       [](U u) { return u.rope([](RopeRule&) {}); }},
  };
}

// RoPE's frequencies with other parameters.
std::vector<float> unscaled(const LlamaConfig& config) {
  return rope_frequencies(config.head_dim, config.rope_theta, {});
}

std::vector<float> all_scaled(const LlamaConfig& config) {
  std::vector<float> frequencies = unscaled(config);
  for (float& frequency : frequencies) {
    frequency /= config.rope_scaling ? static_cast<float>(config.rope_scaling->factor) : 1;
  }
  return frequencies;
}

std::vector<float> with_theta_10000(const LlamaConfig& config) {
  return rope_frequencies(config.head_dim, 10000, config.rope_scaling);
}

std::vector<float> with_theta_500000(const LlamaConfig& config) {
  return rope_frequencies(config.head_dim, 500000, config.rope_scaling);
}

std::vector<float> with_half_the_exponent(const LlamaConfig& config) {
  return rope_frequencies(config.head_dim, std::sqrt(config.rope_theta), config.rope_scaling);
}

Variants rope_variants() {
  return {
      {kRopes, "RoPE is not applied: these are the values before it",
       [](U u) { return u.rope_input(); }},
      {kRopes,
       "RoPE pairs adjacent elements (0, 1), (2, 3), ...: in Hugging Face's layout of Llama, i "
       "pairs with i + head_dim / 2",
       [](U u) { return u.rope([](RopeRule& r) { r.adjacent_pairs = true; }); }},
      {kRopes, "RoPE turns the wrong way round: the signs of the two sines are swapped",
       [](U u) { return u.rope([](RopeRule& r) { r.direction = -1; }); }},
      {kRopes, "RoPE's llama3 scaling (rope_scaling) is missing: it counts in short prompts too",
       [](U u) { return u.rope_with(unscaled); }},
      {kRopes, "RoPE divides all frequencies by the factor: llama3's scaling keeps the high ones",
       [](U u) { return u.rope_with(all_scaled); }},
      {kRopes, "RoPE's theta is 10000, not the model's rope_theta",
       [](U u) { return u.rope_with(with_theta_10000); }},
      {kRopes, "RoPE's theta is 500000, not the model's rope_theta",
       [](U u) { return u.rope_with(with_theta_500000); }},
      {kRopes, "RoPE's frequencies fall too slowly: pair i has theta^(-2 i / head_dim)",
       [](U u) { return u.rope_with(with_half_the_exponent); }},
  };
}

// RoPE at other positions. change(positions, the first wrong token)
std::function<Matrix(U)> with_positions(void (*change)(std::vector<double>&, std::size_t)) {
  return [=](U u) { return u.rope([&](RopeRule& r) { change(r.positions, u.first_bad_row()); }); };
}

void shift(std::vector<double>& positions, double by) {
  for (double& p : positions) p += by;
}

Variants position_variants() {
  using Positions = std::vector<double>;
  using Token = std::size_t;
  return {
      {kRopes, "RoPE's position is one too high: the first token of a sequence has position 0",
       with_positions([](Positions& p, Token) { shift(p, +1); })},
      {kRopes, "RoPE's position is one too low: the first token of a sequence has position 0",
       with_positions([](Positions& p, Token) { shift(p, -1); })},
      {kRopes,
       "RoPE's positions begin at 0 again with the first wrong token: they must go on after the "
       "tokens that are cached",
       with_positions([](Positions& p, Token bad) { shift(p, -p[bad]); })},
      {kRopes,
       "RoPE's position does not advance: all tokens are turned like the one before the first "
       "wrong one",
       with_positions(
           [](Positions& p, Token bad) { std::ranges::fill(p, p[bad] - (bad > 0 ? 1 : 0)); })},
      {kRopes, "RoPE turns every token by the position of the last one",
       with_positions([](Positions& p, Token) { std::ranges::fill(p, double{p.back()}); })},
  };
}

// Attention with another mask. sees(query, key, the first wrong token)
template <typename Sees>
std::function<Matrix(U)> with_mask(Sees sees) {
  return [=](U u) {
    const std::size_t first = u.first_bad_row();
    return u.attention([=](AttentionRule& r) {
      r.sees = [=](std::size_t query, std::size_t key) { return sees(query, key, first); };
    });
  };
}

Variants mask_variants() {
  const Kinds in{Kind::kAttnOut};
  using Token = std::size_t;
  return {
      {in, "attention is not causal: a token sees the tokens after it",
       with_mask([](Token, Token, Token) { return true; })},
      {in, "attention's mask is off by one: a token also sees the next token",
       with_mask([](Token query, Token key, Token) { return key <= query + 1; })},
      {in, "attention's mask is off by one: a token does not see itself",
       with_mask([](Token query, Token key, Token) { return key < query; })},
      {in, "attention leaves out the first token, position 0",
       with_mask([](Token query, Token key, Token) { return key >= 1 && key <= query; })},
      {in, "a token sees only itself: are the keys and values of the tokens before it kept?",
       with_mask([](Token query, Token key, Token) { return key == query; })},
      {in, "from the first wrong token on, the tokens before it are not seen: is the cache read?",
       with_mask([](Token query, Token key, Token first) { return key >= first && key <= query; })},
      {in,
       "the mask counts the rows of this pass: it must count positions, with the tokens that are "
       "cached",
       with_mask([](Token query, Token key, Token first) { return key + first <= query; })},
  };
}

// attn_out if [n_heads, T, head_dim] is read as [T, n_heads * head_dim].
Matrix heads_first(U u) {
  const Matrix want = u.want();
  const std::size_t width = u.shape().head_dim;
  Matrix result = want;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const std::size_t head = i / (want.rows * width);
    const std::size_t t = i / width % want.rows;
    result.values[i] = want.row(t)[head * width + i % width];
  }
  return result;
}

Variants attention_variants() {
  const Kinds in{Kind::kAttnOut};
  return {
      {in, "the scores are not divided by sqrt(head_dim)",
       [](U u) { return u.attention([](AttentionRule& r) { r.scale = 1; }); }},
      {in, "the scores are divided by head_dim: it must be its square root",
       [](U u) { return u.attention([](AttentionRule& r) { r.scale *= r.scale; }); }},
      {in, "the scores are divided by sqrt(d_model): it must be sqrt(head_dim)",
       [](U u) {
         return u.attention([&](AttentionRule& r) { r.scale = 1 / std::sqrt(u.shape().d_model); });
       }},
      {in, "head h reads K/V head h % n_kv_heads: it must be h / (n_heads / n_kv_heads)",
       [](U u) {
         return u.attention([&](AttentionRule& r) {
           const std::size_t n_kv_heads = u.shape().n_kv_heads;
           r.kv_head = [=](std::size_t head) { return head % n_kv_heads; };
         });
       }},
      {in, "every head reads K/V head 0",
       [](U u) {
         return u.attention(
             [](AttentionRule& r) { r.kv_head = [](std::size_t) { return std::size_t{0}; }; });
       }},
      {in, "attention reads k before RoPE: k_rope must be kept",
       [](U u) { return u.attention_of(Kind::kQRope, Kind::kK, Kind::kV); }},
      {in, "attention reads q before RoPE: it must read q_rope",
       [](U u) { return u.attention_of(Kind::kQ, Kind::kKRope, Kind::kV); }},
      {in, "attention reads q and k before RoPE",
       [](U u) { return u.attention_of(Kind::kQ, Kind::kK, Kind::kV); }},
      {in, "attention adds up keys instead of values",
       [](U u) { return u.attention_of(Kind::kQRope, Kind::kKRope, Kind::kKRope); }},
      {in, "the heads are not put side by side: [n_heads, T, head_dim] is read as [T, heads]",
       heads_first},
  };
}

Variants residual_variants() {
  const Kinds attn{Kind::kAttnResidual};
  const Kinds mlp{Kind::kResidual};
  return {
      {attn, "the residual is not added: this is attention's output alone",
       [](U u) { return u.want() - u.layer_input(); }},
      {attn, "the residual is added twice", [](U u) { return u.want() + u.layer_input(); }},
      {attn, "attention's output is not added: this is what entered the layer",
       [](U u) { return u.layer_input(); }},
      {attn, "attention's output is added twice",
       [](U u) { return 2 * u.want() - u.layer_input(); }},
      {attn, "attention's output is added to the normed input: add it to what enters the layer",
       [](U u) { return u.want() - u.layer_input() + u.of(Kind::kAttnNorm); }},
      {attn, "o_proj is missing: the heads are added as they are",
       [](U u) { return u.layer_input() + u.of(Kind::kAttnOut); }},
      {mlp, "the residual is not added: this is mlp_out alone",
       [](U u) { return u.of(Kind::kMlpOut); }},
      {mlp, "the residual is added twice",
       [](U u) { return u.want() + u.of(Kind::kAttnResidual); }},
      {mlp, "mlp_out is not added: this is attn_residual",
       [](U u) { return u.of(Kind::kAttnResidual); }},
      {mlp, "mlp_out is added twice", [](U u) { return u.want() + u.of(Kind::kMlpOut); }},
      {mlp, "mlp_out is added to what entered the layer, so attention's part is lost",
       [](U u) { return u.layer_input() + u.of(Kind::kMlpOut); }},
      {mlp, "mlp_out is added to the normed input: add it to attn_residual, before its norm",
       [](U u) { return u.of(Kind::kMlpNorm) + u.of(Kind::kMlpOut); }},
  };
}

Variants mlp_variants() {
  const Kinds in{Kind::kMlpOut};
  const auto gated = [](double (*activation)(double)) {
    return [=](U u) { return u.linear(apply(activation, u.of(Kind::kGate)) * u.of(Kind::kUp)); };
  };
  return {
      {{Kind::kGate}, "gate and up are swapped: this is up", [](U u) { return u.of(Kind::kUp); }},
      {{Kind::kUp}, "gate and up are swapped: this is gate", [](U u) { return u.of(Kind::kGate); }},
      {{Kind::kGate},
       "SiLU is already applied: gate is the value before SiLU",
       [](U u) { return apply(silu, u.of(Kind::kGate)); }},
      {{Kind::kUp},
       "up is already multiplied by silu(gate): it must be the value before that",
       [](U u) { return apply(silu, u.of(Kind::kGate)) * u.of(Kind::kUp); }},
      {in, "gate and up are swapped: SiLU belongs to gate, silu(gate) * up",
       [](U u) { return u.linear(u.of(Kind::kGate) * apply(silu, u.of(Kind::kUp))); }},
      {in, "SiLU is missing: gate * up instead of silu(gate) * up",
       gated([](double x) { return x; })},
      {in, "GELU (by erf) instead of SiLU", gated(gelu_erf)},
      {in, "GELU (by tanh) instead of SiLU", gated(gelu_tanh)},
      {in, "ReLU instead of SiLU", gated([](double x) { return std::max(x, 0.0); })},
      {in, "a sigmoid instead of SiLU: silu(x) = x * sigmoid(x)",
       gated([](double x) { return 1 / (1 + std::exp(-x)); })},
      {in, "up is missing: silu(gate) alone",
       [](U u) { return u.linear(apply(silu, u.of(Kind::kGate))); }},
      {in, "silu(gate) and up are added: they must be multiplied",
       [](U u) { return u.linear(apply(silu, u.of(Kind::kGate)) + u.of(Kind::kUp)); }},
      {in, "the residual is already added: mlp_out is the value before that",
       [](U u) { return u.of(Kind::kResidual); }},
  };
}

Matrix softmax_of_rows(U u) {
  Matrix result = u.want();
  for (std::size_t t = 0; t < result.rows; ++t) {
    const double highest = std::ranges::max(result.row(t));
    double sum = 0;
    for (double& value : result.row(t)) sum += value = std::exp(value - highest);
    for (double& value : result.row(t)) value /= sum;
  }
  return result;
}

Variants logits_variants() {
  const Kinds in{Kind::kLogits};
  return {
      {in, "the final norm is skipped: the head reads the last layer's residual",
       [](U u) { return u.linear(u.layer_input()); }},
      {in, "the head is the embedding: this checkpoint has an lm_head of its own",
       [](U u) { return u.linear(u.linear_input(), u.weight(Kind::kEmbedding)); }},
      {in, "the final norm is applied twice",
       [](U u) { return u.linear(u.norm_of(u.of(Kind::kFinalNorm), u.weight(Kind::kFinalNorm))); }},
      {in, "a softmax is already applied: logits are the numbers before it", softmax_of_rows},
  };
}

}  // namespace

const std::vector<WrongVariant>& wrong_variants() {
  static const Variants all = [] {
    Variants result;
    for (const Variants& part :
         {embedding_variants(), norm_variants(), norm_weight_variants(), matrix_variants(),
          rope_variants(), position_variants(), mask_variants(), attention_variants(),
          residual_variants(), mlp_variants(), logits_variants()}) {
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }();
  return all;
}

}  // namespace specdec
