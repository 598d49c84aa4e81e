// Shapes: T tokens of the pass, H query heads, Hkv key and value heads, D head_dim, E d_model,
// F d_ff, V vocabulary. The heads of a row are side by side.
#include "stages/01_naive_decoder/naive_llama.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/checkpoint/elements.h"
#include "common/rope_frequencies.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

Rows load_matrix(const TensorView& tensor) {
  Rows rows(tensor.shape[0], tensor.shape[1]);
  rows.values = to_float32(tensor);
  return rows;
}

// [snippet matmul]
// The dot product of two rows. The compiler may choose the order of the additions, so that it can
// keep 4, 8 or 16 partial sums in one vector register.
float dot(std::span<const float> a, std::span<const float> b) {
  const std::size_t n = a.size();
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y = W x for each row x. weight: [outputs, inputs], x: [T, inputs]; result: [T, outputs]
// The outer loop is the one over outputs: each row of W comes from memory once and serves all T
// tokens while it is in the processor's cache.
Rows matmul(const Rows& weight, const Rows& x) {
  Rows y(x.count, weight.count);
  for (int o = 0; o < weight.count; ++o) {
    for (int t = 0; t < x.count; ++t) y[t][o] = dot(weight[o], x[t]);
  }
  return y;
}
// [end snippet matmul]

// a + b. Both: [T, width]
Rows add(Rows a, const Rows& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

// [snippet embed]
// Row t is the row of the table that token t names. table: [V, E]; result: [T, E]
Rows embed(const Rows& table, std::span<const TokenId> tokens) {
  Rows x(int_size(tokens), table.width);
  for (int t = 0; t < x.count; ++t) {
    SPECDEC_CHECK(tokens[t] >= 0 && tokens[t] < table.count, "an id below {}, not {}", table.count,
                  tokens[t]);
    std::ranges::copy(table[tokens[t]], x[t].begin());
  }
  return x;
}
// [end snippet embed]

// [snippet rms-norm]
// x / sqrt(mean(x^2) + eps) * weight, row by row (Zhang and Sennrich 2019, equation 4).
// x: [T, E], weight: [E]; result: [T, E]
Rows rms_norm(Rows x, std::span<const float> weight, float eps) {
  // [task 1.1: RMSNorm]
  for (int t = 0; t < x.count; ++t) {
    const std::span<float> row = x[t];
    const float mean_square = dot(row, row) / x.width;
    const float scale = 1.0f / std::sqrt(mean_square + eps);
    for (int i = 0; i < x.width; ++i) row[i] *= scale * weight[i];
  }
  // [end task 1.1]
  return x;
}
// [end snippet rms-norm]

// [snippet rope]
// Turns the pairs (i, i + D/2) of every head by the angle t * frequency[i], where t is the position
// of the token (Su et al. 2021, section 3.2.2; paired by halves as Hugging Face does).
// x: [T, heads * D], frequencies: [D / 2]; result: as x
Rows rope(Rows x, std::span<const float> frequencies) {
  // [task 1.2: RoPE]
  const int half = int_size(frequencies);
  for (int t = 0; t < x.count; ++t) {
    const std::span<float> row = x[t];
    for (int i = 0; i < half; ++i) {
      const float angle = t * frequencies[i];
      const float cosine = std::cos(angle);
      const float sine = std::sin(angle);
      for (int head = 0; head < x.width; head += 2 * half) {  // where it begins
        float& first = row[head + i];
        float& second = row[head + i + half];
        const float turned = first * cosine - second * sine;
        second = second * cosine + first * sine;
        first = turned;
      }
    }
  }
  // [end task 1.2]
  return x;
}
// [end snippet rope]

// [snippet attention]
// exp(x) / sum(exp(x)). The largest x is subtracted first, so that exp cannot overflow.
void softmax(std::span<float> x) {
  const float largest = *std::ranges::max_element(x);
  float sum = 0;
  for (float& value : x) sum += value = std::exp(value - largest);
  for (float& value : x) value /= sum;
}

// softmax(q k^T / sqrt(D)) v for every head (Vaswani et al. 2017, equation 1). A token sees itself
// and those before it; H / Hkv neighbouring query heads share a key and value head (Ainslie et al.
// 2023). q: [T, H * D], k and v: [T, Hkv * D]; result: [T, H * D]
Rows attention(const Rows& q, const Rows& k, const Rows& v, int head_dim) {
  // [task 1.3: attention]
  const int n_heads = q.width / head_dim;
  const int group = q.width / k.width;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  Rows out(q.count, q.width);
  for (int t = 0; t < q.count; ++t) {
    std::vector<float> weights(t + 1);  // of the tokens s <= t
    for (int h = 0; h < n_heads; ++h) {
      const std::span<const float> query = q[t].subspan(h * head_dim, head_dim);
      const int shared = h / group * head_dim;  // where this head's keys and values begin
      for (int s = 0; s <= t; ++s) {
        weights[s] = scale * dot(query, k[s].subspan(shared, head_dim));
      }
      softmax(weights);
      const std::span<float> mixed = out[t].subspan(h * head_dim, head_dim);
      for (int s = 0; s <= t; ++s) {
        const std::span<const float> value = v[s].subspan(shared, head_dim);
        for (int i = 0; i < head_dim; ++i) mixed[i] += weights[s] * value[i];
      }
    }
  }
  return out;
  // [end task 1.3]
}
// [end snippet attention]

// [snippet swiglu]
// silu(gate) * up, with silu(z) = z / (1 + exp(-z)): the gated half of SwiGLU (Shazeer 2020,
// equation 6). Both: [T, F]
Rows swiglu(Rows gate, const Rows& up) {
  // [task 1.5: SwiGLU]
  for (std::size_t i = 0; i < gate.values.size(); ++i) {
    const float z = gate.values[i];
    gate.values[i] = z / (1.0f + std::exp(-z)) * up.values[i];
  }
  return gate;
  // [end task 1.5]
}
// [end snippet swiglu]

}  // namespace

NaiveLlama::NaiveLlama(const Checkpoint& checkpoint)
    : config_(checkpoint.config()),
      rope_frequencies_(
          rope_frequencies(config_.head_dim, config_.rope_theta, config_.rope_scaling)),
      embedding_(load_matrix(checkpoint.weights().embedding)),
      final_norm_(to_float32(checkpoint.weights().final_norm)),
      head_(config_.tied_head ? Rows(0, config_.d_model) : load_matrix(checkpoint.weights().head)) {
  for (const LlamaLayerWeights& weights : checkpoint.weights().layers) {
    layers_.push_back({.attn_norm = to_float32(weights.attn_norm),
                       .q_proj = load_matrix(weights.q_proj),
                       .k_proj = load_matrix(weights.k_proj),
                       .v_proj = load_matrix(weights.v_proj),
                       .o_proj = load_matrix(weights.o_proj),
                       .mlp_norm = to_float32(weights.mlp_norm),
                       .gate_proj = load_matrix(weights.gate_proj),
                       .up_proj = load_matrix(weights.up_proj),
                       .down_proj = load_matrix(weights.down_proj)});
  }
}

// [snippet forward]
Rows NaiveLlama::forward(std::span<const TokenId> tokens, const Observer& observe) const {
  Rows logits = matmul(head(), final_states(tokens, observe));  // [T, V]
  if (observe) observe(TensorKind::kLogits, -1, logits);
  return logits;
}

std::vector<float> NaiveLlama::next_token_logits(std::span<const TokenId> tokens) const {
  const Rows states = final_states(tokens, {});
  Rows last(1, states.width);
  std::ranges::copy(states[states.count - 1], last[0].begin());
  return matmul(head(), last).values;
}

// Everything before the head: the embedding, the blocks, the last norm. Result: [T, E]
Rows NaiveLlama::final_states(std::span<const TokenId> tokens, const Observer& observe) const {
  SPECDEC_CHECK(!tokens.empty() && int_size(tokens) <= config_.max_seq_len,
                "1 to {} tokens, not {}", config_.max_seq_len, tokens.size());
  rows_computed_ += std::ssize(tokens);
  Rows x = embed(embedding_, tokens);
  if (observe) observe(TensorKind::kEmbedding, -1, x);
  for (int layer = 0; layer < config_.n_layers; ++layer) x = block(layer, x, observe);
  x = rms_norm(x, final_norm_, config_.rms_norm_eps);
  if (observe) observe(TensorKind::kFinalNorm, -1, x);
  return x;
}
// [end snippet forward]

// [snippet block]
// One transformer block: attention, in which tokens read earlier tokens, and an MLP, which reads
// each token alone. Both read a normed copy of the residual stream x, and add to the stream.
// x: [T, E]; result: [T, E]
Rows NaiveLlama::block(int layer, const Rows& x, const Observer& observe) const {
  using enum TensorKind;
  const Layer& w = layers_[layer];
  const float eps = config_.rms_norm_eps;
  const auto see = [&](TensorKind kind, Rows rows) {  // shows a tensor, and hands it on
    if (observe) observe(kind, layer, rows);
    return rows;
  };

  const Rows attn_norm = see(kAttnNorm, rms_norm(x, w.attn_norm, eps));  // [T, E]
  const Rows q = see(kQ, matmul(w.q_proj, attn_norm));                   // [T, H * D]
  const Rows k = see(kK, matmul(w.k_proj, attn_norm));                   // [T, Hkv * D]
  const Rows v = see(kV, matmul(w.v_proj, attn_norm));                   // [T, Hkv * D]
  const Rows q_rope = see(kQRope, rope(q, rope_frequencies_));
  const Rows k_rope = see(kKRope, rope(k, rope_frequencies_));
  const Rows attn_out = see(kAttnOut, attention(q_rope, k_rope, v, config_.head_dim));
  const Rows attn_residual = see(kAttnResidual, add(x, matmul(w.o_proj, attn_out)));  // [T, E]

  // [task 1.4: the MLP half of the block]
  const Rows mlp_norm = see(kMlpNorm, rms_norm(attn_residual, w.mlp_norm, eps));  // [T, E]
  const Rows gate = see(kGate, matmul(w.gate_proj, mlp_norm));                    // [T, F]
  const Rows up = see(kUp, matmul(w.up_proj, mlp_norm));                          // [T, F]
  const Rows mlp_out = see(kMlpOut, matmul(w.down_proj, swiglu(gate, up)));       // [T, E]
  return see(kResidual, add(attn_residual, mlp_out));                             // [T, E]
  // [end task 1.4]
}
// [end snippet block]

}  // namespace specdec
