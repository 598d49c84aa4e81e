#include "stages/programs/run/stage_main.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "common/base/error.h"
#include "common/base/output_file.h"
#include "stages/programs/run/command_line.h"
#include "stages/programs/run/real_model.h"

namespace specdec {

CommandLine stage_command_line(int stage, std::string description, RunOptions& options) {
  options.stage = stage;
  return {.program = stage_name(stage),
          .description = std::move(description),
          .options = options_of_stage(stage, options),
          .lacking = options_of_other_stages(stage),
          .stage = stage};
}

namespace {

// The files that the user wants, each by its option.
std::vector<std::pair<std::string, std::string>> wanted_files(const CommandLine& line) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const Option& option : line.options) {
    if (!option.traits.is_output) continue;
    const std::string& path = *std::get<std::string*>(option.value);
    if (!path.empty()) files.emplace_back(option.name(), path);
  }
  return files;
}

// A run whose files cannot be written does not begin. One whose reader on stdout goes away ends,
// and is good unless its files are still to be written.
int run_with_files(const CommandLine& line, const std::function<int()>& run) {
  const auto files = wanted_files(line);
  for (const auto& [option, path] : files) OutputFile::require_writable(path);
  try {
    return run();
  } catch (const std::system_error& error) {
    const bool reader_left = std::ferror(stdout) != 0 && error.code() == std::errc::broken_pipe;
    if (!reader_left || files.empty()) throw;
    fail("the reader of standard output went away before {} was written", files.front().first);
  }
}

}  // namespace

int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run) {
  RunOptions options;
  const CommandLine line = stage_command_line(stage, description, options);
  const auto run_stage = [&] {
    const int code = run(options);
    return options.check ? std::max(code, check_real_model(options, run)) : code;
  };
  return run_program(line, argc, argv, [&] { return run_with_files(line, run_stage); });
}

}  // namespace specdec
