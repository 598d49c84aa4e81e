#pragma once
#include <span>
#include <vector>

#include "common/speculation/model_drafter.h"

namespace specdec {

// Draws each draft from the draft model's distribution q at its position, and keeps q, which the
// acceptance rule needs (Leviathan et al., Algorithm 1). At temperature 0, takes the likeliest
// token, which is certain.
//
// The drafts' vocabulary may be larger or smaller than the model's. The tokens that only one of
// them has are padding, with probability 0.
class DraftSampler : public DraftChooser {
 public:
  // vocab_size: V of the model. REQUIRES: the backend outlives this object.
  DraftSampler(Backend& backend, int vocab_size);

  void choose(std::span<const NextDraft> next, ConstDeviceRows logits) override;

 protected:
  virtual void choose_one(const NextDraft& next, ConstDeviceRows logits);

  // Copies logits, [1, V], to the host: those of the tokens that the drafts have, too.
  std::span<const float> on_host(const NextDraft& next, ConstDeviceRows logits);
  // Computes q after the text from logits, [1, V], into the drafts' next_probs(), and returns it.
  std::span<const double> make_probs(const NextDraft& next, ConstDeviceRows logits,
                                     const SamplingOptions& options);
  // Draws a token from probs, [V of the drafts], or takes the likeliest at temperature 0; adds it.
  static void add_draw(const NextDraft& next, std::span<const double> probs);

 private:
  Backend& backend_;
  std::vector<float> host_logits_;  // [V]
  SamplingScratch scratch_;
};

// A draft model for a target that samples.
class SamplingDrafter final : public ModelDrafter {
 public:
  SamplingDrafter(LanguageModel& model, int max_context, int max_requests = 1)
      : ModelDrafter(model, std::make_unique<DraftSampler>(model.backend(), model.vocab_size()),
                     max_context, max_requests) {}
};

}  // namespace specdec
