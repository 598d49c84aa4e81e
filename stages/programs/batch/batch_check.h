#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// --check: all texts of greedy.jsonl and all recorded runs of sampling.jsonl in one engine, which
// has them in contiguous regions, in pages, and in so few pages that requests lose theirs. Each
// must come out as an independent implementation wrote it. Returns the exit code. Throws Error
// where the files are missing or belong to another model.
int check_batched_verification(const RunOptions& options);

}  // namespace specdec
