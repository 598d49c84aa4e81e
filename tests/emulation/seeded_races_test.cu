// Seeded bugs that the sanitizers catch: races and wrong addresses.
#include "tests/emulation/seeded_bugs.h"

// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

// ---- races: a wrong result in some order of the threads, and ThreadSanitizer names both lines

constexpr int kNeighbour = __LINE__;
template <bool kBug>
__global__ void read_the_neighbour(int* out) {
  __shared__ int values[128];
  values[threadIdx.x] = 7;
  if (!kBug) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

// A race between two lines, which are one and other lines below `first`, in either order.
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

void expect_seven(void (*kernel)(int*)) {
  EXPECT_EQ(run(kernel, 1, 64, 64, 0, 64 * sizeof(int)), std::vector<int>(64, 7));
}
void expect_caught_by_asan(void (*bug)(int*), void (*right)(int*), const std::string& report) {
  if (kAddressSanitizer) {
    EXPECT_DEATH(run(bug, 1, 64, 64, 0, 64 * sizeof(int)), report);
  }
  expect_seven(right);
}

template <bool kBug>
__global__ void leave_dynamic_shared(int* out) {
  dynamic_shared<int>()[threadIdx.x + kBug] = 7;
  out[threadIdx.x] = 7;
}
TEST_F(SeededBugs, OneBeyondDynamicSharedMemory) {
  expect_caught_by_asan(leave_dynamic_shared<true>, leave_dynamic_shared<false>,
                        "AddressSanitizer: use-after-poison");
}

template <bool kBug>
__global__ void leave_global(int* out) {
  out[threadIdx.x + kBug] = 7;
}
TEST_F(SeededBugs, OneBeyondDeviceMemory) {
  expect_caught_by_asan(leave_global<true>, leave_global<false>,
                        "AddressSanitizer: heap-buffer-overflow");
}

template <bool kBug>
__global__ void leave_local(int* out) {
  int values[4] = {7, 7, 7, 7};
  int* volatile from = values;
  out[threadIdx.x] = from[threadIdx.x % 4 + kBug];
}
TEST_F(SeededBugs, OneBeyondALocalArray) {
  expect_caught_by_asan(leave_local<true>, leave_local<false>,
                        "AddressSanitizer: stack-buffer-overflow");
}

template <bool kBug>
__global__ void leave_a_row(int* out) {
  __shared__ int tile[8][8];
  const unsigned r = threadIdx.x / 8, c = threadIdx.x % 8;
  tile[r][c + (kBug && r == 3)] = 7;
  out[threadIdx.x] = tile[r][c];
}
TEST_F(SeededBugs, OneBeyondARowOfASharedArray) {
  expect_caught_by_asan(leave_a_row<true>, leave_a_row<false>,
                        "index 8 out of bounds for type 'int \\[8\\]'");
}

template <bool kBug>
__global__ void load_four(int* out) {
  int* values = dynamic_shared<int>();
  values[threadIdx.x] = 7;
  __syncthreads();
  out[threadIdx.x] = reinterpret_cast<int4*>(values + kBug)[threadIdx.x % 8].x;
}
TEST_F(SeededBugs, MisalignedVectorLoad) {
  expect_caught_by_asan(load_four<true>, load_four<false>, "misaligned address.*int4");
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
