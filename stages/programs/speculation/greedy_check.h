#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// The golden checks of stage 4, with greedy.jsonl: every text at K = 5, and one text of each kind
// at other K, equals the text of transformers; each round accepts as many drafts as the recorded
// choices of both models imply; a model that drafts for itself is always right. Returns the exit
// code. Throws Error.
int check_greedy_speculation(const RunOptions& options);

}  // namespace specdec
