#include "stages/07_adaptive_drafting/gated_sampler.h"

namespace specdec {

// [snippet gated-choice]
void GatedSampler::choose_one(const NextDraft& next, ConstDeviceRows logits) {
  // [task 7.3: ask the gate before the draw]
  const Sampling& sampling = next.request->sampling;
  if (sampling.gate == nullptr) return DraftSampler::choose_one(next, logits);
  const bool greedy = sampling.options.temperature == 0;
  const auto probs =
      make_probs(next, logits, greedy ? before_argmax(sampling.options) : sampling.options);
  if (!sampling.gate->goes_on(probs, next.request->drafts->size())) return;  // nothing is drawn
  if (greedy) {
    DraftSampler::choose_one(next, logits);
  } else {
    add_draw(next, probs);
  }
  // [end task 7.3]
}
// [end snippet gated-choice]

}  // namespace specdec
