#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {

// The sums of the counters of all requests, without times.
RunStats total_stats(std::span<const RequestResult> results);

// "stats" of a request: those of a run with one request, plus queueing statistics.
Json to_json(const RequestStats& stats);

// The statistics and options of an engine, without those of single requests.
Json to_json(const BatchEngine& engine);

// {"mean": ..., "p50": ..., "p95": ..., "max": ...} of the finite values; null if there are none.
Json distribution(std::vector<double> values);

// One step for a trace, without tokens, which are in the requests' results.
Json to_json(const StepReport& report);

}  // namespace specdec
