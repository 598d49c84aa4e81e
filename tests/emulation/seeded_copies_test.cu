// Seeded bugs of copies into shared memory, of wide accesses, and of too much shared memory.
#include <algorithm>
#include <numeric>

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"
#include "tests/emulation/seeded_bugs.h"

// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

// ---- a ring of stages: a wrong sum whatever the order of the threads, and a race

constexpr int kThreads = 128, kStages = 6, kRing = 3;
enum class RingBug { kNone, kRefillsTooSoon, kDoesNotWait };

// A thread adds what another thread has copied. Two stages are in flight.
template <RingBug kBug>
__global__ void add_stages(const int* from, int* to) {
  int* const ring = dynamic_shared<int>();
  const int t = static_cast<int>(threadIdx.x);
  AsyncCopies copies;
  const auto request = [&](int stage) {
    if (stage < kStages) {
      copies.copy4(ring + stage % kRing * kThreads + t, from + stage * kThreads + t);
    }
    copies.end_group();
  };
  request(0);
  request(1);
  int sum = 0;
  for (int stage = 0; stage < kStages; ++stage) {
    copies.wait_for_groups<kBug == RingBug::kDoesNotWait ? 2 : 1>();
    if (kBug == RingBug::kRefillsTooSoon) request(stage + 2);  // others still read what was there
    __syncthreads();
    if (kBug != RingBug::kRefillsTooSoon) request(stage + 2);
    sum += ring[stage % kRing * kThreads + kThreads - 1 - t];
  }
  copies.wait();
  to[t] = sum;
}

using Copy = void (*)(const int*, int*);
std::vector<int> copied(Copy kernel, std::size_t shared_bytes) {
  std::vector<int> numbers(kThreads * kStages);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Buffer<int> from(numbers), to(std::size_t{kThreads});
  launch(kernel, 1, kThreads, shared_bytes, nullptr, from.data(), to.data());
  return to.get();
}
std::vector<int> sums_of_stages(Copy kernel) {
  return copied(kernel, kRing * kThreads * sizeof(int));
}

void expect_wrong_in_every_order(Copy bug, Copy right) {
  std::vector<int> want(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    for (int stage = 0; stage < kStages; ++stage) want[t] += (stage + 1) * kThreads - 1 - t;
  }
  if (kThreadSanitizer) {
    EXPECT_DEATH(sums_of_stages(bug), "data race(.|\n)*add_stages");
  }
  in_every_order([&](const char* order) {
    if (!kThreadSanitizer) {
      EXPECT_NE(sums_of_stages(bug), want) << order;
    }
    EXPECT_EQ(sums_of_stages(right), want) << order;
  });
}
TEST_F(SeededBugs, ARingIsRefilledTooSoon) {
  expect_wrong_in_every_order(add_stages<RingBug::kRefillsTooSoon>, add_stages<RingBug::kNone>);
}
TEST_F(SeededBugs, ACopyIsReadTooEarly) {
  expect_wrong_in_every_order(add_stages<RingBug::kDoesNotWait>, add_stages<RingBug::kNone>);
}

template <bool kBug>
__global__ void write_in_flight(const int* from, int* to) {
  int* const shared = dynamic_shared<int>() + threadIdx.x;
  AsyncCopies copies;
  copies.copy4(shared, from + threadIdx.x);
  if (!kBug) copies.wait();
  *shared += 1;
  copies.wait();
  to[threadIdx.x] = *shared;
}
TEST_F(SeededBugs, ACopysDestinationIsWrittenInFlight) {
  EXPECT_DEATH(copied(write_in_flight<true>, kThreads * sizeof(int)),
               "what an asynchronous copy writes was changed in flight");
  EXPECT_EQ(copied(write_in_flight<false>, kThreads * sizeof(int)).back(), kThreads);
}

// ---- addresses of wide accesses

constexpr const char* kMisaligned = "an access at an address that is not a multiple of its size";

template <int kWrongFrom, int kWrongTo>
__global__ void copy_sixteen(const int* from, int* to) {
  int* const shared = dynamic_shared<int>();
  const int t = static_cast<int>(threadIdx.x);
  AsyncCopies copies;
  if (t < 8) copies.copy16(shared + 4 * t + kWrongTo, from + 4 * t + kWrongFrom);
  copies.wait();
  __syncthreads();
  to[t] = t < 32 ? shared[t] : 0;
}
TEST_F(SeededBugs, MisalignedCopies) {
  constexpr std::size_t kBytes = 64 * sizeof(int);
  EXPECT_DEATH(copied(copy_sixteen<1, 0>, kBytes), kMisaligned);
  EXPECT_DEATH(copied(copy_sixteen<0, 2>, kBytes), kMisaligned);
  EXPECT_EQ(copied(copy_sixteen<0, 0>, kBytes)[31], 31);
}

template <int kWrong>
__global__ void load_weights(const int* from, int* to) {
  to[threadIdx.x] = static_cast<int>(load_once(from + 4 * threadIdx.x + kWrong).w);
}
template <int kWrong>
__global__ void load_inputs(const int* from, int* to) {
  const float* const inputs = reinterpret_cast<const float*>(from) + 4 * threadIdx.x + kWrong;
  to[threadIdx.x] = __float_as_int(load4_aligned(inputs).at[3]);
}
TEST_F(SeededBugs, MisalignedWideLoads) {
  EXPECT_DEATH(copied(load_weights<1>, 0), kMisaligned);
  EXPECT_DEATH(copied(load_inputs<2>, 0), kMisaligned);
  for (const Copy right : {load_weights<0>, load_inputs<0>}) {
    EXPECT_EQ(copied(right, 0)[100], 403);
  }
}

// ---- static and dynamic shared memory share a limit

constexpr int kStatic = 12000;
__global__ void use_static_shared(int* out) {
  __shared__ int values[kStatic];  // 48,000 bytes of 49,152
  for (int i = static_cast<int>(threadIdx.x); i < kStatic; i += kThreads) values[i] = i;
  dynamic_shared<int>()[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[kStatic - 1 - threadIdx.x] + dynamic_shared<int>()[threadIdx.x];
}
int last_with(std::size_t dynamic_bytes) {
  return run(use_static_shared, 1, kThreads, kThreads, 0, dynamic_bytes).back();
}
TEST_F(SeededBugs, StaticAndDynamicSharedMemoryTogetherAreTooMuch) {
  constexpr std::size_t kRoom = 49152 - kStatic * sizeof(int);
  EXPECT_EQ(last_with(kRoom), kStatic - kThreads + 1);
  if (kAddressSanitizer) GTEST_SKIP() << "NOT CHECKED: shared variables have no section here";
  const char* const report = "static and dynamic shared memory together exceed the limit";
  EXPECT_DEATH(last_with(kRoom + 16), report);
  constexpr std::size_t kMost = 232448;
  cuda_check(
      cudaFuncSetAttribute(use_static_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost));
  EXPECT_EQ(last_with(kMost - kStatic * sizeof(int)), kStatic - kThreads + 1);
  EXPECT_DEATH(last_with(kMost), report);
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
