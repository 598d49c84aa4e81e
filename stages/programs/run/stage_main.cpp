#include "stages/programs/run/stage_main.h"

#include "stages/programs/run/command_line.h"

namespace specdec {

CommandLine stage_command_line(int stage, std::string description, RunOptions& options) {
  options.stage = stage;
  return {.program = stage_name(stage),
          .description = std::move(description),
          .options = options_of_stage(stage, options),
          .lacking = options_of_other_stages(stage),
          .stage = stage};
}

int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run) {
  RunOptions options;
  return run_program(stage_command_line(stage, description, options), argc, argv,
                     [&] { return run(options); });
}

}  // namespace specdec
