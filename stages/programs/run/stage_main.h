#pragma once
#include <functional>
#include <string>

#include "stages/programs/run/command_line.h"
#include "stages/programs/run/options.h"

namespace specdec {

// What the stage's program may be called with; it sets what is in `options`, which must outlive it.
CommandLine stage_command_line(int stage, std::string description, RunOptions& options);

// The `main` of the stages from 1: reads the options that the stage has, runs it, and returns the
// exit code (see run_program). description: what --help begins with.
int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run);

}  // namespace specdec
