#include "common/speculation/device_draft_sampler.h"

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"
#include "kernels/int_size.h"

namespace specdec {

Choice draft_choice(const Sampling& sampling, std::span<const TokenId> history, int position,
                    double* probs) {
  const bool greedy = sampling.options.temperature == 0;
  return {.sampling = row_sampling(sampling.options, history),
          .by = greedy          ? DrawBy::kLargest
                : sampling.race ? DrawBy::kRace
                                : DrawBy::kInversion,
          .seed = greedy ? 0 : device_seed(*sampling.random),
          .position = position,
          .purpose = static_cast<std::uint32_t>(Purpose::kDraft),
          .probs = probs};
}

void add_chosen_on_device(Drafts& drafts, const Sampling& sampling, TokenId token) {
  if (token < 0) fail_without_distribution();
  if (sampling.options.temperature == 0) {
    drafts.add_certain(token);
  } else {
    drafts.add_drawn_on_device(token);
  }
}

DeviceDraftSampler::DeviceDraftSampler(Backend& backend, int vocab_size, int max_context,
                                       int max_requests)
    : sampler_(backend.make_sampler(
          {.vocab_size = vocab_size, .rows = max_requests, .history = max_requests * max_context})),
      chosen_(max_requests) {
  SPECDEC_CHECK(sampler_ != nullptr, "a backend that samples, not {}", backend.name());
  choices_.reserve(chosen_.size());
}

void DeviceDraftSampler::choose(std::span<const NextDraft> next, ConstDeviceRows logits) {
  choices_.clear();
  for (const auto& [request, text] : next) {
    choices_.push_back(draft_choice(request->sampling, text, int_size(text),
                                    request->drafts->next_device_probs()));
  }
  sampler_->choose(logits, choices_, std::span(chosen_).first(choices_.size()));
  for (std::size_t i = 0; i < next.size(); i++) {
    add_chosen_on_device(*next[i].request->drafts, next[i].request->sampling, chosen_[i]);
  }
}

}  // namespace specdec
