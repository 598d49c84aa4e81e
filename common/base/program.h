#pragma once
#include <functional>

#include "common/base/exit_code.h"

namespace CLI {
class App;
}

namespace specdec {

// Parses the command line, runs `body` and returns its exit code. Whatever is thrown ends as one
// line on stderr and exit code 2; --help and --version go to stdout and are good.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace specdec
