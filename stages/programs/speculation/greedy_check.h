#pragma once
#include <filesystem>

#include "common/llama_model.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The golden checks of stage 4, with greedy.jsonl: every text at K = 5, and one text of each kind
// at other K, equals the text of transformers; each round accepts as many drafts as the recorded
// choices of both models imply; a model that drafts for itself is always right. Throws Error.
void check_greedy_speculation(const RunOptions& options, const LlamaModel& target,
                              const std::filesystem::path& goldens, CheckList& list);

}  // namespace specdec
