#pragma once
#include <functional>

#include "common/checkpoint/checkpoint.h"
#include "stages/programs/comparator/golden_file.h"
#include "stages/programs/comparator/llama_math.h"
#include "stages/programs/comparator/matrix.h"

namespace specdec {

// What one golden tensor, "the tensor", is made from: the golden tensors before it and the weights.
// What is not at hand (no checkpoint, a golden file of few tensors) is an empty matrix, and so is
// all that would be worked out from it.
class Upstream {
 public:
  // checkpoint: may be null. first_bad_row: the first row of the tensor that came out wrong.
  // The arguments must outlive this object.
  Upstream(const GoldenFile& golden, const Checkpoint* checkpoint, const TensorPlace& place,
           std::size_t first_bad_row)
      : golden_(golden), checkpoint_(checkpoint), place_(place), first_bad_row_(first_bad_row) {}

  const GoldenFile& golden() const { return golden_; }
  const GoldenShape& shape() const { return golden_.shape(); }
  TensorKind kind() const { return place_.kind; }
  std::size_t first_bad_row() const { return first_bad_row_; }

  // Golden tensors: of the same layer; what enters that layer; what the tensor is computed from.
  Matrix of(TensorKind kind) const;
  Matrix want() const { return of(place_.kind); }
  Matrix layer_input() const;
  Matrix norm_input() const;
  Matrix rope_input() const;
  Matrix linear_input() const;

  // The weight of that tensor in the tensor's layer or a neighbour of it; null: none at hand.
  const TensorView* weight(TensorKind kind, int layer_shift = 0) const;

  // The tensor computed again, with a change to the rule that makes it right. The second one of
  // rope's needs the config, which the checkpoint brings.
  Matrix norm(const std::function<void(NormRule&)>& change) const;
  Matrix rope(const std::function<void(RopeRule&)>& change) const;
  Matrix rope_with(std::vector<float> (*frequencies)(const LlamaConfig&)) const;
  // Attention counts rows, and knows no keys but the stored ones.
  Matrix attention(const std::function<void(AttentionRule&)>& change) const;

  // The same operations on other inputs.
  Matrix norm_of(const Matrix& x, const TensorView* norm_weight) const;
  Matrix attention_of(TensorKind q, TensorKind k, TensorKind v) const;
  Matrix embedding(int id_shift) const;  // the table's rows of the token ids + id_shift

  // input times a weight; where the tensor is attn_residual, what enters the layer is added.
  Matrix linear(const Matrix& input, const TensorView* matrix,
                WeightLayout layout = WeightLayout::kOutputsByInputs) const;
  Matrix linear(const Matrix& input) const { return linear(input, weight(kind())); }

 private:
  RopeRule rope_rule() const;
  AttentionRule attention_rule() const;

  const GoldenFile& golden_;
  const Checkpoint* checkpoint_;
  TensorPlace place_;
  std::size_t first_bad_row_;
};

}  // namespace specdec
