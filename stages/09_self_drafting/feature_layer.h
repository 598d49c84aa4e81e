#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/token_id.h"
#include "common/llama.h"
#include "common/llama_model.h"
#include "kernels/ops.h"
#include "stages/09_self_drafting/draft_head.h"

namespace specdec {

// What the attention of a feature layer reads: the stream as it is, its norm, or the embedding and
// the feature side by side.
enum class FeatureAttention { kStream, kNormedStream, kBoth };

// A feature layer is one transformer block. Its input for a token is the token's embedding and a
// feature, the target's row for the token before. What else its kinds do differently:
// [snippet switches]
struct FeatureSwitches {
  std::string_view name;
  int rows = 1;                // of the target's, after different blocks, side by side
  bool after_norm = true;      // the feature is the row after the target's final norm
  bool normed = false;         // embedding and feature are normed before they meet
  bool feature_first = false;  // they meet as [feature, embedding]
  FeatureAttention attention = FeatureAttention::kStream;
  bool normed_stream = false;  // of kBoth: the normed feature is what enters the stream
  bool head_norm = true;       // a norm before the head
  bool own_head = false;       // which may have fewer tokens than the target's
  bool feeds_normed = false;   // a draft's feature is the layer's row after that norm
};
inline constexpr FeatureSwitches kFeatureLayers[] = {
    {.name = "EAGLE", .head_norm = false},
    {.name = "EAGLE-3",
     .rows = 3,
     .after_norm = false,
     .normed = true,
     .attention = FeatureAttention::kBoth,
     .own_head = true},
    {.name = "MTP", .normed = true, .attention = FeatureAttention::kNormedStream}};
// [end snippet switches]

// The weights of a feature layer in a backend's memory, E the width of the target.
struct FeatureLayer {
  FeatureSwitches switches;
  std::vector<int> places;                  // of the rows that it reads (Outputs::places)
  std::unique_ptr<const WeightMatrix> fc;   // [E, 2 E]; of EAGLE-3: [E, rows * E]
  DeviceArray<float> fc_bias;               // [E]; empty: none
  DeviceArray<float> embedding_norm;        // [E]
  DeviceArray<float> feature_norm;          // [E]
  std::unique_ptr<const LlamaModel> block;  // attention may read 2 E; EAGLE-3's may be several
  DeviceArray<float> head_norm;             // [E]
  std::unique_ptr<const WeightMatrix> embedding;  // null: the target's
  DraftHead head;
  // Of a layer that drafts all tokens in one pass: the feature that places without one have, [E],
  // and the token for each draft. Empty: each draft follows from the one before it.
  DeviceArray<float> mask_feature;
  TokenId mask = 0;

  std::size_t bytes() const;  // of its own matrices
};

// A feature layer in a published layout: a folder with config.json and model.safetensors, whose
// tensors' names tell the kind. MTP may have several: the first one makes the first draft of a
// round, the next one the second draft. target: that the layers were made for; runs: the one that
// runs, which is larger if it is inflated (common/inflation), and then the layers are, too. Throws
// Error for what cannot be read or does not fit the target.
std::vector<FeatureLayer> load_feature_layers(const std::filesystem::path& folder,
                                              const WeightSource& target, const LlamaConfig& runs,
                                              Backend& backend);

// What enters the block: embeddings and features.
class FeatureInput final : public LlamaInput {
 public:
  // max_rows: of a pass. REQUIRES: target and layer outlive this object.
  FeatureInput(const LlamaModel& target, const FeatureLayer& layer, int max_rows);

  // The features of all rows of the next forward, [rows, E]. ids: instead of those that the forward
  // is given, in the backend's memory, of a forward of one pass; null: those.
  void set_rows(ConstDeviceRows features, const std::int32_t* ids) {
    features_ = features;
    ids_ = ids;
  }

  int ids() const override { return target_.config().vocab_size; }
  ConstDeviceRows enter(Backend& ops, const std::int32_t* ids, int first, DeviceRows x) override;

 private:
  void put_side_by_side(Backend& ops, const std::int32_t* ids, ConstDeviceRows features,
                        DeviceRows embedding, DeviceRows feature);

  const LlamaModel& target_;
  const FeatureLayer& layer_;
  ConstDeviceRows features_;
  const std::int32_t* ids_ = nullptr;
  DeviceArray<float> both_;         // [max_rows, 2 E]
  DeviceArray<float> embedded_;     // [max_rows, E]
  DeviceArray<float> biases_;       // [max_rows, E]
  DeviceArray<std::int32_t> each_;  // [max_rows] 0, 1, 2, ...
};

}  // namespace specdec
