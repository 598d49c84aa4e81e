#include "stages/07_adaptive_drafting/rounds_within_budget.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/sampling/draw_index.h"
#include "kernels/int_size.h"

namespace specdec {

RoundsWithinBudget::RoundsWithinBudget(LanguageModel& target, Drafter& drafter,
                                       const Judging& judging, int max_batch, int spec_length,
                                       std::shared_ptr<BatchBudget> budget)
    : BatchedRounds(target, drafter, judging, max_batch, spec_length), budget_(std::move(budget)) {}

int RoundsWithinBudget::spec_length(const RequestState& r) const {
  return std::min(BatchedRounds::spec_length(r), budget_->most_places(r.id));
}

// [snippet draft-within-budget]
void RoundsWithinBudget::draft(std::span<RequestState* const> batch) {
  budget_->begin(int_size(batch));
  BatchedRounds::draft(batch);
  survival_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    const auto places = static_cast<std::size_t>(drafts_[i].size());
    survival_.push_back(batch[i]->failure || places == 0
                            ? std::span<const double>()
                            : batch[i]->policy->survival().first(places));
  }
  const std::vector<int> given = budget_->give(survival_);
  outcomes_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    Drafts& drafts = drafts_[i];
    outcomes_.push_back({batch[i]->id, drafts.size(), given[i], 0});
    if (given[i] == drafts.size()) continue;
    std::vector<int> kept(static_cast<std::size_t>(given[i]));
    std::iota(kept.begin(), kept.end(), 0);
    drafts.prune(kept);
    batch[i]->round.drafted = drafts.length();
  }
}
// [end snippet draft-within-budget]

void RoundsWithinBudget::judge(std::span<RequestState* const> batch) {
  BatchedRounds::judge(batch);
  for (std::size_t i = 0; i < batch.size(); i++) outcomes_[i].accepted = batch[i]->round.accepted;
  budget_->learn(outcomes_);
}

// A drafter of trees may have cached its last verified draft, because it drafted others after it.
void RoundsWithinBudget::roll_back(RequestState& r) {
  BatchedRounds::roll_back(r);
  if (r.draft_sequence == RequestState::kNoSequence) return;
  drafter_.truncate(r.draft_sequence, r.round.draft_length());
}

std::function<decltype(make_batched_rounds)> rounds_within(std::shared_ptr<BatchBudget> budget) {
  return [budget = std::move(budget)](LanguageModel& target, Drafter& drafter,
                                      const Judging& judging, int max_batch, int spec_length) {
    return std::make_unique<RoundsWithinBudget>(target, drafter, judging, max_batch, spec_length,
                                                budget);
  };
}

// [snippet fresh-drafts]
// Rounds that draft the same position begin less than kLengths tokens apart.
void FreshDraftsJudge::judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                             Generation& generation, Round& round) {
  constexpr int kLengths = 1024, kLevels = 64;  // the latter: more than a round has
  Judge::judge(drafts, logits, context, generation, round);
  draws_.emplace(random(), draw_index(kLevels * (1 + int_size(context) % kLengths), 0));
  drafting_.random = &*draws_;
}
// [end snippet fresh-drafts]

}  // namespace specdec
