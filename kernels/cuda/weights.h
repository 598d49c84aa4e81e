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

// Types of elements: four and eight bits, in groups.
struct Q4 {};
struct Q8 {};
static_assert(sizeof(Q4) == 1 && sizeof(Q8) == 1, "for PipelineShape: a byte or less");

// What CudaMatrix::scales() has of elements T.
template <typename T>
struct ScalesOf {
  using Type = float;
};
template <>
struct ScalesOf<Q4> {
  using Type = ScalePair<Q4Scale>;
};
template <>
struct ScalesOf<Q8> {
  using Type = ScalePair<Q8Scale>;
};
template <typename T>
constexpr bool kHasGroups = !std::is_same_v<typename ScalesOf<T>::Type, float>;

__device__ inline float half_bits_to_float(std::uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
// Element i's q of a q4 group.
__device__ inline float q4_number(const unsigned* words, int i) {
  return words[q4_bit(i) / 32] >> q4_bit(i) % 32 & 15u;
}
// A number q with its group's scale.
__device__ inline float to_float(float q, Q4Scale of) {
  return fmaf(half_bits_to_float(of.scale), q, half_bits_to_float(of.minimum));
}
__device__ inline float to_float(float q, Q8Scale of) { return half_bits_to_float(of.scale) * q; }

// The weights in one load of 16 bytes. Of q4 this is a whole group of kGroupElements, and of q8
// half of one; so they have a scale in common.
template <typename T>
constexpr int kGroup = 16 / sizeof(T);
template <>
inline constexpr int kGroup<Q4> = kGroupElements;
template <>
inline constexpr int kGroup<Q8> = kGroupElements / 2;
template <typename T>
struct Group {
  T at[kGroup<T>];
  __device__ float number(int i) const { return to_float(at[i]); }
};
template <>
struct Group<Q4> {
  unsigned words[4];
  Q4Scale scale;
  __device__ float number(int i) const { return to_float(q4_number(words, i), scale); }
};
template <>
struct Group<Q8> {
  std::int8_t at[kGroup<Q8>];
  Q8Scale scale;
  __device__ float number(int i) const { return to_float(at[q8_byte(i)], scale); }
};

// Loads weights, which a block reads only once, with a hint not to keep them in L1: the inputs need
// L1.
__device__ inline uint4 load_once(const void* from) {
#ifdef SPECDEC_EMULATED
  emulation::check_aligned(from, sizeof(uint4));
  return *static_cast<const uint4*>(from);
#else
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
#endif
}

// A matrix of elements T; see CudaMatrix. Each row is a whole number of groups, padded with zeros.
template <typename T>
struct Weights {
  using Scale = typename ScalesOf<T>::Type;

  explicit Weights(const CudaMatrix& m)
      : data(static_cast<const unsigned char*>(m.data())),
        row_bytes(m.row_bytes()),
        scales(static_cast<const Scale*>(m.scales())),
        rows(m.rows()),
        width(m.width()) {}

  const unsigned char* data;
  std::size_t row_bytes;
  const Scale* scales;
  int rows, width;

  __device__ const uint4* row(int n) const {
    return reinterpret_cast<const uint4*>(data + n * row_bytes);
  }
  __device__ Group<T> group(int n, int g) const { return group(row(n), n, g); }
  // from: row(n), for a loop that computes it once.
  __device__ Group<T> group(const uint4* from, int n, int g) const {
    const uint4 loaded = load_once(from + g);
    Group<T> weights;
    memcpy(&weights, &loaded, sizeof loaded);
    if constexpr (kHasGroups<T>) weights.scale = group_scale(n, g * kGroup<T> / kGroupElements);
    return weights;
  }
  // Weight k of row n, of int8 without its scale.
  __device__ float number(int n, int k) const {
    const int g = k / kGroupElements, i = k % kGroupElements;
    if constexpr (std::is_same_v<T, Q4>) {
      const auto* words = reinterpret_cast<const unsigned*>(row(n) + g);
      return to_float(q4_number(words, i), group_scale(n, g));
    } else if constexpr (std::is_same_v<T, Q8>) {
      const auto* bytes = reinterpret_cast<const std::int8_t*>(row(n) + 2 * std::ptrdiff_t{g});
      return to_float(bytes[q8_byte(i)], group_scale(n, g));
    } else {
      return to_float(reinterpret_cast<const T*>(row(n))[k]);
    }
  }
  // Loads of a row.
  __host__ __device__ int loads() const { return row_bytes / sizeof(uint4); }
  // The factor of all numbers of row n.
  __device__ float scale(int n) const {
    if constexpr (std::is_same_v<T, std::int8_t>) return scales[n];
    return 1.0f;
  }
  // Of kGroupElements weights of row n, from weight g kGroupElements on.
  __device__ auto group_scale(int n, int g) const {
    return scales[std::ptrdiff_t{g / 2} * rows + n].of[g % 2];
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
    case WeightType::kQ4:
      return job(Weights<Q4>(m));
    case WeightType::kQ8:
      return job(Weights<Q8>(m));
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
