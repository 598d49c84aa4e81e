#pragma once
#include "kernels/cuda/device_code.h"
#include "kernels/kv_layer.h"

// How kernels read and write the numbers of a cache. Device code: only .cu files include it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Exact.
__device__ inline float as_float(float stored) { return stored; }
__device__ inline float as_float(BFloat16 stored) {
  return __bfloat162float(__ushort_as_bfloat16(stored.bits));
}

// Rounds to nearest, ties to even.
__device__ inline void round_to(float number, float& stored) { stored = number; }
__device__ inline void round_to(float number, BFloat16& stored) {
  stored.bits = __bfloat16_as_ushort(__float2bfloat16_rn(number));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
