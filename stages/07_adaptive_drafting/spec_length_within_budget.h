#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/batch_budget.h"

namespace specdec {

// Another policy, within the budget of the batch: ends the drafts where no row could pay. Its
// estimates are those of the policy; where the policy makes none, or the drafter has no q, powers
// of the request's recent alpha.
class SpecLengthWithinBudget final : public SpecLengthPolicy, private DraftGate {
 public:
  SpecLengthWithinBudget(std::unique_ptr<SpecLengthPolicy> policy,
                         std::shared_ptr<const BatchBudget> budget)
      : policy_(std::move(policy)), budget_(std::move(budget)) {}

  int largest() const override { return policy_->largest(); }
  int next() const override { return policy_->next(); }
  DraftGate* gate() override { return policy_->gate() != nullptr ? this : nullptr; }

  void learn(const Round& round) override {
    asked_ = 0;
    recent_.learn(round);
    policy_->learn(round);
  }

  // For all places up to the largest K.
  std::span<const double> survival() const override {
    const std::span<const double> estimates = policy_->survival();
    survival_.assign(estimates.begin(),
                     estimates.begin() + std::min<std::ptrdiff_t>(asked_, std::ssize(estimates)));
    while (std::ssize(survival_) < largest()) {
      survival_.push_back(recent_.alpha() * (survival_.empty() ? 1 : survival_.back()));
    }
    return survival_;
  }

  std::vector<Note> notes() const override { return policy_->notes(); }

 private:
  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    asked_ = drafted + 1;
    return policy_->gate()->goes_on(draft_probs, drafted) &&
           survival()[drafted] >= budget_->least_survival();
  }
  bool has_enough(int drafted) const override { return policy_->gate()->has_enough(drafted); }
  bool compares_two() const override { return policy_->gate()->compares_two(); }

  std::unique_ptr<SpecLengthPolicy> policy_;
  std::shared_ptr<const BatchBudget> budget_;
  AdaptiveSpecLength recent_{std::vector<double>{1.0}};  // for its alpha
  int asked_ = 0;  // places of this round that the gate was asked about
  mutable std::vector<double> survival_;
};

}  // namespace specdec
