#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

// 16-bit floats for storage: kernels convert to float, compute, and convert back. For all inputs,
// the conversions give the same bits as NVIDIA's cuda_fp16.hpp and cuda_bf16.hpp.

// IEEE binary16: 5 bits of exponent, 10 of mantissa.
struct __half {
  std::uint16_t bits;
};
// The upper half of a float: 8 bits of exponent, 7 of mantissa.
struct __nv_bfloat16 {
  std::uint16_t bits;
};

// Exact; every NaN becomes 0x7fffffff.
inline float __half2float(__half h) {
  const unsigned sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31u;
  const unsigned mantissa = h.bits & 0x3ffu;
  if (exponent == 31 && mantissa != 0) return std::bit_cast<float>(0x7fffffffu);
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = mantissa * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  // The exponents' biases are 15 and 127; 31 and 255 mean infinity.
  const unsigned wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Rounds to nearest, ties to even. Values that exceed 65,504 by half a unit or more become
// infinity, and every NaN becomes 0x7fff.
inline __half __float2half(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7fff};
  std::uint32_t half;
  if (magnitude >= 0x47800000u) {  // 2^16
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14, a half is a multiple of 2^-24, and so are the floats from 0.5 to 1: adding 0.5
    // rounds.
    half = std::bit_cast<std::uint32_t>(std::fabs(f) + 0.5f) - 0x3f000000u;
  } else {
    // Drops the mantissa's last 13 bits. A carry increments the exponent, as it should.
    const std::uint32_t odd = magnitude >> 13 & 1u;
    half = (magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  }
  const std::uint16_t result = (bits >> 16 & 0x8000u) | half;
  return {result};
}
inline __half __float2half_rn(float f) { return __float2half(f); }

// Exact; keeps a NaN's sign and payload.
inline float __bfloat162float(__nv_bfloat16 b) {
  return std::bit_cast<float>(std::uint32_t{b.bits} << 16);
}

// Rounds to nearest, ties to even; every NaN becomes 0x7fff.
inline __nv_bfloat16 __float2bfloat16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f), odd = bits >> 16 & 1u;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  const std::uint16_t result = (bits + 0x7fffu + odd) >> 16;
  return {result};
}
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __float2bfloat16(f); }

inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
