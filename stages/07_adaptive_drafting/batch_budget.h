#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stages/06_batched_verification/batch_request.h"
#include "stages/07_adaptive_drafting/row_budget.h"

namespace specdec {

// What the passes of a step cost, by the requests or rows that share them.
struct StepCosts {
  CostCurve target;       // a pass of the target over M rows
  CostCurve first_draft;  // the first draft for each of M requests, with what catches up before it
  CostCurve next_draft;   // one more draft for each of M requests
};

// The rows of all requests of a batch, with what earlier steps taught. It decides before a step how
// far the drafts go, while they are made which drafts are worth a row at best, and then which ones
// get rows. It counts tokens and reads no clock.
class BatchBudget {
 public:
  // rows: for drafts, in each step; none: as many as pay, for which it needs costs. largest: the
  // most drafts of a round.
  BatchBudget(std::optional<int> rows, int largest);
  void set_costs(const StepCosts& costs) { costs_.emplace(costs); }

  // From history alone: the most drafts of a request's round in the next step, and the survival
  // that a place must have so that even the cheapest row could pay. Call begin() before the drafts
  // with the number of requests of the step. It may lower the first of them.
  void begin(int requests);
  int most_places(RequestId request) const { return best_ + (request == tries_ ? 1 : 0); }
  double least_survival() const { return least_survival_; }

  // The rows of a step, see give_rows().
  std::vector<int> give(std::span<const std::span<const double>> survival) const;

  // What became of a request's drafts in a step.
  struct Outcome {
    RequestId request = 0;
    int offered = 0, given = 0, accepted = 0;  // places drafted, with a row, accepted
  };
  // Call after each step with all requests that had a round, the oldest first.
  void learn(std::span<const Outcome> step);

  struct Stats {
    std::int64_t steps = 0, offered = 0, given = 0;
    std::vector<std::int64_t> steps_by_given = {};  // [the most rows of a step + 1]
  };
  const Stats& stats() const { return stats_; }
  // The tokens per second that are expected if all rounds draft up to `depth` places.
  double rate(int depth) const;

 private:
  static constexpr double kForget = 0.95;  // about the last 20 steps count
  // A place that is not drafted is tried for a few steps: at first, and after a wait that grows
  // while trying does not help.
  static constexpr int kTrySteps = 4, kFirstWait = 64, kLongestWait = 1024;

  // Recent sums at one place of a round: the rounds that could draft it, those whose gate was asked
  // and those in which it got a row; and those that accepted all places before it, and it, too.
  struct Place {
    double rounds = 0, asked = 0, given = 0, reached = 0, accepted = 0;
  };

  // Of a round: tokens, rows, and the survival of its last place.
  struct Expected {
    double tokens = 1, rows = 1, survival = 1;
  };

  void count(std::span<const Outcome> step);
  void choose_depth(std::span<const Outcome> step);
  int best_depth() const;
  bool could_pay(int depth) const;
  Expected expected(int depth) const;
  double rate_of(const Expected& round, int depth) const;
  double draft_seconds(int depth) const;

  std::optional<int> rows_;
  std::optional<StepCosts> costs_;
  std::vector<Place> places_;       // [largest]
  int best_;                        // places that all requests draft
  std::optional<RequestId> tries_;  // the request that drafts one more
  double least_survival_ = 0;
  double requests_ = 0;                                    // of this step, or of the step before
  int steps_of_try_ = kTrySteps;                           // that are left; 0: no try
  int steps_to_try_ = kFirstWait, wait_ = 2 * kFirstWait;  // until the next one, and the one after
  Stats stats_;
};

}  // namespace specdec
