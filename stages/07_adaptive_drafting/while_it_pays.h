#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/speculation/spec_length_policy.h"

namespace specdec {

// [snippet while-it-pays]
// Follows another policy as long as its rounds are worth their costs. Thresholds and rules of thumb
// know no costs: if drafts are bad or expensive, they make generation slower than plain decoding.
// WhileItPays compares what recent rounds emitted with what they cost, and pauses drafting while
// that is a loss. It counts tokens and reads no clock.
class WhileItPays final : public SpecLengthPolicy, private DraftGate {
 public:
  // round_costs: [largest K + 1] in plain steps, as for AdaptiveSpecLength. c: the cost of a draft
  // step, in plain steps. REQUIRES: round_costs reach the policy's largest K.
  WhileItPays(std::unique_ptr<SpecLengthPolicy> policy, std::vector<double> round_costs, double c)
      : policy_(std::move(policy)), round_costs_(std::move(round_costs)), c_(c) {
    SPECDEC_CHECK(std::ssize(round_costs_) > policy_->largest(), "costs up to K = {}",
                  policy_->largest());
  }

  int largest() const override { return policy_->largest(); }
  DraftGate* gate() override { return policy_->gate() != nullptr ? this : nullptr; }

  int next() const override {
    if (pays()) return policy_->next();
    return plain_steps_ < pause_ ? 0 : std::min(kProbe, policy_->next());
  }

  void learn(const Round& round) override {
    const int K = next();
    if (K == 0) {
      plain_steps_++;
      return;
    }
    emitted_ = kForget * emitted_ + round.emitted();
    cost_ = kForget * cost_ + cost(round, K);
    asked_ = false;
    plain_steps_ = 0;
    if (emitted_ >= cost_) {
      pause_ = 0;
    } else {  // pause, longer each time; past rounds get little weight, so that a probe decides
      pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
      emitted_ *= kWeightOfPast / cost_;
      cost_ = kWeightOfPast;
    }
    policy_->learn(round);
  }
  // [end snippet while-it-pays]

  std::vector<Note> notes() const override {
    std::vector<Note> notes = policy_->notes();
    notes.push_back({"emitted per cost", emitted_ / cost_});
    return notes;
  }

  std::span<const double> survival() const override { return policy_->survival(); }

  bool pays() const { return pause_ == 0; }

 private:
  static constexpr double kForget = 0.9;                        // about the last ten rounds count
  static constexpr double kWeightOfPast = 2;                    // in plain steps
  static constexpr int kShortestPause = 8, kLongestPause = 32;  // plain steps before a probe
  static constexpr int kProbe = 2;                              // drafts of a probe

  // Passes the question to the policy's gate, and notes that there was one. If another drafter made
  // the drafts, there was none.
  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    asked_ = true;
    return policy_->gate()->goes_on(draft_probs, drafted);
  }
  bool has_enough(int drafted) const override { return policy_->gate()->has_enough(drafted); }
  bool compares_two() const override { return policy_->gate()->compares_two(); }

  // If the gate ended the drafts, the draft model has run once more than it drafted, unless the
  // gate knew the number of drafts from the first position on. If it did not, the number depends on
  // drafts that may never have been tested, and untested drafts must not influence later rounds. So
  // a round that was not accepted to its end counts with the usual number of drafts, which is that
  // of recent rounds that were. This estimate is low: more drafts are rejected more often.
  double cost(const Round& round, int K) {
    int drafted = round.drafted;
    const bool known = !asked_ || (drafted > 0 && has_enough(drafted));
    if (!known && round.end == RoundEnd::kAllAccepted) {
      usual_ += (drafted - usual_) / 4;
    } else if (!known) {
      drafted = std::clamp(static_cast<int>(std::lround(usual_)), round.tested(), K);
    }
    const bool ended = !known && drafted < K;
    return round_costs_[drafted] + (ended ? c_ : 0);
  }

  std::unique_ptr<SpecLengthPolicy> policy_;
  std::vector<double> round_costs_;
  double c_;
  double usual_ = policy_->largest() / 2.0;  // drafts of recent gated rounds that accepted all
  double emitted_ = 12, cost_ = 8;  // optimistic: three or four losing rounds outweigh this
  int pause_ = 0;                   // plain steps to wait; 0: drafting pays
  int plain_steps_ = 0;             // of the pause so far
  bool asked_ = false;              // whether the gate was asked in this round
};
}  // namespace specdec
