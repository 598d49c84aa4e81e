#include "stages/programs/show/plain_run.h"

namespace specdec {

PlainRun::PlainRun(const RunOptions& options_)
    : options(options_),
      files(open_model(options.target)),
      request(read_request(files, options)),
      generation(request, files.tokenizer_or_null()),
      logits(options.dump_logits),
      stream_(options) {}

void PlainRun::finish(const LlamaConfig& target, const std::string& device) const {
  logits.write();
  report({.options = options,
          .files = files,
          .request = request,
          .target = target,
          .generation = generation,
          .stats = stats,
          .device = device});
}

}  // namespace specdec
