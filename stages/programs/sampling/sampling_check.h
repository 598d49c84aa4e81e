#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// The golden checks of stage 5: every decision in the target's sampling.jsonl, which contains runs
// of Algorithm 1 by an independent implementation, with all uniforms and probabilities; and texts
// of greedy.jsonl at temperature 0, with every acceptance rule. Returns the exit code. Throws
// Error.
int check_rejection_sampling(const RunOptions& options);

}  // namespace specdec
