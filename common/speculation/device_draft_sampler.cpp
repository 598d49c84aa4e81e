#include "common/speculation/device_draft_sampler.h"

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"

namespace specdec {

DeviceDraftSampler::DeviceDraftSampler(Backend& backend, int vocab_size, int max_context,
                                       int max_requests)
    : sampler_(backend.make_sampler(
          {.vocab_size = vocab_size, .rows = max_requests, .history = max_requests * max_context})),
      chosen_(static_cast<std::size_t>(max_requests)) {
  SPECDEC_CHECK(sampler_ != nullptr, "a backend that samples, not {}", backend.name());
  choices_.reserve(chosen_.size());
}

void DeviceDraftSampler::choose(std::span<const NextDraft> next, ConstDeviceRows logits) {
  choices_.clear();
  for (const auto& [request, text] : next) {
    const Sampling& sampling = request->sampling;
    choices_.push_back({.sampling = row_sampling(sampling.options, text),
                        .by = sampling.options.temperature == 0 ? DrawBy::kLargest
                              : sampling.race                   ? DrawBy::kRace
                                                                : DrawBy::kInversion,
                        .position = static_cast<int>(text.size()),
                        .purpose = static_cast<std::uint32_t>(Purpose::kDraft),
                        .probs = request->drafts->next_device_probs()});
    if (sampling.options.temperature > 0) choices_.back().seed = device_seed(*sampling.random);
  }
  sampler_->choose(logits, choices_, std::span(chosen_).first(choices_.size()));
  for (std::size_t i = 0; i < next.size(); i++) {
    if (chosen_[i] < 0) fail_without_distribution();
    if (next[i].request->sampling.options.temperature == 0) {
      next[i].request->drafts->add_certain(chosen_[i]);
    } else {
      next[i].request->drafts->add_drawn_on_device(chosen_[i]);
    }
  }
}

}  // namespace specdec
