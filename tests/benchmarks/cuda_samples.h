#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/cuda_check.h"
#include "tests/benchmarks/steady_samples.h"

// How kernels are timed on a GPU. The same sources are built for the emulation, where the numbers
// mean nothing: there they show that the benchmarks run.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

#ifdef SPECDEC_EMULATED
constexpr int kMostCopies = 2;
constexpr std::size_t kSweepBytes = std::size_t{1} << 20;
#else
constexpr int kMostCopies = 20;                              // of a job's inputs
constexpr std::size_t kSweepBytes = std::size_t{256} << 20;  // more than an L2
#endif
constexpr std::size_t kMostCopiedBytes = std::size_t{2} << 30;

// So many copies of `bytes` are a job's inputs, one for each run of a sample.
inline int copies_of(std::size_t bytes) {
  return std::clamp(static_cast<int>(kMostCopiedBytes / bytes), 1, kMostCopies);
}

// Times the device's work by events, each time behind two sweeps in the same stream: a copy, and a
// pass that only reads, whose bandwidth is what the work is held against. It leaves the L2 full of
// something else, none of it to be written back. While they run, the host puts the work into the
// stream, so its launches are not part of the time.
class DeviceTimer {
 public:
  explicit DeviceTimer(Backend& backend);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  double seconds_of(const std::function<void()>& work);
  // Bytes a second, of the sweeps of the last call: read; read and written.
  double bandwidth() const { return bandwidth_; }
  double copy_bandwidth() const { return copy_bandwidth_; }

 private:
  static constexpr int kSweepWidth = 1 << 15;

  double seconds_between(std::size_t from, std::size_t to) const;

  Backend& backend_;
  DeviceArray<float> from_, to_;
  DeviceArray<std::int32_t> ids_;
  std::array<cudaEvent_t, 4> events_{};
  double bandwidth_ = 0, copy_bandwidth_ = 0;
};

// Runs once on the inputs of number `copy`.
using Job = std::function<void(int copy)>;

// What is timed in turns with a job.
struct Rival {
  std::string name;
  Job job;
};

// What benchmarks share.
struct CudaBench {
  Backend& backend;
  DeviceTimer& timer;
  int samples;
};

// Takes samples, in each of them the job and its rivals one after the other, and sets the
// benchmark's time and counters, medians over the samples:
//   seconds, bytes_per_second, flops_per_second: of one run of the job
//   bandwidth: of the sweeps that read; of_bandwidth: the job's share of the one before it
//   copy_bandwidth: of the copies
//   NAME_seconds, over_NAME: of a rival, and the job's time over it
//   samples: how many; three at least, and no more after half a second
// Each run has inputs of its own that no cache holds. REQUIRES: Iterations(1) and UseManualTime().
void measure(benchmark::State& state, CudaBench& bench, const Work& work, int copies,
             const Job& job, const std::vector<Rival>& rivals = {});

// Registers a benchmark for each number of rows, M. One that throws is an error among the results.
template <typename Function>
void add_benchmark(const std::string& name, const std::vector<std::int64_t>& rows,
                   const Function& function) {
  auto* benchmark = benchmark::RegisterBenchmark(name.c_str(), [function](benchmark::State& state) {
    try {
      function(state);
    } catch (const std::exception& error) {  // no memory, a kernel that fails
      state.SkipWithError(error.what());
    }
  });
  for (const std::int64_t m : rows) benchmark->Arg(m);
  benchmark->ArgName("M")->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

// Memory of `count` floats that are no special numbers.
DeviceArray<float> random_floats(Backend& backend, std::size_t count);

void add_row_benchmarks(CudaBench& bench);
void add_product_benchmarks(CudaBench& bench);
void add_attention_benchmarks(CudaBench& bench);
void add_sampling_benchmarks(CudaBench& bench);
void add_forward_benchmarks(CudaBench& bench);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
