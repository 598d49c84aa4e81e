#include "common/llama_model.h"

#include <initializer_list>
#include <utility>

#include "common/base/check.h"
#include "common/checkpoint/elements.h"
#include "common/rope_frequencies.h"

namespace specdec {

HostMatrix host_matrix(const TensorView& tensor) {
  SPECDEC_CHECK(tensor.shape.size() == 2, "a weight matrix");
  HostMatrix matrix;
  matrix.type = tensor.dtype == DType::kF32    ? WeightType::kF32
                : tensor.dtype == DType::kF16  ? WeightType::kF16
                : tensor.dtype == DType::kQ4_1 ? WeightType::kQ4
                : tensor.dtype == DType::kQ8_0 ? WeightType::kQ8
                                               : WeightType::kBF16;
  matrix.bytes = tensor.bytes;
  matrix.rows = tensor.shape[0];
  matrix.width = tensor.shape[1];
  return matrix;
}

namespace {

// The embedding and the head decide about each token and are rounded with more care: as in GGUF
// files, they have eight bits where the other matrices have four.
WeightFormat format_of(WeightKind kind, WeightFormat format) {
  const bool has_tokens = kind == WeightKind::kEmbedding || kind == WeightKind::kHead;
  return has_tokens && format == WeightFormat::kQ4 ? WeightFormat::kInt8 : format;
}

}  // namespace

LlamaModel::LlamaModel(const WeightSource& source, Backend& backend, const Progress& progress,
                       WeightFormat format)
    : config_(source.config()), backend_(backend) {
  const int n_matrices = 4 * config_.n_layers + (config_.tied_head ? 1 : 2);
  int loaded = 0;
  const auto load = [&](std::initializer_list<WeightKind> kinds, int layer) {
    std::vector<Weight> weights;  // own the memory of `parts`
    std::vector<HostMatrix> parts;
    for (const WeightKind kind : kinds) {
      weights.push_back(source.weight(kind, layer));
      parts.push_back(host_matrix(weights.back().view));
    }
    auto matrix = backend_.load_matrix(parts, format_of(*kinds.begin(), format));
    if (progress) progress(++loaded, n_matrices);
    return matrix;
  };

  const auto load_norm = [&](WeightKind kind, int layer) {
    return upload(to_float32(source.weight(kind, layer).view));
  };

  embedding_ = load({WeightKind::kEmbedding}, -1);
  for (int i = 0; i < config_.n_layers; ++i) {
    LlamaLayer layer;
    layer.attn_norm = load_norm(WeightKind::kAttnNorm, i);
    layer.qkv = load({WeightKind::kQProj, WeightKind::kKProj, WeightKind::kVProj}, i);
    layer.o_proj = load({WeightKind::kOProj}, i);
    layer.mlp_norm = load_norm(WeightKind::kMlpNorm, i);
    layer.gate_up = load({WeightKind::kGateProj, WeightKind::kUpProj}, i);
    layer.down_proj = load({WeightKind::kDownProj}, i);
    layers_.push_back(std::move(layer));
  }
  final_norm_ = load_norm(WeightKind::kFinalNorm, -1);
  if (!config_.tied_head) head_ = load({WeightKind::kHead}, -1);
  rope_frequencies_ = upload_frequencies();
}

LlamaModel::LlamaModel(const LlamaConfig& config, std::vector<LlamaLayer> layers, Backend& backend)
    : config_(config), backend_(backend), layers_(std::move(layers)) {
  SPECDEC_CHECK(std::ssize(layers_) == config_.n_layers, "{} blocks", config_.n_layers);
  rope_frequencies_ = upload_frequencies();
}

DeviceArray<float> LlamaModel::upload_frequencies() {
  return upload(
      specdec::rope_frequencies(config_.head_dim, config_.rope_theta, config_.rope_scaling));
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
