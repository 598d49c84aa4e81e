#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// The golden checks of stage 10, with beams.jsonl: every search finds the hypotheses of
// transformers, with their scores, and takes as many steps as the reference, without drafts and
// with them; and all of them in one batch, too. A width of one finds the texts of greedy.jsonl.
// Returns the exit code. Throws Error.
int check_beam_search(const RunOptions& options);

}  // namespace specdec
