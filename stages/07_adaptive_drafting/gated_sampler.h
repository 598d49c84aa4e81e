#pragma once
#include "stages/05_rejection_sampling/sampling_drafter.h"

namespace specdec {

// Chooses drafts as in stage 5, but asks the gate before each draw whether the draft is made. At
// temperature 0, only the gate needs the distribution; without a gate it is not computed.
class GatedSampler final : public DraftSampler {
 public:
  using DraftSampler::DraftSampler;

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override;
};

}  // namespace specdec
