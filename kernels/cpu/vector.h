#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kv_layer.h"

#if defined(__x86_64__)
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "specdec needs an x86-64 with AVX2, FMA and F16C: configure with -DSPECDEC_MARCH=x86-64-v3"
#endif
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace specdec::cpu {

// Vectors of the machine's width. Only speed depends on the width: results are defined without it
// (plain.cpp), so AVX-512, AVX2 and NEON give the same bits. The compiler provides arithmetic,
// comparisons and `mask ? a : b`; the other operations are below.
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr const char* kVectorName = "AVX-512";
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
inline constexpr const char* kVectorName = "AVX2";
#elif defined(__aarch64__)
inline constexpr int kLanes = 4;
inline constexpr const char* kVectorName = "NEON";
#else
inline constexpr int kLanes = 4;
inline constexpr const char* kVectorName = "portable code";
#endif
inline constexpr int kVectorBytes = 4 * kLanes;
#if defined(__AVX2__) && !defined(__AVX512F__)
inline constexpr int kRegisters = 16;
#else
inline constexpr int kRegisters = 32;
#endif
inline constexpr int kDoubles = kLanes / 2;

using Floats = float __attribute__((vector_size(kVectorBytes)));
using Words = std::uint32_t __attribute__((vector_size(kVectorBytes)));
using HalfWords = std::uint16_t __attribute__((vector_size(kVectorBytes / 2)));
using Ints = std::int32_t __attribute__((vector_size(kVectorBytes)));
using Doubles = double __attribute__((vector_size(kVectorBytes)));
using LongWords = std::uint64_t __attribute__((vector_size(kVectorBytes)));

// Loops over a few registers must be unrolled: otherwise their arrays stay in memory.
#if defined(__clang__)
#define SPECDEC_UNROLL _Pragma("unroll")
#else
#define SPECDEC_UNROLL _Pragma("GCC unroll 16")
#endif

inline Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Loads kLanes numbers of a cache, exactly.
inline Floats load(const BFloat16* from) {
  HalfWords halves;
  std::memcpy(&halves, from, sizeof halves);
  return std::bit_cast<Floats>(__builtin_convertvector(halves, Words) << 16);
}

inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

// Keeps a value in a register for several uses: GCC would otherwise load it again for each.
inline Floats in_register(Floats v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

// Loads the first `count` lanes and sets the others to zero. REQUIRES: 0 <= count <= kLanes.
inline Floats load_first(const float* from, int count) {
  Floats v = {};
  std::memcpy(&v, from, count * sizeof(float));
  return v;
}

inline Floats load_first(const BFloat16* from, int count) {
  BFloat16 first[kLanes] = {};
  std::memcpy(first, from, count * sizeof(BFloat16));
  return load(first);
}

inline void store_first(float* to, Floats v, int count) {
  std::memcpy(to, &v, count * sizeof(float));
}

// Vectors of kDoubles numbers.
inline Doubles load(const double* from) {
  Doubles v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline Doubles load_as_doubles(const float* from) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from));  // g++ 12 warns about the plain one
#elif defined(__AVX2__)
  return _mm256_cvtps_pd(_mm_loadu_ps(from));
#else
  float v __attribute__((vector_size(kVectorBytes / 2)));
  std::memcpy(&v, from, sizeof v);
  return __builtin_convertvector(v, Doubles);
#endif
}
inline void store(double* to, Doubles v) { std::memcpy(to, &v, sizeof v); }

// The value in every lane. (Subtracting 0 keeps every value, even -0; adding it would not.)
template <typename F>
F splat(float value) {
  return value - F{};
}
template <typename F>
F splat64(double value) {
  return value - F{};
}

inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }

// a * b + c, rounded once.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  SPECDEC_UNROLL
  for (int i = 0; i < kLanes; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
#endif
}

inline double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }

// The larger or smaller of a and b; a if they are equal or one is NaN. (Compilers make two
// instructions of `mask ? a : b`.)
inline float larger(float a, float b) { return b > a ? b : a; }
inline float smaller(float a, float b) { return b < a ? b : a; }
inline Floats larger(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, b, a);  // g++ 12 warns about the plain ones
#elif defined(__AVX2__)
  return _mm256_max_ps(b, a);
#else
  return b > a ? b : a;
#endif
}
inline Floats smaller(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, b, a);
#elif defined(__AVX2__)
  return _mm256_min_ps(b, a);
#else
  return b < a ? b : a;
#endif
}

inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_pd(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f64(c, a, b);
#else
  SPECDEC_UNROLL
  for (int i = 0; i < kDoubles; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
#endif
}

// Whether any lane of a comparison's result is true.
template <typename Mask>
bool any(Mask mask) {
#if defined(__AVX512F__)
  const auto bits = std::bit_cast<__m512i>(mask);
  return _mm512_test_epi32_mask(bits, bits) != 0;
#elif defined(__AVX2__)
  const auto bits = std::bit_cast<__m256i>(mask);
  return _mm256_testz_si256(bits, bits) == 0;
#else
  Mask zero = {};
  return std::memcmp(&mask, &zero, sizeof mask) != 0;
#endif
}

// Calls visit(lane) for the true lanes of a comparison's result, in order.
template <typename Visit>
void for_true_lanes(Ints mask, const Visit& visit) {
#if defined(__AVX512F__)
  const auto bits = std::bit_cast<__m512i>(mask);
  for (unsigned lanes = _mm512_test_epi32_mask(bits, bits); lanes != 0; lanes &= lanes - 1) {
    visit(std::countr_zero(lanes));
  }
#elif defined(__AVX2__)
  unsigned lanes = _mm256_movemask_ps(std::bit_cast<__m256>(mask));
  for (; lanes != 0; lanes &= lanes - 1) visit(std::countr_zero(lanes));
#else
  for (int l = 0; l < kLanes; ++l) {
    if (mask[l] != 0) visit(l);
  }
#endif
}

// 0, 1, 2, ...
inline Ints lane_numbers() {
  Ints v = {};
  SPECDEC_UNROLL
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

}  // namespace specdec::cpu
