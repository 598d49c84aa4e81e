#include "tests/benchmarks/cuda_samples.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

DeviceTimer::DeviceTimer(Backend& backend)
    : backend_(backend),
      from_(random_floats(backend, kSweepBytes / sizeof(float))),
      to_(backend, from_.size()),
      ids_(backend, from_.size() / kSweepWidth) {
  for (cudaEvent_t& event : events_) cuda_check(cudaEventCreate(&event));
  for (int i = 0; i < 3; ++i) seconds_of([] {});  // clocks up
}

DeviceTimer::~DeviceTimer() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
}

double DeviceTimer::seconds_of(const std::function<void()>& work) {
  cuda_check(cudaEventRecord(events_[0]));
  backend_.copy(from_.data(), to_.data(), from_.size() * sizeof(float));
  cuda_check(cudaEventRecord(events_[1]));
  argmax_block(matrix(from_, static_cast<int>(ids_.size()), kSweepWidth), ids_.data(), nullptr);
  cuda_check(cudaEventRecord(events_[2]));
  work();
  cuda_check(cudaEventRecord(events_[3]));
  cuda_check(cudaEventSynchronize(events_[3]));
  const auto swept = static_cast<double>(from_.size() * sizeof(float));
  copy_bandwidth_ = 2.0 * swept / seconds_between(0, 1);
  bandwidth_ = swept / seconds_between(1, 2);
  return seconds_between(2, 3);
}

double DeviceTimer::seconds_between(std::size_t from, std::size_t to) const {
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]));
  return std::max(double{milliseconds}, 1e-6) * 1e-3;
}

namespace {

constexpr double kMostSeconds = 0.5, kSecondsOfRuns = 0.02;

// The time of one run, each on its own inputs.
double run(CudaBench& bench, const Job& job, int runs) {
  return bench.timer.seconds_of([&] {
    for (int i = 0; i < runs; ++i) job(i);
  }) / runs;
}

}  // namespace

void measure(benchmark::State& state, CudaBench& bench, const Work& work, int copies,
             const Job& job, const std::vector<Rival>& rivals) {
  const auto runs_of = [&](const Job& one) {
    run(bench, one, 1);  // scratch is taken, kernels are loaded
    return std::clamp(static_cast<int>(kSecondsOfRuns / run(bench, one, 1)), 1, copies);
  };
  const int runs = runs_of(job);
  std::vector<int> runs_of_rivals;
  for (const Rival& rival : rivals) runs_of_rivals.push_back(runs_of(rival.job));
  Samples samples;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto spent = [&] { return std::chrono::steady_clock::now() - start; };
    for (int i = 0; i < bench.samples; ++i) {
      if (i >= 3 && spent() > std::chrono::duration<double>(kMostSeconds)) break;
      const double seconds = run(bench, job, runs);
      samples["seconds"].push_back(seconds);
      samples["bytes_per_second"].push_back(work.bytes / seconds);
      samples["flops_per_second"].push_back(work.flops / seconds);
      samples["bandwidth"].push_back(bench.timer.bandwidth());
      samples["copy_bandwidth"].push_back(bench.timer.copy_bandwidth());
      samples["of_bandwidth"].push_back(work.bytes / seconds / bench.timer.bandwidth());
      for (std::size_t r = 0; r < rivals.size(); ++r) {
        const double other = run(bench, rivals[r].job, runs_of_rivals[r]);
        samples[rivals[r].name + "_seconds"].push_back(other);
        samples["over_" + rivals[r].name].push_back(seconds / other);
      }
    }
    state.SetIterationTime(median(samples["seconds"]));
  }
  samples.report(state);
  state.counters["samples"] = static_cast<double>(samples["seconds"].size());
}

DeviceArray<float> random_floats(Backend& backend, std::size_t count) {
  std::vector<float> piece(std::min<std::size_t>(count, std::size_t{1} << 20));
  std::uint32_t random = 1;
  for (float& value : piece) {
    random = random * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-31f;
  }
  DeviceArray<float> floats(backend, count);
  for (std::size_t at = 0; at < count; at += piece.size()) {
    const std::size_t part = std::min(piece.size(), count - at);
    backend.upload(piece.data(), floats.data() + at, part * sizeof(float));
  }
  return floats;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
