// Bugs that kernels have, one by one, each beside the right kernel: the emulation must catch the
// bug by the means that docs/emulation names, and have nothing to say against the right one.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>

#include "tests/emulation/run.h"

#ifndef __has_feature
#define __has_feature(feature) 0  // g++ 12
#endif
#ifdef __SANITIZE_ADDRESS__
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

constexpr unsigned kAll = 0xffffffffu;
const std::string kHere = "seeded_bugs_test.cu:";

void expect_report(void (*kernel)(int*), unsigned threads, const std::string& report) {
  EXPECT_DEATH(run(kernel, 1, threads, 128), kHere + "[0-9]+: CUDA emulation: (" + report + ")");
}
void expect_clean(void (*kernel)(int*), unsigned threads, int expected) {
  for (const char* order : {"forward", "reverse", "random"}) {
    setenv("SPECDEC_THREAD_ORDER", order, 1);
    const std::vector<int> got = run(kernel, 1, threads, 128);
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(got[i], expected) << i << " " << order;
  }
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

// ---- races: a wrong result in some order of the threads, and ThreadSanitizer names both lines

constexpr int kNeighbour = __LINE__;
template <bool kBug>
__global__ void read_the_neighbour(int* out) {
  __shared__ int values[128];
  values[threadIdx.x] = 7;
  if (!kBug) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

// A race between the lines that stand so many lines below `first`, in whichever order they ran.
std::string race(int first, int one, int other) {
  const std::string a = kHere + std::to_string(first + one),
                    b = kHere + std::to_string(first + other);
  return "data race(.|\n)*(" + a + "(.|\n)*Previous(.|\n)*" + b + "|" + b +
         "(.|\n)*Previous(.|\n)*" + a + ")";
}

TEST_F(SeededBugs, MissingBarrier) {
  if (kThreadSanitizer) {
    EXPECT_DEATH(run(read_the_neighbour<true>, 1, 128, 128), race(kNeighbour, 4, 6));
  } else {
    int wrong_orders = 0;
    for (const char* order : {"forward", "reverse", "random"}) {
      setenv("SPECDEC_THREAD_ORDER", order, 1);
      wrong_orders += run(read_the_neighbour<true>, 1, 128, 128) != std::vector<int>(128, 7);
    }
    EXPECT_GT(wrong_orders, 0);
  }
  expect_clean(read_the_neighbour<false>, 128, 7);
}

constexpr int kCount = __LINE__;
template <bool kBug>
__global__ void count_blocks(int* out) {
  if (threadIdx.x > 0) return;
  if (kBug) {
    out[0] += 1;
  } else {
    atomicAdd(&out[0], 1);
  }
}
TEST_F(SeededBugs, UnatomicCountOfBlocks) {
  if (kThreadSanitizer) {
    EXPECT_DEATH(run(count_blocks<true>, 8, 32, 1), race(kCount, 5, 5));
  }
  EXPECT_EQ(run(count_blocks<false>, 8, 32, 1).front(), 8);
}

constexpr int kShuffle = __LINE__;
template <bool kBug>
__global__ void shuffle_as_barrier(int* out) {
  int* values = dynamic_shared<int>();
  values[threadIdx.x] = 7;
  __shfl_sync(kAll, 0, 0);
  if (!kBug) __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
TEST_F(SeededBugs, ShuffleIsNoMemoryBarrier) {
  if (kThreadSanitizer) {
    EXPECT_DEATH(run(shuffle_as_barrier<true>, 1, 64, 64, 0, 64 * sizeof(int)),
                 race(kShuffle, 4, 7));
  }
  EXPECT_EQ(run(shuffle_as_barrier<false>, 1, 64, 64, 0, 64 * sizeof(int)),
            std::vector<int>(64, 7));
}

// A warp's barrier orders nothing for the other warps.
constexpr int kWarps = __LINE__;
template <bool kBug>
__global__ void warp_barrier_for_a_block(int* out) {
  __shared__ int values[128];
  values[threadIdx.x] = 7;
  if (kBug) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = values[127 - threadIdx.x];
}
TEST_F(SeededBugs, WarpBarrierInPlaceOfTheBlocks) {
  if (kThreadSanitizer) {
    EXPECT_DEATH(run(warp_barrier_for_a_block<true>, 1, 128, 128), race(kWarps, 4, 10));
  }
  expect_clean(warp_barrier_for_a_block<false>, 128, 7);
}

// Blocks use the same shared memory one after the other: no race.
__global__ void shared_by_many_blocks(int* out) {
  __shared__ int values[64];
  int* more = dynamic_shared<int>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  more[63 - threadIdx.x] = 1;
  __syncthreads();
  atomicAdd(&out[threadIdx.x], values[63 - threadIdx.x] + more[threadIdx.x]);
}
TEST_F(SeededBugs, SharedMemoryOfBlocksIsTheirOwn) {
  const std::vector<int> got = run(shared_by_many_blocks, 20, 64, 64, 0, 64 * sizeof(int));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], 20 * (64 - i));
}

// ---- addresses: AddressSanitizer and UBSan

void expect_caught_by_asan(void (*kernel)(int*), const std::string& report) {
  if (kAddressSanitizer) {
    EXPECT_DEATH(run(kernel, 1, 64, 64, 0, 64 * sizeof(int)), report);
  }
}
void expect_seven(void (*kernel)(int*)) {
  EXPECT_EQ(run(kernel, 1, 64, 64, 0, 64 * sizeof(int)), std::vector<int>(64, 7));
}

template <bool kBug>
__global__ void leave_dynamic_shared(int* out) {
  dynamic_shared<int>()[threadIdx.x + kBug] = 7;
  out[threadIdx.x] = 7;
}
TEST_F(SeededBugs, OneBeyondDynamicSharedMemory) {
  expect_caught_by_asan(leave_dynamic_shared<true>, "AddressSanitizer: use-after-poison");
  expect_seven(leave_dynamic_shared<false>);
}

template <bool kBug>
__global__ void leave_global(int* out) {
  out[threadIdx.x + kBug] = 7;
}
TEST_F(SeededBugs, OneBeyondDeviceMemory) {
  expect_caught_by_asan(leave_global<true>, "AddressSanitizer: heap-buffer-overflow");
  expect_seven(leave_global<false>);
}

template <bool kBug>
__global__ void leave_local(int* out) {
  int values[4] = {7, 7, 7, 7};
  int* volatile from = values;
  out[threadIdx.x] = from[threadIdx.x % 4 + kBug];
}
TEST_F(SeededBugs, OneBeyondALocalArray) {
  expect_caught_by_asan(leave_local<true>, "AddressSanitizer: stack-buffer-overflow");
  expect_seven(leave_local<false>);
}

template <bool kBug>
__global__ void leave_a_row(int* out) {
  __shared__ int tile[8][8];
  const unsigned r = threadIdx.x / 8, c = threadIdx.x % 8;
  tile[r][c + (kBug && r == 3)] = 7;
  out[threadIdx.x] = tile[r][c];
}
TEST_F(SeededBugs, OneBeyondARowOfASharedArray) {
  expect_caught_by_asan(leave_a_row<true>, "index 8 out of bounds for type 'int \\[8\\]'");
  expect_seven(leave_a_row<false>);
}

template <bool kBug>
__global__ void load_four(int* out) {
  int* values = dynamic_shared<int>();
  values[threadIdx.x] = 7;
  __syncthreads();
  out[threadIdx.x] = reinterpret_cast<int4*>(values + kBug)[threadIdx.x % 8].x;
}
TEST_F(SeededBugs, MisalignedVectorLoad) {
  expect_caught_by_asan(load_four<true>, "misaligned address.*int4");
  expect_seven(load_four<false>);
}

void* volatile lost;
TEST_F(SeededBugs, DeviceMemoryOfTheHostsMaking) {
  if (!kAddressSanitizer) GTEST_SKIP() << "NOT CHECKED: AddressSanitizer's build does";
  const auto allocate = [] {
    int* block = nullptr;
    cuda_check(cudaMalloc(&block, 256));
    return block;
  };
  EXPECT_DEATH(
      {
        int* block = allocate();
        cudaFree(block);
        cudaFree(block);
      },
      "AddressSanitizer: attempting double-free");
  EXPECT_DEATH(
      {
        int* block = allocate();
        cudaFree(block);
        launch(leave_global<false>, 1, 64, 0, nullptr, block);
      },
      "AddressSanitizer: heap-use-after-free");
  EXPECT_DEATH(
      {
        for (int i = 0; i < 100; ++i) lost = allocate();
        std::exit(0);
      },
      "LeakSanitizer: detected memory leaks");
}

__device__ int deep(int n) {
  volatile char room[4096];
  room[n % 4096] = 1;
  return n == 0 ? 7 : deep(n - 1) + room[n % 4096] - 1;
}
template <bool kBug>
__global__ void recurse(int* out) {
  out[threadIdx.x] = deep(kBug ? 1000 : 1);
}
TEST_F(SeededBugs, StackOfAThreadOverflows) {
  if (!kThreadSanitizer) {  // which leaves no room for guards
    EXPECT_DEATH(run(recurse<true>, 1, 64, 64), "");
  }
  expect_seven(recurse<false>);
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
