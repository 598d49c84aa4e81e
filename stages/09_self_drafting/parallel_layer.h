#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/09_self_drafting/feature_model.h"
#include "stages/09_self_drafting/one_pass_model.h"

namespace specdec {

// A feature layer that says K drafts in one pass (P-EAGLE, arXiv 2602.01469): K - 1 mask tokens
// follow the context, whose features are the layer's mask_feature. Its cache keeps tokens of the
// text alone.
class ParallelLayer final : public OnePassModel {
 public:
  // max_drafts: in a row. max_requests, max_context: as for OnePassModel. REQUIRES: the layer has a
  // mask_feature, and no sequences.
  ParallelLayer(std::unique_ptr<FeatureModel> layer, int max_drafts, int max_requests,
                int max_context);

  FeatureModel& layer() { return *layer_; }

  int shortest_context() const override { return layer_->shortest_context(); }
  // After it, the layer has cached the contexts. Throws as LanguageModel::forward().
  void begin(std::span<const DraftRequest> requests) override;

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void truncate(SequenceId sequence, int length) override;
  int max_seq_len() const override { return layer_->max_seq_len(); }

 private:
  std::unique_ptr<FeatureModel> layer_;
  std::vector<SequenceId> of_layer_;  // by sequence
  std::vector<DraftRequest> requests_;
};

}  // namespace specdec
