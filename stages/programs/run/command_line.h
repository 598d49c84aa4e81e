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
  std::vector<Option> options;       // that the program has
  std::vector<Option> lacking = {};  // that only other stages have: they are refused by name
  int stage = 0;
};

// Sets the variables of the options that are given.
// Throws Error or another std::exception with one line: what there is no option for, what an option
// does not take, what excludes each other.
void parse(const CommandLine& line, const std::vector<std::string>& arguments);

std::string help(const CommandLine& line);

// Parses the command line, runs `body` and returns its exit code. Whatever is thrown ends as one
// line on stderr and exit code 2, and so does a standard output that cannot be written, unless its
// reader went away (`| head -1`). --help and --version go to stdout and are good.
int run_program(const CommandLine& line, int argc, char** argv, const std::function<int()>& body);

}  // namespace specdec
