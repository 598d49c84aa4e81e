// Weights in four bits: what becomes of a group's numbers, and that products with them are, to the
// bit, what ops.h and plain.cpp define.
#include <array>
#include <limits>
#include <span>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quantize.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

using cpu::Q4Group;

// The definition in ops.h, in float64 where that makes no difference.
struct Q4Numbers {
  Q4Numbers(const TestWeights& weights, int row, int first, int count) {
    double smallest = weights.at(row, first), largest = smallest;
    for (int k = first; k < first + count; ++k) {
      smallest = std::min(smallest, double{weights.at(row, k)});
      largest = std::max(largest, double{weights.at(row, k)});
    }
    const float range = static_cast<float>(largest) - static_cast<float>(smallest);
    minimum = cpu::float_from_f16(cpu::f16_from_float(static_cast<float>(smallest)));
    scale = cpu::float_from_f16(cpu::f16_from_float(range / 15));
    for (int k = first; k < first + count; ++k) {
      const float q = scale == 0 ? 0 : std::nearbyint((weights.at(row, k) - minimum) / scale);
      // No -0.
      qs.push_back(std::min(std::max(q, 0.0f) + 0.0f, 15.0f));
      numbers.push_back(scale * std::min(std::max(q, 0.0f) + 0.0f, 15.0f) + minimum);
    }
  }

  float minimum, scale;
  std::vector<float> qs, numbers;
};

std::vector<Q4Numbers> groups_of_row(const TestWeights& weights, int row, int width) {
  std::vector<Q4Numbers> groups;
  for (int first = 0; first < width; first += kGroupElements) {
    groups.emplace_back(weights, row, first, std::min(kGroupElements, width - first));
  }
  return groups;
}

// The sum of 32 numbers or fewer: lanes of two, and a tree over 16 lanes.
float sum_of(std::span<const float> x) {
  std::array<float, 16> lanes = {};
  for (std::size_t i = 0; i < x.size(); ++i) lanes[i % 16] += x[i];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

float product(std::span<const float> x, const std::vector<Q4Numbers>& groups) {
  float total = 0;
  for (const Q4Numbers& group : groups) {
    const auto part = x.first(group.qs.size());
    float chain = 0;
    for (std::size_t i = 0; i < part.size(); ++i) chain = std::fma(part[i], group.qs[i], chain);
    total = std::fma(group.scale, chain, total);
    total = std::fma(group.minimum, sum_of(part), total);
    x = x.subspan(part.size());
  }
  return total;
}

TEST(CpuQ4, EveryElementIsTheSumOverGroups) {
  expect_products(81, WeightFormat::kQ4, groups_of_row, product);
}

// The order of sums changes only the last bits of the product with the rounded numbers.
TEST(CpuQ4, IsTheProductWithTheRoundedNumbers) {
  TestNumbers numbers(86);
  const int outputs = 70, inputs = 1000;
  const TestWeights weights = TestWeights::random(numbers, WeightType::kF32, outputs, inputs);
  const TestRows x = TestRows::random(numbers, 1, inputs);
  TestRows got(1, outputs);
  fast_backend(2).matmul(x.view(), *load(fast_backend(2), weights, WeightFormat::kQ4), got.view());
  for (int n = 0; n < outputs; ++n) {
    double want = 0, size = 0;
    int k = 0;
    for (const Q4Numbers& group : groups_of_row(weights, n, inputs)) {
      for (const float number : group.numbers) {
        want += double{x.row(0)[k]} * number;
        size += std::abs(double{x.row(0)[k++]} * number);
      }
    }
    EXPECT_NEAR(got.row(0)[n], want, size * 1e-6);
  }
}

TEST(CpuQ4, ChangesAnElementByHalfAStepAtMost) {
  TestNumbers numbers(82);
  for (const WeightType type : kWeightTypes) {
    for (const int width : {1, 32, 37, 256, 517}) {
      const TestWeights weights = TestWeights::random(numbers, type, 67, width);
      for (Backend* backend : all_backends()) {
        const TestRows rows = kept(*backend, weights.host(), WeightFormat::kQ4);
        for (int n = 0; n < 67; ++n) {
          const std::vector<Q4Numbers> groups = groups_of_row(weights, n, width);
          for (int k = 0; k < width; ++k) {
            const Q4Numbers& group = groups[static_cast<std::size_t>(k / kGroupElements)];
            const float want = group.numbers[static_cast<std::size_t>(k % kGroupElements)];
            ASSERT_TRUE(same_number(rows.row(n)[k], want)) << backend->name() << n << ", " << k;
            // The two binary16 are off by 2^-11 of their values at most, one of them 15 times.
            const float tolerance = group.scale * (0.5f + 15 * 0x1p-11f) + 0x1p-11f;
            ASSERT_LE(std::abs(want - weights.at(n, k)), tolerance) << n << ", " << k;
          }
        }
      }
    }
  }
}

TEST(CpuQ4, HalvesGoToTheEvenNumberAndTheEndsAreKept) {
  TestWeights weights(WeightType::kF32, 1, 8);
  const float row[] = {-4, 11, -3.5f, -2.5f, 0.5f, 1.5f, 10.5f, 0};  // scale 1
  const float want[] = {-4, 11, -4, -2, 0, 2, 10, 0};
  for (int k = 0; k < 8; ++k) weights.set(k, std::bit_cast<std::uint32_t>(row[k]));
  for (Backend* backend : all_backends()) {
    const TestRows rows = kept(*backend, weights.host(), WeightFormat::kQ4);
    for (int k = 0; k < 8; ++k) EXPECT_EQ(rows.row(0)[k], want[k]) << backend->name() << k;
  }
}

// Near 1, binary16 has steps of 2^-10 above and 2^-11 below: the minimum that is kept may be far
// from numbers that are close to each other.
TEST(CpuQ4, NumbersBeyondTheEndsGoToTheNearestEnd) {
  const float above[] = {1.00040f, 1.00047f}, below[] = {1.00060f, 1.00067f};  // 1, 1 + 2^-10
  const float scale = cpu::float_from_f16(cpu::f16_from_float((above[1] - above[0]) / 15.0f));
  for (const auto& [row, want] :
       {std::pair(above, 1.0f + 15.0f * scale), std::pair(below, 0x1.004p0f)}) {
    TestWeights weights(WeightType::kF32, 1, 32);
    for (int k = 0; k < 32; ++k) weights.set(k, std::bit_cast<std::uint32_t>(row[k % 2]));
    for (Backend* backend : all_backends()) {
      const TestRows rows = kept(*backend, weights.host(), WeightFormat::kQ4);
      for (int k = 0; k < 32; ++k) EXPECT_EQ(rows.row(0)[k], want) << backend->name() << k;
    }
  }
}

TEST(CpuQ4, AGroupThatBinary16CannotHoldIsNan) {
  TestNumbers numbers(83);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 65520.0f}) {
    TestWeights weights = TestWeights::random(numbers, WeightType::kF32, 45, 300);
    weights.set(40 * 300 + 277, std::bit_cast<std::uint32_t>(bad));
    const TestRows x = TestRows::random(numbers, 9, 300);
    for (Backend* backend : all_backends()) {
      TestRows y(9, 45);
      backend->matmul(x.view(), *load(*backend, weights, WeightFormat::kQ4), y.view());
      const TestRows rows = kept(*backend, weights.host(), WeightFormat::kQ4);
      for (int n = 0; n < 45; ++n) {
        for (int t = 0; t < 9; ++t) EXPECT_EQ(std::isfinite(y.row(t)[n]), n != 40) << bad;
        for (int k = 0; k < 300; ++k) {
          EXPECT_EQ(std::isnan(rows.row(n)[k]),
                    n == 40 && k / kGroupElements == 277 / kGroupElements)
              << bad;
        }
      }
    }
  }
}

TEST(CpuQ4, EqualNumbersAreKeptWithoutAScale) {
  TestWeights weights(WeightType::kF32, 1, 33);
  for (int k = 0; k < 33; ++k) weights.set(k, std::bit_cast<std::uint32_t>(-0.375f));
  for (Backend* backend : all_backends()) {
    const TestRows rows = kept(*backend, weights.host(), WeightFormat::kQ4);
    for (int k = 0; k < 33; ++k) EXPECT_EQ(rows.row(0)[k], -0.375f);
  }
}

// Groups of a file are kept as they are: every scale, minimum and number.
TEST(CpuQ4, GroupsOfAFileAreKeptToTheBit) {
  TestNumbers numbers(84);
  const int outputs = 45, inputs = 96;
  std::vector<Q4Group> groups(outputs * inputs / kGroupElements);
  for (Q4Group& group : groups) {
    group.scale = cpu::f16_from_float(numbers.number());
    group.minimum = cpu::f16_from_float(numbers.number());
    for (std::uint8_t& pair : group.pairs) pair = static_cast<std::uint8_t>(numbers.bits());
  }
  const HostMatrix host{WeightType::kQ4, std::as_bytes(std::span(groups)), outputs, inputs};
  for (Backend* backend : all_backends()) {
    for (const WeightFormat format : {WeightFormat::kStored, WeightFormat::kQ4}) {
      const TestRows rows = kept(*backend, host, format);
      for (int n = 0; n < outputs; ++n) {
        for (int k = 0; k < inputs; ++k) {
          const Q4Group& group =
              groups[static_cast<std::size_t>((n * inputs + k) / kGroupElements)];
          const int i = k % kGroupElements;
          const int pair = group.pairs[static_cast<std::size_t>(i % 16)];
          const auto q = static_cast<float>(i < 16 ? pair % 16 : pair / 16);
          const float want =
              cpu::float_from_f16(group.scale) * q + cpu::float_from_f16(group.minimum);
          ASSERT_TRUE(same_number(rows.row(n)[k], want)) << n << ", " << k;
        }
      }
    }
  }
}

TEST(CpuQ4, CountsItsBytesWithPadding) {
  TestNumbers numbers(85);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 33, 70);
  const std::size_t padded = (33 + cpu::kPanelRows - 1) / cpu::kPanelRows * cpu::kPanelRows;
  EXPECT_EQ(load(fast_backend(1), weights, WeightFormat::kQ4)->bytes(), padded * 3 * 20);
  EXPECT_EQ(load(plain_backend(), weights, WeightFormat::kQ4)->bytes(), 33 * 3 * 20);
}

TEST(CpuQ4DeathTest, IsNotRoundedAgain) {
  const std::vector<Q4Group> groups(3);
  const HostMatrix part{WeightType::kQ4, std::as_bytes(std::span(groups)), 3, 32};
  EXPECT_DEATH(plain_backend().load_matrix({&part, 1}, WeightFormat::kInt8), "not rounded twice");
}

}  // namespace
}  // namespace specdec
