// How threads work together in kernels, as CUDA's programming guide has it: on a GPU the same test
// runs with CUDA itself.
#include <algorithm>

#include "tests/emulation/run.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr unsigned kAll = 0xffffffffu;

class Primitives : public DeviceTest {};

__device__ int flat_thread() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ int flat_block() {
  return static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}
__device__ int lane_of_thread() { return flat_thread() % warpSize; }

// What each of n threads of one block computes by `expected`.
template <typename T, typename Expected>
void expect_each(const std::vector<T>& got, const Expected& expected) {
  for (int i = 0; i < static_cast<int>(got.size()); ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(i)], expected(i)) << "at " << i;
  }
}

// ---- grids and blocks

__global__ void number_threads(int* out) {
  const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  const int i = flat_block() * threads + flat_thread();
  atomicAdd(&out[i], i + 1);
}

TEST_F(Primitives, RunsEveryThreadOfAGridOnce) {
  for (const dim3 grid : {dim3(1), dim3(5), dim3(2, 3), dim3(2, 3, 4)}) {
    for (const dim3 block : {dim3(1), dim3(33), dim3(7, 3), dim3(3, 4, 5), dim3(1024)}) {
      const unsigned size = grid.x * grid.y * grid.z * block.x * block.y * block.z;
      expect_each(run(number_threads, grid, block, size), [](int i) { return i + 1; });
    }
  }
}

// ---- shared memory and barriers

__global__ void reverse_in_static_shared(int* out) {
  __shared__ int values[96];
  values[threadIdx.x] = static_cast<int>(threadIdx.x + 100 * blockIdx.x);
  __syncthreads();
  out[blockIdx.x * 96 + threadIdx.x] = values[95 - threadIdx.x];
}

template <typename T>
__global__ void reverse_in_dynamic_shared(T* out) {
  T* values = dynamic_shared<T>();
  __shared__ T base;  // both kinds at once
  if (threadIdx.x == 0) base = static_cast<T>(100 * blockIdx.x);
  values[threadIdx.x] = static_cast<T>(threadIdx.x);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = base + values[blockDim.x - 1 - threadIdx.x];
}

TEST_F(Primitives, SharesMemoryInABlock) {
  const auto expected = [](int i) { return 95 - i % 96 + 100 * (i / 96); };
  expect_each(run(reverse_in_static_shared, 4, 96, 4 * 96), expected);
  expect_each(run(reverse_in_dynamic_shared<int>, 4, 96, 4 * 96, 0, 96 * sizeof(int)), expected);
  expect_each(run(reverse_in_dynamic_shared<double>, 4, 96, 4 * 96, 0.0, 96 * sizeof(double)),
              expected);
}

// Values walk around the block, one place a step; two barriers in a loop.
__global__ void walk_around(int* out) {
  __shared__ int values[160];
  const unsigned t = threadIdx.x;
  values[t] = static_cast<int>(t);
  for (int step = 0; step < 50; ++step) {
    __syncthreads();
    const int next = values[(t + 1) % blockDim.x];
    __syncthreads();
    values[t] = next;
  }
  out[t] = values[t];
}

TEST_F(Primitives, WaitsForAllThreadsOfABlock) {
  expect_each(run(walk_around, 1, 160, 160), [](int i) { return (i + 50) % 160; });
}

__global__ void barrier_after_some_have_ended(int* out) {
  __shared__ int values[64];
  if (threadIdx.x >= 64) return;  // whole warps
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}

TEST_F(Primitives, DoesNotWaitForThreadsThatHaveEnded) {
  expect_each(run(barrier_after_some_have_ended, 1, 128, 64), [](int i) { return 63 - i; });
}

__global__ void exchange_after_syncwarp(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}

TEST_F(Primitives, OrdersMemoryWithinAWarp) {
  expect_each(run(exchange_after_syncwarp, 1, 64, 64), [](int i) { return i ^ 1; });
}

// ---- votes

__global__ void votes(unsigned* out) {
  const int lane = lane_of_thread();
  const unsigned mine = lane % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
  unsigned* to = out + threadIdx.x * 8;
  to[0] = __ballot_sync(kAll, lane % 3 == 0);
  to[1] = __ballot_sync(mine, lane < 7);
  to[2] = static_cast<unsigned>(__any_sync(kAll, lane == 31));
  to[3] = static_cast<unsigned>(__any_sync(kAll, 0));
  to[4] = static_cast<unsigned>(__all_sync(kAll, 1));
  to[5] = static_cast<unsigned>(__all_sync(kAll, lane != 17));
  to[6] = static_cast<unsigned>(__all_sync(mine, lane % 2 == 0));
  to[7] = __ballot_sync(kAll, lane == 31 ? -4 : 0);
}

TEST_F(Primitives, Votes) {
  expect_each(run(votes, 1, 64, 64 * 8), [](int i) {
    const bool even = i / 8 % 2 == 0;
    const unsigned expected[8] = {0x49249249u, even ? 0x55u : 0x2au, 1, 0, 1, 0, even, 1u << 31};
    return expected[i % 8];
  });
}

__global__ void votes_of_the_last_warp(unsigned* out) {
  // 40 threads: the second warp has 8 lanes.
  const unsigned mask = threadIdx.x < 32 ? kAll : 0xffu;
  out[threadIdx.x] = __ballot_sync(mask, lane_of_thread() % 2);
}

TEST_F(Primitives, VotesInAWarpThatIsNotFull) {
  expect_each(run(votes_of_the_last_warp, 1, 40, 40),
              [](int i) { return i < 32 ? 0xaaaaaaaau : 0xaau; });
}

// ---- shuffles

// The lane that a value comes from, by the guide's words.
int source_of(int kind, int lane, int argument, int width) {
  const int first = lane / width * width, end = first + width;
  switch (kind) {
    case 0:
      return first + (argument % width + width) % width;
    case 1:
      return lane - argument < first ? lane : lane - argument;
    case 2:
      return lane + argument >= end ? lane : lane + argument;
    default:
      return (lane ^ argument) >= end ? lane : lane ^ argument;
  }
}

struct Shuffle {
  int kind, argument, width;
};

template <typename T>
__global__ void shuffles(T* out, Shuffle s) {
  const T value = static_cast<T>(lane_of_thread()) * static_cast<T>(1000000007);
  const auto number = static_cast<unsigned>(s.argument);
  T got;
  if (s.kind == 0) {
    got = __shfl_sync(kAll, value, s.argument, s.width);
  } else if (s.kind == 1) {
    got = __shfl_up_sync(kAll, value, number, s.width);
  } else if (s.kind == 2) {
    got = __shfl_down_sync(kAll, value, number, s.width);
  } else {
    got = __shfl_xor_sync(kAll, value, s.argument, s.width);
  }
  out[threadIdx.x] = got;
}

template <typename T>
void expect_shuffles() {
  for (int kind = 0; kind < 4; ++kind) {
    for (int width = 1; width <= 32; width *= 2) {
      for (int argument = 0; argument < 32; ++argument) {
        const Buffer<T> out(64);
        launch(shuffles<T>, 1, 64, 0, nullptr, out.data(), Shuffle{kind, argument, width});
        expect_each(out.get(), [&](int i) {
          return static_cast<T>(source_of(kind, i % 32, argument, width)) *
                 static_cast<T>(1000000007);
        });
      }
    }
  }
}

TEST_F(Primitives, ShufflesFourBytes) {
  expect_shuffles<unsigned>();
  expect_shuffles<float>();
}
TEST_F(Primitives, ShufflesEightBytes) {
  expect_shuffles<long long>();
  expect_shuffles<double>();
}

__global__ void shuffle_by_default_width(int* out) {
  const int lane = lane_of_thread();
  out[threadIdx.x] = __shfl_sync(kAll, lane, -1) + 100 * __shfl_sync(kAll, lane, 35) +
                     10000 * __shfl_xor_sync(kAll, lane, 16);
}

TEST_F(Primitives, WrapsTheSourceLane) {
  expect_each(run(shuffle_by_default_width, 1, 32, 32),
              [](int i) { return 31 + 100 * 3 + 10000 * (i ^ 16); });
}

// Two halves of a warp shuffle in loops of different lengths.
__global__ void shuffle_in_halves(int* out) {
  const int lane = lane_of_thread();
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  int value = lane;
  for (int step = 0; step < (lane < 16 ? 3 : 5); ++step) {
    value = __shfl_sync(half, value, (lane + 1) % 16 + lane / 16 * 16);
  }
  out[threadIdx.x] = value;
}

TEST_F(Primitives, LetsPartsOfAWarpGoTheirOwnWays) {
  expect_each(run(shuffle_in_halves, 1, 32, 32),
              [](int i) { return (i + (i < 16 ? 3 : 5)) % 16 + i / 16 * 16; });
}

__global__ void shuffle_halves(unsigned short* out) {
  const __half half = __float2half(static_cast<float>(lane_of_thread()));
  const __nv_bfloat16 bfloat = __float2bfloat16(static_cast<float>(lane_of_thread()));
  out[threadIdx.x] = __half_as_ushort(__shfl_xor_sync(kAll, half, 1));
  out[32 + threadIdx.x] = __bfloat16_as_ushort(__shfl_xor_sync(kAll, bfloat, 1));
}

TEST_F(Primitives, ShufflesTwoByteFloats) {
  const std::vector<unsigned short> got = run(shuffle_halves, 1, 32, 64);
  EXPECT_EQ(got[2], 0x4200);       // 3 as a half
  EXPECT_EQ(got[32 + 2], 0x4040);  // 3 as a bfloat16
}

// ---- reductions

__global__ void reductions(int* out) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const int lane = lane_of_thread(), value = lane * 7 % 32 - 16;
  const unsigned bits = 1u << lane, mine = lane < 8 ? 0xffu : 0xffffff00u;
  int* to = out + threadIdx.x * 8;
  to[0] = __reduce_add_sync(kAll, value);
  to[1] = __reduce_min_sync(kAll, value);
  to[2] = __reduce_max_sync(kAll, value);
  to[3] = static_cast<int>(__reduce_max_sync(kAll, static_cast<unsigned>(value)));
  to[4] = static_cast<int>(__reduce_or_sync(mine, bits));
  to[5] = static_cast<int>(__reduce_and_sync(kAll, ~bits | 0xff000000u));
  to[6] = static_cast<int>(__reduce_xor_sync(mine, bits | 1u));
  to[7] = __reduce_add_sync(mine, lane);
#endif
}

TEST_F(Primitives, Reduces) {
  expect_each(run(reductions, 1, 32, 32 * 8), [](int i) {
    const bool low = i / 8 < 8;
    const int high = static_cast<int>(0xffffff00u), top = static_cast<int>(0xff000000u);
    const int expected[8] = {
        -16, -16, 15, -1, low ? 0xff : high, top, low ? 0xfe : high, low ? 28 : 496 - 28};
    return expected[i % 8];
  });
}

// ---- atomics

template <typename T>
struct AtomicTotals {
  T added, subtracted, most, least, ored, anded, xored, exchanged, counter;
};

template <typename T>
__global__ void atomics(AtomicTotals<T>* totals, T* seen) {
  const T i = static_cast<T>(blockIdx.x * blockDim.x + threadIdx.x);
  seen[i] = atomicAdd(&totals->counter, T{1});
  atomicAdd(&totals->added, i);
  atomicMax(&totals->most, i);
  atomicMin(&totals->least, i);
  atomicOr(&totals->ored, T{1} << (i % 8));
  atomicAnd(&totals->anded, ~(T{1} << (i % 8)));
  atomicXor(&totals->xored, i);
  atomicExch(&totals->exchanged, i);
  // An addition by compare and swap.
  T old = atomicAdd(&totals->subtracted, T{0}), assumed;
  do {
    assumed = old;
    old = atomicCAS(&totals->subtracted, assumed, static_cast<T>(assumed - i));
  } while (old != assumed);
}

template <typename T>
void expect_atomics() {
  constexpr T kStart = 1000000;
  const Buffer<AtomicTotals<T>> totals(std::vector<AtomicTotals<T>>{
      {kStart, kStart, 5, kStart, 0, static_cast<T>(~T{0}), 0, kStart, 0}});
  const Buffer<T> seen(std::size_t{300});
  launch(atomics<T>, 3, 100, 0, nullptr, totals.data(), seen.data());
  const AtomicTotals<T> got = totals.get().front();
  EXPECT_EQ(got.added, kStart + 299 * 300 / 2);
  EXPECT_EQ(got.subtracted, kStart - 299 * 300 / 2);
  EXPECT_EQ(got.most, T{299});
  EXPECT_EQ(got.least, T{0});
  EXPECT_EQ(got.ored, T{255});
  EXPECT_EQ(got.anded, static_cast<T>(~T{255}));
  T xored = 0;
  for (T i = 0; i < 300; ++i) xored ^= i;
  EXPECT_EQ(got.xored, xored);
  EXPECT_LT(got.exchanged, T{300});
  std::vector<T> order = seen.get();  // the old values: every number once
  std::sort(order.begin(), order.end());
  expect_each(order, [](int i) { return static_cast<T>(i); });
}

TEST_F(Primitives, UpdatesAtomically) {
  expect_atomics<int>();
  expect_atomics<unsigned>();
  expect_atomics<unsigned long long>();
}

__global__ void atomic_returns(int* out) {
  int* x = out + 7;
  *x = 5;
  out[0] = atomicAdd(x, 2);
  out[1] = atomicMax(x, 3);
  out[2] = atomicMin(x, 3);
  out[3] = atomicExch(x, 9);
  out[4] = atomicCAS(x, 8, 1);
  out[5] = atomicCAS(x, 9, 1);
  out[6] = *x;
}

__global__ void count_in_turns(unsigned* count, unsigned* seen) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  seen[i] = atomicInc(count, 2);
}

TEST_F(Primitives, CountsToALimitAndStartsAgain) {
  const Buffer<unsigned> count(std::vector<unsigned>{0}), seen(std::size_t{8});
  launch(count_in_turns, 2, 4, 0, nullptr, count.data(), seen.data());
  std::vector<unsigned> order = seen.get();
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<unsigned>{0, 0, 0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(count.get().front(), 2u);
  const Buffer<unsigned> above(std::vector<unsigned>{7});
  launch(count_in_turns, 1, 1, 0, nullptr, above.data(), seen.data());
  EXPECT_EQ(above.get().front(), 0u);
}

TEST_F(Primitives, AtomicsReturnTheOldValue) {
  const std::vector<int> got = run(atomic_returns, 1, 1, 8);
  EXPECT_EQ(got, (std::vector<int>{5, 7, 7, 3, 9, 9, 1, 1}));
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
