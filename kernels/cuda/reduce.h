#pragma once
#include "kernels/cuda/device_code.h"

// Reductions over all lanes of a warp, or all threads of a block. Every thread takes part, and
// every thread gets the result. The order depends only on the number of threads. Within a warp it
// is a tree: lanes l and l ^ 16 first, then l ^ 8, 4, 2, 1. The warps of a block come one after the
// other, or as another tree in functions with "tree" in their name. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// REQUIRES: no NaN.
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

struct Min {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

// IEEE 754's maximumNumber: any number beats a NaN.
struct MaxNumber {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces groups of `lanes` neighbours, a power of two. REQUIRES: all 32 lanes call it.
template <typename T, typename Operation>
// [snippet warp-reduce]
__device__ T warp_reduce(T value, Operation operation, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = operation(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
// [end snippet warp-reduce]

// REQUIRES: all threads of the block call it; whole warps in x, at most 32.
template <typename T, typename Operation>
__device__ T block_reduce(T value, Operation operation) {
  value = warp_reduce(value, operation);
  const int n_warps = blockDim.x / kWarp;
  if (n_warps == 1) return value;
  __shared__ T of_warps[kWarp];
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = of_warps[0];
  for (int w = 1; w < n_warps; ++w) value = operation(value, of_warps[w]);
  __syncthreads();  // of_warps is free for the next call
  return value;
}

// REQUIRES: all threads of the block call it; 1, 2, 4, ... 32 whole warps in x.
template <typename T, typename Operation>
__device__ T block_tree_reduce(T value, Operation operation) {
  __shared__ T of_warps[kWarp];
  const int n_warps = blockDim.x / kWarp;
  value = warp_reduce(value, operation);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warp_reduce(of_warps[threadIdx.x % n_warps], operation, n_warps);
  __syncthreads();  // of_warps is free for the next call
  return value;
}

template <typename T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, Sum());
}
template <typename T>
__device__ T warp_max(T value) {
  return warp_reduce(value, Max());
}
template <typename T>
__device__ T block_sum(T value) {
  return block_reduce(value, Sum());
}
template <typename T>
__device__ T block_max(T value) {
  return block_reduce(value, Max());
}
template <typename T>
__device__ T block_tree_sum(T value) {
  return block_tree_reduce(value, Sum());
}
template <typename T>
__device__ T block_tree_max(T value) {
  return block_tree_reduce(value, Max());
}
template <typename T>
__device__ T block_tree_min(T value) {
  return block_tree_reduce(value, Min());
}

// The sums over all lanes of many values at once: sum i has the bits of warp_sum(values[i]). In
// each step, two lanes divide their values between them, which halves the values per lane. So 32
// sums take 31 shuffles, where warp_sum would take 160. Lane l ends with kSumsOfLane sums in
// values[0 ..], from number l * kCount / 32 on. With fewer than 32 sums, neighbouring lanes hold
// the same one. kCount: a power of two. REQUIRES: all 32 lanes call it.
template <int kCount>
constexpr int kSumsOfLane = kCount > kWarp ? kCount / kWarp : 1;

template <int kCount, int kDistance = kWarp / 2>
__device__ void warp_sums(float* values) {
  constexpr int kKept = kCount > 1 ? kCount / 2 : 1;
  constexpr int kOther = kCount > 1 ? kKept : 0;  // from a value of the lower half to its twin
  const bool upper = threadIdx.x & kDistance;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const float keep = upper ? values[i + kOther] : values[i];
    const float give = upper ? values[i] : values[i + kOther];
    values[i] = keep + __shfl_xor_sync(kAllLanes, give, kDistance);
  }
  if constexpr (kDistance > 1) warp_sums<kKept, kDistance / 2>(values);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
