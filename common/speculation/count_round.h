#pragma once
#include "common/run_stats.h"
#include "common/speculation/round.h"

namespace specdec {

// Adds a round to the counters of a run.
void count_round(RunStats& stats, const Round& round);

}  // namespace specdec
