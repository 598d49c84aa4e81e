#pragma once
#include <cstdint>

#include "kernels/cuda/device_code.h"

// Loads and stores of four neighbouring floats: one access of 16 bytes if the address is aligned,
// otherwise one by one, with the same bits. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

struct alignas(16) Vector4 {
  float at[4];
};

__host__ __device__ inline bool is_aligned(const float* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Vector4) == 0;
}

// REQUIRES: is_aligned(from).
__device__ inline Vector4 load4_aligned(const float* from) {
#ifdef SPECDEC_EMULATED
  emulation::check_aligned(from, sizeof(Vector4));
#endif
  return *reinterpret_cast<const Vector4*>(from);
}

// from[0 .. 3], with zeros from index `count` on, where nothing is read. count: any.
__device__ inline Vector4 load4(const float* from, int count) {
  if (count >= 4 && is_aligned(from)) return load4_aligned(from);
  Vector4 v;
#pragma unroll
  for (int i = 0; i < 4; ++i) v.at[i] = i < count ? from[i] : 0.0f;
  return v;
}

// to[0 .. 3] = v, writing nothing from index `count` on.
__device__ inline void store4(float* to, int count, const Vector4& v) {
  if (count >= 4 && is_aligned(to)) {
    *reinterpret_cast<Vector4*>(to) = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) to[i] = v.at[i];
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
