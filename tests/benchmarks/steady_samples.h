#pragma once
#include <charconv>
#include <cstdio>
#include <string_view>

#include <benchmark/benchmark.h>

#include "tests/benchmarks/machine.h"

namespace specdec {

// How kernels are timed here. A machine's bandwidth drifts and jumps, so every sample runs between
// two read sweeps and two looks at the arithmetic peak, and is held against their means; a sample
// around which one of the two changes by more than 6% is taken again, and thrown away in the end.
// The cores are kept busy beforehand.
class Machine {
 public:
  explicit Machine(int threads) : sweep_(threads), peak_(threads) {
    const auto warm = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < warm) look();
  }

  int threads() const { return sweep_.threads(); }
  void look() {
    bandwidth = sweep_.bytes_per_second();
    flops = peak_.flops_per_second();
  }

  // Of the last look.
  double bandwidth = 0;
  double flops = 0;

 private:
  ReadSweep sweep_;
  FmaPeak peak_;
};

inline bool steady(double before, double after) {
  return std::abs(after - before) <= 0.06 * std::min(before, after);
}

// What a job needs at least.
struct Work {
  double bytes = 0;  // read once from memory
  double flops = 0;  // two for a fused multiply-add
};

// What a sample of a job gave.
struct Sample {
  double one = 0, many = 0;  // seconds of one row, and of the job
  double bandwidth = 0, peak = 0;
  bool is_steady = false;
};

// One row, then the job, between two looks at the machine. Is taken again, a few times, where the
// machine was not steady.
template <typename Plain, typename Job>
Sample take_sample(Machine& machine, const Plain& plain, const Job& job, int runs) {
  constexpr int kAttempts = 4;
  const auto seconds_of_runs = [runs](const auto& work) {
    return seconds_of([&] {
             for (int i = 0; i < runs; ++i) work();
           }) /
           runs;
  };
  Sample sample;
  for (int attempt = 0; attempt < kAttempts && !sample.is_steady; ++attempt) {
    const double before = machine.bandwidth, peak_before = machine.flops;
    sample.one = seconds_of_runs(plain);
    sample.many = seconds_of_runs(job);
    machine.look();
    sample.bandwidth = (before + machine.bandwidth) / 2;
    sample.peak = (peak_before + machine.flops) / 2;
    sample.is_steady = steady(before, machine.bandwidth) && steady(peak_before, machine.flops);
  }
  return sample;
}

// How often a job runs in a sample: for some 20 ms, as a few may be disturbed by anything.
inline int runs_of(double seconds) {
  return static_cast<int>(std::clamp(0.02 / seconds, 1.0, 1000.0));
}

// Takes as many samples of `job` as the benchmark has iterations, each beside one of `plain` (one
// row of the same), and sets the benchmark's time and counters:
//   bandwidth, peak: of the machine, around the samples
//   bytes_per_second, of_bandwidth, flops_per_second, of_peak: what the job achieved, and its share
//   of_bound: its time over the larger of bytes / bandwidth and flops / peak; 1 is the roofline
//   over_plain: T(M) / T(1), the median over the samples
//   samples: how many were kept; those of an unsteady machine are not
// Shares are medians over samples. REQUIRES: Iterations() and UseManualTime() are set.
template <typename Plain, typename Job>
void measure(benchmark::State& state, Machine& machine, const Work& work, const Plain& plain,
             const Job& job) {
  std::vector<double> seconds, of_bandwidth, of_peak, of_bound, over_plain, bandwidths, peaks;
  plain();
  const int runs = runs_of(seconds_of(job));
  machine.look();
  for (auto _ : state) {
    const Sample sample = take_sample(machine, plain, job, runs);
    state.SetIterationTime(sample.many);
    if (!sample.is_steady) continue;
    const double bytes_seconds = work.bytes / sample.bandwidth;
    const double flops_seconds = work.flops / sample.peak;
    seconds.push_back(sample.many);
    bandwidths.push_back(sample.bandwidth);
    peaks.push_back(sample.peak);
    of_bandwidth.push_back(bytes_seconds / sample.many);
    of_peak.push_back(flops_seconds / sample.many);
    of_bound.push_back(sample.many / std::max(bytes_seconds, flops_seconds));
    over_plain.push_back(sample.many / sample.one);
  }
  state.counters["seconds"] = median(seconds);
  state.counters["bandwidth"] = median(bandwidths);
  state.counters["peak"] = median(peaks);
  state.counters["bytes_per_second"] = work.bytes / median(seconds);
  state.counters["flops_per_second"] = work.flops / median(seconds);
  state.counters["of_bandwidth"] = median(of_bandwidth);
  state.counters["of_peak"] = median(of_peak);
  state.counters["of_bound"] = median(of_bound);
  state.counters["over_plain"] = median(over_plain);
  state.counters["samples"] = static_cast<double>(seconds.size());
}

// The value of --name=N among the arguments, which is taken out of them; `otherwise` without one.
inline int take_number(int& argc, char** argv, std::string_view name, int otherwise) {
  int value = otherwise;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(name) || argument.substr(name.size(), 1) != "=") continue;
    const std::string_view number = argument.substr(name.size() + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || value < 0) {
      std::fprintf(stderr, "%s: %s is no number\n", argv[0], argv[i]);
      std::exit(2);
    }
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    --i;
  }
  return value;
}

}  // namespace specdec
