// Seeded bugs that the scheduler reports, and memory that was never written.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/emulation/seeded_bugs.h"

namespace specdec::cuda::inline emulated {
namespace {

// ---- what the scheduler reports

template <bool kBug>
__global__ void barrier_in_two_places(int* out) {
  if (kBug && threadIdx.x >= 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
TEST_F(SeededBugs, DivergentBarrier) {
  expect_report(barrier_in_two_places<true>, 64, "threads wait at different __syncthreads");
  expect_clean(barrier_in_two_places<false>, 64, 1);
}

template <bool kBug>
__global__ void barrier_for_some(int* out) {
  if (!kBug || threadIdx.x % 2 == 0) __syncthreads();
  __syncwarp();
  out[threadIdx.x] = 1;
}
TEST_F(SeededBugs, Deadlock) {
  expect_report(barrier_for_some<true>, 64, "deadlock: every thread of the block waits");
  expect_clean(barrier_for_some<false>, 64, 1);
}

TEST_F(SeededBugs, ReportListsAllThreads) {
  setenv("SPECDEC_THREAD_ORDER", "forward", 1);
  EXPECT_DEATH(run(barrier_in_two_places<true>, 1, 64, 128),
               "thread \\(32,0,0\\) of block \\(0,0,0\\).*\n"
               " +0 to 31 +wait for the block at .*" +
                   kHere +
                   "[0-9]+\n"
                   " +32 to 32 +run; last at .*" +
                   kHere +
                   "[0-9]+\n"
                   " +33 to 63 +run; last at the kernel.s entry");
}

template <bool kBug>
__global__ void shuffle_among_some(int* out) {
  if (!kBug || threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_xor_sync(kAll, 7, 1);
  }
}
TEST_F(SeededBugs, MaskNamesLanesThatStayAway) {
  expect_report(shuffle_among_some<true>, 32, "deadlock|the mask names a lane that has ended");
  expect_clean(shuffle_among_some<false>, 32, 7);
}

template <bool kBug>
__global__ void shuffle_after_return(int* out) {
  const unsigned first = kBug ? 40 : 32;
  out[threadIdx.x] = 7;
  if (threadIdx.x < first) return;
  __syncwarp(kBug ? 0xffffff00u : kAll);
  out[threadIdx.x] = __shfl_sync(kAll, 7, 31);
}
TEST_F(SeededBugs, LaneHasEnded) {
  setenv("SPECDEC_THREAD_ORDER", "forward", 1);
  expect_report(shuffle_after_return<true>, 64, "the mask names a lane that has ended");
  expect_clean(shuffle_after_return<false>, 64, 7);
}

template <bool kBug>
__global__ void ballot_without_me(int* out) {
  const unsigned mask = kBug ? 0x0000ffffu : kAll;
  out[threadIdx.x] = __ballot_sync(mask, 1) != 0;
}
TEST_F(SeededBugs, CallerIsNotInTheMask) {
  expect_report(ballot_without_me<true>, 32, "the calling lane is not in the mask");
  expect_clean(ballot_without_me<false>, 32, 1);
}

template <bool kBug>
__global__ void full_mask_in_a_part_warp(int* out) {
  out[threadIdx.x] = __any_sync(kBug ? kAll : 0xffu, 1);
}
TEST_F(SeededBugs, MaskNamesLanesThatDoNotExist) {
  expect_report(full_mask_in_a_part_warp<true>, 8, "the mask names lanes that the block does not");
  expect_clean(full_mask_in_a_part_warp<false>, 8, 1);
}

template <bool kBug>
__global__ void masks_that_differ(int* out) {
  const unsigned odd = threadIdx.x % 2;
  out[threadIdx.x] = __any_sync(kBug && odd ? 0x7fffffffu | 1u << threadIdx.x : kAll, 1);
}
TEST_F(SeededBugs, LanesNameDifferentMasks) {
  expect_report(masks_that_differ<true>, 32, "lanes meet with different masks");
  expect_clean(masks_that_differ<false>, 32, 1);
}

template <bool kBug>
__global__ void shuffle_in_two_places(int* out) {
  if (kBug && threadIdx.x % 2 == 1) {
    out[threadIdx.x] = __shfl_xor_sync(kAll, 7, 1);
  } else {
    out[threadIdx.x] = __shfl_xor_sync(kAll, 7, 1);
  }
}
TEST_F(SeededBugs, LanesMeetAtDifferentLines) {
  expect_report(shuffle_in_two_places<true>, 32, "lanes meet at different warp collectives");
  expect_clean(shuffle_in_two_places<false>, 32, 7);
}

template <bool kBug>
__global__ void shuffle_from_outside(int* out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffu, 7, kBug ? 16 : 8);
}
TEST_F(SeededBugs, ReadsFromALaneOutsideTheMask) {
  expect_report(shuffle_from_outside<true>, 32, "reads from a lane outside the mask");
  expect_clean(shuffle_from_outside<false>, 16, 7);
}

template <bool kBug>
__global__ void shuffle_of_some_width(int* out) {
  out[threadIdx.x] = __shfl_sync(kAll, 7, 0, kBug ? 24 : 16);
}
TEST_F(SeededBugs, WidthIsNoPowerOfTwo) {
  expect_report(shuffle_of_some_width<true>, 32, "the width of a shuffle must be a power of two");
  expect_clean(shuffle_of_some_width<false>, 32, 7);
}

TEST_F(SeededBugs, ThreadOrderIsNoOrder) {
  setenv("SPECDEC_THREAD_ORDER", "backwards", 1);
  EXPECT_EXIT(run(ballot_without_me<false>, 1, 32, 32), ::testing::ExitedWithCode(2),
              "SPECDEC_THREAD_ORDER is 'backwards'; it takes forward, reverse or random");
}

__global__ void number_turns(int* out) { out[threadIdx.x] = atomicAdd(&out[64], 1); }
std::vector<int> turns(const char* order) {
  setenv("SPECDEC_THREAD_ORDER", order, 1);
  std::vector<int> numbers = run(number_turns, 1, 64, 65);
  numbers.pop_back();
  return numbers;
}
TEST_F(SeededBugs, ThreadsTakeTurnsInTheOrderAskedFor) {
  std::vector<int> expected(64);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(turns("forward"), expected);
  EXPECT_NE(turns("random"), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(turns("reverse"), expected);
}

// ---- what was never written is NaN

__global__ void read_static_shared(float* out) {
  __shared__ float values[64];
  if (threadIdx.x < 63) values[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
__global__ void read_dynamic_shared(float* out) {
  float* values = dynamic_shared<float>();
  if (threadIdx.x < 63) values[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
void expect_nan_in_the_last(const std::vector<float>& got) {
  for (std::size_t i = 0; i + 1 < got.size(); ++i) EXPECT_EQ(got[i], 1.0f);
  EXPECT_TRUE(std::isnan(got.back()));
}
TEST_F(SeededBugs, UninitialisedDynamicSharedMemory) {
  expect_nan_in_the_last(run(read_dynamic_shared, 1, 64, 64, 0.0f, 64 * sizeof(float)));
}
TEST_F(SeededBugs, UninitialisedStaticSharedMemory) {
  if (kAddressSanitizer) GTEST_SKIP() << "NOT CHECKED: no fresh shared variables in this build";
  expect_nan_in_the_last(run(read_static_shared, 1, 64, 64, 0.0f));
}
TEST_F(SeededBugs, UninitialisedDeviceMemory) {
  for (const float value : Buffer<float>(100).get()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
