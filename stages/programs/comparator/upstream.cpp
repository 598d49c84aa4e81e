#include "stages/programs/comparator/upstream.h"

#include <algorithm>
#include <cmath>

#include "common/base/json_value.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

using Kind = TensorKind;

// The member with the weight of that kind; null for kinds without a weight in the layer.
TensorView LlamaLayerWeights::*layer_weight(Kind kind) {
  switch (kind) {
    case Kind::kAttnNorm:
      return &LlamaLayerWeights::attn_norm;
    case Kind::kQ:
      return &LlamaLayerWeights::q_proj;
    case Kind::kK:
      return &LlamaLayerWeights::k_proj;
    case Kind::kV:
      return &LlamaLayerWeights::v_proj;
    case Kind::kAttnResidual:
      return &LlamaLayerWeights::o_proj;
    case Kind::kMlpNorm:
      return &LlamaLayerWeights::mlp_norm;
    case Kind::kGate:
      return &LlamaLayerWeights::gate_proj;
    case Kind::kUp:
      return &LlamaLayerWeights::up_proj;
    case Kind::kMlpOut:
      return &LlamaLayerWeights::down_proj;
    default:
      return nullptr;
  }
}

Matrix values_or_empty(const GoldenTensor* tensor) {
  return tensor == nullptr ? Matrix() : to_matrix(tensor->view);
}

Matrix values_or_empty(const TensorView* view) {
  return view == nullptr ? Matrix() : to_matrix(*view);
}

}  // namespace

Matrix Upstream::of(Kind kind) const {
  return values_or_empty(golden_.find(place_of(kind, place_.layer)));
}

Matrix Upstream::layer_input() const {
  if (place_.layer == 0) return of(Kind::kEmbedding);
  const int n_layers = golden_.shape().n_layers;
  const int before =
      (place_.layer > 0 ? place_.layer : n_layers) - 1;  // final_norm: the last layer
  return values_or_empty(golden_.find(place_of(Kind::kResidual, before)));
}

Matrix Upstream::norm_input() const {
  return kind() == Kind::kMlpNorm ? of(Kind::kAttnResidual) : layer_input();
}

Matrix Upstream::rope_input() const {
  return of(kind() == Kind::kQRope ? Kind::kQ : kind() == Kind::kKRope ? Kind::kK : kind());
}

Matrix Upstream::linear_input() const {
  switch (kind()) {
    case Kind::kQ:
    case Kind::kK:
    case Kind::kV:
      return of(Kind::kAttnNorm);
    case Kind::kAttnResidual:
      return of(Kind::kAttnOut);
    case Kind::kGate:
    case Kind::kUp:
      return of(Kind::kMlpNorm);
    case Kind::kMlpOut:
      return apply(silu, of(Kind::kGate)) * of(Kind::kUp);
    case Kind::kLogits:
      return of(Kind::kFinalNorm);
    default:
      return {};
  }
}

const TensorView* Upstream::weight(Kind kind, int layer_shift) const {
  if (checkpoint_ == nullptr) return nullptr;
  const LlamaWeights& weights = checkpoint_->weights();
  if (kind == Kind::kEmbedding) return &weights.embedding;
  if (kind == Kind::kFinalNorm) return &weights.final_norm;
  if (kind == Kind::kLogits) return &weights.head;
  const int layer = place_.layer + layer_shift;
  const auto member = layer_weight(kind);
  const bool exists = layer >= 0 && layer < int_size(weights.layers);
  if (place_.layer < 0 || !exists || member == nullptr) return nullptr;
  return &(weights.layers[layer].*member);
}

Matrix Upstream::norm(const std::function<void(NormRule&)>& change) const {
  if (checkpoint_ == nullptr) return {};
  NormRule rule{.eps_inside = checkpoint_->config().rms_norm_eps};
  change(rule);
  return rms_norm(norm_input(), values_or_empty(weight(kind())), rule);
}

Matrix Upstream::norm_of(const Matrix& x, const TensorView* norm_weight) const {
  if (checkpoint_ == nullptr) return {};
  const NormRule rule{.eps_inside = checkpoint_->config().rms_norm_eps};
  return rms_norm(x, values_or_empty(norm_weight), rule);
}

RopeRule Upstream::rope_rule() const {
  RopeRule rule;
  rule.head_dim = shape().head_dim;
  rule.frequencies = shape().inv_freq;
  for (int t = golden_.first_row(); t < int_size(golden_.tokens()); ++t) {
    rule.positions.push_back(t);
  }
  return rule;
}

Matrix Upstream::rope(const std::function<void(RopeRule&)>& change) const {
  RopeRule rule = rope_rule();
  change(rule);
  return specdec::rope(rope_input(), rule);
}

Matrix Upstream::rope_with(std::vector<float> (*frequencies)(const LlamaConfig&)) const {
  if (checkpoint_ == nullptr) return {};
  RopeRule rule = rope_rule();
  const std::vector<float> other = frequencies(checkpoint_->config());
  rule.frequencies.assign(other.begin(), other.end());
  return specdec::rope(rope_input(), rule);
}

AttentionRule Upstream::attention_rule() const {
  const std::size_t group = shape().n_heads / shape().n_kv_heads;
  AttentionRule rule;
  rule.head_dim = shape().head_dim;
  rule.n_heads = shape().n_heads;
  rule.scale = 1 / std::sqrt(shape().head_dim);
  rule.sees = [](std::size_t query, std::size_t key) { return key <= query; };
  rule.kv_head = [=](std::size_t head) { return head / group; };
  return rule;
}

Matrix Upstream::attention(const std::function<void(AttentionRule&)>& change) const {
  AttentionRule rule = attention_rule();
  change(rule);
  return specdec::attention(of(Kind::kQRope), of(Kind::kKRope), of(Kind::kV), rule);
}

Matrix Upstream::attention_of(Kind q, Kind k, Kind v) const {
  return specdec::attention(of(q), of(k), of(v), attention_rule());
}

Matrix Upstream::embedding(int id_shift) const {
  const TensorView* table = weight(Kind::kEmbedding);
  if (table == nullptr) return {};
  const std::size_t row_bytes = table->bytes.size() / table->shape[0];
  const std::span<const TokenId> ids = golden_.tokens().subspan(golden_.first_row());
  Matrix result(ids.size(), table->shape[1]);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::int64_t id = std::int64_t{ids[t]} + id_shift;
    if (id < 0 || id >= table->shape[0]) return {};
    const std::size_t begin = id * row_bytes;
    const TensorView row{table->dtype, {table->shape[1]}, table->bytes.subspan(begin, row_bytes)};
    std::ranges::copy(to_matrix(row).values, result.row(t).begin());
  }
  return result;
}

Matrix Upstream::linear(const Matrix& input, const TensorView* matrix, WeightLayout layout) const {
  const Matrix product = project(input, matrix, layout);
  return kind() == Kind::kAttnResidual ? layer_input() + product : product;
}

}  // namespace specdec
