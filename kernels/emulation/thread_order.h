#pragma once
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>

#include "kernels/emulation/scheduler.h"

namespace specdec::emulation {

// The order in which the threads of a block take turns: SPECDEC_THREAD_ORDER sets it.
class ThreadOrder {
 public:
  void start(unsigned thread_count) {
    static std::mt19937 numbers(1);
    count_ = thread_count;
    const auto end = threads_.begin() + count_;
    std::iota(threads_.begin(), end, 0u);
    const char* variable = std::getenv("SPECDEC_THREAD_ORDER");
    const std::string_view name = variable == nullptr ? "forward" : variable;
    if (name == "reverse") {
      std::reverse(threads_.begin(), end);
    } else if (name == "random") {
      for (unsigned i = count_; i > 1; --i) std::swap(threads_[i - 1], threads_[numbers() % i]);
    } else if (name != "forward") {
      std::fprintf(stderr, "SPECDEC_THREAD_ORDER is '%s'; it takes forward, reverse or random\n",
                   variable);
      std::exit(2);
    }
    link();
  }

  // The first thread that can run.
  template <typename CanRun>
  unsigned first(const CanRun& can_run) const {
    return *std::find_if(threads_.begin(), threads_.begin() + count_, can_run);
  }
  // The next thread after `thread` that can run; if none can, `thread`.
  template <typename CanRun>
  unsigned next(unsigned thread, const CanRun& can_run) const {
    for (unsigned step = 1; step < count_; ++step) {
      const unsigned other = threads_[(turns_[thread] + step) % count_];
      if (can_run(other)) return other;
    }
    return thread;
  }
  // The same within the warp of `thread`.
  template <typename CanRun>
  unsigned next_in_warp(unsigned thread, const CanRun& can_run) const {
    unsigned other = next_lane_[thread];
    while (other != thread && !can_run(other)) other = next_lane_[other];
    return other;
  }

 private:
  void link() {
    constexpr unsigned kNone = kMaxThreads;
    std::array<unsigned, kMaxThreads / kLanes> first, last;
    first.fill(kNone);
    for (unsigned turn = 0; turn < count_; ++turn) {
      const unsigned thread = threads_[turn], warp = thread / kLanes;
      turns_[thread] = turn;
      if (first[warp] == kNone) first[warp] = last[warp] = thread;
      next_lane_[last[warp]] = thread;
      next_lane_[thread] = first[warp];
      last[warp] = thread;
    }
  }

  unsigned count_ = 0;
  // Each turn's thread, each thread's turn, and the next thread of its warp, in a circle.
  std::array<unsigned, kMaxThreads> threads_, turns_, next_lane_;
};

}  // namespace specdec::emulation
