#pragma once
#include <limits>

#include "kernels/cuda/device_code.h"

// Collectives of a block for the kernels that sample. All threads of the block call them together
// and all get the result; blocks are one-dimensional, of 32, 64, 128, ... 1,024 threads. The order
// of summation depends on the number of elements and of threads alone. Device code: included by .cu
// files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kMaxSamplingThreads = 1024;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int threads() { return static_cast<int>(blockDim.x); }

// The value of `width` neighbouring lanes combined: 1, 2, 4, ... 32 of them. For an operation that
// commutes, as all lanes then get the same bits.
template <typename T, typename Operation>
__device__ T warp_reduce(T value, int width, const Operation& combine) {
  for (int distance = width / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// The threads' values combined: those of each warp, then those of the warps.
template <typename T, typename Operation>
__device__ T block_reduce(T value, const Operation& combine) {
  __shared__ T of_warp[kWarp];
  const int warps = threads() / kWarp;
  value = warp_reduce(value, kWarp, combine);
  if (thread() % kWarp == 0) of_warp[thread() / kWarp] = value;
  __syncthreads();
  value = warp_reduce(of_warp[thread() % warps], warps, combine);
  __syncthreads();  // the next call writes of_warp
  return value;
}

template <typename T>
__device__ T block_sum(T value) {
  return block_reduce(value, [](T a, T b) { return a + b; });
}
template <typename T>
__device__ T block_max(T value) {
  return block_reduce(value, [](T a, T b) { return a > b ? a : b; });
}
template <typename T>
__device__ T block_min(T value) {
  return block_reduce(value, [](T a, T b) { return a < b ? a : b; });
}

// The sum of term(i) over i < n.
template <typename Term>
__device__ double sum_of(int n, const Term& term) {
  double sum = 0;
  for (int i = thread(); i < n; i += threads()) sum += term(i);
  return block_sum(sum);
}

// The largest value(i) over i < n; minus infinity where n is 0.
template <typename Value>
__device__ double max_of(int n, const Value& value) {
  double largest = -kInfinity;
  for (int i = thread(); i < n; i += threads()) {
    const double mine = value(i);
    if (mine > largest) largest = mine;
  }
  return block_max(largest);
}

// The lowest i < n with the largest value(i) above minus infinity; n where there is none.
template <typename Value>
__device__ int argmax_of(int n, const Value& value) {
  double largest = -kInfinity;
  int at = n;
  for (int i = thread(); i < n; i += threads()) {
    const double mine = value(i);
    if (mine > largest) {
      largest = mine;
      at = i;
    }
  }
  return block_min(largest == block_max(largest) ? at : n);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
