#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <benchmark/benchmark.h>

#include "common/llama.h"
#include "common/run_stats.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/run/request.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/speedup.h"
#include "stages/programs/speculation/timed_models.h"
#include "tests/benchmarks/steady_samples.h"

namespace specdec {

// What the benchmarks of stages, speculation and batches share: texts, models, and decode loops
// that take turns, so that what is divided by each other was measured within a moment.

struct BenchmarkSettings {
  int threads = 0;        // 0: all cores
  int tokens = 64;        // that each text is continued by, end-of-text tokens or not
  int repeats = 3;        // pairs of measurements; the median of their ratios is reported
  bool by_turns = false;  // each benchmark comes again in every round (by_turns.h)
};

// A prompt of a text kind.
struct BenchmarkText {
  std::string kind;
  std::vector<TokenId> prompt;
};

// One of each text kind that the embedded pair was trained on, from the golden files.
const std::vector<BenchmarkText>& benchmark_texts();

// The target in a shape ("embedded": its own), with a paged cache for two texts side by side.
class BenchmarkTarget {
 public:
  BenchmarkTarget(const BenchmarkSettings& settings, const std::string& shape, Backend& backend);

  GenerationRequest request(const BenchmarkText& text) const;

  const BenchmarkSettings settings;
  const RunOptions options;
  const ModelFiles files;
  const LlamaModel model;
  const int positions;  // that the longest text takes, drafts included
  const std::unique_ptr<KvCache> cache;
  Llama llama;
};

// What passes and drafts cost, measured now and not taken from what an older build has left; or
// what the file `given` says.
CostProfile fresh_costs(RunOptions options, const BenchmarkTarget& target, DraftSetup& draft,
                        const std::string& given = {});

// Models by name, loaded when they are first asked for and kept until the program ends.
class BenchmarkModels {
 public:
  explicit BenchmarkModels(const BenchmarkSettings& settings);

  BenchmarkTarget& target(const std::string& shape);
  // draft: a drafter's kind (self, bigram, lookup, ...), or the draft model's shape; "_int8" behind
  // it for weights of eight bits. requests: that it drafts for at a time.
  DraftSetup& draft(BenchmarkTarget& target, const std::string& draft, int requests = 1);

  // What rounds of 0, 1, ... drafts cost, in plain steps; measured when it is first asked for.
  const std::vector<double>& round_costs(BenchmarkTarget& target, const std::string& draft);

  const BenchmarkSettings& settings() const { return settings_; }
  Backend& backend() { return *backend_; }
  double bandwidth() { return sweep_.bytes_per_second(); }  // bytes/s, at this moment

  // What was decoded plainly, and the text that came out.
  struct Plain {
    const BenchmarkTarget* target = nullptr;
    const BenchmarkText* text = nullptr;
    double temperature = 0;
    std::vector<TokenId> tokens = {};
    double seconds = 0;

    bool is_alike(const Plain& other) const {
      return std::tie(target, text, temperature) ==
             std::tie(other.target, other.text, other.temperature);
    }
  };
  Plain last_plain;  // by turns, settings of one text in a row are held against the same decoding

 private:
  struct Draft {
    RunOptions options;
    std::unique_ptr<DraftSetup> setup;
    std::vector<double> round_costs = {};
  };

  Draft& find(BenchmarkTarget& target, const std::string& draft, int requests);

  BenchmarkSettings settings_;
  std::unique_ptr<Backend> backend_;
  ReadSweep sweep_;
  std::map<std::string, std::unique_ptr<BenchmarkTarget>> targets_;
  std::map<std::string, Draft> drafts_;
};

// How a text is decoded: by stage 4, which is greedy, by stage 5 or by stage 7.
struct DecodingOptions {
  int stage = 4;
  int spec_length = 0;  // K; 0: plainly
  double temperature = 0;
  std::vector<double> round_costs = {};  // K adapts, by these; empty: it does not
  // K of each round, at most spec_length; none: as above.
  std::function<std::unique_ptr<SpecLengthPolicy>()> make_policy = {};
};

// A text on its way. Its clock runs while advance() does.
class Decoding {
 public:
  // Computes the prompt. The draft computes it in the first round, as it does in the programs.
  // REQUIRES: all but the options outlive this object.
  Decoding(BenchmarkTarget& target, Drafter& drafter, const GenerationRequest& request,
           const DecodingOptions& options);

  // Rounds until the text has so many tokens, or all that were asked for.
  void advance(int tokens);
  bool finished() const { return generation_.finished(); }

  std::span<const TokenId> tokens() const { return generation_.tokens(); }
  const RunStats& stats() const { return stats_; }
  // What the programs print at the end. Cuts the caches, so it comes last.
  Speedup speedup();

 private:
  Round round();

  const bool by_turns_;
  const int stage_;
  TimedModel timed_target_;
  TimedDrafter timed_drafter_;
  double prefill_seconds_ = 0;
  DraftAndVerify steps_;
  Dice dice_{1};
  std::optional<JudgeSetup> judge_;
  std::optional<RejectionSampling> sampling_;  // of stage 5
  Generation generation_;
  std::vector<TokenId> context_;
  RunStats stats_;
  std::vector<MadeRound> rounds_;
};

// Two decodings of one text, a few tokens of the one, then of the other.
template <typename One, typename Other>
void take_turns(One& one, Other& other) {
  constexpr int kTurn = 4;  // tokens
  for (int tokens = kTurn; !one.finished() || !other.finished(); tokens += kTurn) {
    one.advance(tokens);
    other.advance(tokens);
  }
}

// Decodes a text plainly and by speculation, in turns, as often as the state asks for. Counters:
//   tokens_per_second, plain_tokens_per_second
//   gain: plain seconds over speculative ones, the median over the repeats
//   mean_spec_length: of K
//   alpha, emitted_per_round: counts, the same on every machine
//   c, v, predicted_formula, predicted_accounting: as the programs print them, medians
//   gain_over_accounting: near 1, or the accounting forgets something
//   bandwidth: of a read sweep, before and after
// By turns, a text that was decoded plainly just before is not again; c and v come of two rounds.
void compare(benchmark::State& state, BenchmarkModels& models, BenchmarkTarget& target,
             const BenchmarkText& text, const DecodingOptions& options, Drafter& drafter);

// Runs the benchmarks that `add` registers, under Google Benchmark's options and those of the
// settings, --threads=N --tokens=N --repeats=N. Returns the exit code: 1 where a benchmark failed.
int run_benchmarks(int argc, char** argv, void (*add)(BenchmarkModels& models));

// Registers a benchmark whose iterations set their time themselves. One that throws has failed,
// with the message.
void add_benchmark(const std::string& name, int iterations,
                   const std::function<void(benchmark::State& state)>& run);

}  // namespace specdec
