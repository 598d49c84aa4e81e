#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Functions of a single thread. fmaf, expf and the like come from <cmath>.

// ---- bits

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
// The number of the lowest 1 bit, counted from 1; 0 if there is none.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

// Picks four of the eight bytes of x and y, numbered from x's lowest. Hexadecimal digit i of the
// selector is the number of the result's byte i.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= (bytes >> 8 * (selector >> 4 * i & 7u) & 0xffu) << 8 * i;
  }
  return result;
}

// The upper half of a product.
inline unsigned __umulhi(unsigned x, unsigned y) { return std::uint64_t{x} * y >> 32; }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned __int128>(x) * y >> 64;
}

// ---- arithmetic

// Rounded to nearest even, never fused.
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// The GPU's fast approximations. Here they are as exact as <cmath>, so compare with tolerances.
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
// Macros, because the C library has functions of these names.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __powf powf
#define __sinf sinf
#define __cosf cosf

// As in CUDA, the arguments may have different types, and a number beats a NaN.
template <typename T, typename U>
std::common_type_t<T, U> min(T x, U y) {
  using V = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<V>) return std::fmin(V(x), V(y));
  return V(y) < V(x) ? V(y) : V(x);
}
template <typename T, typename U>
std::common_type_t<T, U> max(T x, U y) {
  using V = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<V>) return std::fmax(V(x), V(y));
  return V(x) < V(y) ? V(y) : V(x);
}

// ---- memory

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
