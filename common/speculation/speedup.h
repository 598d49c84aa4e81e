#pragma once
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "common/run/report.h"

namespace specdec {

// Seconds, measured on the text of a run after it: medians of interleaved samples.
struct StepTimes {
  double target_step = 0;   // plain decoding: a pass over one row, and the choice of a token
  double draft_step = 0;    // the draft phase of a round over K
  double verification = 0;  // a target pass over K + 1 rows
  int samples = 0;          // 0: the text was too short
};

// What speculation bought, three ways (DESIGN: prediction beside measurement). All NaN without
// samples.
struct Speedup {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double c = kUnknown;              // draft_step over target_step
  double v = kUnknown;              // verification over target_step
  double by_formula = kUnknown;     // walltime_factor(alpha, K, c, v): drafts as independent
  double by_accounting = kUnknown;  // tokens a round over the round's cost from c, v and overhead
  double by_clock = kUnknown;       // target_step times tokens, over the seconds of decoding
};

// The overhead of by_accounting is what the rounds took beside drafting and verifying, and what
// the first draft phase took longer than the others (the draft's prefill).
Speedup speedup(const RunStats& stats, int spec_length, const StepTimes& times);

// Adds the numbers to the "stats" object; null where unknown.
void add_to_json(nlohmann::json& stats_json, const RunStats& stats, const Speedup& speedup);

// The two lines at the end of a run.
std::string summary(const RunStats& stats, const Speedup& speedup, int samples);

}  // namespace specdec
