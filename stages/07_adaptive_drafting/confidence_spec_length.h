#pragma once
#include <algorithm>
#include <span>

#include "common/base/check.h"
#include "common/speculation/spec_length_policy.h"

namespace specdec {

// [snippet confidence-spec-length]
// Drafts until the draft model is unsure: a position where no token has at least the probability
// `threshold` gets no draft. Hugging Face's assisted generation has such a threshold, 0.4 by
// default. It looks at the probability of the draft itself, and keeps the draft below the
// threshold.
class ConfidenceSpecLength final : public SpecLengthPolicy, public DraftGate {
 public:
  // REQUIRES: largest >= 1; 0 <= threshold <= 1.
  ConfidenceSpecLength(double threshold, int largest) : threshold_(threshold), largest_(largest) {
    SPECDEC_CHECK(0 <= threshold && threshold <= 1, "a threshold of 0 to 1, not {}", threshold);
  }

  int largest() const override { return largest_; }
  int next() const override { return largest_; }
  void learn(const Round&) override {}
  DraftGate* gate() override { return this; }

  bool goes_on(std::span<const double> draft_probs, int /*drafted*/) override {
    confidence_ = std::ranges::max(draft_probs);
    return confidence_ >= threshold_;
  }

  std::vector<Note> notes() const override { return {{"confidence", confidence_}}; }

 private:
  double threshold_;
  double confidence_ = 1;  // the largest probability at the last position asked about
  int largest_;
};
// [end snippet confidence-spec-length]

}  // namespace specdec
