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
// Another policy, as long as its rounds are worth their costs. Thresholds and rules of thumb know
// no costs: where drafts are bad or dear, they would make a text slower than plain decoding. This
// one compares what recent rounds emitted with what they cost, and pauses the drafts while that is
// a loss. It counts, and looks at no clock.
class WhileItPays final : public SpecLengthPolicy, private DraftGate {
 public:
  // round_costs: [largest K + 1] in plain steps, as for AdaptiveSpecLength. c: a draft step, in
  // plain steps. REQUIRES: there are costs for the policy's largest K.
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
    } else {  // wait, longer each time; what was before weighs little, so that probes count
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

  bool pays() const { return pause_ == 0; }

 private:
  static constexpr double kForget = 0.9;                        // the last ten rounds count
  static constexpr double kWeightOfPast = 2;                    // in plain steps
  static constexpr int kShortestPause = 8, kLongestPause = 32;  // plain steps before a probe
  static constexpr int kProbe = 2;                              // drafts of a probe

  // The policy's gate, which sees whether it is asked: not where another drafter had drafts.
  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    asked_ = true;
    return policy_->gate()->goes_on(draft_probs, drafted);
  }
  bool has_enough(int drafted) const override { return policy_->gate()->has_enough(drafted); }

  // A gate that ends the drafts has seen one more pass of the draft model, unless it knew from the
  // first place how many it allows. How many drafts another gate let through follows from drafts
  // that were drawn, of which some were never tested: those must not decide anything. So a round
  // that ended by a rejection counts as long as rounds usually are that were tested to their end.
  // That is too little, because rounds with more drafts are rejected more often.
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
  double usual_ = policy_->largest() / 2.0;  // drafts of a gated round that are all accepted
  double emitted_ = 12, cost_ = 8;  // hopeful at first, for as long as three or four lost rounds
  int pause_ = 0;                   // plain steps to wait; 0: it pays
  int plain_steps_ = 0;             // of the pause so far
  bool asked_ = false;              // the gate, in this round
};
}  // namespace specdec
