#pragma once
#include <span>
#include <vector>

#include "common/speculation/model_drafter.h"

namespace specdec {

// Draws each draft from the model's distribution at its place, and keeps that distribution: q, by
// which the draft is judged later (Leviathan et al., Algorithm 1). At temperature 0 the likeliest
// token, which is certain.
//
// The drafts' vocabulary may have more rows than the model's, or fewer: what one of them lacks is
// padding, which has probability zero.
class DraftSampler : public DraftChooser {
 public:
  // vocab_size: of the model. REQUIRES: the backend outlives this object.
  DraftSampler(Backend& backend, int vocab_size);

  void choose(std::span<const NextDraft> next, ConstDeviceRows logits) override;

 protected:
  virtual void choose_one(const NextDraft& next, ConstDeviceRows logits);

  // q after the text, from logits [1, V]: [V of the drafts], in their next_probs().
  std::span<const double> make_probs(const NextDraft& next, ConstDeviceRows logits,
                                     const SamplingOptions& options);
  // Adds the token that is drawn from them.
  static void add_draw(const NextDraft& next, std::span<const double> probs);

 private:
  Backend& backend_;
  std::vector<float> host_logits_;  // [V]
  SamplingScratch scratch_;
};

// Stage 4's drafter for a target that samples.
class SamplingDrafter final : public ModelDrafter {
 public:
  SamplingDrafter(LanguageModel& model, int max_context, int max_requests = 1)
      : ModelDrafter(model, std::make_unique<DraftSampler>(model.backend(), model.vocab_size()),
                     max_context, max_requests) {}
};

}  // namespace specdec
