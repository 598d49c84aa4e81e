#include "common/llama_model.h"

#include <initializer_list>

#include "common/base/check.h"
#include "common/checkpoint/elements.h"
#include "common/rope_frequencies.h"

namespace specdec {
namespace {

HostMatrix host_matrix(const TensorView& tensor) {
  SPECDEC_CHECK(tensor.shape.size() == 2, "a weight matrix");
  HostMatrix matrix;
  matrix.type = tensor.dtype == DType::kF32   ? WeightType::kF32
                : tensor.dtype == DType::kF16 ? WeightType::kF16
                                              : WeightType::kBF16;
  matrix.bytes = tensor.bytes;
  matrix.rows = static_cast<int>(tensor.shape[0]);
  matrix.width = static_cast<int>(tensor.shape[1]);
  return matrix;
}

}  // namespace

LlamaModel::LlamaModel(const Checkpoint& checkpoint, Backend& backend, const Progress& progress,
                       WeightFormat format)
    : config_(checkpoint.config()), backend_(backend) {
  const LlamaWeights& weights = checkpoint.weights();
  const int n_matrices = 4 * config_.n_layers + (config_.tied_head ? 1 : 2);
  int loaded = 0;
  const auto load = [&](std::initializer_list<const TensorView*> tensors) {
    std::vector<HostMatrix> parts;
    for (const TensorView* tensor : tensors) parts.push_back(host_matrix(*tensor));
    auto matrix = backend_.load_matrix(parts, format);
    if (progress) progress(++loaded, n_matrices);
    return matrix;
  };

  embedding_ = load({&weights.embedding});
  for (const LlamaLayerWeights& from : weights.layers) {
    LlamaLayer layer;
    layer.attn_norm = upload(to_float32(from.attn_norm));
    layer.qkv = load({&from.q_proj, &from.k_proj, &from.v_proj});
    layer.o_proj = load({&from.o_proj});
    layer.mlp_norm = upload(to_float32(from.mlp_norm));
    layer.gate_up = load({&from.gate_proj, &from.up_proj});
    layer.down_proj = load({&from.down_proj});
    layers_.push_back(std::move(layer));
  }
  final_norm_ = upload(to_float32(weights.final_norm));
  if (!config_.tied_head) head_ = load({&weights.head});
  rope_frequencies_ =
      upload(specdec::rope_frequencies(config_.head_dim, config_.rope_theta, config_.rope_scaling));
}

DeviceArray<float> LlamaModel::upload(const std::vector<float>& values) {
  DeviceArray<float> array(backend_, values.size());
  backend_.upload(values.data(), array.data(), values.size() * sizeof(float));
  return array;
}

std::size_t LlamaModel::layer_bytes() const {
  std::size_t bytes = 0;
  for (const LlamaLayer& layer : layers_) {
    for (const auto* matrix : {&layer.qkv, &layer.o_proj, &layer.gate_up, &layer.down_proj}) {
      bytes += (*matrix)->bytes();
    }
  }
  return bytes;
}

}  // namespace specdec
