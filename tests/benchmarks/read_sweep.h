#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/cpu/vector.h"

namespace specdec {

// Times jobs that stream weights against what the memory delivers at that moment. A machine's
// bandwidth drifts and jumps, so every job runs between two sweeps through a large buffer; a sample
// whose two sweeps disagree is thrown away.

inline double seconds_of(const std::function<void()>& job) {
  const auto start = std::chrono::steady_clock::now();
  job();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {  // NaN of none
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Reads a buffer that no cache holds, four streams a thread: the bandwidth that a product could
// get.
class ReadSweep {
 public:
  explicit ReadSweep(int threads, std::size_t bytes = std::size_t{1} << 30)
      : team_(threads),
        stream_floats_(bytes / kStreams / static_cast<std::size_t>(team_.size()) / 1024 * 256),
        buffer_(*memory_, stream_floats_ * kStreams * static_cast<std::size_t>(team_.size())),
        sums_(static_cast<std::size_t>(team_.size()) * 16) {
    std::fill_n(buffer_.data(), buffer_.size(), 1.0f);
  }

  double bytes_per_second() {
    const double seconds = seconds_of([&] {
      team_.run([&](int thread) { sums_[static_cast<std::size_t>(thread) * 16] = read(thread); });
    });
    return static_cast<double>(buffer_.size() * sizeof(float)) / seconds;
  }

 private:
  static constexpr std::size_t kStreams = 4;

  float read(int thread) const {
    const float* start =
        buffer_.data() + static_cast<std::size_t>(thread) * kStreams * stream_floats_;
    cpu::Floats sums[kStreams] = {};
    for (std::size_t i = 0; i < stream_floats_; i += cpu::kLanes) {
      SPECDEC_UNROLL
      for (std::size_t s = 0; s < kStreams; ++s) {
        sums[s] += cpu::load(start + s * stream_floats_ + i);
      }
    }
    return (sums[0] + sums[1] + sums[2] + sums[3])[0];
  }

  cpu::ThreadTeam team_;
  std::unique_ptr<Backend> memory_ = make_cpu_backend(1);  // asks for huge pages, as weights do
  std::size_t stream_floats_;
  DeviceArray<float> buffer_;
  std::vector<float> sums_;  // a cache line a thread; kept, or the compiler would leave reads out
};

struct TimedJob {
  std::function<void()> run;
  double bytes = 0.0;  // that a run must read

  // One of each sample that was kept.
  std::vector<double> seconds = {};
  std::vector<double> shares = {};  // of the bandwidth that the sweeps around it found
};

// Runs the jobs in turn, `rounds` times, each between two sweeps. Returns the sweeps' bytes/s.
inline std::vector<double> interleave(ReadSweep& sweep, std::vector<TimedJob>& jobs, int rounds) {
  const auto warm_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < warm_up) {
    sweep.bytes_per_second();
    for (TimedJob& job : jobs) job.run();
  }
  std::vector<double> bandwidths = {sweep.bytes_per_second()};
  for (int round = 0; round < rounds; ++round) {
    for (TimedJob& job : jobs) {
      const double seconds = seconds_of(job.run);
      const double before = bandwidths.back(), after = sweep.bytes_per_second();
      bandwidths.push_back(after);
      const bool steady = std::abs(after - before) <= 0.06 * std::min(after, before);
      if (!steady) continue;
      job.seconds.push_back(seconds);
      job.shares.push_back(job.bytes / seconds / ((before + after) / 2));
    }
  }
  return bandwidths;
}

// A table of jobs on 1, 2, 3, ... rows. runs: how often a sample runs its job.
inline void print_shares(const std::vector<double>& bandwidths, const std::vector<TimedJob>& jobs,
                         int runs) {
  fmt::print("read sweep: median {:.1f} GB/s, from {:.1f} to {:.1f}\n", median(bandwidths) / 1e9,
             *std::min_element(bandwidths.begin(), bandwidths.end()) / 1e9,
             *std::max_element(bandwidths.begin(), bandwidths.end()) / 1e9);
  fmt::print("{:>4} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "rows", "ms", "GB/s", "of the sweep",
             "T(M)/T(1)", "samples");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double seconds = median(jobs[i].seconds), share = median(jobs[i].shares);
    // By shares, which do not mind whether the bandwidth changed between the samples.
    fmt::print("{:>4} {:>10.3f} {:>10.1f} {:>12.3f} {:>10.3f} {:>8}\n", i + 1, seconds / runs * 1e3,
               jobs[i].bytes / seconds / 1e9, share, median(jobs[0].shares) / share,
               jobs[i].seconds.size());
  }
}

}  // namespace specdec
