#pragma once
#include <string>

#include "common/generation.h"
#include "common/run_stats.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

// A run of plain decoding, from the command line: what is asked for, and what comes out. The decode
// loop fills in generation, logits and stats.
struct PlainRun {
  // Throws Error for whatever is wrong with the options and files.
  explicit PlainRun(const RunOptions& options_);
  PlainRun(const PlainRun&) = delete;  // generation refers to request and files
  PlainRun& operator=(const PlainRun&) = delete;

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  Generation generation;
  LogitsLog logits;  // that decided each token, for --dump-logits
  RunStats stats;

  // After the last token: prints and writes what the options ask for. target: of the model that
  // ran. Throws Error.
  void finish(const LlamaConfig& target, const std::string& device) const;
};

}  // namespace specdec
