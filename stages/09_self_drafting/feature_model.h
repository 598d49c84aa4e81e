#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/llama.h"
#include "common/speculation/target_rows.h"
#include "stages/09_self_drafting/feature_layer.h"
#include "stages/09_self_drafting/self_model.h"

namespace specdec {

// A feature layer as a language model. Its row for token t has the feature of token t - 1, and the
// position id t - 1: so a text's first token has no row, and the layer's cache is one shorter than
// the text. Where the target has a row for token t - 1, it is the feature. After a draft, for which
// the target has none yet, it is the layer's own row for the draft, or the layer's mask_feature.
class FeatureModel final : public LanguageModel, public RoundModel {
 public:
  static constexpr int kPassRows = 256;

  // cache: of layer.block. token_limit: ids from here on are not tokens. capacity: of a round.
  // REQUIRES: the target's weights outlive this object.
  FeatureModel(const LlamaModel& target, FeatureLayer layer, std::unique_ptr<KvCache> cache,
               int token_limit, const Capacity& capacity);

  // From now on, the layer looks at these rows, those of all tokens at layer().places. REQUIRES:
  // they outlive the last call of begin().
  void read(TargetRows& rows) { rows_ = &rows; }
  // From now on, features are rows of another layer instead, which is fed the same tokens before
  // this one. So each text has one more token without a row than it has there. REQUIRES: neither
  // has sequences yet; the other one's are created in the same order; it outlives this object.
  void follow(FeatureModel& before);

  int shortest_context() const override { return first_place_ + 1; }
  void begin(std::span<const DraftRequest> requests) override;
  bool at_once() const override { return false; }

  using LanguageModel::forward;
  // REQUIRES: the sequences are among those of begin(), and logits are not of a text's first token.
  void forward(std::span<const Segment> batch, const Outputs& out) override;
  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) override;
  bool feeds_from_device() const override { return backend().samples(); }

  SequenceId create() override;
  SequenceId fork(SequenceId sequence) override;
  void release(SequenceId sequence) override;
  int length(SequenceId sequence) const override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;
  bool can_extend(std::span<const Extension> extensions) const override;
  int vocab_size() const override { return target_.config().vocab_size; }
  int max_seq_len() const override { return llama_.max_seq_len() + first_place_; }
  Backend& backend() const override { return target_.backend(); }

  const FeatureLayer& layer() const { return layer_; }
  const KvCache& cache() const { return *cache_; }

 private:
  struct State {
    int without_row = 0;  // of the text's first tokens, which have none, how many were fed
    // Of the round:
    int pending = 0;             // the place of the pending token
    int first = 0;               // features: the target's rows of the places from here to `pending`
    ConstDeviceRows features{};  // [pending - first, places * E]
  };

  void feed(std::span<const Segment> batch, const std::int32_t* ids, const Outputs& out);
  State& state(SequenceId sequence) { return states_[sequence]; }
  Segment of_layer(const Segment& segment) const;
  int next_place(SequenceId sequence) const { return llama_.length(sequence) + first_place_; }
  void gather_features(const Segment& of_layer, DeviceRows features);
  const float* feature_after(SequenceId sequence, int place) const;
  void take_features(ConstDeviceRows of_target, DeviceRows features);
  DeviceRows own_row(SequenceId sequence, int place) const;
  // The place from which on rows are kept: drafts follow them, or the next layer reads all.
  int first_own(const State& state) const { return is_followed_ ? 0 : state.pending; }
  DeviceRows run_layer();
  void keep_own(DeviceRows rows);
  int own_rows() const { return 1 + capacity_.nodes + (is_followed_ ? capacity_.context : 0); }
  SequenceId created(SequenceId sequence);
  DeviceRows asked_for(DeviceRows rows, int n);

  const LlamaModel& target_;
  FeatureLayer layer_;
  std::unique_ptr<KvCache> cache_;
  FeatureInput input_;
  Llama llama_;
  Capacity capacity_;
  int first_place_ = 1;             // of a text's tokens with a row
  FeatureModel* before_ = nullptr;  // whose rows are the features; null: the target's
  bool is_followed_ = false;
  TargetRows* rows_ = nullptr;
  std::vector<State> states_;            // by sequence
  std::vector<Segment> batch_;           // what the layer is fed
  std::vector<int> logits_rows_;         // of its segments
  std::vector<Segment> chosen_;          // of forward_chosen()
  std::vector<DeviceArray<float>> own_;  // by sequence, [own_rows(), E]
  Projection projection_;
  GrowingRows features_, made_, normed_, asked_;
};

}  // namespace specdec
