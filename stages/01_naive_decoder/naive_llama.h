#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/token_id.h"
#include "common/checkpoint/checkpoint.h"
#include "common/tensor_kind.h"

namespace specdec {

// [snippet rows]
// A matrix of float32 numbers, row after row. In activations [T, width], a row belongs to a token;
// in a weight matrix [outputs, inputs], a row computes one output.
struct Rows {
  Rows(int count_, int width_)
      : count(count_), width(width_), values(std::ptrdiff_t{count} * width) {}

  std::span<float> operator[](int row) { return std::span(values).subspan(offset(row), width); }
  std::span<const float> operator[](int row) const {
    return std::span(values).subspan(offset(row), width);
  }
  std::ptrdiff_t offset(int row) const { return std::ptrdiff_t{row} * width; }

  int count = 0;
  int width = 0;
  std::vector<float> values;  // [count, width]
};
// [end snippet rows]

// The Llama forward pass, equation by equation: plain loops over float32, without a cache and
// without kernels. It remembers nothing: each call computes all tokens again. It is for reading,
// and it is an oracle for the engine of the later stages.
class NaiveLlama {
 public:
  // Gets each tensor of a pass as soon as it is computed, in the order of the data flow.
  // layer: -1 outside the layers. rows: [T, width of that tensor].
  using Observer = std::function<void(TensorKind kind, int layer, const Rows& rows)>;

  // Converts all weights to float32, 4 bytes each; the checkpoint is not needed afterwards.
  explicit NaiveLlama(const Checkpoint& checkpoint);

  const LlamaConfig& config() const { return config_; }

  // The logits after every token: row t holds the scores of what may follow tokens 0..t.
  // Result: [T, vocab_size]. REQUIRES: 1 <= T <= max_seq_len; ids inside the vocabulary.
  Rows forward(std::span<const TokenId> tokens, const Observer& observe = {}) const;

  // Only the last row of forward(), [vocab_size], which is enough to choose the next token. The
  // head multiplies one row instead of T; without a cache, nothing before the head can be saved.
  std::vector<float> next_token_logits(std::span<const TokenId> tokens) const;

  // How many tokens went through the layers, over all calls.
  std::int64_t rows_computed() const { return rows_computed_; }

 private:
  struct Layer {
    std::vector<float> attn_norm;  // [d_model]
    Rows q_proj;                   // [n_heads * head_dim, d_model]
    Rows k_proj, v_proj;           // [n_kv_heads * head_dim, d_model]
    Rows o_proj;                   // [d_model, n_heads * head_dim]
    std::vector<float> mlp_norm;   // [d_model]
    Rows gate_proj, up_proj;       // [d_ff, d_model]
    Rows down_proj;                // [d_model, d_ff]
  };

  Rows final_states(std::span<const TokenId> tokens, const Observer& observe) const;
  Rows block(int layer, const Rows& x, const Observer& observe) const;
  const Rows& head() const { return config_.tied_head ? embedding_ : head_; }

  LlamaConfig config_;
  std::vector<float> rope_frequencies_;  // [head_dim / 2]
  Rows embedding_;                       // [vocab_size, d_model]
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;  // [d_model]
  Rows head_;                      // [vocab_size, d_model]; empty if the head is tied
  mutable std::int64_t rows_computed_ = 0;
};

}  // namespace specdec
