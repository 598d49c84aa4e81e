#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/llama_config.h"
#include "common/checkpoint/weight_source.h"
#include "common/llama_model.h"
#include "stages/09_self_drafting/draft_head.h"
#include "stages/09_self_drafting/head_file.h"

namespace specdec {

// A number of rows or columns: in the file, and for the target that runs. They differ if that one
// is inflated (common/inflation): then the file's numbers are the upper left corner, and the rest
// changes nothing that a draft says.
struct FeatureSize {
  int stored = 0, runs = 0;

  FeatureSize operator*(int count) const { return {count * stored, count * runs}; }
};

// A folder with a feature layer, whose tensors it loads. All functions throw Error.
class FeatureFile {
 public:
  // target: that the layer was made for; runs: the target that runs, the same or an inflated one.
  FeatureFile(HeadFile& file, const WeightSource& target, const LlamaConfig& runs,
              Backend& backend);

  HeadFile& file() const { return file_; }
  const JsonObject& config() const { return file_.config(); }
  bool is_true(const char* key) const { return config().boolean(key).value_or(false); }
  const LlamaConfig& target() const { return target_; }
  Backend& backend() const { return backend_; }
  // As a model of these layers.
  std::unique_ptr<const LlamaModel> model(std::vector<LlamaLayer> layers) const;
  FeatureSize width() const { return {target_.d_model, runs_.d_model}; }
  FeatureSize vocabulary() const { return {target_.vocab_size, runs_.vocab_size}; }

  // A norm's weights, [width]. Tensors mtp.* are Qwen3-Next's, which has all norms minus 1.
  DeviceArray<float> norm(const std::string& name) const;
  DeviceArray<float> bias(const std::string& name) const;  // [width]
  // Rows of the target side by side, as numbers of one matrix row, [groups * width].
  DeviceArray<float> rows(const std::string& name, int groups) const;
  // groups: of how many rows the columns are, of the target, or of an embedding and of such rows.
  std::unique_ptr<const WeightMatrix> matrix(const std::string& name, FeatureSize rows,
                                             FeatureSize columns, int groups = 1) const;
  // A layer's own, [vocabulary, width]; null if the file has none, and it uses the target's.
  std::unique_ptr<const WeightMatrix> own_embedding(const std::string& name) const;
  DraftHead head(const std::string& name) const {
    return load_draft_head(file_, name, source_, runs_, backend_);
  }
  // A Llama's block without the norm at its entrance. groups: of what its attention reads.
  LlamaLayer llama_layer(const std::string& prefix, int groups = 1) const;
  // A whole one.
  LlamaLayer normed_layer(const std::string& prefix) const;

 private:
  using Matrices = std::vector<Weight>;

  DeviceArray<float> upload(std::vector<float> values) const;
  void add(Matrices& to, const std::string& name, FeatureSize rows, FeatureSize columns,
           int groups = 1) const;
  std::unique_ptr<const WeightMatrix> load(const Matrices& matrices) const;

  HeadFile& file_;
  const WeightSource& source_;  // the target's
  const LlamaConfig &target_, &runs_;
  Backend& backend_;
  LlamaConfig stored_as_, runs_as_;  // a block as a model of one layer
};

}  // namespace specdec
