// The 16 bit floats' conversions against their definition, for all inputs; and against NVIDIA's own
// host code where the CUDA Toolkit is.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <gtest/gtest.h>

#include "kernels/emulation/half.h"
#include "tests/emulation/nvidia_conversions.h"

namespace specdec {
namespace {

// A 16 bit float's value by its definition, (-1)^sign 1.mantissa 2^(exponent - bias). The largest
// exponent, of infinity, goes on as if it were a number: so rounding finds its neighbours.
double value_of(unsigned bits, int mantissa_bits) {
  const int bias = (1 << (14 - mantissa_bits)) - 1;
  const int exponent = static_cast<int>((bits & 0x7fffu) >> mantissa_bits);
  const double mantissa = bits & ((1u << mantissa_bits) - 1u), one = 1 << mantissa_bits;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa / one, 1 - bias)
                                         : std::ldexp(1.0 + mantissa / one, exponent - bias);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

struct Format {
  int mantissa_bits;
  unsigned infinity;
  std::uint16_t (*round)(float);
  float (*widen)(std::uint16_t);
  std::uint16_t (*nvidia_round)(float);
  float (*nvidia_widen)(std::uint16_t);
};
constexpr Format kHalf{10,
                       0x7c00,
                       [](float f) { return __float2half(f).bits; },
                       [](std::uint16_t bits) { return __half2float({bits}); },
                       nvidia_float_to_half,
                       nvidia_half_to_float};
constexpr Format kBfloat16{7,
                           0x7f80,
                           [](float f) { return __float2bfloat16(f).bits; },
                           [](std::uint16_t bits) { return __bfloat162float({bits}); },
                           nvidia_float_to_bfloat16,
                           nvidia_bfloat16_to_float};

// The largest magnitude that is not above a float, and the values of it and of the next.
struct Neighbours {
  unsigned below;
  double down, up;
};
Neighbours neighbours(const Format& format, unsigned below) {
  return {below, value_of(below, format.mantissa_bits), value_of(below + 1, format.mantissa_bits)};
}

// Of the magnitude `bits`, and of its negative: NaN is 0x7fff; otherwise the nearest of its
// neighbours; of two as near, the even one.
bool rounds_right(const Format& format, std::uint32_t bits, const Neighbours& at) {
  const float f = std::bit_cast<float>(bits);
  unsigned want = at.below;
  if (at.below < format.infinity) {
    const double down = f - at.down, up = at.up - f;
    if (up < down || (up == down && at.below % 2 == 1)) ++want;
  }
  const bool nan = bits > 0x7f800000u;
  const std::uint16_t got = format.round(f), negative = format.round(-f);
  const bool as_nvidia = !kHaveNvidiaConversions ||
                         (got == format.nvidia_round(f) && negative == format.nvidia_round(-f));
  return as_nvidia && got == (nan ? 0x7fffu : want) && negative == (nan ? 0x7fffu : want | 0x8000u);
}

// All 2^31 magnitudes, or some at every distance from every boundary: a boundary is where the
// float's bits that are cut off are zero, or a half.
void expect_rounding(const Format& format) {
  const char* full = std::getenv("SPECDEC_FULL");
  std::uint32_t wrong = 0;
  Neighbours at = neighbours(format, 0);
  const auto check = [&](std::uint32_t bits) {
    while (at.below < format.infinity && at.up <= double{std::bit_cast<float>(bits)}) {
      at = neighbours(format, at.below + 1);
    }
    wrong += !rounds_right(format, bits, at);
  };
  if (full != nullptr && *full == '1') {
    for (std::uint32_t bits = 0; bits <= 0x7fffffffu; ++bits) check(bits);
  } else {
    for (std::uint32_t block = 0; block <= 0x7fffffffu; block += 0x1000u) {
      for (const std::uint32_t offset : {0x000u, 0x001u, 0x7ffu, 0x800u, 0x801u, 0xabcu, 0xfffu}) {
        check(block + offset);
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Conversions, RoundFloatsToHalf) { expect_rounding(kHalf); }
TEST(Conversions, RoundFloatsToBfloat16) { expect_rounding(kBfloat16); }

void expect_widening(const Format& format, bool keeps_nans) {
  for (unsigned i = 0; i <= 0xffffu; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float got = format.widen(bits);
    const unsigned magnitude = i & 0x7fffu;
    if (magnitude > format.infinity) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), keeps_nans ? i << 16 : 0x7fffffffu) << i;
    } else if (magnitude == format.infinity) {
      EXPECT_EQ(got, (i & 0x8000u) != 0 ? -INFINITY : INFINITY) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(double{got}),
                std::bit_cast<std::uint64_t>(value_of(i, format.mantissa_bits)))
          << i;
    }
    if (kHaveNvidiaConversions) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got),
                std::bit_cast<std::uint32_t>(format.nvidia_widen(bits)))
          << i;
    }
  }
}

TEST(Conversions, WidenEveryHalf) { expect_widening(kHalf, false); }
TEST(Conversions, WidenEveryBfloat16) { expect_widening(kBfloat16, true); }

TEST(Conversions, AreComparedWithNvidias) {
  if (!kHaveNvidiaConversions) GTEST_SKIP() << "NOT CHECKED: no CUDA Toolkit";
}

}  // namespace
}  // namespace specdec
