#pragma once
#include <functional>

#include "stages/programs/run/options.h"

namespace specdec {

// Before --check of the embedded target: the same check of SmolLM2-135M-Instruct with its golden
// files, drafts by lookup. Says NOT CHECKED where `make real` has not been run in this build's
// folder, and does nothing where the options name another target. Returns the exit code.
int check_real_model(const RunOptions& options, const std::function<int(const RunOptions&)>& run);

}  // namespace specdec
