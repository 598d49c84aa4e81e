#pragma once
#include <memory>
#include <vector>

#include "common/speculation/model_drafter.h"

namespace specdec {

// What a Sampler is told of a draft at `position`. history: what a penalty looks at. probs: device
// memory, [V], gets the distribution.
Choice draft_choice(const Sampling& sampling, std::span<const TokenId> history, int position,
                    double* probs);

// Adds what a Sampler chose. Throws Error for -1: there was no distribution.
void add_chosen_on_device(Drafts& drafts, const Sampling& sampling, TokenId token);

// Draws drafts where the logits are, on a backend that samples in its own memory: the distributions
// stay there, and nothing but the tokens comes back. The tokens are those of stage 5's
// DraftSampler.
class DeviceDraftSampler final : public DraftChooser {
 public:
  // vocab_size: of the drafts' distributions. max_context, max_requests: as of the ModelDrafter.
  // REQUIRES: the backend samples (Backend::samples()) and outlives this object; drafts are on it.
  DeviceDraftSampler(Backend& backend, int vocab_size, int max_context, int max_requests);

  void choose(std::span<const NextDraft> next, ConstDeviceRows logits) override;

 private:
  std::unique_ptr<Sampler> sampler_;
  std::vector<Choice> choices_;  // [max_requests]
  std::vector<TokenId> chosen_;  // [max_requests]
};

}  // namespace specdec
