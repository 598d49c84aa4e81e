#pragma once
#include <functional>

#include "stages/programs/run/options.h"

namespace specdec {

// After --check with the embedded target: the same check with SmolLM2-135M-Instruct and its golden
// files, its drafts by lookup. Says NOT CHECKED where `make real` has not been run in this build's
// folder, and does nothing where the options name another target. Returns the exit code.
int check_real_model(const RunOptions& options, const std::function<int(const RunOptions&)>& run);

}  // namespace specdec
