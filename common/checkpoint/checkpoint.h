#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "common/checkpoint/llama_config.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/weight_source.h"

namespace specdec {

// The weights of one transformer block, as views into the checkpoint's files.
// Matrices are stored [outputs, inputs]: y = W x.
struct LlamaLayerWeights {
  TensorView attn_norm;  // [d_model]
  TensorView q_proj;     // [n_heads * head_dim, d_model]
  TensorView k_proj;     // [n_kv_heads * head_dim, d_model]
  TensorView v_proj;     // [n_kv_heads * head_dim, d_model]
  TensorView o_proj;     // [d_model, n_heads * head_dim]
  TensorView mlp_norm;   // [d_model]
  TensorView gate_proj;  // [d_ff, d_model]
  TensorView up_proj;    // [d_ff, d_model]
  TensorView down_proj;  // [d_model, d_ff]
};

struct LlamaWeights {
  TensorView embedding;  // [vocab_size, d_model]
  std::vector<LlamaLayerWeights> layers;
  TensorView final_norm;  // [d_model]
  TensorView head;        // [vocab_size, d_model]; the embedding itself if the head is tied
};

// A Llama checkpoint in Hugging Face's layout: config.json, generation_config.json if there is one,
// and model.safetensors or the shards of model.safetensors.index.json. Opening maps the files and
// checks names, shapes and types of all tensors; it reads no weights.
class Checkpoint final : public WeightSource {
 public:
  // Throws Error with the file, the field or tensor, and what to do.
  explicit Checkpoint(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const LlamaConfig& config() const override { return config_; }
  const LlamaWeights& weights() const { return weights_; }  // views live as long as this object
  // A view into the files; when it is destroyed, its pages are let go.
  Weight weight(WeightKind kind, int layer) const override;
  const std::vector<SafetensorsFile>& files() const { return files_; }
  bool has_groups() const;  // whether a matrix is Q4_1 or Q8_0 (grouped_tensor.h)

 private:
  const TensorView& view(WeightKind kind, int layer) const;

  std::filesystem::path directory_;
  LlamaConfig config_;
  std::vector<SafetensorsFile> files_;
  LlamaWeights weights_;
};

}  // namespace specdec
