#pragma once
#include <functional>

#include "common/checkpoint/checkpoint.h"
#include "stages/programs/comparator/golden_file.h"
#include "stages/programs/comparator/llama_math.h"
#include "stages/programs/comparator/matrix.h"

namespace specdec {

// What one golden tensor, "the tensor", is computed from: earlier golden tensors, and the weights.
// If something is not available (no checkpoint, a golden file of few tensors), it is an empty
// matrix, and so is everything that depends on it.
class Upstream {
 public:
  // checkpoint: may be null. first_bad_row: the first row of the tensor that is wrong.
  // The arguments must outlive this object.
  Upstream(const GoldenFile& golden, const Checkpoint* checkpoint, const TensorPlace& place,
           std::size_t first_bad_row)
      : golden_(golden), checkpoint_(checkpoint), place_(place), first_bad_row_(first_bad_row) {}

  const GoldenFile& golden() const { return golden_; }
  const GoldenShape& shape() const { return golden_.shape(); }
  TensorKind kind() const { return place_.kind; }
  std::size_t first_bad_row() const { return first_bad_row_; }

  // Golden tensors: one of the same layer; the input of that layer; the inputs of the tensor.
  Matrix of(TensorKind kind) const;
  Matrix want() const { return of(place_.kind); }
  Matrix layer_input() const;
  Matrix norm_input() const;
  Matrix rope_input() const;
  Matrix linear_input() const;

  // The weight of that kind in the tensor's layer or a neighbouring one; null if it is not
  // available.
  const TensorView* weight(TensorKind kind, int layer_shift = 0) const;

  // The tensor computed again, with a change to the correct rule. rope_with() needs a checkpoint,
  // because it needs the config.
  Matrix norm(const std::function<void(NormRule&)>& change) const;
  Matrix rope(const std::function<void(RopeRule&)>& change) const;
  Matrix rope_with(std::vector<float> (*frequencies)(const LlamaConfig&)) const;
  // Attention counts rows, and sees only the stored keys.
  Matrix attention(const std::function<void(AttentionRule&)>& change) const;

  // The same operations on other inputs.
  Matrix norm_of(const Matrix& x, const TensorView* norm_weight) const;
  Matrix attention_of(TensorKind q, TensorKind k, TensorKind v) const;
  Matrix embedding(int id_shift) const;  // the table's rows for token ids + id_shift

  // input times a weight; if the tensor is attn_residual, plus the input of the layer.
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
