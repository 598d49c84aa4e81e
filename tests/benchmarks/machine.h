#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include <unistd.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/cpu/vector.h"
#include "tests/benchmarks/kernel_program.h"

// What a CPU and its memory can do at this moment: the two ceilings that kernels are held against.
namespace specdec {

// How many things of this size no cache can hold: three times the largest cache, or 256 MiB. Runs
// that take them in turn find none of them in a cache.
inline int beyond_caches(double bytes) {
  const double cache = static_cast<double>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return static_cast<int>(std::max(3 * cache, 0x1p28) / bytes) + 1;
}

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reads a buffer that no cache holds, four streams a thread: the bandwidth that a product could
// get.
class ReadSweep {
 public:
  explicit ReadSweep(cpu::ThreadTeam& team, std::size_t bytes = std::size_t{1} << 30)
      : team_(team),
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

  cpu::ThreadTeam& team_;
  std::unique_ptr<Backend> memory_ = make_cpu_backend(1);  // asks for huge pages, as weights do
  std::size_t stream_floats_;
  DeviceArray<float> buffer_;
  std::vector<float> sums_;  // a cache line a thread; kept, or the compiler would leave reads out
};

// Fused multiply-adds in registers on all threads, two operations each: no float32 product can be
// faster.
class FmaPeak {
 public:
  explicit FmaPeak(cpu::ThreadTeam& team)
      : team_(team), sums_(static_cast<std::size_t>(team_.size()) * 16) {}

  // The best of three short runs: whatever interrupts one is no property of the machine.
  // REQUIRES: every thread has a core, as after a longer job in the same burst. A thread that just
  // woke up may be waiting for the core of the one that woke it, and the peak would be halved.
  double flops_per_second() {
    double seconds = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      seconds = std::min(seconds, seconds_of([&] {
                           team_.run([&](int thread) {
                             sums_[static_cast<std::size_t>(thread) * 16] = multiply();
                           });
                         }));
    }
    return 2.0 * cpu::kLanes * kChains * kSteps * team_.size() / seconds;
  }

 private:
  static constexpr int kChains = 12;  // more than latency times throughput, and they fit registers
  static constexpr int kSteps = 500'000;

  static float multiply() {
    const cpu::Floats factor = cpu::splat<cpu::Floats>(0.5f), term = cpu::splat<cpu::Floats>(1.0f);
    cpu::Floats sums[kChains];  // that differ, or the compiler would compute one for all
    for (int i = 0; i < kChains; ++i) sums[i] = cpu::splat<cpu::Floats>(static_cast<float>(i));
    for (int step = 0; step < kSteps; ++step) {
      SPECDEC_UNROLL
      for (cpu::Floats& sum : sums) sum = cpu::multiply_add(sum, factor, term);
    }
    cpu::Floats total = {};
    for (const cpu::Floats& sum : sums) total += sum;
    return total[0];
  }

  cpu::ThreadTeam& team_;
  std::vector<float> sums_;
};

// Its bandwidth drifts and jumps, so all work is timed between two looks at it, and is held against
// their means. Where one of the two ceilings changes by more than 6% meanwhile, the machine was not
// steady. The cores are kept busy beforehand.
class CpuMachine final : public Machine {
 public:
  explicit CpuMachine(int threads) : team_(threads), sweep_(team_), peak_(team_) {
    const auto warm = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < warm) look();
  }

  double seconds_of(const std::function<void()>& work) override {
    return specdec::seconds_of(work);
  }
  Look look() override {
    team_.begin_burst();
    const double bandwidth = sweep_.bytes_per_second(), flops = peak_.flops_per_second();
    team_.end_burst();
    const Look look{.bandwidth = (bandwidth_ + bandwidth) / 2,
                    .peak = (flops_ + flops) / 2,
                    .steady = steady(bandwidth_, bandwidth) && steady(flops_, flops)};
    bandwidth_ = bandwidth;
    flops_ = flops;
    return look;
  }

 private:
  static bool steady(double before, double after) {
    return std::abs(after - before) <= 0.06 * std::min(before, after);
  }

  cpu::ThreadTeam team_;
  ReadSweep sweep_;
  FmaPeak peak_;
  double bandwidth_ = 0, flops_ = 0;  // of the last look
};

}  // namespace specdec
