#pragma once
#include <memory>
#include <vector>

#include "common/speculation/model_drafter.h"

namespace specdec {

// How a Sampler chooses the draft at `position`. history: the tokens that a repetition penalty
// applies to. probs: device memory, [V]; receives the distribution.
Choice draft_choice(const Sampling& sampling, std::span<const TokenId> history, int position,
                    double* probs);

// Adds the token that a Sampler chose. Throws BadLogits for -1: there was no distribution.
void add_chosen_on_device(Drafts& drafts, const Sampling& sampling, TokenId token);

// Draws drafts on the device that has the logits. The distributions stay in its memory, and only
// the tokens are copied to the host. The tokens are those of stage 5's DraftSampler.
class DeviceDraftSampler final : public DraftChooser {
 public:
  // vocab_size: V of the drafts' distributions. max_context, max_requests: as for ModelDrafter.
  // REQUIRES: the backend samples (Backend::samples()), outlives this object and keeps the drafts'
  // distributions.
  DeviceDraftSampler(Backend& backend, int vocab_size, int max_context, int max_requests);

  void choose(std::span<const NextDraft> next, ConstDeviceRows logits) override;

 private:
  std::unique_ptr<Sampler> sampler_;
  std::vector<Choice> choices_;  // [max_requests]
  std::vector<TokenId> chosen_;  // [max_requests]
};

}  // namespace specdec
