#include "stages/programs/run/stage_main.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>

#include "common/base/error.h"
#include "common/base/output_file.h"
#include "stages/programs/run/command_line.h"
#include "stages/programs/run/generation_config.h"
#include "stages/programs/run/real_model.h"

namespace specdec {

CommandLine stage_command_line(int stage, std::string description, RunOptions& options,
                               const Listings& listings) {
  options.stage = stage;
  return {.program = stage_name(stage),
          .description = std::move(description),
          .options = options_of_stage(stage, options, listings),
          .lacking = options_of_other_stages(stage),
          .stage = stage};
}

namespace {

// The output files that the user asked for, with their options.
std::vector<std::pair<std::string, std::string>> wanted_files(const CommandLine& line) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const Option& option : line.options) {
    if (!option.traits.is_output) continue;
    const std::string& path = *std::get<std::string*>(option.value);
    if (!path.empty()) files.emplace_back(option.name(), path);
  }
  return files;
}

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code missing;
  return fs::equivalent(a, b, missing) && fs::is_regular_file(a, missing);
}

// Whether two paths lead to the same file, which need not exist yet. Paths in /dev do not count,
// since /dev/stdout takes several outputs.
bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code unknown;
  if (a.string().starts_with("/dev/")) return false;
  if (fs::exists(a, unknown)) return same_file(a, b);
  return fs::weakly_canonical(a, unknown) == fs::weakly_canonical(b, unknown) && !unknown;
}

// Whether the path is the input, or in the input if that is a folder.
bool is_part_of(const fs::path& input, const fs::path& path) {
  std::error_code no_folder;
  for (const fs::directory_entry& entry : fs::directory_iterator(input, no_folder)) {
    if (same_file(entry.path(), path)) return true;
  }
  return same_file(input, path);
}

// Refuses to overwrite a file that another option reads or writes.
void check_outputs(const CommandLine& line,
                   std::span<const std::pair<std::string, std::string>> files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [option, path] = files[i];
    OutputFile::require_writable(path);
    for (const Option& other : line.options) {
      // --write-tree-profile adds to what --tree-profile reads.
      if (option == fmt::format("--write-{}", other.name().substr(2))) continue;
      for (const std::string& input : other.inputs()) {
        if (is_part_of(input, path)) {
          fail("{} {}: {} reads this file; it is not written over", option, path, other.name());
        }
      }
    }
    for (const auto& [other, its_path] : files.first(i)) {
      if (same_place(path, its_path)) fail("{} and {} are both {}", other, option, path);
    }
  }
}

// A run does not begin if its files cannot be written. If the reader of stdout goes away, the run
// ends; that is an error only if files were not written yet.
int run_with_files(const CommandLine& line, const std::function<int()>& run) {
  const auto files = wanted_files(line);
  check_outputs(line, files);
  try {
    return run();
  } catch (const std::system_error& error) {
    const bool reader_left = std::ferror(stdout) != 0 && error.code() == std::errc::broken_pipe;
    if (!reader_left || files.empty()) throw;
    fail("the reader of standard output went away before {} was written", files.front().first);
  }
}

// Refuses --check with several draft models, and with number formats for which there are no golden
// files.
void refuse_other_models(const RunOptions& options) {
  constexpr int kLastGoldenStage = 3;  // later stages check only texts
  const bool stored = options.target_weights == WeightFormat::kStored &&
                      options.draft_weights == WeightFormat::kStored;
  if (!options.other_drafts.empty()) fail("--check decodes with one draft: give --draft once");
  if (options.stage <= kLastGoldenStage) return;
  if (!stored) {
    fail(
        "--check: the golden texts were made with stored weights; leave out --target-weights and "
        "--draft-weights");
  }
  if (options.kv_type != KvType::kF32) {
    fail("--check: the golden texts were made with a float32 cache; leave out --kv-dtype");
  }
}

}  // namespace

int stage_main(int stage, const std::string& description, int argc, char** argv,
               const std::function<int(const RunOptions&)>& run, const Listings& listings) {
  RunOptions options;
  const CommandLine line = stage_command_line(stage, description, options, listings);
  const auto run_stage = [&] {
    if (options.generation_config) apply_generation_advice(options);
    if (!options.check) return run(options);
    refuse_other_models(options);
    const int real = check_real_model(options, run);
    return std::max(real, run(options));
  };
  return run_program(line, argc, argv, [&] { return run_with_files(line, run_stage); });
}

}  // namespace specdec
