#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// Stage 7's --check: the golden greedy texts by rounds whose K adapts, for cost profiles under
// which it stays high, moves, and falls to plain steps. Returns the exit code.
int check_adaptive_drafting(const RunOptions& options);

}  // namespace specdec
