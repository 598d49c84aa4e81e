// From a row of logits to a distribution and a token: probabilities() and sample(), beside the same
// one number at a time: std::exp, and an order of ids for the filters. Both run in every sample, so
// that what the machine does otherwise slows both.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "common/sampling/distribution.h"
#include "kernels/cpu/vector.h"
#include "tests/benchmarks/steady_samples.h"

namespace specdec {
namespace {

// What it is held against. Allocates nothing in a call, as the other.
class OneByOne {
 public:
  explicit OneByOne(std::size_t vocab_size) : scores_(vocab_size), ids_(vocab_size) {}

  void probabilities(const std::vector<float>& logits, const SamplingOptions& options,
                     std::vector<double>& probs) {
    scores_.assign(logits.begin(), logits.end());
    const double peak = *std::ranges::max_element(scores_);
    if (options.top_k > 0) keep_top_k(options.top_k);
    for (std::size_t i = 0; i < probs.size(); ++i) {
      probs[i] = std::exp((scores_[i] - peak) / options.temperature);
    }
    if (options.top_p < 1) keep_top_p(options.top_p, probs);
    const double total = std::accumulate(probs.begin(), probs.end(), 0.0);
    for (double& prob : probs) prob /= total;
  }

  static TokenId sample(const std::vector<double>& probs, double u) {
    const double mark = u * std::accumulate(probs.begin(), probs.end(), 0.0);
    double sum = 0;
    std::size_t i = 0;
    while (i + 1 < probs.size() && !((sum += probs[i]) > mark)) ++i;
    return static_cast<TokenId>(i);
  }

 private:
  bool likelier(TokenId a, TokenId b) const {
    const double x = scores_[static_cast<std::size_t>(a)], y = scores_[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  }

  void keep_top_k(int k) {
    std::iota(ids_.begin(), ids_.end(), 0);
    const auto kth = ids_.begin() + (k - 1);
    std::nth_element(ids_.begin(), kth, ids_.end(), [&](auto a, auto b) { return likelier(a, b); });
    const double last = scores_[static_cast<std::size_t>(*kth)];
    for (double& score : scores_) {
      if (score < last) score = -HUGE_VAL;
    }
  }

  // The likeliest come off a heap.
  void keep_top_p(double top_p, std::vector<double>& probs) {
    const double total = std::accumulate(probs.begin(), probs.end(), 0.0);
    const auto less = [&](TokenId a, TokenId b) { return likelier(b, a); };
    std::iota(ids_.begin(), ids_.end(), 0);
    std::ranges::make_heap(ids_, less);
    auto end = ids_.end();
    for (double before = 0; before < top_p && end != ids_.begin();) {
      std::pop_heap(ids_.begin(), end--, less);
      before += probs[static_cast<std::size_t>(*end)] / total;
    }
    std::for_each(ids_.begin(), end, [&](auto id) { probs[static_cast<std::size_t>(id)] = 0; });
  }

  std::vector<double> scores_;
  std::vector<TokenId> ids_;
};

// Few tokens hold most, as in what models write: the n-th likeliest has a share of about n^-1.5,
// with noise. Their ids have no order.
std::vector<float> random_logits(std::size_t vocab_size) {
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0, 1);
  std::vector<float> logits(vocab_size);
  for (std::size_t i = 0; i < vocab_size; ++i) {
    logits[i] = -1.5f * std::log(static_cast<float>(i + 1)) + noise(random);
  }
  std::ranges::shuffle(logits, random);
  return logits;
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

// seconds, plain_seconds: of the two; over_plain: the median of their ratios.
template <typename Plain, typename Job>
void measure_both(benchmark::State& state, const Plain& plain, const Job& job) {
  constexpr int kRuns = 5;  // in a sample
  std::vector<double> seconds, plain_seconds;
  plain();
  job();
  for (auto _ : state) {
    const auto timed = [](const auto& one) {
      return seconds_of([&] {
               for (int i = 0; i < kRuns; ++i) one();
             }) /
             kRuns;
    };
    plain_seconds.push_back(timed(plain));
    seconds.push_back(timed(job));
    state.SetIterationTime(seconds.back());
  }
  state.counters["seconds"] = median(seconds);
  state.counters["plain_seconds"] = median(plain_seconds);
  state.counters["over_plain"] = median_ratio(seconds, plain_seconds);
  state.counters["samples"] = static_cast<double>(seconds.size());
}

void run_probabilities(benchmark::State& state, const SamplingOptions& options) {
  const auto V = static_cast<std::size_t>(state.range(0));
  const std::vector<float> logits = random_logits(V);
  std::vector<double> probs(V), plain_probs(V);
  SamplingScratch scratch(static_cast<int>(V));
  OneByOne plain(V);
  measure_both(
      state, [&] { plain.probabilities(logits, options, plain_probs); },
      [&] { probabilities(logits, {}, options, scratch, probs); });
}

void run_sample(benchmark::State& state) {
  const auto V = static_cast<std::size_t>(state.range(0));
  std::vector<double> probs(V);
  SamplingScratch scratch(static_cast<int>(V));
  probabilities(random_logits(V), {}, {.temperature = 1}, scratch, probs);
  double u = 0, plain_u = 0;
  const auto next = [](double& uniform) { return uniform = std::fmod(uniform + 0.618034, 1.0); };
  measure_both(
      state, [&] { benchmark::DoNotOptimize(OneByOne::sample(probs, next(plain_u))); },
      [&] { benchmark::DoNotOptimize(sample(probs, next(u))); });
}

struct Case {
  const char* name;
  SamplingOptions options;
};
constexpr Case kCases[] = {{"all", {.temperature = 1}},
                           {"top_k_50", {.temperature = 1, .top_k = 50}},
                           {"top_p_0.9", {.temperature = 1, .top_p = 0.9}},
                           {"both", {.temperature = 1, .top_k = 50, .top_p = 0.9}}};

}  // namespace

void add_distribution_benchmarks(int samples) {
  const auto add = [&](const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->Arg(4096)
        ->Arg(128'256)
        ->ArgName("V")
        ->Iterations(std::max(samples, 1))
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const Case& from : kCases) {
    add(fmt::format("distribution/from:{}", from.name),
        [&from](benchmark::State& state) { run_probabilities(state, from.options); });
  }
  add("sample", run_sample);
}

}  // namespace specdec

int main(int argc, char** argv) {
  const int samples = specdec::take_number(argc, argv, "--samples", 41);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("backend", std::string("CPU, ") + specdec::cpu::kVectorName);
  specdec::add_distribution_benchmarks(samples);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
