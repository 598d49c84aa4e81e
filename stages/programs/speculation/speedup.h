#pragma once
#include <limits>
#include <string>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/programs/show/report.h"

namespace specdec {

// Seconds of a round's parts, measured after a run on its text, in interleaved samples.
struct StepTimes {
  double target_pass = 0;   // median of a target pass over one row
  double choice = 0;        // median of choosing a token from that row
  double draft_step = 0;    // median of a draft phase divided by its K
  double verification = 0;  // target pass over K + 1 rows: mean over rounds of their K's median
  double mean_draft = 0;    // mean per draft: if two drafters take turns, none costs the median
  double plain_token = 0;   // mean of pass plus choice, for comparison with sums of times
  int samples = 0;          // rounds measured; 0: the text was too short
};

// The speedup over plain decoding: two predictions and a measurement. All are NaN without samples;
// c and v are NaN if no round drafted.
struct Speedup {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double c = kUnknown;              // draft_step / target_pass
  double v = kUnknown;              // verification / target_pass
  double by_formula = kUnknown;     // from alpha, c, v and each round's K; drafts are independent
  double by_accounting = kUnknown;  // plain steps for all tokens / (parts of all rounds + overhead)
  double by_clock = kUnknown;       // plain_token times tokens / seconds of decoding
};

// Rounds that drafted nothing (a lookup without a match) count as plain steps. The overhead in
// by_accounting is the time of the rounds outside of drafting and verifying, plus the extra time of
// draft phases that had to catch up (the first one contains the draft model's prefill).
Speedup speedup(const RunStats& stats, const StepTimes& times);

// Adds the numbers to the "stats" object; null if unknown.
void add_to_json(Json& stats_json, const RunStats& stats, const Speedup& speedup);

// The two lines about speedup at the end of a run.
std::string summary(const RunStats& stats, const Speedup& speedup, int samples);

}  // namespace specdec
