#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// Stage 7's --check: generates the golden greedy texts in rounds whose K adapts, with cost profiles
// under which K stays high, varies, or falls to 0. Returns the exit code.
int check_adaptive_drafting(const RunOptions& options);

}  // namespace specdec
