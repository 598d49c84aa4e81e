#include "common/run/load_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/error.h"

namespace specdec {
namespace {

LlamaModel::Progress loading_progress() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [](int loaded, int of) {
    fmt::print(stderr, "\rloading the weights: {:3}%", 100 * loaded / of);
    if (loaded == of) fmt::print(stderr, "\r\x1b[K");
  };
}

WeightFormat format_of(const std::string& name) {
  return name == "int8" ? WeightFormat::kInt8 : WeightFormat::kStored;
}

}  // namespace

LlamaModel load_target(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  if (options.check && (options.target_weights != "stored" || options.draft_weights != "stored")) {
    fail(
        "--check: the golden files are of stored weights; leave out --target-weights and "
        "--draft-weights");
  }
  return LlamaModel(checkpoint, backend, loading_progress(), format_of(options.target_weights));
}

LlamaModel load_draft(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  return LlamaModel(checkpoint, backend, loading_progress(), format_of(options.draft_weights));
}

}  // namespace specdec
