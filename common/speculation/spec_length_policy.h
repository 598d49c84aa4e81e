#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"

namespace specdec {

// A quantity that a policy looked at, for reports.
struct Note {
  std::string_view name;
  double value = 0;
};

// [snippet spec-length-policy]
// Chooses K, the number of tokens to draft, before every round of one request. K may depend on what
// earlier rounds showed, but never on a token of its own round: then it is a constant given the
// history (the text, and which drafted tokens were tested and accepted), and a rule that is
// lossless for every constant K stays lossless.
class SpecLengthPolicy {
 public:
  virtual ~SpecLengthPolicy() = default;

  virtual int largest() const = 0;                        // the largest K; memory is sized for it
  virtual int next() const = 0;                           // K of the next round, 0 for a plain step
  virtual void learn(const Round& finished) = 0;          // after the rollback
  virtual DraftGate* gate() { return nullptr; }           // may end the drafts of a round before K
  virtual std::vector<Note> notes() const { return {}; }  // about the last round

  // For each place of this round that the gate was asked about, until learn(): the estimated
  // probability that its draft and those before it are accepted, from what is known before the
  // draw. Empty if the policy makes no estimates.
  virtual std::span<const double> survival() const { return {}; }
};
// [end snippet spec-length-policy]

// The same K in every round.
class FixedSpecLength final : public SpecLengthPolicy {
 public:
  // REQUIRES: spec_length >= 0; 0 is plain decoding.
  explicit FixedSpecLength(int spec_length) : spec_length_(spec_length) {
    SPECDEC_CHECK(spec_length >= 0, "a K of at least 0, not {}", spec_length);
  }

  int largest() const override { return spec_length_; }
  int next() const override { return spec_length_; }
  void learn(const Round&) override {}

 private:
  int spec_length_;
};

inline std::unique_ptr<SpecLengthPolicy> fixed_spec_length(int spec_length) {
  return std::make_unique<FixedSpecLength>(spec_length);
}

}  // namespace specdec
