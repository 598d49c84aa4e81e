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

// One of those that are timed in turns.
struct Contender {
  std::string name;
  Job job;
  int runs = 1;
  std::vector<double> seconds = {}, ratios = {};  // of each sample; the first one's time over it
};

constexpr double kMostSeconds = 0.5, kSecondsOfRuns = 0.02;

// The time of one run, each on its own inputs.
double run(CudaBench& bench, const Contender& contender) {
  return bench.timer.seconds_of([&] {
    for (int i = 0; i < contender.runs; ++i) contender.job(i);
  }) / contender.runs;
}

}  // namespace

void measure(benchmark::State& state, CudaBench& bench, const Work& work, int copies,
             const Job& job, const std::vector<Rival>& rivals) {
  std::vector<Contender> contenders = {{"", job}};
  for (const Rival& rival : rivals) contenders.push_back({rival.name, rival.job});
  for (Contender& contender : contenders) {
    run(bench, contender);  // scratch is taken, kernels are loaded
    contender.runs =
        std::clamp(static_cast<int>(kSecondsOfRuns / run(bench, contender)), 1, copies);
  }
  Contender& first = contenders.front();
  std::vector<double> bandwidths, copy_bandwidths, of_bandwidth;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto spent = [&] { return std::chrono::steady_clock::now() - start; };
    for (int i = 0; i < bench.samples; ++i) {
      if (i >= 3 && spent() > std::chrono::duration<double>(kMostSeconds)) break;
      for (Contender& contender : contenders) {
        contender.seconds.push_back(run(bench, contender));
        contender.ratios.push_back(first.seconds.back() / contender.seconds.back());
        if (&contender != &first) continue;
        bandwidths.push_back(bench.timer.bandwidth());
        copy_bandwidths.push_back(bench.timer.copy_bandwidth());
        of_bandwidth.push_back(work.bytes / first.seconds.back() / bandwidths.back());
      }
    }
    state.SetIterationTime(median(first.seconds));
  }
  state.counters["seconds"] = median(first.seconds);
  state.counters["bytes_per_second"] = work.bytes / median(first.seconds);
  state.counters["flops_per_second"] = work.flops / median(first.seconds);
  state.counters["bandwidth"] = median(bandwidths);
  state.counters["copy_bandwidth"] = median(copy_bandwidths);
  state.counters["of_bandwidth"] = median(of_bandwidth);
  state.counters["samples"] = static_cast<double>(first.seconds.size());
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    state.counters[contenders[i].name + "_seconds"] = median(contenders[i].seconds);
    state.counters["over_" + contenders[i].name] = median(contenders[i].ratios);
  }
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
