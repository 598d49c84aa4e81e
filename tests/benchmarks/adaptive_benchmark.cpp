// What stage 7's ways to choose K and to draft gain by the clock, beside what an accounting says:
// each text is decoded plainly and in one of the ways, in turns, greedily.
//
//   adaptive_benchmark [--cost-profile=FILE] [--threads=N] [--tokens=N] [--repeats=N]
//                      [Google Benchmark's options]
//
// FILE: the costs by which K is chosen, so that rounds are the same in every run; without it they
// are measured for each way.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/benchmarks/decoding.h"

namespace specdec {
namespace {

std::string cost_profile;  // --cost-profile

// A name of docs/07_adaptive_drafting/, and its options.
struct Way {
  const char* name;
  DraftLength length = DraftLength::kGain;
  int spec_length = 0;  // K of a fixed length
  std::string fallback = {};
  std::vector<std::string> draft_of_draft = {};
  DraftKind kind = DraftKind::kLlama;
};

const Way kWays[] = {
    {"fixed 1", DraftLength::kFixed, 1},
    {"fixed 2", DraftLength::kFixed, 2},
    {"fixed 3", DraftLength::kFixed, 3},
    {"fixed 5", DraftLength::kFixed, 5},
    {"gain"},
    {"entropy", DraftLength::kEntropy},
    {"confidence", DraftLength::kConfidence},
    {"schedule", DraftLength::kSchedule},
    {.name = "lookup", .kind = DraftKind::kLookup},
    {.name = "ngram", .kind = DraftKind::kNgram},
    {.name = "lookup, else model", .fallback = "lookup,llama"},
    {.name = "lookup below", .draft_of_draft = {"lookup"}},
    {.name = "bigram below", .draft_of_draft = {"bigram"}},
    {"fixed 3, bigram below", DraftLength::kFixed, 3, "", {"bigram"}},
    {.name = "lookup, else model with bigram below",
     .fallback = "lookup,llama",
     .draft_of_draft = {"bigram"}},
};

// Shapes.
struct Pair {
  const char* target;
  const char* draft;
};
constexpr Pair kPairs[] = {{"134m", "14m"}, {"3b", "1b"}};

RunOptions options_of(const Way& way, const BenchmarkTarget& target, const std::string& draft) {
  RunOptions options = target.options;
  options.stage = 7;
  options.inflate_draft = draft;
  options.draft_length = way.length;
  options.fallback = way.fallback;
  options.draft_of_draft = way.draft_of_draft;
  options.draft_kind = way.kind;
  if (way.kind != DraftKind::kLlama) options.inflate_draft.clear();
  return with_base_kind(std::move(options));
}

// A draft in one of the ways, and the policy that goes with it.
class WayToDraft {
 public:
  WayToDraft(const Way& way, BenchmarkTarget& target, const std::string& draft)
      : way_(way),
        options_(options_of(way, target, draft)),
        base_(options_, target.files, target.model, room(target),
              adaptive_drafting(KeepProbs::kOnHost, asks_the_draft(way.length))),
        drafter_(compose_drafter(composition(options_), base_, room(target))) {
    if (way.length == DraftLength::kFixed) return;
    profile_ = fresh_costs(options_, target, base_, cost_profile);
  }

  Drafter& drafter() { return *drafter_; }
  DecodingOptions decoding() const {
    if (!profile_) return {.stage = 7, .spec_length = way_.spec_length};
    return {.stage = 7, .spec_length = kLargestAutoSpecLength, .make_policy = [this] {
              return make_policy(options_, kLargestAutoSpecLength, *profile_);
            }};
  }

 private:
  static DraftRoom room(const BenchmarkTarget& target) { return {.positions = target.positions}; }

  const Way& way_;
  RunOptions options_;
  DraftSetup base_;
  std::shared_ptr<Drafter> drafter_;
  std::optional<CostProfile> profile_;  // none: K is fixed
};

void add_all(BenchmarkModels& models) {
  // The last one, kept for the texts that follow; one draft is in memory at a time.
  struct Made {
    std::pair<const Pair*, const Way*> of = {};
    std::unique_ptr<WayToDraft> way;
  };
  const auto made = std::make_shared<Made>();
  for (const Pair& pair : kPairs) {
    for (const Way& way : kWays) {
      for (const BenchmarkText& text : benchmark_texts()) {
        const auto run = [&models, &way, &text, &pair, made](benchmark::State& state) {
          BenchmarkTarget& target = models.target(pair.target);
          if (made->of != std::pair(&pair, &way)) {
            made->way.reset();
            made->way = std::make_unique<WayToDraft>(way, target, pair.draft);
            made->of = {&pair, &way};
          }
          compare(state, models, target, text, made->way->decoding(), made->way->drafter());
        };
        add_benchmark(
            fmt::format("adaptive/target:{}/way:{}/text:{}", pair.target, way.name, text.kind),
            models.settings().repeats, run);
      }
    }
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  static constexpr std::string_view kName = "--cost-profile=";
  const auto given = std::find_if(
      argv + 1, argv + argc, [](std::string_view argument) { return argument.starts_with(kName); });
  if (given != argv + argc) {
    specdec::cost_profile = std::string_view(*given).substr(kName.size());
    std::copy(given + 1, argv + argc, given);
    argc--;
  }
  return specdec::run_benchmarks(argc, argv, specdec::add_all);
}
