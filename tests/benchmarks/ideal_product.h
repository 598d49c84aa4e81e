#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cpu/thread_team.h"
#include "kernels/cpu/vector.h"
#include "kernels/ops.h"
#include "tests/benchmarks/machine.h"

namespace specdec {

// What the product of M rows could be on this machine: reads as many bytes as bf16 weights have,
// and does as many multiply-adds, on what is in registers. It loads no inputs, converts nothing and
// writes nothing. So what it takes beyond the larger of its two bounds is the machine's own:
// reading and arithmetic disturb each other.
class IdealProduct {
 public:
  IdealProduct(Backend& backend, int threads, std::int64_t weights)
      : team_(threads),
        floats_(weights / 2 / cpu::kLanes * cpu::kLanes),
        parts_(beyond_caches(4.0 * static_cast<double>(floats_))),
        bytes_(backend, static_cast<std::size_t>(floats_ * parts_)),
        sums_(static_cast<std::size_t>(team_.size()) * 16) {
    std::fill_n(bytes_.data(), bytes_.size(), 0.5f);
  }

  Work work(int rows) const {
    const double bytes = 4.0 * static_cast<double>(floats_);
    return {bytes, bytes * rows};
  }

  // REQUIRES: 1 <= rows <= 16.
  void run(int rows) {
    const float* part = bytes_.data() + floats_ * (next_++ % parts_);
    const std::int64_t vectors = floats_ / cpu::kLanes;
    team_.run([&](int thread) {
      const float* begin = part + vectors * thread / team_.size() * cpu::kLanes;
      const float* end = part + vectors * (thread + 1) / team_.size() * cpu::kLanes;
      sums_[static_cast<std::size_t>(thread) * 16] =
          kMultiply[static_cast<std::size_t>(rows)](begin, end);
    });
  }

 private:
  static constexpr int kChains = 12;

  // A vector holds two weights a lane.
  template <int M>
  static float multiply(const float* begin, const float* end) {
    const cpu::Floats input = cpu::in_register(cpu::splat<cpu::Floats>(0.5f));
    cpu::Floats sums[kChains];  // that differ, or the compiler would compute one for all
    for (int i = 0; i < kChains; ++i) sums[i] = cpu::splat<cpu::Floats>(static_cast<float>(i));
    for (const float* at = begin; at < end; at += cpu::kLanes) {
      __builtin_prefetch(at + 4096, /*write=*/0, /*locality=*/2);  // as the product does
      __builtin_prefetch(at + 384, /*write=*/0, /*locality=*/3);
      const cpu::Floats weights = cpu::in_register(cpu::load(at));
      SPECDEC_UNROLL
      for (int m = 0; m < M; ++m) {
        cpu::Floats &low = sums[2 * m % kChains], &high = sums[(2 * m + 1) % kChains];
        low = cpu::multiply_add(weights, input, low);
        high = cpu::multiply_add(weights, input, high);
      }
    }
    cpu::Floats total = {};
    for (const cpu::Floats& sum : sums) total += sum;
    return total[0];
  }

  static constexpr auto kMultiply = []<int... M>(std::integer_sequence<int, M...>) {
    return std::array<float (*)(const float*, const float*), sizeof...(M) + 1>{nullptr,
                                                                               multiply<M + 1>...};
  }
  (std::make_integer_sequence<int, 16>());

  cpu::ThreadTeam team_;
  std::int64_t floats_;  // of a run
  std::int64_t parts_, next_ = 0;
  DeviceArray<float> bytes_;
  std::vector<float> sums_;  // a cache line a thread; kept, or the compiler would leave all out
};

}  // namespace specdec
