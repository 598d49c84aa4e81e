#include "stages/07_adaptive_drafting/gated_sampler.h"

#include <cmath>

#include "stages/07_adaptive_drafting/survival_model.h"

namespace specdec {

// [snippet gated-choice]
void GatedSampler::choose_one(const NextDraft& next, ConstDeviceRows logits) {
  // [task 7.3: ask the gate before the draw]
  const Sampling& sampling = next.request->sampling;
  if (sampling.gate == nullptr) return DraftSampler::choose_one(next, logits);
  const bool greedy = sampling.options.temperature == 0;
  const auto probs =
      greedy ? before_the_argmax(next, logits) : make_probs(next, logits, sampling.options);
  if (!sampling.gate->goes_on(probs, next.request->drafts->size())) return;  // nothing is drawn
  if (greedy) {
    DraftSampler::choose_one(next, logits);
  } else {
    add_draw(next, probs);
  }
  // [end task 7.3]
}
// [end snippet gated-choice]

// What a gate may ask about where the likeliest token is taken: q at temperature 1, or less of it.
std::span<const double> GatedSampler::before_the_argmax(const NextDraft& next,
                                                        ConstDeviceRows logits) {
  const Sampling& sampling = next.request->sampling;
  if (sampling.gate->compares_two() && sampling.options.repetition_penalty == 1) {
    two_ = two_likeliest(on_host(next, logits));
    if (std::isfinite(two_[1])) return two_;
  }
  return make_probs(next, logits, before_argmax(sampling.options));  // or throws BadLogits
}

}  // namespace specdec
