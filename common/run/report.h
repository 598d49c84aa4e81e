#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/llama.h"
#include "common/run/generation.h"
#include "common/run/options.h"

namespace specdec {

struct ReportExtras;

// What a run did. Counts are exact and the same on every machine; seconds are not.
struct RunStats {
  // Of the decode loop. `rounds` counts rounds of speculation; plain decoding has none.
  std::int64_t rounds = 0;
  std::int64_t target_forwards = 0;
  std::int64_t draft_forwards = 0;
  std::int64_t drafted = 0;
  std::int64_t tested = 0;
  std::int64_t accepted = 0;
  std::int64_t emitted = 0;                     // tokens
  std::int64_t all_drafted = 0;                 // drafted, and what a stop made worthless
  std::int64_t drafted_rounds = 0;              // rounds that drafted anything
  std::vector<std::int64_t> rounds_by_drafted;  // [K + 1] rounds that drafted 0, 1, ... tokens
  double sum_round_acceptance = 0;              // over those that did, of accepted / K
  double sum_overlap = 0;                       // over the tested drafts, of sum min(p, q)
  // [the longest round's K] rounds that accepted, drafted, more than i tokens.
  std::vector<std::int64_t> accepted_at, drafted_at;

  std::int64_t target_rows = 0;          // tokens that the target computed, the prompt's included
  std::int64_t target_weight_bytes = 0;  // read by the target's matrix products
  std::int64_t cache_bytes = 0;          // of the target's cache, 0: it has none
  double prefill_seconds = 0;
  double decode_seconds = 0;
  // Of them, in speculation.
  double draft_seconds = 0;
  double catch_up_seconds = 0;        // in rounds where a draft model lagged behind the text:
  std::int64_t catch_up_drafted = 0;  // the first one, with its prefill, and after plain steps
  double verify_seconds = 0;

  double tokens_per_second() const {
    return decode_seconds > 0 ? static_cast<double>(emitted) / decode_seconds : 0;
  }
};

// Adds what the target counted.
void count_target(RunStats& stats, const LlamaCounters& counters);

// The "stats" object of --output json. Ratios with nothing below the line are null.
nlohmann::json to_json(const RunStats& stats);

// A "model" object: a shape.
nlohmann::json to_json(const LlamaConfig& config, const std::string& directory);

// The "model" object of a run: the target's shape, how its weights are kept, and to which shape it
// was inflated, if it was.
nlohmann::json target_json(const LlamaConfig& config, const RunOptions& options);

// For people: "; the target is inflated to 134m, the draft to 14m", or as much of it as is true.
std::string inflation_note(const RunOptions& options);

// Prints and writes what the options ask for, after the last token: the JSON object, the report
// file, the summary on stderr. target: of the model that ran. extras: what the stage adds (see
// report_extras.h). Throws Error.
void report(const RunOptions& options, const Request& request, const LlamaConfig& target,
            const Generation& generation, const RunStats& stats, const std::string& device);
void report(const RunOptions& options, const Request& request, const LlamaConfig& target,
            const Generation& generation, const RunStats& stats, const std::string& device,
            const ReportExtras& extras);

// Streams text to stdout as it comes, unless the output is JSON.
Generation::Sink text_sink(const RunOptions& options);

// Adds the seconds of its life to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace specdec
