#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "tests/benchmarks/machine.h"

namespace specdec {

// How kernels are timed here. A machine's bandwidth drifts and jumps, so every sample runs between
// two read sweeps and two looks at the arithmetic peak, and is held against their means; a sample
// around which one of the two changes by more than 6% is taken again, and thrown away in the end.
// The cores are kept busy beforehand.
class Machine {
 public:
  explicit Machine(int threads);

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

// What a job needs at least.
struct Work {
  double bytes = 0;  // read once from memory
  double flops = 0;  // two for a fused multiply-add
};

// What the samples of a benchmark gave, by name. Each becomes a counter: the median, and NaN where
// no sample was kept.
class Samples {
 public:
  std::vector<double>& operator[](const std::string& name) { return values_[name]; }
  void report(benchmark::State& state) const {
    for (const auto& [name, values] : values_) state.counters[name] = median(values);
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

// A program of benchmarks, by its command line: [--threads=N] [--samples=N] [--by-turns] and Google
// Benchmark's options. What it does not know ends the program with exit code 2.
class KernelProgram {
 public:
  KernelProgram(int argc, char** argv, int samples);

  int threads() const { return threads_; }
  int samples() const { return samples_; }

  // Adds a benchmark, for each number of rows, M, where there are any.
  void add(const std::string& name, const std::vector<std::int64_t>& rows, int iterations,
           const std::function<void(benchmark::State& state)>& run);

  using Job = std::function<void(int rows)>;
  // Adds one that takes as many samples of a job with M rows as the options say, each beside one of
  // the job with one row. Counters:
  //   bandwidth, peak: of the machine, around the samples
  //   bytes_per_second, of_bandwidth, flops_per_second, of_peak: what the job achieved, its share
  //   of_bound: its time over the larger of bytes / bandwidth and flops / peak; 1 is the roofline
  //   over_plain: T(M) / T(1)
  //   samples: how many were kept; those of an unsteady machine are not
  void add(const std::string& name, const std::vector<std::int64_t>& rows,
           const std::function<Work(int rows)>& work, const Job& job);

  // Runs the benchmarks as Google Benchmark's options say. By turns, it prints a line of JSON,
  // {"backend": ...}, and then runs what each line of the standard input says: a regular expression
  // that matches the name of one benchmark. It answers with a line of JSON: the name and the
  // counters. So the one that asks decides the order, and can come back to a benchmark in every
  // round. Returns the exit code: 1 where a benchmark failed, or where none has that name.
  int run(const std::string& backend) const;

 private:
  bool by_turns_ = false;
  int threads_ = 0, samples_;
  Machine machine_;
};

// Numbers around 1/32 as bf16, around 1 as f16.
std::vector<std::uint16_t> random_halves(std::size_t count);

// The value of --name=N among the arguments, which is taken out of them; `otherwise` without one.
int take_number(int& argc, char** argv, std::string_view name, int otherwise);

}  // namespace specdec
