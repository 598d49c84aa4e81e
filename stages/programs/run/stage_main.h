#pragma once
#include <functional>
#include <string>

#include "stages/programs/run/command_line.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The command line of a stage's program. It sets the members of `options`, which must outlive it.
CommandLine stage_command_line(int stage, std::string description, RunOptions& options,
                               const Listings& listings = {});

// The `main` of stages 1 and later: reads the stage's options, runs it, and returns the exit code
// (see run_program). description: the first line of --help. listings: the rules
// that it has.
int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run, const Listings& listings = {});

}  // namespace specdec
