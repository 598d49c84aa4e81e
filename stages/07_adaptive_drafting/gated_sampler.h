#pragma once
#include "stages/05_rejection_sampling/sampling_drafter.h"

namespace specdec {

// Stage 5's choice of a draft, with a question before the draw: does the gate allow this draft? At
// temperature 0 the distribution is made for the gate alone, where there is one.
class GatedSampler final : public DraftSampler {
 public:
  using DraftSampler::DraftSampler;

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override;
};

}  // namespace specdec
