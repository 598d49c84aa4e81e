#include "tests/benchmarks/decoding.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>

#include <unistd.h>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/stopwatch.h"
#include "common/speculation/count_round.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/programs/adaptive/measure_costs.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/measure_steps.h"
#include "tests/benchmarks/by_turns.h"
#include "tests/policy.h"

namespace specdec {
namespace {

constexpr const char* kPrompts[] = {"arithmetic-6", "dialogue-2", "code-3",      "rewriting-2",
                                    "recipes-0",    "stories-0",  "questions-1", "poems-1"};
constexpr const char* kOwnShape = "embedded";
constexpr std::string_view kInt8 = "_int8";
constexpr int kMostDrafts = 32;
constexpr double kSampleSeconds = 10;         // of the parts of a round, after a text
constexpr std::ptrdiff_t kRoundsOfATurn = 2;  // whose parts are measured, where many turns follow

std::vector<BenchmarkText> read_texts() {
  std::ifstream file(SPECDEC_GOLDEN_DIR "/goldens/target/greedy.jsonl");
  std::vector<BenchmarkText> texts;
  for (std::string line; std::getline(file, line);) {
    const auto golden = Json::parse(line);
    if (std::ranges::find(kPrompts, golden.at("id")) == std::end(kPrompts)) continue;
    texts.push_back({golden.at("kind"), golden.at("prompt_ids")});
  }
  if (texts.size() != std::size(kPrompts)) fail("the golden files lack prompts of the benchmarks");
  return texts;
}

RunOptions target_options(const BenchmarkSettings& settings, const std::string& shape) {
  RunOptions options;
  options.threads = settings.threads;
  if (shape != kOwnShape) options.inflate_target = shape;
  return options;
}

int most_positions(const BenchmarkSettings& settings) {
  std::size_t longest = 0;
  for (const BenchmarkText& text : benchmark_texts()) {
    longest = std::max(longest, text.prompt.size());
  }
  return static_cast<int>(longest) + settings.tokens + kMostDrafts;
}

std::unique_ptr<KvCache> cache_for_two(const LlamaModel& model, const RunOptions& options,
                                       int positions) {
  CacheLayout layout = cache_layout(options, positions);
  layout.pages *= 2;
  return make_cache(model, layout);
}

SpeculationOptions sampling_of(double temperature) {
  SpeculationOptions options;
  options.sampling.temperature = temperature;
  options.draft_temperature = temperature;
  return options;
}

// The last but one of those that drafted, or of all where none did. The last may be cut short.
std::vector<MadeRound> some_of(std::vector<MadeRound> rounds, std::ptrdiff_t count) {
  const auto drafted = [](const MadeRound& round) { return round.drafted > 0; };
  if (std::ranges::any_of(rounds, drafted)) std::erase_if(rounds, std::not_fn(drafted));
  if (std::ssize(rounds) > count) {
    rounds.pop_back();
    rounds.erase(rounds.begin(), rounds.end() - count);
  }
  return rounds;
}

bool failed = false;

}  // namespace

const std::vector<BenchmarkText>& benchmark_texts() {
  static const std::vector<BenchmarkText> texts = read_texts();
  return texts;
}

BenchmarkTarget::BenchmarkTarget(const BenchmarkSettings& settings_, const std::string& shape,
                                 Backend& backend)
    : settings(settings_),
      options(target_options(settings, shape)),
      files(open_model(options.target)),
      model(load_target(options, files.checkpoint, backend)),
      positions(most_positions(settings)),
      cache(cache_for_two(model, options, positions)),
      llama(model, *cache, {.token_limit = files.token_limit}) {}

GenerationRequest BenchmarkTarget::request(const BenchmarkText& text) const {
  return {.prompt = text.prompt, .max_new_tokens = settings.tokens, .max_context = positions};
}

BenchmarkModels::BenchmarkModels(const BenchmarkSettings& settings)
    : settings_(settings),
      backend_(make_backend(target_options(settings, kOwnShape))),
      sweep_(settings.threads, std::size_t{1} << 28) {}

BenchmarkTarget& BenchmarkModels::target(const std::string& shape) {
  auto& target = targets_[shape];
  if (!target) target = std::make_unique<BenchmarkTarget>(settings_, shape, *backend_);
  return *target;
}

DraftSetup& BenchmarkModels::draft(BenchmarkTarget& target, const std::string& name, int requests) {
  return *find(target, name, requests).setup;
}

CostProfile fresh_costs(RunOptions options, const BenchmarkTarget& target, DraftSetup& draft,
                        const std::string& given) {
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("specdec.benchmark.{}.json", ::getpid());
  options.cost_profile = given.empty() ? file.string() : given;
  CostProfile profile = load_or_measure_costs(options, target.files, target.model, draft);
  std::filesystem::remove(file);
  return profile;
}

const std::vector<double>& BenchmarkModels::round_costs(BenchmarkTarget& target,
                                                        const std::string& name) {
  Draft& draft = find(target, name, 1);
  if (draft.round_costs.empty()) {
    draft.round_costs =
        fresh_costs(draft.options, target, *draft.setup).round_costs(kLargestAutoSpecLength);
  }
  return draft.round_costs;
}

BenchmarkModels::Draft& BenchmarkModels::find(BenchmarkTarget& target, const std::string& name,
                                              int requests) {
  const auto key = fmt::format("{} {} {}", static_cast<const void*>(&target), name, requests);
  const auto [at, is_new] = drafts_.try_emplace(key);
  Draft& draft = at->second;
  if (is_new) {
    draft.options = target.options;
    std::string_view shape = name;
    if (shape.ends_with(kInt8)) {
      shape.remove_suffix(kInt8.size());
      draft.options.draft_weights = WeightFormat::kInt8;
    }
    if (const auto kind = find_choice<DraftKind>(shape)) {
      draft.options.draft_kind = *kind;
    } else if (shape != kOwnShape) {
      draft.options.inflate_draft = shape;
    }
    const int pages = requests * pages_for(target.positions, draft.options.draft_page_size);
    draft.setup = std::make_unique<DraftSetup>(
        draft.options, target.files, target.model,
        DraftRoom{.positions = target.positions, .requests = requests, .pages = pages},
        sampled_drafting(KeepProbs::kOnHost));
  }
  return draft;
}

Decoding::Decoding(BenchmarkTarget& target, Drafter& drafter, const GenerationRequest& request,
                   const DecodingOptions& options)
    : by_turns_(target.settings.by_turns),
      stage_(options.stage),
      timed_target_(target.llama),
      timed_drafter_(drafter),
      steps_(timed_target_, timed_drafter_,
             options.make_policy ? options.make_policy()
                                 : policy_of(options.spec_length, options.round_costs),
             target.llama.max_seq_len(),
             Drafts(options.spec_length, options.stage >= 5 ? target.llama.vocab_size() : 0)),
      generation_(request, nullptr),
      context_(request.prompt) {
  context_.reserve(context_.size() +
                   static_cast<std::size_t>(request.max_new_tokens + kMostDrafts));
  if (stage_ >= 5) judge_.emplace(steps_, dice_, sampling_of(options.temperature));
  if (stage_ == 5) sampling_.emplace(steps_, *judge_);
  steps_.prefill(context_);
  prefill_seconds_ = timed_target_.seconds();
}

Round Decoding::round() {
  if (stage_ == 4) return greedy_round(steps_, context_, generation_);
  if (stage_ == 5) return sampling_->round(context_, generation_);
  return adaptive_round(steps_, judge_->judge(), context_, generation_);
}

void Decoding::advance(int tokens) {
  while (!finished() && std::ssize(generation_.tokens()) < tokens) {
    Round round;
    {
      const Stopwatch watch(stats_.decode_seconds);
      round = this->round();
    }
    const double drafting = timed_drafter_.seconds() - stats_.draft_seconds;
    count_round(stats_, round);
    rounds_.push_back({round.start, round.drafted});
    stats_.draft_seconds = timed_drafter_.seconds();
    stats_.verify_seconds = timed_target_.seconds() - prefill_seconds_;
    stats_.draft_forwards = timed_drafter_.forwards();
    stats_.refused = timed_drafter_.refused();
    if (round.drafted > 0 && timed_drafter_.caught_up()) {
      stats_.catch_up_seconds += drafting;
      stats_.catch_up_drafted += round.drafted;
    }
  }
}

Speedup Decoding::speedup() {
  const auto choose = [&](std::span<const TokenId> context) {
    if (judge_) {
      judge_->judge().plain_choice(steps_.logits_rows(1), context);
    } else {
      argmax(steps_.target().backend(), steps_.logits(0));
    }
  };
  const Sampling drafting = judge_ ? judge_->judge().drafting() : Sampling{};
  const auto rounds = by_turns_ ? some_of(rounds_, kRoundsOfATurn) : rounds_;
  const StepTimes times = measure_steps(steps_, context_, rounds, drafting, choose, kSampleSeconds);
  return specdec::speedup(stats_, times);
}

namespace {

// Decodes a text by speculation, and plainly in turns with it. Returns what is known of the latter.
const BenchmarkModels::Plain& decode_both(BenchmarkModels& models, BenchmarkTarget& target,
                                          const BenchmarkText& text, const DecodingOptions& options,
                                          Decoding& speculative) {
  BenchmarkModels::Plain wanted = {&target, &text, options.temperature};
  if (models.settings().by_turns && models.last_plain.is_alike(wanted)) {
    speculative.advance(target.settings.tokens);
  } else {
    NoDrafter nothing;
    const GenerationRequest request = target.request(text);
    Decoding plain(target, nothing, request,
                   {.stage = options.stage, .temperature = options.temperature});
    take_turns(plain, speculative);
    wanted.tokens.assign(plain.tokens().begin(), plain.tokens().end());
    wanted.seconds = plain.stats().decode_seconds;
    models.last_plain = std::move(wanted);
  }
  if (options.temperature == 0 &&
      !std::ranges::equal(models.last_plain.tokens, speculative.tokens())) {
    fail("speculation changed the text");
  }
  return models.last_plain;
}

}  // namespace

void compare(benchmark::State& state, BenchmarkModels& models, BenchmarkTarget& target,
             const BenchmarkText& text, const DecodingOptions& options, Drafter& drafter) {
  const GenerationRequest request = target.request(text);
  std::vector<double> gains, seconds, plain_seconds, bandwidths = {models.bandwidth()};
  std::vector<Speedup> predicted;
  RunStats stats;
  for (auto _ : state) {
    Decoding speculative(target, drafter, request, options);
    plain_seconds.push_back(decode_both(models, target, text, options, speculative).seconds);
    stats = speculative.stats();
    seconds.push_back(stats.decode_seconds);
    gains.push_back(plain_seconds.back() / seconds.back());
    state.SetIterationTime(seconds.back());
    predicted.push_back(speculative.speedup());
  }
  bandwidths.push_back(models.bandwidth());
  const auto median_of = [&](double Speedup::*value) {
    std::vector<double> values;
    for (const Speedup& speedup : predicted) values.push_back(speedup.*value);
    return median(values);
  };
  const double tokens = static_cast<double>(stats.emitted), gain = median(gains);
  state.counters["tokens_per_second"] = tokens / median(seconds);
  state.counters["plain_tokens_per_second"] = tokens / median(plain_seconds);
  state.counters["gain"] = gain;
  state.counters["alpha"] = static_cast<double>(stats.accepted) /
                            static_cast<double>(std::max<std::int64_t>(stats.tested, 1));
  state.counters["emitted_per_round"] = tokens / static_cast<double>(stats.rounds);
  state.counters["mean_spec_length"] =
      static_cast<double>(stats.drafted) / static_cast<double>(stats.rounds);
  state.counters["c"] = median_of(&Speedup::c);
  state.counters["v"] = median_of(&Speedup::v);
  state.counters["predicted_formula"] = median_of(&Speedup::by_formula);
  state.counters["predicted_accounting"] = median_of(&Speedup::by_accounting);
  state.counters["gain_over_accounting"] = gain / median_of(&Speedup::by_accounting);
  state.counters["bandwidth"] = median(bandwidths);
}

int run_benchmarks(int argc, char** argv, void (*add)(BenchmarkModels& models)) {
  BenchmarkSettings settings;
  settings.by_turns = take_by_turns(argc, argv);
  settings.threads = take_number(argc, argv, "--threads", settings.threads);
  settings.tokens = std::max(1, take_number(argc, argv, "--tokens", settings.tokens));
  settings.repeats = std::max(1, take_number(argc, argv, "--repeats", settings.repeats));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  BenchmarkModels models(settings);
  benchmark::AddCustomContext("tokens", std::to_string(settings.tokens));
  benchmark::AddCustomContext("repeats", std::to_string(settings.repeats));
  add(models);
  const int code = run_registered(settings.by_turns, models.backend().name());
  benchmark::ClearRegisteredBenchmarks();  // they hold on to the models
  return failed ? 1 : code;
}

void add_benchmark(const std::string& name, int iterations,
                   const std::function<void(benchmark::State& state)>& run) {
  const auto guarded = [name, run](benchmark::State& state) {
    try {
      run(state);
    } catch (const std::exception& error) {
      failed = true;
      std::cerr << name << ": " << error.what() << '\n';
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), guarded)
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace specdec
