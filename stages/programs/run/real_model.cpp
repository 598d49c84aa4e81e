#include "stages/programs/run/real_model.h"

#include <filesystem>

#include <fmt/format.h>

#include "common/base/exit_code.h"
#include "common/base/streams.h"
#include "common/golden_folder.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr int kFirstStage = 2;  // stage 1 would compute every prefix again, which takes hours
constexpr std::string_view kName = "SmolLM2-135M-Instruct";

fs::path real_model() { return fs::path(SPECDEC_REAL_MODELS) / kName; }

fs::path real_goldens() { return golden_folder() / "goldens" / "smollm2"; }

}  // namespace

int check_real_model(const RunOptions& options, const std::function<int(const RunOptions&)>& run) {
  if (options.stage < kFirstStage) return kGood;
  if (options.target != embedded_target() || !options.goldens.empty()) return kGood;
  if (!options.heads.empty()) return kGood;  // which belong to one target
  if (!fs::exists(real_model() / "model.safetensors") || !fs::exists(real_goldens())) {
    fmt::print("NOT CHECKED: {}, which make real gets\n", kName);
    flush_stdout();
    return kGood;
  }
  fmt::print("{}:\n", kName);
  RunOptions real = options;
  real.target = real_model().string();
  real.goldens = real_goldens().string();
  real.draft_kind = DraftKind::kLookup;
  const int code = run(real);
  fmt::print("the embedded target:\n");
  flush_stdout();
  return code;
}

}  // namespace specdec
