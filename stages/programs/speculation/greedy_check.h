#pragma once
#include <filesystem>

#include "common/llama_model.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/options.h"

namespace specdec {

// What this stage adds to the golden checks of the target, with greedy.jsonl: every text for K = 5,
// a text of each kind for other K, is transformers' text; every round is the one that follows from
// the two models' choices there; and a model that drafts for itself is always right. Throws Error.
void check_greedy_speculation(const RunOptions& options, const LlamaModel& target,
                              const std::filesystem::path& goldens, CheckList& list);

}  // namespace specdec
