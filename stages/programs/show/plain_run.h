#pragma once
#include <string>

#include "common/generation.h"
#include "common/run_stats.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/show/report.h"

namespace specdec {

// A run of plain decoding from the command line: the request and its results. The decode loop fills
// in generation, logits and stats.
struct PlainRun {
  // Throws Error if something is wrong with the options or files.
  explicit PlainRun(const RunOptions& options_);
  PlainRun(const PlainRun&) = delete;  // generation refers to request and files
  PlainRun& operator=(const PlainRun&) = delete;

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  Generation generation;
  LogitsLog logits;  // the logits that decided each token, for --dump-logits
  RunStats stats;

  // Prints the part of the text that is new since the last call.
  void show_text() { stream_.show_new(generation); }

  // Call after the last token. Prints and writes the outputs that the options ask for. target: the
  // config of the model that ran. Throws Error.
  void finish(const LlamaConfig& target, const std::string& device) const;

 private:
  TextStream stream_;
};

}  // namespace specdec
