#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/emulation/run.h"

// Bugs that kernels have, one by one, each beside the right kernel: the emulation must catch the
// bug by the means that docs/emulation names, and have nothing to say against the right one.

#ifndef __has_feature
#define __has_feature(feature) 0  // g++ 12
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);

namespace specdec::cuda::inline emulated {

inline constexpr unsigned kAll = 0xffffffffu;
// The beginning of a line's name in a report.
inline const std::string kHere = "seeded_[a-z]+_test.cu:";

template <typename Check>
void in_every_order(const Check& check) {
  for (const char* order : {"forward", "reverse", "random"}) {
    setenv("SPECDEC_THREAD_ORDER", order, 1);
    check(order);
  }
}
inline void expect_report(void (*kernel)(int*), unsigned threads, const std::string& report) {
  EXPECT_DEATH(run(kernel, 1, threads, 128), kHere + "[0-9]+: CUDA emulation: (" + report + ")");
}
inline void expect_clean(void (*kernel)(int*), unsigned threads, int expected) {
  in_every_order([&](const char* order) {
    const std::vector<int> got = run(kernel, 1, threads, 128);
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(got[i], expected) << i << " " << order;
  });
}

class SeededBugs : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* order = std::getenv("SPECDEC_THREAD_ORDER");
    order_ = order == nullptr ? "forward" : order;
    // A program of its own for each bug: ThreadSanitizer looks away after a fork with many threads.
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
  void TearDown() override { setenv("SPECDEC_THREAD_ORDER", order_.c_str(), 1); }

 private:
  std::string order_;
};

}  // namespace specdec::cuda::inline emulated
