#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/checkpoint/weight_source.h"
#include "common/kv_cache.h"
#include "kernels/ops.h"

namespace specdec {

// The weights of one transformer block in a backend's layout. Matrices that read the same input are
// stacked, so one product computes q, k and v, and another one computes gate and up.
struct LlamaLayer {
  DeviceArray<float> attn_norm;                   // [d_model]
  std::unique_ptr<const WeightMatrix> qkv;        // [(H + 2 Hkv) * D, d_model]
  std::unique_ptr<const WeightMatrix> o_proj;     // [d_model, H * D]
  DeviceArray<float> mlp_norm;                    // [d_model]
  std::unique_ptr<const WeightMatrix> gate_up;    // [2 * d_ff, d_model]
  std::unique_ptr<const WeightMatrix> down_proj;  // [d_model, d_ff]
};

// REQUIRES: the tensor has two dimensions, of a type that weights have, and outlives the result.
HostMatrix host_matrix(const TensorView& tensor);

// A model's weights, read only: several Llamas may share them.
class LlamaModel {
 public:
  // Called after each matrix: `loaded` of `of` matrices are loaded.
  using Progress = std::function<void(int loaded, int of)>;

  // Packs every weight, one stacked matrix at a time, in the given format. The source is not needed
  // afterwards. Throws Error.
  LlamaModel(const WeightSource& source, Backend& backend, const Progress& progress = {},
             WeightFormat format = WeightFormat::kStored);
  // Blocks alone, for a Llama that gets its input from elsewhere and hands out rows, not logits
  // (used from stage 9 on): embedding(), final_norm() and head() must not be asked for.
  LlamaModel(const LlamaConfig& config, std::vector<LlamaLayer> layers, Backend& backend);

  const LlamaConfig& config() const { return config_; }
  Backend& backend() const { return backend_; }
  HeadShape heads() const { return {config_.n_heads, config_.n_kv_heads, config_.head_dim}; }
  KvShape kv_shape(KvType type = KvType::kF32) const {
    return {config_.n_layers, config_.n_kv_heads, config_.head_dim, type};
  }

  const WeightMatrix& embedding() const { return *embedding_; }
  const LlamaLayer& layer(int i) const { return layers_[i]; }
  const DeviceArray<float>& final_norm() const { return final_norm_; }
  const WeightMatrix& head() const { return head_ ? *head_ : *embedding_; }
  const DeviceArray<float>& rope_frequencies() const { return rope_frequencies_; }  // [D / 2]

  std::size_t layer_bytes() const;  // of all layers' matrices: what a pass without logits reads

 private:
  DeviceArray<float> upload(const std::vector<float>& values);
  DeviceArray<float> upload_frequencies();

  LlamaConfig config_;
  Backend& backend_;
  std::unique_ptr<const WeightMatrix> embedding_;
  std::vector<LlamaLayer> layers_;
  DeviceArray<float> final_norm_;
  std::unique_ptr<const WeightMatrix> head_;  // null if it is tied to the embedding
  DeviceArray<float> rope_frequencies_;
};

}  // namespace specdec
