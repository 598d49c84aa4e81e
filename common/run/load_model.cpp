#include "common/run/load_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"

namespace specdec {
namespace {

LlamaModel::Progress show_progress(const std::string& what) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [what](int loaded, int of) {
    fmt::print(stderr, "\r{}: {:3}%", what, 100 * loaded / of);
    if (loaded == of) fmt::print(stderr, "\r\x1b[K");
  };
}

// How a model is to be loaded.
struct Wanted {
  std::string_view name;     // "target"
  const std::string& shape;  // empty, or what --inflate-NAME says
  const std::string& weights;
};

LlamaModel load(const Checkpoint& checkpoint, const Wanted& wanted, int threads, Backend& backend) {
  const auto format = wanted.weights == "int8" ? WeightFormat::kInt8 : WeightFormat::kStored;
  if (wanted.shape.empty()) {
    return LlamaModel(checkpoint, backend, show_progress("loading the weights"), format);
  }
  const LlamaConfig config = inflated_config(
      checkpoint.config(), wanted.shape, fmt::format("--inflate-{} {}", wanted.name, wanted.shape));
  return LlamaModel(InflatedWeights(checkpoint, config, threads), backend,
                    show_progress(fmt::format("inflating the {} to {}", wanted.name, wanted.shape)),
                    format);
}

}  // namespace

LlamaModel load_target(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  if (options.check && (options.target_weights != "stored" || options.draft_weights != "stored")) {
    fail(
        "--check: the golden files are of stored weights; leave out --target-weights and "
        "--draft-weights");
  }
  return load(checkpoint, {"target", options.inflate_target, options.target_weights},
              options.threads, backend);
}

LlamaModel load_draft(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  return load(checkpoint, {"draft", options.inflate_draft, options.draft_weights}, options.threads,
              backend);
}

}  // namespace specdec
