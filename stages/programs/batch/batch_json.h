#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {

// The counters of all requests together; no times.
RunStats total_stats(std::span<const RequestResult> results);

// "stats" of a request: those of a run with one request, plus queueing statistics.
Json to_json(const RequestStats& stats);

// What an engine did in its life, but for what its requests say themselves.
Json to_json(const BatchEngine& engine);

// {"mean": ..., "p50": ..., "p95": ..., "max": ...} of those that are numbers; null without any.
Json distribution(std::vector<double> values);

// The p-th quantile, 0 <= p <= 1: the smallest value that at least this share of all does not
// exceed. NaN without values.
double quantile(std::vector<double> values, double p);

// A step for a trace; tokens are in the requests' results.
Json to_json(const StepReport& report);

}  // namespace specdec
