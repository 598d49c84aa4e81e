#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// --check of stage 9: decodes golden greedy texts with each kind of heads, in chains and trees
// and in both kinds of cache, and counts what was accepted at each position, which shows mistakes
// that change no text. Returns the exit code.
int check_self_drafting(const RunOptions& options);

}  // namespace specdec
