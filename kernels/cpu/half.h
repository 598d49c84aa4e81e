#pragma once
#include <bit>
#include <cstdint>

#include "kernels/kv_layer.h"

namespace specdec::cpu {

// bfloat16 is the upper half of a float32.
inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Rounds to nearest, ties to even; a NaN becomes quiet.
inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t odd = bits >> 16 & 1u;
  const std::uint32_t rounded = value == value ? bits + 0x7fffu + odd : bits | 0x400000u;
  return rounded >> 16;
}

// A number stored in a cache, as float32.
inline float to_float(float stored) { return stored; }
inline float to_float(BFloat16 stored) { return float_from_bf16(stored.bits); }

// IEEE binary16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits. Exact for every value;
// a signalling NaN becomes quiet, as with the hardware's instruction.
inline float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = fraction * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {  // infinity or NaN
    const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + (127 - 15)) << 23) | (fraction << 13));
}

// Rounds to nearest, ties to even; beyond the largest number to infinity. A NaN becomes quiet.
inline std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520, half a step past the largest
  if (magnitude < 0x38800000u) {  // below 2^-14: from 0.5 to 1, floats are multiples of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  const std::uint32_t odd = magnitude >> 13 & 1u;
  return sign | (((magnitude + 0xfffu + odd) >> 13) - ((127 - 15) << 10));
}

}  // namespace specdec::cpu
