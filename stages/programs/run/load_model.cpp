#include "stages/programs/run/load_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/streams.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"

namespace specdec {
namespace {

LlamaModel::Progress show_progress(const std::string& what) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [what](int loaded, int of) {
    say("\r{}: {:3}%", what, 100 * loaded / of);
    if (loaded == of) say("\r\x1b[K");
  };
}

// How to load a model.
struct Wanted {
  std::string_view name;     // "target"
  const std::string& shape;  // of --inflate-NAME, or empty
  WeightFormat weights;
};

// Bytes of an element as the checkpoint stores it.
double stored_bytes(const Checkpoint& checkpoint, WeightKind kind, int layer) {
  const TensorView view = checkpoint.weight(kind, layer).view;
  return static_cast<double>(view.bytes.size()) / static_cast<double>(view.elements());
}

// The bytes of all matrices in this format, without padding.
double weight_bytes(const Checkpoint& checkpoint, const LlamaConfig& c, WeightFormat format) {
  const double heads = c.n_heads + 2.0 * c.n_kv_heads;
  const double layer = (heads + c.n_heads) * c.head_dim * c.d_model + 3.0 * c.d_ff * c.d_model;
  const double head = (c.tied_head ? 1.0 : 2.0) * c.vocab_size * c.d_model;
  if (format == WeightFormat::kStored) {
    return stored_bytes(checkpoint, WeightKind::kEmbedding, -1) * head +
           stored_bytes(checkpoint, WeightKind::kQProj, 0) * c.n_layers * layer;
  }
  return head + c.n_layers * layer * (format == WeightFormat::kQ4 ? 20.0 / kGroupElements : 1);
}

LlamaModel load_as(const Checkpoint& checkpoint, const LlamaConfig& config, const Wanted& wanted,
                   WeightFormat format, int threads, Backend& backend) {
  if (wanted.shape.empty()) {
    return LlamaModel(checkpoint, backend, show_progress("loading the weights"), format);
  }
  return LlamaModel(InflatedWeights(checkpoint, config, threads), backend,
                    show_progress(fmt::format("inflating the {} to {}", wanted.name, wanted.shape)),
                    format);
}

// A file's groups are computed with as they are, or not at all.
void check_groups(const Checkpoint& checkpoint, const Wanted& wanted) {
  if (!checkpoint.has_groups()) return;
  const std::string what =
      fmt::format("{}: keeps the groups of a GGUF file", checkpoint.directory().string());
  const std::string instead = "the model of make real without WEIGHTS=kept";
  if (wanted.weights != WeightFormat::kStored) {
    fail("{}, which are not rounded again: leave out --{}-weights, or use {}", what, wanted.name,
         instead);
  }
  if (!wanted.shape.empty()) fail("{}, which cannot be inflated: use {}", what, instead);
}

LlamaModel load(const Checkpoint& checkpoint, const Wanted& wanted, int threads, Backend& backend) {
  check_groups(checkpoint, wanted);
  const WeightFormat format = wanted.weights;
  const LlamaConfig config =
      wanted.shape.empty()
          ? checkpoint.config()
          : inflated_config(checkpoint.config(), wanted.shape,
                            fmt::format("--inflate-{} {}", wanted.name, wanted.shape));
  try {
    return load_as(checkpoint, config, wanted, format, threads, backend);
  } catch (const std::bad_alloc& error) {
    fail("the {}'s weights need {}, but {}; {}", wanted.name,
         readable_bytes(weight_bytes(checkpoint, config, format)), memory_left(error),
         format == WeightFormat::kQ4
             ? "use a smaller model"
             : fmt::format("--{}-weights {} needs less, or use a smaller model", wanted.name,
                           name_of(WeightFormat::kQ4)));
  }
}

}  // namespace

LlamaModel load_target(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  return load(checkpoint, {"target", options.inflate_target, options.target_weights},
              options.threads, backend);
}

LlamaModel load_draft(const RunOptions& options, const Checkpoint& checkpoint, Backend& backend) {
  return load(checkpoint, {"draft", options.inflate_draft, options.draft_weights}, options.threads,
              backend);
}

}  // namespace specdec
