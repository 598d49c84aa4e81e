#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/cuda_matrix.h"

// Weights in device code. Only .cu files include it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

__device__ inline float to_float(float w) { return w; }
__device__ inline float to_float(__half w) { return __half2float(w); }
__device__ inline float to_float(__nv_bfloat16 w) { return __bfloat162float(w); }
__device__ inline float to_float(std::int8_t w) { return w; }

// The weights in one load of 16 bytes.
template <typename T>
constexpr int kGroup = 16 / sizeof(T);
template <typename T>
struct Group {
  T at[kGroup<T>];
};

// Loads weights, which a block reads only once, with a hint not to keep them in L1: the inputs need
// L1.
__device__ inline uint4 load_once(const void* from) {
#ifdef SPECDEC_EMULATED
  return *static_cast<const uint4*>(from);
#else
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
#endif
}

template <typename T>
__device__ Group<T> load_group(const Group<T>* from) {
  const uint4 loaded = load_once(from);
  Group<T> weights;
  memcpy(&weights, &loaded, sizeof loaded);
  return weights;
}

// A matrix of elements T. scales: [rows] for int8, otherwise null. Each row is a whole number of
// groups, padded with zeros.
template <typename T>
struct Weights {
  explicit Weights(const CudaMatrix& m)
      : data(static_cast<const unsigned char*>(m.data())),
        row_bytes(m.row_bytes()),
        scales(m.scales()),
        rows(m.rows()),
        width(m.width()) {}

  const unsigned char* data;
  std::size_t row_bytes;
  const float* scales;
  int rows, width;

  __device__ const T* row(int n) const { return reinterpret_cast<const T*>(data + n * row_bytes); }
  __device__ Group<T> group(int n, int g) const {
    return load_group(reinterpret_cast<const Group<T>*>(row(n)) + g);
  }
  __host__ __device__ int groups() const { return row_bytes / sizeof(uint4); }
  __device__ float scale(int n) const {
    if constexpr (std::is_same_v<T, std::int8_t>) return scales[n];
    return 1.0f;
  }
};

// Calls job(Weights<T>) with the matrix's T.
template <typename Job>
void with_weights(const CudaMatrix& m, const Job& job) {
  switch (m.type()) {
    case WeightType::kF32:
      return job(Weights<float>(m));
    case WeightType::kF16:
      return job(Weights<__half>(m));
    case WeightType::kBF16:
      return job(Weights<__nv_bfloat16>(m));
    case WeightType::kInt8:
      return job(Weights<std::int8_t>(m));
    case WeightType::kQ4:  // no CudaMatrix has it
      return;
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
