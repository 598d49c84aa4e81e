// Conversions of weights and the exponential: what every CPU operation stands on.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/exponential.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

// The value of an IEEE number with the given sizes of its fields, from the definition.
double defined_value(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
}

bool equals(float got, double want) {
  return std::isnan(want) ? std::isnan(got)
                          : got == want && std::signbit(got) == std::signbit(want);
}

TEST(CpuConversion, EveryHalfIsExact) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(equals(cpu::float_from_f16(half), defined_value(bits, 5, 10))) << bits;
    ASSERT_TRUE(equals(cpu::float_from_bf16(half), defined_value(bits, 8, 7))) << bits;
  }
}

// Every f16, and numbers between it and the next one away from zero: the nearer of the two, at the
// same distance the even one.
TEST(CpuConversion, RoundsToTheNearestF16) {
  for (std::uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto below = static_cast<std::uint16_t>(bits | sign);
      const float from = cpu::float_from_f16(below);
      const float step = bits + 1 == 0x7c00u
                             ? std::copysign(32.0f, from)
                             : cpu::float_from_f16(static_cast<std::uint16_t>(below + 1)) - from;
      const std::uint32_t up = below + 1u, even = bits % 2 == 0 ? below : up;
      ASSERT_EQ(cpu::f16_from_float(from), below);
      ASSERT_EQ(cpu::f16_from_float(from + step / 4), below);
      ASSERT_EQ(cpu::f16_from_float(from + step / 2), even) << bits;
      ASSERT_EQ(cpu::f16_from_float(from + step / 4 * 3), up) << bits;
      ASSERT_EQ(cpu::f16_from_float(std::nextafter(from + step / 2, from)), below) << bits;
    }
  }
  EXPECT_EQ(cpu::f16_from_float(1e30f), 0x7c00u);
  EXPECT_EQ(cpu::f16_from_float(-std::numeric_limits<float>::infinity()), 0xfc00u);
  EXPECT_TRUE(std::isnan(cpu::float_from_f16(cpu::f16_from_float(std::nanf("")))));
  EXPECT_EQ(cpu::f16_from_float(std::numeric_limits<float>::denorm_min()), 0u);
}

// Every bf16, and numbers between it and the next one away from zero: the nearer of the two, at the
// same distance the even one. In float64 the distances are exact; behind the largest bf16 is 2^128.
TEST(CpuConversion, RoundsToTheNearestBf16) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    const auto below = static_cast<std::uint16_t>(upper);
    const auto above = static_cast<std::uint16_t>(upper + 1);
    if (std::isnan(cpu::float_from_bf16(below))) continue;
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto number = std::bit_cast<float>(upper << 16 | lower);
      const std::uint16_t got = cpu::bf16_from_float(number);
      if (std::isnan(number)) {
        ASSERT_TRUE(std::isnan(cpu::float_from_bf16(got)));
        continue;
      }
      const double next =
          (above & 0x7fffu) == 0x7f80u ? 0x1p128 : std::abs(double{cpu::float_from_bf16(above)});
      const double to_below = std::abs(double{number} - double{cpu::float_from_bf16(below)});
      const double to_above = std::abs(std::abs(double{number}) - next);
      const bool takes_below =
          lower == 0 || to_below < to_above || (to_below == to_above && below % 2 == 0);
      ASSERT_EQ(got, takes_below ? below : above) << upper << " " << lower;
    }
  }
}

// All 65,536 values as a [2048, 32] matrix: what embed reads, and what a product with a unit vector
// picks out of the panels (1 x w plus zeros; a NaN or infinity in other columns is not touched by
// it, so every column is loaded alone).
TEST(CpuConversion, EveryHalfSurvivesPackingAndProduct) {
  for (const WeightType type : {WeightType::kF16, WeightType::kBF16}) {
    TestWeights column(type, 65536, 1);
    for (int i = 0; i < 65536; ++i) column.set(i, static_cast<std::uint32_t>(i));
    for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
      const auto matrix = load(*backend, column);
      TestRows one(1, 1), product(1, 65536), embedded(65536, 1);
      one.row(0)[0] = 1.0f;
      backend->matmul(one.view(), *matrix, product.view());
      std::vector<std::int32_t> ids(65536);
      for (int i = 0; i < 65536; ++i) ids[static_cast<std::size_t>(i)] = i;
      backend->embed(*matrix, ids.data(), embedded.view());
      for (int i = 0; i < 65536; ++i) {
        const double want = type == WeightType::kF16
                                ? defined_value(static_cast<std::uint32_t>(i), 5, 10)
                                : defined_value(static_cast<std::uint32_t>(i), 8, 7);
        ASSERT_TRUE(equals(embedded.row(i)[0], want)) << backend->name() << i;
        // 1 * -0 + 0 is 0.
        ASSERT_TRUE(equals(product.row(0)[i], want == 0 ? 0.0 : want)) << backend->name() << i;
      }
    }
  }
}

// Distance of a float32 from an exact value in units of the last place there.
double ulps(float got, double want) {
  if (std::isinf(got) && want > std::numeric_limits<float>::max()) return 0.0;
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

// Every 373rd float32 between -110 and 110.
TEST(CpuExponential, IsAccurate) {
  double worst = 0.0;
  float worst_at = 0.0f;
  for (const float sign : {1.0f, -1.0f}) {
    for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(110.0f); bits += 373) {
      const float x = sign * std::bit_cast<float>(bits);
      const double error = ulps(cpu::exponential(x), std::exp(static_cast<double>(x)));
      if (!(error <= worst)) worst = error, worst_at = x;
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 1.1) << "at " << worst_at;
}

TEST(CpuExponential, SpecialValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cpu::exponential(0.0f), 1.0f);
  EXPECT_EQ(cpu::exponential(-0.0f), 1.0f);
  EXPECT_EQ(cpu::exponential(-infinity), 0.0f);
  EXPECT_EQ(cpu::exponential(-1e30f), 0.0f);
  EXPECT_EQ(cpu::exponential(-104.0f), 0.0f);
  EXPECT_EQ(cpu::exponential(-103.0f), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(cpu::exponential(88.8f), infinity);
  EXPECT_EQ(cpu::exponential(1e30f), infinity);
  EXPECT_EQ(cpu::exponential(infinity), infinity);
  EXPECT_TRUE(std::isnan(cpu::exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST(CpuExponential, VectorEqualsScalar) {
  alignas(64) float x[cpu::kLanes], got[cpu::kLanes];
  const auto expect_equal = [&] {
    cpu::store(got, cpu::exponential(cpu::load(x)));
    for (int i = 0; i < cpu::kLanes; ++i) {
      ASSERT_TRUE(same_number(got[i], cpu::exponential(x[i]))) << x[i];
    }
  };
  TestNumbers numbers(1);
  for (int round = 0; round < 200'000; ++round) {
    for (float& value : x) value = std::bit_cast<float>(numbers.bits());
    expect_equal();
    if (HasFatalFailure()) return;
  }
  // Where results become subnormal, then 0.
  for (int step = 0; step < 100'000; ++step) {
    for (int i = 0; i < cpu::kLanes; ++i)
      x[i] = -86.0f - 2e-4f * (static_cast<float>(step) + static_cast<float>(i) / cpu::kLanes);
    expect_equal();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace specdec
