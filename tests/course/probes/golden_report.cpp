// golden_report DUMP GOLDEN: holds the tensors that a stage wrote with --dump against a golden
// file, and says where they differ first, and why that may be. It runs no stage's code.
#include <exception>

#include <fmt/format.h>

#include "common/base/exit_code.h"
#include "common/embedded_models.h"
#include "stages/programs/comparator/comparator.h"

namespace specdec {
namespace {

int report(const std::filesystem::path& dump_path, const std::filesystem::path& golden_path) {
  const SafetensorsFile dump(dump_path);
  const GoldenFile golden(golden_path);
  const Checkpoint checkpoint(embedded_target());
  const ComparisonResult result = compare(golden, lookup_in(dump), {.checkpoint = &checkpoint});
  fmt::print("{}\n", result.report);
  return result.agrees() ? kGood : kCheckFailed;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "golden_report DUMP GOLDEN: two .safetensors files\n");
    return specdec::kBadInput;
  }
  try {
    return specdec::report(argv[1], argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "golden_report: {}\n", error.what());
    return specdec::kBadInput;
  }
}
