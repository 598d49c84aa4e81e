#pragma once
#include "kernels/cuda/device_code.h"
#include "kernels/kv_layer.h"

// Numbers of a cache, as kernels read and write them. Device code: included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Exact.
__device__ inline float as_float(float stored) { return stored; }
__device__ inline float as_float(BFloat16 stored) {
  return __bfloat162float(__ushort_as_bfloat16(stored.bits));
}

// To nearest, ties to even.
__device__ inline void round_to(float number, float& stored) { stored = number; }
__device__ inline void round_to(float number, BFloat16& stored) {
  stored.bits = __bfloat16_as_ushort(__float2bfloat16_rn(number));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
