#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// --check of stage 6: runs all texts of greedy.jsonl and all recorded runs of sampling.jsonl in one
// engine, in contiguous regions, in pages, and in so few pages that requests are preempted. Each
// output must equal that of an independent implementation. Returns the exit code. Throws Error if
// the files are missing or belong to another model.
int check_batched_verification(const RunOptions& options);

}  // namespace specdec
