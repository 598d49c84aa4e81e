#pragma once
#include <memory>
#include <vector>

#include "common/speculation/model_drafter.h"

namespace specdec {

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
