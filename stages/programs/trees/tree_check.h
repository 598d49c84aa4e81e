#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// --check of stage 8: the golden greedy texts by trees of several shapes, in both caches. Returns
// the exit code.
int check_token_trees(const RunOptions& options);

}  // namespace specdec
