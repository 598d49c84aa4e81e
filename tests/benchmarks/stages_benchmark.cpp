// The ladder: stages 1 to 6 on the same prompts, each one and the one before it in turns. All are
// greedy and must write the same text.
//
//   stages_benchmark [--threads=N] [--tokens=N] [--repeats=N] [--by-turns]
//                    [Google Benchmark's options]
#include <algorithm>

#include "common/base/stopwatch.h"
#include "common/run_stats.h"
#include "stages/01_naive_decoder/naive_llama.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "tests/benchmarks/batch_decoding.h"

namespace specdec {
namespace {

constexpr int kLastStage = 6;
constexpr int kSpecLength = 5;
constexpr int kTokensOfStage1 = 4;  // of each text; it computes the whole text for every token

// What decoding some texts gave; prefill is outside the seconds.
struct Decoded {
  std::int64_t tokens = 0;
  double seconds = 0;

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  Decoded& operator+=(const Decoded& other) {
    tokens += other.tokens;
    seconds += other.seconds;
    return *this;
  }
};

// The decode loops of the stages' programs, without what they print.
class Stages {
 public:
  Stages(BenchmarkModels& models, const std::string& target, const std::string& draft)
      : models_(models), names_{target, draft}, target_(models.target(target)) {}

  // One text by stage 1 to 5.
  Decoded decode(int stage, const BenchmarkText& text) {
    GenerationRequest request = target_.request(text);
    if (stage == 1) request.max_new_tokens = std::min(request.max_new_tokens, kTokensOfStage1);
    Generation generation(request, nullptr);
    RunStats stats;
    if (stage == 1) {
      recompute(request, generation, stats);
    } else if (stage == 2) {
      ContiguousKvCache cache(models_.backend(), target_.model.kv_shape(), 1, request.max_context);
      Llama llama(target_.model, cache, {.token_limit = target_.files.token_limit});
      step_by_step(llama, request, generation, stats);
    } else if (stage == 3) {
      step_by_step(target_.llama, request, generation, stats);
    } else {
      return speculate(stage, request, text.kind);
    }
    return checked(text.kind, generation.tokens(), stats);
  }

  // All texts at once by stage 6.
  Decoded decode_batch() {
    if (!batch_) {
      batch_.emplace(models_, names_.first, names_.second,
                     static_cast<int>(benchmark_texts().size()), kSpecLength);
    }
    const BatchRun run = batch_->run(benchmark_texts(), kSpecLength);
    return {run.all.emitted, run.all.seconds};
  }

 private:
  void recompute(const GenerationRequest& request, Generation& generation, RunStats& stats) {
    if (!naive_) naive_.emplace(target_.files.checkpoint);
    std::vector<TokenId> context = request.prompt;
    while (!generation.finished()) {
      const Stopwatch watch(stats.decode_seconds);
      const std::vector<float> logits = naive_->next_token_logits(context);
      const auto row = std::span(logits).first(static_cast<std::size_t>(target_.files.token_limit));
      context.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
      generation.push(context.back());
    }
  }

  void step_by_step(Llama& llama, const GenerationRequest& request, Generation& generation,
                    RunStats& stats) {
    std::vector<TokenId> context = request.prompt;
    const LogitsBuffer logits(llama, 1);
    const SequenceId sequence = llama.create();
    llama.forward(Segment{sequence, std::span(context).first(context.size() - 1), 0}, {});
    while (!generation.finished()) {
      const Stopwatch watch(stats.decode_seconds);
      llama.forward(Segment{sequence, uncached(llama, sequence, context), 1}, logits.rows(0, 1));
      context.push_back(argmax(llama.backend(), logits.rows(0, 1)));
      generation.push(context.back());
    }
    llama.release(sequence);
  }

  Decoded speculate(int stage, const GenerationRequest& request, const std::string& kind) {
    Drafter& drafter = models_.draft(target_, names_.second).drafter();
    Decoding decoding(target_, drafter, request, {.stage = stage, .spec_length = kSpecLength});
    decoding.advance(request.max_new_tokens);
    return checked(kind, decoding.tokens(), decoding.stats());
  }

  Decoded checked(const std::string& kind, std::span<const TokenId> tokens, const RunStats& stats) {
    std::vector<TokenId>& text = texts_[kind];
    const auto same = std::min(text.size(), tokens.size());
    if (!std::ranges::equal(std::span(text).first(same), tokens.first(same))) {
      fail("{}: stages differ", kind);
    }
    if (text.size() < tokens.size()) text.assign(tokens.begin(), tokens.end());
    return {std::ssize(tokens), stats.decode_seconds};
  }

  BenchmarkModels& models_;
  std::pair<std::string, std::string> names_;
  BenchmarkTarget& target_;
  std::optional<NaiveLlama> naive_;
  std::optional<BatchDecoding> batch_;
  std::map<std::string, std::vector<TokenId>> texts_;  // by kind: the longest that a stage wrote
};

// Counters: tokens_per_second, over all texts; gain over the stage before (the median over the
// repeats); bandwidth of a read sweep.
void climb(benchmark::State& state, BenchmarkModels& models, Stages& stages, int stage,
           int before) {
  std::vector<double> rates, gains, bandwidths;
  for (auto _ : state) {
    bandwidths.push_back(models.bandwidth());
    Decoded first, second;
    for (const BenchmarkText& text : benchmark_texts()) {
      if (before > 0) first += stages.decode(before, text);
      if (stage < kLastStage) second += stages.decode(stage, text);
    }
    if (stage == kLastStage) second = stages.decode_batch();
    state.SetIterationTime(second.seconds);
    rates.push_back(second.tokens_per_second());
    if (before > 0) gains.push_back(second.tokens_per_second() / first.tokens_per_second());
  }
  state.counters["tokens_per_second"] = median(rates);
  if (before > 0) state.counters["gain"] = median(gains);
  state.counters["bandwidth"] = median(bandwidths);
}

// first: the lowest stage; stage 1 takes minutes for what is no toy.
void add_ladder(BenchmarkModels& models, const std::string& target, const std::string& draft,
                int first) {
  const auto stages = std::make_shared<std::optional<Stages>>();
  for (int stage = first; stage <= kLastStage; stage++) {
    const int repeats = stage <= 2 && first == 1 ? 1 : models.settings().repeats;
    add_benchmark(fmt::format("stages/target:{}/draft:{}/stage:{}", target, draft, stage), repeats,
                  [&models, stages, target, draft, first, stage](benchmark::State& state) {
                    if (!*stages) stages->emplace(models, target, draft);
                    climb(state, models, **stages, stage, stage == first ? 0 : stage - 1);
                  });
  }
}

void add_all(BenchmarkModels& models) {
  add_ladder(models, "embedded", "embedded", 1);
  add_ladder(models, "134m", "14m", 2);
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) { return specdec::run_benchmarks(argc, argv, specdec::add_all); }
