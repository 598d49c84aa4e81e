#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/base/exit_code.h"
#include "stages/programs/run/option.h"

namespace specdec {

// What a program may be called with. Besides `options` it has --help and --version.
struct CommandLine {
  std::string program;               // its name
  std::string description;           // what --help begins with
  std::vector<Option> options;       // of the program
  std::vector<Option> lacking = {};  // of other stages: refused by name
  int stage = 0;
};

// Sets the variables of the given options. Throws Error or another std::exception, with one line,
// for an unknown option, a value that an option does not take, and options that exclude each other.
void parse(const CommandLine& line, const std::vector<std::string>& arguments);

std::string help(const CommandLine& line);

// Parses the command line, runs `body` and returns its exit code. Any exception becomes one line on
// stderr and exit code 2. So does a standard output that cannot be written, unless its reader went
// away (`| head -1`). --help and --version go to stdout, with exit code 0.
int run_program(const CommandLine& line, int argc, char** argv, const std::function<int()>& body);

}  // namespace specdec
