#include "stages/07_adaptive_drafting/batch_budget.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// The first estimate of a place, with the weight of a few requests: optimistic, as if rows went to
// drafts that will be accepted. If it is too high, it costs a few drafts; if it were too low,
// nothing would be drafted that could show it.
constexpr double kHopefulAlpha = 0.8, kFirstWeight = 4;

// Costs and estimates are known to a few percent, so a smaller gain is none.
constexpr double kLeastGain = 1.02;

}  // namespace

BatchBudget::BatchBudget(std::optional<int> rows, int largest)
    : rows_(rows), depth_(rows ? largest : std::min(largest, 1)) {
  SPECDEC_CHECK(largest >= 0 && rows.value_or(0) >= 0, "places and rows");
  double survival = kFirstWeight;
  for (int i = 0; i < largest; i++) {
    const double asked = survival;
    survival *= kHopefulAlpha;
    places_.push_back({kFirstWeight, asked, survival, survival});
  }
}

std::vector<int> BatchBudget::give(std::span<const std::span<const double>> survival) const {
  RowBudget budget{.most = rows_.value_or(RowBudget::kAll)};
  if (!rows_) {
    SPECDEC_CHECK(costs_.has_value(), "costs of passes");
    budget.costs = &costs_->target;
    budget.draft_seconds = draft_seconds(depth_);
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
  choose_depth();
}

// Places that were not drafted forget, too, but only down to the weight of one step.
void BatchBudget::count(std::span<const Outcome> step) {
  const double requests = int_size(step);
  for (int i = 0; i < int_size(places_); i++) {
    Place& place = places_[i];
    if (i >= depth_ && place.requests <= requests) continue;
    for (double* sum : {&place.requests, &place.asked, &place.given, &place.accepted}) {
      *sum *= kForget;
    }
    if (i >= depth_) continue;
    place.requests += requests;
    for (const Outcome& request : step) {
      place.asked += i <= request.offered ? 1 : 0;
      place.given += i < request.given ? 1 : 0;
      place.accepted += i < request.accepted ? 1 : 0;
    }
  }
}

// [snippet choose-depth]
double BatchBudget::rate(int depth) const {
  double tokens = 1, rows = 1;  // per request
  for (const Place& place : std::span(places_).first(depth)) {
    tokens += place.accepted / place.requests;
    rows += place.given / place.requests;
  }
  return rate_of(tokens, rows, depth);
}

// Whether the last place of a round could pay if every draft that can get there were accepted.
bool BatchBudget::could_pay(int depth) const {
  double tokens = 1, rows = 1, reach = 1;
  for (const Place& place : std::span(places_).first(depth - 1)) {
    reach = place.accepted / place.requests;
    tokens += reach;
    rows += place.given / place.requests;
  }
  return rate_of(tokens + reach, rows + reach, depth) > kLeastGain * rate(depth - 1);
}

int BatchBudget::best_depth() const {
  int best = 0;
  for (int depth = 1; depth <= int_size(places_); depth++) {
    if (rate(depth) > std::max(rate(best), kLeastGain * rate(0))) best = depth;
  }
  return best;
}

// With another number of requests than the step before. It may only lower the depth, since memory
// for the drafts is there already.
void BatchBudget::begin(int requests) {
  if (rows_ || requests == requests_) return;
  requests_ = requests;
  depth_ = std::min(depth_, best_depth());
  least_survival_ = rate(depth_) * costs_->target.of_next_row(requests_);
}

// The best depth by recent steps; now and then one place more, since places that are not drafted
// teach nothing: rarer and rarer while that does not help, and never where it cannot pay.
void BatchBudget::choose_depth() {
  const int best = best_depth();
  least_survival_ = rate(best) * costs_->target.of_next_row(requests_);
  if (best > best_) wait_ = steps_to_probe_ = kFirstWait;
  depth_ = best_ = best;
  if (best == int_size(places_) || --steps_to_probe_ > 0 || !could_pay(best + 1)) return;
  wait_ = std::min(2 * wait_, kLongestWait);
  steps_to_probe_ = wait_;
  depth_ = best + 1;
}
// [end snippet choose-depth]

double BatchBudget::rate_of(double tokens, double rows, int depth) const {
  return requests_ * tokens / (costs_->target.seconds(requests_ * rows) + draft_seconds(depth));
}

double BatchBudget::draft_seconds(int depth) const {
  double seconds = 0;
  for (int i = 0; i < depth; i++) {
    const double asked = requests_ * places_[i].asked / places_[i].requests;
    const CostCurve& curve = i == 0 ? costs_->first_draft : costs_->next_draft;
    if (asked > 0) seconds += curve.seconds(std::max(1.0, asked));
  }
  return seconds;
}

}  // namespace specdec
