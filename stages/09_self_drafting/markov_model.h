#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "common/forwarding_model.h"
#include "stages/09_self_drafting/one_pass_model.h"

namespace specdec {

// What the token before a draft adds to the draft's logits: after * before[token], a bigram model
// of low rank.
struct MarkovHead {
  std::unique_ptr<const WeightMatrix> before;  // [V + 1, rank], the last row is 0
  std::unique_ptr<const WeightMatrix> after;   // [V, rank]
};

// The head in a folder with config.json and model.safetensors. vocab_size: V of the model that it
// corrects. Throws Error, as load_heads().
MarkovHead load_markov(const std::filesystem::path& folder, int vocab_size, Backend& backend);

// A OnePassModel whose drafts know the draft before them. The first draft of a round stays as it
// is, because the model has seen the token before it.
class MarkovModel final : public ForwardingModel {
 public:
  // max_rows: of logits in one call. REQUIRES: the model outlives this object.
  MarkovModel(OnePassModel& model, MarkovHead head, int max_rows);

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override;
  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) override;

 private:
  TokenId token_of_row(const Segment& segment, int i) const;
  void correct(const std::int32_t* ids, DeviceRows logits);

  OnePassModel& model_;
  MarkovHead head_;
  std::vector<TokenId> ids_;
  DeviceArray<std::int32_t> ids_on_device_;  // [max_rows]
  DeviceArray<float> rows_;                  // [max_rows, rank]
  DeviceArray<float> added_;                 // [max_rows, V]
};

}  // namespace specdec
