#include "stages/programs/run/stage_main.h"

#include <CLI/CLI.hpp>

#include "common/base/program.h"

namespace specdec {

int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run) {
  RunOptions options;
  CLI::App app(description, stage_name(stage));
  add_run_options(app, stage, options);
  return run_program(app, argc, argv, [&] { return run(options); });
}

}  // namespace specdec
