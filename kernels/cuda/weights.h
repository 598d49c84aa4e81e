#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/cuda_matrix.h"

// Weights as device code sees them. Included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

__device__ inline float to_float(float w) { return w; }
__device__ inline float to_float(__half w) { return __half2float(w); }
__device__ inline float to_float(__nv_bfloat16 w) { return __bfloat162float(w); }
__device__ inline float to_float(std::int8_t w) { return static_cast<float>(w); }

// A matrix of elements T; scales: [rows], null but for int8.
template <typename T>
struct Weights {
  const unsigned char* data;
  std::size_t row_bytes;
  const float* scales;
  int rows, width;

  __device__ const T* row(int n) const {
    return reinterpret_cast<const T*>(data + static_cast<std::size_t>(n) * row_bytes);
  }
  __device__ float scale(int n) const {
    if constexpr (std::is_same_v<T, std::int8_t>) return scales[n];
    return 1.0f;
  }
};

// Calls job(Weights<T>) with the matrix' own T.
template <typename Job>
void with_weights(const CudaMatrix& m, const Job& job) {
  const auto call = [&]<typename T>(T) {
    job(Weights<T>{static_cast<const unsigned char*>(m.data()), m.row_bytes(), m.scales(), m.rows(),
                   m.width()});
  };
  switch (m.type()) {
    case WeightType::kF32:
      return call(float{});
    case WeightType::kF16:
      return call(__half{});
    case WeightType::kBF16:
      return call(__nv_bfloat16{});
    case WeightType::kInt8:
      return call(std::int8_t{});
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
