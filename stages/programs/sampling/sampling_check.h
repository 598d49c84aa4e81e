#pragma once
#include <filesystem>

#include "common/llama_model.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/options.h"

namespace specdec {

// What this stage adds: every decision of the target's sampling.jsonl, where an independent
// implementation recorded runs of Algorithm 1 with all uniforms and probabilities; and texts of
// greedy.jsonl at temperature 0, by every rule. Throws Error.
void check_rejection_sampling(const RunOptions& options, const LlamaModel& target,
                              const std::filesystem::path& goldens, CheckList& list);

}  // namespace specdec
