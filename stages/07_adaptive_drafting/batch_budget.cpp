#include "stages/07_adaptive_drafting/batch_budget.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// The first estimate of a place, with the weight of a few rounds: optimistic, since a place that is
// not drafted would never show that it is better.
constexpr double kHopefulAlpha = 0.8, kFirstWeight = 2;

// Costs and estimates are known to a few percent, so a smaller gain is none.
constexpr double kLeastGain = 1.05;

}  // namespace

BatchBudget::BatchBudget(std::optional<int> rows, int largest)
    : rows_(rows), best_(rows ? largest : 0) {
  SPECDEC_CHECK(largest >= 0 && rows.value_or(0) >= 0, "places and rows");
  constexpr double kRounds = kFirstWeight;
  double survival = 1;
  for (int i = 0; i < largest; i++) {
    const double asked = kRounds * survival, given = kHopefulAlpha * asked;
    places_.push_back({kRounds, asked, given, kRounds, kHopefulAlpha * kRounds});
    survival *= kHopefulAlpha;
  }
}

std::vector<int> BatchBudget::give(std::span<const std::span<const double>> survival) const {
  RowBudget budget{.most = rows_.value_or(RowBudget::kAll)};
  if (!rows_) {
    SPECDEC_CHECK(costs_.has_value(), "costs of passes");
    budget.costs = &costs_->target;
    budget.draft_seconds = draft_seconds(best_);  // a try's draft is not the others' concern
  }
  return give_rows(survival, budget);
}

void BatchBudget::learn(std::span<const Outcome> step) {
  int given = 0;
  for (const Outcome& request : step) {
    stats_.offered += request.offered;
    given += request.given;
  }
  stats_.given += given;
  stats_.steps++;
  if (int_size(stats_.steps_by_given) <= given) stats_.steps_by_given.resize(given + 1);
  stats_.steps_by_given[given]++;
  if (rows_ || step.empty()) return;
  count(step);
  requests_ = int_size(step);
  choose_depth(step);
}

// Places that are not drafted forget, too, but only down to the weight of a try.
void BatchBudget::count(std::span<const Outcome> step) {
  for (int i = 0; i < int_size(places_); i++) {
    Place& place = places_[i];
    const auto drafts = [&](const Outcome& o) { return i < most_places(o.request); };
    if (place.rounds <= kTrySteps && std::ranges::none_of(step, drafts)) continue;
    for (double Place::*sum :
         {&Place::rounds, &Place::asked, &Place::given, &Place::reached, &Place::accepted}) {
      place.*sum *= kForget;
    }
    for (const Outcome& round : step) {
      if (!drafts(round)) continue;
      place.rounds++;
      place.asked += i <= round.offered ? 1 : 0;
      place.given += i < round.given ? 1 : 0;
      place.reached += i <= round.accepted ? 1 : 0;
      place.accepted += i < round.accepted ? 1 : 0;
    }
  }
}

BatchBudget::Expected BatchBudget::expected(int depth) const {
  Expected round;
  for (const Place& place : std::span(places_).first(depth)) {
    round.survival *= place.accepted / place.reached;
    round.tokens += round.survival;
    round.rows += place.given / place.rounds;
  }
  return round;
}

double BatchBudget::rate(int depth) const { return rate_of(expected(depth), depth); }

// Whether the last place of a round could pay if every draft that can get there were accepted.
bool BatchBudget::could_pay(int depth) const {
  Expected round = expected(depth - 1);
  round.tokens += round.survival;
  round.rows += round.survival;
  return rate_of(round, depth) > kLeastGain * rate(depth - 1);
}

int BatchBudget::best_depth() const {
  int best = 0;
  for (int depth = 1; depth <= int_size(places_); depth++) {
    if (rate(depth) > kLeastGain * rate(best)) best = depth;
  }
  return best;
}

// With another number of requests than the step before. It may only lower the depth, since memory
// for the drafts is there already.
void BatchBudget::begin(int requests) {
  if (rows_ || requests == requests_) return;
  requests_ = requests;
  best_ = std::min(best_, best_depth());
  if (tries_ && !could_pay(best_ + 1)) tries_.reset();
  least_survival_ = rate(best_) * costs_->target.of_next_row(requests_);
}

// The best depth by recent rounds. Now and then the oldest request tries one place more, since
// places that are not drafted teach nothing: rarer and rarer while that does not help, and never
// where it cannot pay. Until a try has ended, all others draft no more than before.
void BatchBudget::choose_depth(std::span<const Outcome> step) {
  const auto tried = [&](const Outcome& round) { return round.request == tries_; };
  if (std::ranges::any_of(step, tried)) steps_of_try_--;
  const int best = std::min(best_depth(), steps_of_try_ > 0 ? best_ : int_size(places_));
  if (best > best_) {
    steps_to_try_ = kFirstWait;
    wait_ = 2 * kFirstWait;
  }
  best_ = best;
  tries_.reset();
  least_survival_ = rate(best_) * costs_->target.of_next_row(requests_);
  if (best_ == int_size(places_) || !could_pay(best_ + 1)) return;
  if (steps_of_try_ == 0) {
    if (steps_to_try_-- > 0) return;
    steps_of_try_ = kTrySteps;
    steps_to_try_ = wait_;
    wait_ = std::min(2 * wait_, kLongestWait);
  }
  tries_ = step.front().request;
}

double BatchBudget::rate_of(const Expected& round, int depth) const {
  const double seconds = costs_->target.seconds(requests_ * round.rows) + draft_seconds(depth);
  return requests_ * round.tokens / seconds;
}

double BatchBudget::draft_seconds(int depth) const {
  double seconds = 0;
  for (int i = 0; i < depth; i++) {
    const double asked = requests_ * places_[i].asked / places_[i].rounds;
    const CostCurve& curve = i == 0 ? costs_->first_draft : costs_->next_draft;
    if (asked > 0) seconds += curve.seconds(std::max(1.0, asked));
  }
  return seconds;
}

}  // namespace specdec
