#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/07_adaptive_drafting/batch_budget.h"
#include "stages/07_adaptive_drafting/raised_draws.h"

namespace specdec {

// The rounds of a batch whose drafts share a budget of rows. All requests draft as always. Then the
// budget says which drafts the target verifies; the others are dropped unseen. REQUIRES: drafts are
// chains; every request's policy that drafts is a SpecLengthWithinBudget of this budget.
class RoundsWithinBudget final : public BatchedRounds {
 public:
  // As BatchedRounds.
  RoundsWithinBudget(LanguageModel& target, Drafter& drafter, const Judging& judging, int max_batch,
                     int spec_length, std::shared_ptr<BatchBudget> budget);

  int spec_length(const RequestState& request) const override;
  void draft(std::span<RequestState* const> batch) override;
  void judge(std::span<RequestState* const> batch) override;
  void roll_back(RequestState& request) override;

 private:
  std::shared_ptr<BatchBudget> budget_;
  std::vector<std::span<const double>> survival_;  // of the requests of a step
  std::vector<BatchBudget::Outcome> outcomes_;
};

// Makes such rounds for an engine.
std::function<decltype(make_batched_rounds)> rounds_within(std::shared_ptr<BatchBudget> budget);

// A judge whose request draws each round's drafts anew. A draft that was dropped or not tested may
// have decided which rows the other requests got, and so how far they are in the next round. If
// that round drew it again by the same random number, their rows would know it beforehand.
class FreshDraftsJudge final : public Judge {
 public:
  using Judge::Judge;

  // Afterwards, drafts are drawn by names that contain the length of the context, which no two
  // rounds of a request share.
  void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

 private:
  std::optional<RaisedDraws> draws_;  // of the next round
};

}  // namespace specdec
