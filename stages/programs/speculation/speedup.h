#pragma once
#include <limits>
#include <string>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/programs/show/report.h"

namespace specdec {

// Seconds, measured on the text of a run after it, in interleaved samples. Medians, but for the
// last three.
struct StepTimes {
  double target_pass = 0;   // over one row
  double choice = 0;        // of a token from the row
  double draft_step = 0;    // the draft phase of a round over K
  double verification = 0;  // a target pass over K + 1 rows, the mean over the rounds that drafted
  double mean_draft = 0;    // as draft_step: where drafters take turns, no draft costs the median
  double plain_token = 0;   // the mean of pass and choice: what is compared with sums of times
  int samples = 0;          // 0: the text was too short
};

// What speculation bought, three ways: prediction beside measurement. All NaN without samples, c
// and v without rounds that drafted.
struct Speedup {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double c = kUnknown;              // draft_step over target_pass
  double v = kUnknown;              // verification over target_pass
  double by_formula = kUnknown;     // from alpha, each round's K, c and v: drafts as independent
  double by_accounting = kUnknown;  // tokens per round over the round's cost from c, v and overhead
  double by_clock = kUnknown;       // plain_token times tokens, over the seconds of decoding
};

// Rounds that drafted nothing (a lookup without a match) count in the formula as plain steps.
// The overhead of by_accounting is what the rounds took beside drafting and verifying, and what
// draft phases that had to catch up took longer than the others (the first: the draft's prefill).
Speedup speedup(const RunStats& stats, const StepTimes& times);

// Adds the numbers to the "stats" object; null where unknown.
void add_to_json(Json& stats_json, const RunStats& stats, const Speedup& speedup);

// The two lines at the end of a run.
std::string summary(const RunStats& stats, const Speedup& speedup, int samples);

}  // namespace specdec
