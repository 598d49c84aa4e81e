#pragma once
#include <array>
#include <span>

#include "stages/05_rejection_sampling/sampling_drafter.h"

namespace specdec {

// Chooses drafts as in stage 5, but asks the gate before each draw whether the draft is made. At
// temperature 0, only the gate needs the distribution. Without a gate it is not computed, and for a
// gate that compares two probabilities only these are.
class GatedSampler final : public DraftSampler {
 public:
  using DraftSampler::DraftSampler;

 private:
  void choose_one(const NextDraft& next, ConstDeviceRows logits) override;
  std::span<const double> before_the_argmax(const NextDraft& next, ConstDeviceRows logits);

  std::array<double, 2> two_ = {};
};

}  // namespace specdec
