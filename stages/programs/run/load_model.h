#pragma once
#include "common/checkpoint/checkpoint.h"
#include "common/llama_model.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Loads the weights of the target or the draft to the backend, as the options say: as they are,
// inflated, or as int8. On a terminal, stderr shows the progress. Throws Error.
LlamaModel load_target(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend);
LlamaModel load_draft(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend);

}  // namespace specdec
