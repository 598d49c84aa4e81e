#pragma once
#include <utility>
#include <vector>

#include "common/speculation/paper_formulas.h"
#include "common/speculation/spec_length_policy.h"
#include "kernels/int_size.h"

namespace specdec {

// [snippet adaptive-spec-length]
// Chooses K for each round of one request (--spec-length auto): the best K for the recent
// acceptance rate alpha and the given costs of a round.
//
// The policy counts tokens and reads no clock, so the same seed and the same costs give the same
// rounds. K is fixed before anything in its round is drawn. Given the history (the text, and which
// drafted tokens were tested and accepted) it is a constant, and a rule that is lossless for every
// constant K is lossless here, too.
class AdaptiveSpecLength final : public SpecLengthPolicy {
 public:
  // round_costs: [largest K + 1] in plain steps, see best_spec_length().
  explicit AdaptiveSpecLength(std::vector<double> round_costs)
      : round_costs_(std::move(round_costs)), can_pay_(best_spec_length(1, round_costs_) > 0) {}

  int next() const override {
    if (plain_steps_ >= kPlainSteps && can_pay_) return 1;  // a probe: has alpha grown?
    return best_spec_length(alpha(), round_costs_);
  }

  // Call after the round. The weight of a test halves with every 64 emitted tokens. Tokens without
  // a test reduce the total weight as well, but only down to the weight of one test.
  void learn(const Round& round) override {
    // [task 7.1: count what a round tested]
    for (int i = 0; i < round.emitted(); i++) {
      const bool tested = i < round.tested();
      if (!tested && tested_ <= 1) break;
      accepted_ = kForget * accepted_ + (i < round.accepted ? 1 : 0);
      tested_ = kForget * tested_ + (tested ? 1 : 0);
    }
    plain_steps_ = round.drafted > 0 ? 0 : plain_steps_ + 1;
    // [end task 7.1]
  }

  std::vector<Note> notes() const override { return {{"alpha", alpha()}}; }

  double alpha() const { return accepted_ / tested_; }
  bool can_pay() const { return can_pay_; }  // whether drafting pays off at any alpha
  int largest() const override { return int_size(round_costs_) - 1; }
  // The expected speedup of rounds with K drafts over plain decoding, at the current alpha.
  double factor(int K) const { return expected_emitted(alpha(), K) / round_costs_[K]; }

 private:
  static constexpr double kForget = 0.98923;  // 0.5^(1 / 64)
  static constexpr int kPlainSteps = 32;      // plain steps before a probe

  std::vector<double> round_costs_;
  bool can_pay_;
  // The first alpha is optimistic, with the weight of five tests. If it is too high, it costs a few
  // drafts; if it were too low, the request would not draft, and would learn only from probes.
  double accepted_ = 4, tested_ = 5;
  int plain_steps_ = 0;  // since the last round that drafted
};
// [end snippet adaptive-spec-length]

}  // namespace specdec
