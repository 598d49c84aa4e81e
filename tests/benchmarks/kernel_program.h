#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "common/base/json_value.h"
#include "kernels/ops.h"

// How kernels and passes are timed, on a CPU and on a GPU.
namespace specdec {

// What times jobs, and the yardsticks that they are held against.
class Machine {
 public:
  struct Look {
    double bandwidth = 0, copy_bandwidth = 0;  // bytes a second: read; read and written
    double peak = 0;                           // operations a second; 0: not measured
    bool steady = true;                        // otherwise no time since the last look counts
  };

  virtual ~Machine() = default;
  virtual double seconds_of(const std::function<void()>& work) = 0;
  // What the machine gave around the work that was timed last.
  virtual Look look() = 0;
  // Of the samples of a benchmark; three are taken in any case.
  virtual double most_seconds() const { return std::numeric_limits<double>::infinity(); }
};

// What a job needs at least.
struct Work {
  double bytes = 0;  // read once from memory
  double flops = 0;  // two for a fused multiply-add
};

// Runs once on the inputs of number `copy`. Runs of a sample have inputs of their own, so that no
// cache holds them.
using Job = std::function<void(int copy)>;

// What is timed in turns with a job.
struct Rival {
  std::string name;
  Job job;
};

// What a benchmark times, with the inputs that the jobs keep alive.
struct Case {
  Work work;
  Job job;
  std::vector<Rival> rivals = {};
  int copies = 1000;  // the most runs of a sample
};

// A program of benchmarks, by its command line: [--threads=N] [--samples=N] [--by-turns] and Google
// Benchmark's options. What it does not know ends the program with exit code 2.
class KernelProgram {
 public:
  KernelProgram(int argc, char** argv, int samples);

  int threads() const { return threads_; }

  // Adds a benchmark, for each number of rows, M, where there are any. make(M) is called when the
  // benchmark runs. It takes as many samples as the options say. Counters, medians over them:
  //   seconds, bytes_per_second, flops_per_second: of a run of the job
  //   bandwidth, peak, copy_bandwidth: of the machine, around the samples
  //   of_bandwidth, of_peak: what the job achieved, its share
  //   of_bound: its time over the larger of bytes / bandwidth and flops / peak; 1 is the roofline
  //   over_NAME: its time over that of a rival
  //   samples: how many were kept. Those of an unsteady machine are not, but where there is no
  //   other.
  void add(const std::string& name, const std::vector<std::int64_t>& rows,
           std::function<Case(int rows)> make);

  using About = std::vector<std::pair<std::string, std::string>>;
  // Runs the benchmarks as Google Benchmark's options say. By turns, it prints a line of JSON with
  // what `about` says, and then runs what each line of the standard input says: a regular
  // expression that matches the name of one benchmark. It answers with a line of JSON: the
  // counters, or "error". So the one that asks decides the order, and can come back to a benchmark
  // in every round. Returns the exit code: 1 where no benchmark has that name.
  int run(Machine& machine, const About& about);
  // Says why nothing can be measured, instead of run().
  int not_measured(const std::string& problem) const;

 private:
  void measure(benchmark::State& state, const Case& measured);

  bool by_turns_ = false;
  int threads_ = 0, samples_;
  Machine* machine_ = nullptr;
  Json answer_;  // of the benchmark that ran last
};

// Numbers around 1/32 as bf16, around 1 as f16.
std::vector<std::uint16_t> random_halves(std::size_t count);
// Memory of `count` floats between -1 and 1.
DeviceArray<float> random_floats(Backend& backend, std::size_t count);
template <typename T>
DeviceArray<T> on_device(Backend& backend, const std::vector<T>& values) {
  DeviceArray<T> array(backend, values.size());
  backend.upload(values.data(), array.data(), values.size() * sizeof(T));
  return array;
}

}  // namespace specdec
