#include "common/run/load_model.h"

#include <fmt/format.h>
#include <unistd.h>

namespace specdec {
namespace {

LlamaModel::Progress loading_progress() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [](int loaded, int of) {
    fmt::print(stderr, "\rloading the weights: {:3}%", 100 * loaded / of);
    if (loaded == of) fmt::print(stderr, "\r\x1b[K");
  };
}

}  // namespace

LlamaModel load_target(const RunOptions&, const Checkpoint& checkpoint, Backend& backend) {
  return LlamaModel(checkpoint, backend, loading_progress());
}

LlamaModel load_draft(const RunOptions&, const Checkpoint& checkpoint, Backend& backend) {
  return LlamaModel(checkpoint, backend, loading_progress());
}

}  // namespace specdec
