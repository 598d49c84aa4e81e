#pragma once
#include <functional>

#include "stages/programs/run/options.h"

namespace specdec {

// Before --check of the embedded target: runs the same check of SmolLM2-135M-Instruct, with its
// golden files; a stage without heads for it drafts by lookup. Prints NOT CHECKED if `make real`
// has not been run in this build folder, and does nothing if the options name another target.
// Returns the exit code.
int check_real_model(const RunOptions& options, const std::function<int(const RunOptions&)>& run);

}  // namespace specdec
