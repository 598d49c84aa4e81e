#pragma once
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/speculation/spec_length_policy.h"
#include "kernels/int_size.h"
#include "stages/07_adaptive_drafting/survival_model.h"

namespace specdec {

// [snippet survival-spec-length]
// Drafts as long as the next draft is likely enough to survive: as long as it raises what the round
// is expected to emit, per cost. The estimates use the draft model's margins, which are known
// before the draws.
class SurvivalSpecLength final : public SpecLengthPolicy, public DraftGate {
 public:
  // model: learns from this policy's rounds; may be shared. round_costs: [largest K + 1] in plain
  // steps, as for AdaptiveSpecLength. c: the cost of a draft step, in plain steps.
  SurvivalSpecLength(std::shared_ptr<SurvivalModel> model, std::vector<double> round_costs,
                     double c)
      : model_(std::move(model)), round_costs_(std::move(round_costs)), c_(c) {
    SPECDEC_CHECK(round_costs_.size() >= 2, "costs of at least one draft");
  }

  int largest() const override { return int_size(round_costs_) - 1; }
  int next() const override { return largest(); }  // the gate ends the drafts
  DraftGate* gate() override { return this; }
  bool compares_two() const override { return true; }

  bool goes_on(std::span<const double> draft_probs, int drafted) override {
    const auto before = static_cast<std::size_t>(drafted);
    margins_.resize(before);  // after an undone draft phase, the places are asked about again
    survival_.resize(before);
    margins_.push_back(top2_margin(draft_probs));
    const double chance = model_->acceptance(drafted, margins_.back());
    survival_.push_back(before == 0 ? chance : survival_.back() * chance);
    last_ = survival_.back();
    return model_->warming_up() || pays(drafted);
  }

  // Teaches the model the places that were tested. Places after a rejection were not tested, and
  // places of another drafter were not asked about.
  void learn(const Round& round) override {
    const int known = std::min(round.tested(), int_size(margins_));
    for (int i = 0; i < known; i++) model_->learn(i, margins_[i], i < round.accepted);
    margins_.clear();
    survival_.clear();
  }

  std::vector<Note> notes() const override { return {{"survival", last_}}; }
  std::span<const double> survival() const override { return survival_; }

 private:
  // Whether one more draft raises expected tokens / cost of the round. The question itself has
  // already cost a pass of the draft model, and a yes leads to the next question.
  bool pays(int drafted) const {
    const double emitted = std::reduce(survival_.begin(), survival_.end() - 1, 1.0);
    const double with_it = (emitted + survival_.back()) / (round_costs_[drafted + 1] + c_);
    return with_it > emitted / (round_costs_[drafted] + c_);
  }

  std::shared_ptr<SurvivalModel> model_;
  std::vector<double> round_costs_;
  double c_;
  std::vector<double> margins_, survival_;  // at each place of this round that was asked about
  double last_ = 1;                         // survival at the last of them
};
// [end snippet survival-spec-length]

}  // namespace specdec
