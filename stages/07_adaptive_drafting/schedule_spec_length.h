#pragma once
#include <algorithm>

#include "common/base/check.h"
#include "common/speculation/spec_length_policy.h"

namespace specdec {

// [snippet schedule-spec-length]
// Raises K by two after a round that accepted all of its drafts, and lowers it by one after any
// other. Hugging Face's assisted generation uses this rule of thumb.
class ScheduleSpecLength final : public SpecLengthPolicy {
 public:
  // REQUIRES: 1 <= smallest <= first <= largest.
  ScheduleSpecLength(int smallest, int first, int largest)
      : smallest_(smallest), largest_(largest), spec_length_(first) {
    SPECDEC_CHECK(1 <= smallest && smallest <= first && first <= largest,
                  "K of {} to {} that begins with {}", smallest, largest, first);
  }

  int largest() const override { return largest_; }
  int next() const override { return spec_length_; }

  void learn(const Round& round) override {
    // [task 7.2: a rule of thumb]
    if (round.drafted == 0 || round.end == RoundEnd::kStopped) return;
    if (round.accepted == round.drafted) {
      spec_length_ = std::min(spec_length_ + 2, largest_);
    } else {
      spec_length_ = std::max(spec_length_ - 1, smallest_);
    }
    // [end task 7.2]
  }

  std::vector<Note> notes() const override {
    return {{"next K", static_cast<double>(spec_length_)}};
  }

 private:
  int smallest_, largest_;
  int spec_length_;
};
// [end snippet schedule-spec-length]

}  // namespace specdec
