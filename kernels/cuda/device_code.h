#pragma once
#include "kernels/cuda/launch.h"
#include "kernels/device_memory.h"

// Basics of all kernels. Device code: only .cu files include it.
//
// threadIdx and blockIdx are unsigned. Hot kernels copy them into an int before they compute with
// them: the compiler may assume that int arithmetic does not wrap, which saves instructions.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// Row r of a matrix.
__device__ inline float* row_of(const DeviceRows& x, int r) { return x.data + r * x.stride; }
__device__ inline const float* row_of(const ConstDeviceRows& x, int r) {
  return x.data + r * x.stride;
}

// The number of blocks of `threads` threads that cover `count` items, one per thread.
inline unsigned blocks_for(std::ptrdiff_t count, int threads) {
  return (count + threads - 1) / threads;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
