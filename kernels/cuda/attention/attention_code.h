#pragma once
#include <cfloat>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.h"

// What the steps of attention share. Device code: included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

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
