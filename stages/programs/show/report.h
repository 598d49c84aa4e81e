#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/show/report_extras.h"

namespace specdec {

// A quotient; NaN where there is nothing to divide by.
double share(double part, double of);

// For JSON and for people: what is absent or not finite is null, or "unknown".
Json number_or_null(std::optional<double> value);
std::string number_or_unknown(double value, int digits = 2, std::string_view unit = "");

// Adds the target's counters to the statistics.
void count_target(RunStats& stats, const LlamaCounters& counters);

// The "stats" object of --output json. Ratios whose denominator is 0 are null.
Json to_json(const RunStats& stats);

// The "model" object for a model of this shape.
Json to_json(const LlamaConfig& config, const std::string& directory,
             KvType kv_type = KvType::kF32);

// The "model" object of a run: the target's shape, the format of its weights and, if it was
// inflated, to which shape.
Json target_json(const LlamaConfig& config, const RunOptions& options);

// For the summary: "; the target is inflated to 134m, the draft to 14m", or only one of the two, or
// "".
std::string inflation_note(const RunOptions& options);

// A finished run.
struct FinishedRun {
  const RunOptions& options;
  const ModelFiles& files;
  const GenerationRequest& request;
  const LlamaConfig& target;  // of the model that ran
  const Generation& generation;
  const RunStats& stats;
  std::string device;
  ReportExtras extras = {};  // the stage's own part of the report
};

// Prints and writes the outputs that the options ask for: the JSON object, the report file, the
// summary on stderr. Throws Error.
void report(const FinishedRun& run);

// Streams a text to stdout, unless the output is JSON.
class TextStream {
 public:
  explicit TextStream(const RunOptions& options) : shown_(options.output == OutputFormat::kText) {}
  bool is_shown() const { return shown_; }
  void show_new(const Generation& generation);  // since the last call

 private:
  bool shown_;
  std::size_t bytes_ = 0;  // of the text, so far
};

}  // namespace specdec
