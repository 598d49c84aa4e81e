#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// --check of stage 8: decodes the golden greedy texts with trees of several shapes, in both kinds
// of cache. Returns the exit code.
int check_token_trees(const RunOptions& options);

}  // namespace specdec
