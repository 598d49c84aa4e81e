// What speculation buys, beside what formulas say: sweeps of K, of drafts, of temperatures and of
// text kinds, and of an acceptance rate that is made up. Plain and speculative decoding of a text
// take turns of a few tokens, so that a machine that slows down slows both.
//
//   speculation_benchmark [--threads=N] [--tokens=N] [--repeats=N] [--by-turns]
//                         [Google Benchmark's options]
#include "common/run_stats.h"
#include "tests/benchmarks/decoding.h"
#include "tests/scripted_drafter.h"

namespace specdec {
namespace {

constexpr int kAuto = -1;  // K adapts

struct Setting {
  std::string target, draft;  // as BenchmarkModels has them
  double temperature = 0;
  int spec_length = 0;  // K
  const BenchmarkText* text = nullptr;
};

void compare(benchmark::State& state, BenchmarkModels& models, const Setting& setting,
             Drafter& drafter) {
  BenchmarkTarget& target = models.target(setting.target);
  DecodingOptions options = {.stage = setting.temperature > 0 ? 5 : 4,
                             .spec_length = setting.spec_length,
                             .temperature = setting.temperature};
  if (setting.spec_length == kAuto) {
    options.spec_length = kLargestAutoSpecLength;
    options.round_costs = models.round_costs(target, setting.draft);
  }
  compare(state, models, target, *setting.text, options, drafter);
}

void add_speculation(BenchmarkModels& models, const Setting& setting) {
  const std::string name =
      fmt::format("speculation/target:{}/draft:{}/T:{}/K:{}/text:{}", setting.target, setting.draft,
                  setting.temperature,
                  setting.spec_length == kAuto ? "auto" : std::to_string(setting.spec_length),
                  setting.text->kind);
  add_benchmark(name, models.settings().repeats, [&models, setting](benchmark::State& state) {
    DraftSetup& draft = models.draft(models.target(setting.target), setting.draft);
    compare(state, models, setting, draft.drafter());
  });
}

// Synthetic: drafts at a real drafter's cost, but proposes tokens that are right with a chosen
// probability and otherwise certainly wrong. Greedy, one text at a time.
class CostlySyntheticDrafter final : public SyntheticDrafter {
 public:
  CostlySyntheticDrafter(Drafter& drafter, std::vector<TokenId> text, double alpha, int vocab_size)
      : SyntheticDrafter(std::move(text), alpha, 1, vocab_size), drafter_(drafter) {}

  SequenceId create() override {
    sequence_ = drafter_.create();
    return SyntheticDrafter::create();
  }
  void release(SequenceId sequence) override {
    drafter_.release(sequence_);
    SyntheticDrafter::release(sequence);
  }
  void draft(std::span<const DraftRequest> requests) override {
    DraftRequest request = requests.front();
    request.sequence = sequence_;
    drafter_.draft(std::span(&request, 1));
    SyntheticDrafter::draft(requests);  // in place of what the drafter proposed
  }
  void truncate(SequenceId sequence, int length) override {
    drafter_.truncate(sequence_, length);
    SyntheticDrafter::truncate(sequence, length);
  }
  std::int64_t forwards() const override { return drafter_.forwards(); }

 private:
  Drafter& drafter_;
  SequenceId sequence_ = 0;  // of the drafter
};

// The prompt and what the target writes after it, far enough for the drafts of the last round.
std::vector<TokenId> greedy_text(BenchmarkTarget& target, GenerationRequest request) {
  request.max_new_tokens += kSpecLengths.highest + 1;
  NoDrafter nothing;
  Decoding plain(target, nothing, request, {});
  plain.advance(request.max_new_tokens);
  std::vector<TokenId> text = request.prompt;
  text.insert(text.end(), plain.tokens().begin(), plain.tokens().end());
  return text;
}

void add_synthetic(BenchmarkModels& models, const Setting& setting, double alpha) {
  const std::string name =
      fmt::format("synthetic/target:{}/draft:{}/asked:{}/K:{}/text:{}", setting.target,
                  setting.draft, alpha, setting.spec_length, setting.text->kind);
  add_benchmark(name, models.settings().repeats,
                [&models, setting, alpha](benchmark::State& state) {
                  BenchmarkTarget& target = models.target(setting.target);
                  CostlySyntheticDrafter drafter(models.draft(target, setting.draft).drafter(),
                                                 greedy_text(target, target.request(*setting.text)),
                                                 alpha, target.files.token_limit);
                  compare(state, models, setting, drafter);
                });
}

struct Sweep {
  std::string target, draft;
  std::vector<double> temperatures;
  std::vector<int> spec_lengths;  // K
};

void add_all(BenchmarkModels& models) {
  const std::vector<int> all_K = {1, 2, 3, 4, 5, 6, 8, kAuto}, some_K = {1, 3, 5};
  const std::vector<Sweep> sweeps = {
      {"134m", "14m", {0, 0.5, 1}, all_K}, {"134m", "embedded", {0, 1}, all_K},
      {"134m", "14m_int8", {0}, some_K},   {"134m", "self_int8", {0}, some_K},
      {"134m", "bigram", {0, 1}, some_K},  {"134m", "lookup", {0, 1}, some_K},
      {"134m", "self", {0}, some_K},       {"embedded", "embedded", {0, 1}, all_K},
      {"embedded", "bigram", {0}, some_K}, {"embedded", "lookup", {0}, some_K},
  };
  for (const Sweep& sweep : sweeps) {
    for (const double temperature : sweep.temperatures) {
      for (const int K : sweep.spec_lengths) {
        for (const BenchmarkText& text : benchmark_texts()) {
          add_speculation(models, {sweep.target, sweep.draft, temperature, K, &text});
        }
      }
    }
  }
  const BenchmarkText& stories =
      *std::ranges::find(benchmark_texts(), "stories", &BenchmarkText::kind);
  for (const auto& [target, draft] :
       {std::pair("134m", "14m"), std::pair("embedded", "embedded")}) {
    for (const double alpha : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
      for (const int K : some_K) add_synthetic(models, {target, draft, 0, K, &stories}, alpha);
    }
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) { return specdec::run_benchmarks(argc, argv, specdec::add_all); }
