#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/token_id.h"
#include "common/checkpoint/llama_config.h"
#include "common/checkpoint/safetensors.h"
#include "stages/programs/comparator/data_flow.h"

namespace specdec {

struct GoldenTensor {
  std::string name;
  TensorPlace place;
  TensorView view;       // [R, width], F32 or F64, finite; logits may have only some columns
  double tolerance = 0;  // of ||got - want|| / ||want||
  double norm = 0;       // over all T tokens, including those not stored; unused in a cache
};

// The sizes of the model that a golden file belongs to.
struct GoldenShape {
  int d_model = 0;
  int d_ff = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  std::vector<double> inv_freq;  // [head_dim / 2], RoPE's scaling included

  bool is_of(const LlamaConfig& config) const;  // whether a model has these sizes
};

// What an independent implementation computed for one prompt, together with the manifest.json
// beside it. golden/goldens/README.md describes the format of
//   PROMPT.safetensors, PROMPT.float64.safetensors   activations of the prompt's forward pass
//   PROMPT.cache.safetensors                         keys and values, also of some steps
class GoldenFile {
 public:
  // Throws Error if a comparison would be worthless: no tensors, a NaN, a missing tolerance, ...
  explicit GoldenFile(const std::filesystem::path& path);

  const std::string& name() const { return file_.name(); }
  const GoldenShape& shape() const { return shape_; }
  std::span<const TokenId> tokens() const { return tokens_; }  // [T] fed to the model
  int first_row() const { return first_row_; }                 // the position of row 0
  bool has_all_rows() const { return first_row_ == 0; }
  // The columns of the logits that are stored; empty: all of them.
  std::span<const TokenId> logits_ids() const { return logits_ids_; }

  std::span<const GoldenTensor> tensors() const {
    return tensors_;
  }                                                          // in the order of the data flow
  const GoldenTensor* find(const TensorPlace& place) const;  // null: not in the file

 private:
  void read_rows();
  std::int64_t stored_width(TensorKind kind) const;
  // norms: null for a cache, which has all of its rows.
  void read_tensor(const TensorEntry& entry, const JsonObject& tolerances, const JsonObject* norms);

  SafetensorsFile file_;
  GoldenShape shape_;
  std::vector<TokenId> tokens_;
  int first_row_ = 0;
  std::vector<TokenId> logits_ids_;
  std::vector<GoldenTensor> tensors_;
};

}  // namespace specdec
