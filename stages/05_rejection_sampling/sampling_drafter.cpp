#include "stages/05_rejection_sampling/sampling_drafter.h"

#include <algorithm>

#include "kernels/int_size.h"

namespace specdec {

DraftSampler::DraftSampler(Backend& backend, int vocab_size)
    : backend_(backend), host_logits_(vocab_size), scratch_(vocab_size) {}

void DraftSampler::choose(std::span<const NextDraft> next, ConstDeviceRows logits) {
  for (std::size_t i = 0; i < next.size(); i++) {
    choose_one(next[i], logits.slice(static_cast<int>(i), 1));
  }
}

std::span<const float> DraftSampler::on_host(const NextDraft& next, ConstDeviceRows logits) {
  const std::size_t n = std::min(next.request->drafts->next_probs().size(), host_logits_.size());
  backend_.download(logits.row(0), host_logits_.data(), n * sizeof(float));
  return std::span(host_logits_).first(n);
}

// [snippet choose]
// Adds the next draft, from logits [1, V]. The acceptance rule needs exactly the distribution that
// the token was drawn from, so the drafts keep it.
void DraftSampler::choose_one(const NextDraft& next, ConstDeviceRows logits) {
  const SamplingOptions& options = next.request->sampling.options;
  if (options.temperature == 0 && options.repetition_penalty == 1) {
    next.request->drafts->add_certain(argmax(backend_, logits));
  } else {
    add_draw(next, make_probs(next, logits, options));
  }
}

std::span<const double> DraftSampler::make_probs(const NextDraft& next, ConstDeviceRows logits,
                                                 const SamplingOptions& options) {
  const std::span<double> probs = next.request->drafts->next_probs();
  const std::span<const float> scores = on_host(next, logits);
  probabilities(scores, next.text, options, scratch_, probs.first(scores.size()));
  std::ranges::fill(probs.subspan(scores.size()), 0.0);  // padding
  return probs;
}

void DraftSampler::add_draw(const NextDraft& next, std::span<const double> probs) {
  const Sampling& sampling = next.request->sampling;
  Drafts& drafts = *next.request->drafts;
  const auto position = int_size(next.text);
  if (sampling.options.temperature == 0) {
    drafts.add_certain(static_cast<TokenId>(std::ranges::max_element(probs) - probs.begin()));
  } else if (sampling.race) {
    drafts.add_drawn(sampling.random->race(probs, position));
  } else {
    drafts.add_drawn(sampling.random->token(probs, position, Purpose::kDraft));
  }
}
// [end snippet choose]

}  // namespace specdec
