#pragma once
#include "common/checkpoint/checkpoint.h"
#include "common/llama_model.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The target's and the draft's weights on the backend, as the options ask for them: as they are,
// inflated, as int8. On a terminal, stderr shows how far it is. Throws Error.
LlamaModel load_target(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend);
LlamaModel load_draft(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend);

}  // namespace specdec
