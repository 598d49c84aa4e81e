#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/spec_length_policy.h"

namespace specdec {

// [snippet normalised-entropy]
// H = -sum q log q / log V: 0 where the draft model is certain, 1 where all V tokens are equally
// likely. REQUIRES: probs [V], V > 1.
inline double normalised_entropy(std::span<const double> probs) {
  double sum = 0;
  for (const double prob : probs) {
    if (prob > 0) sum -= prob * std::log(prob);
  }
  return sum / std::log(static_cast<double>(probs.size()));
}
// [end snippet normalised-entropy]

// [snippet entropy-spec-length]
// Chooses K by the entropy of the draft model: many drafts where it is sure of the next token, few
// where it is not. EGAG, "entropy-adaptive gamma", names the bounds, the smoothing and the measured
// quantity, but gives no formula; the straight line between the bounds is ours.
//
// q at the first position of a round determines K, before anything is drawn from it.
class EntropySpecLength final : public SpecLengthPolicy, public DraftGate {
 public:
  // smoothing: the weight of earlier rounds in a running mean of H; 0: only this round counts.
  // REQUIRES: 1 <= smallest <= largest; 0 <= smoothing < 1.
  EntropySpecLength(int smallest, int largest, double smoothing = 0)
      : smallest_(smallest), largest_(largest), smoothing_(smoothing) {
    SPECDEC_CHECK(1 <= smallest && smallest <= largest, "K of {} to {}", smallest, largest);
    SPECDEC_CHECK(0 <= smoothing && smoothing < 1, "a smoothing below 1, not {}", smoothing);
  }

  int largest() const override { return largest_; }
  int next() const override { return largest_; }  // the gate ends the drafts at K
  DraftGate* gate() override { return this; }

  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    asked_ = true;
    // [task 7.4: K from entropy]
    if (drafted == 0) {
      const double entropy = normalised_entropy(draft_probs);
      smoothed_ = has_mean_ ? smoothing_ * mean_ + (1 - smoothing_) * entropy : entropy;
      const double length = largest_ - smoothed_ * (largest_ - smallest_);
      spec_length_ = std::clamp(static_cast<int>(std::lround(length)), smallest_, largest_);
    }
    return drafted < spec_length_;
    // [end task 7.4]
  }

  bool has_enough(int drafted) const override { return asked_ && drafted >= spec_length_; }

  // Ignores rounds in which the gate was not asked: plain steps, and drafts of another drafter.
  void learn(const Round& round) override {
    if (!std::exchange(asked_, false) || round.drafted == 0) return;
    mean_ = smoothed_;
    has_mean_ = true;
  }

  std::vector<Note> notes() const override {
    return {{"entropy", smoothed_}, {"K", static_cast<double>(spec_length_)}};
  }

 private:
  int smallest_, largest_;
  double smoothing_;
  bool has_mean_ = false;
  double mean_ = 0;  // of H, up to the last round
  // For the current round:
  bool asked_ = false;
  double smoothed_ = 0;
  int spec_length_ = 0;
};
// [end snippet entropy-spec-length]

}  // namespace specdec
