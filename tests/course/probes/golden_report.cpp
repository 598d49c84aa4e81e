// golden_report DUMP GOLDEN: holds the tensors that a stage wrote with --dump against a golden
// file, and says where they differ first, and why that may be. It runs no stage's code.
#include "common/base/program.h"
#include "common/embedded_models.h"
#include "common/golden/comparator.h"

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
  CLI::App app("Where a dump differs first from a golden file of the embedded target.",
               "golden_report");
  std::filesystem::path dump, golden;
  app.add_option("DUMP", dump, "what a stage wrote with --dump")->required();
  app.add_option("GOLDEN", golden, "a .safetensors file of golden/goldens/target")->required();
  return specdec::run_program(app, argc, argv, [&] { return specdec::report(dump, golden); });
}
