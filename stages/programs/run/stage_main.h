#pragma once
#include <functional>
#include <string>

#include "common/base/exit_code.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The `main` of stages 1 to 6: reads the options that the stage has, runs it, and returns the exit
// code (see run_program). description: what --help begins with.
int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run);

}  // namespace specdec
