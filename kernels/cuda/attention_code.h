#pragma once
#include <cfloat>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device_code.h"

// What the steps of attention share. Device code: included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Every lane gets the largest value of its warp. REQUIRES: all 32 lanes call.
template <typename T>
__device__ T warp_max(T value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// Every lane gets the sum over its warp, the same bits: a + b equals b + a. REQUIRES: all 32 lanes
// call.
__device__ inline float warp_sum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

// Where position j of a sequence begins in keys and values, in floats; from there on lie its heads.
// [snippet offset-of]
__device__ inline std::ptrdiff_t offset_of(const std::int32_t* pages, int page_size, int j,
                                           const HeadShape& heads) {
  const std::ptrdiff_t page = pages[j / page_size];
  return (page * page_size + j % page_size) * heads.n_kv_heads * heads.head_dim;
}
// [end snippet offset-of]

// What scores are multiplied by.
__device__ inline float score_scale(int head_dim) {
  return 1.0f / sqrtf(static_cast<float>(head_dim));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
