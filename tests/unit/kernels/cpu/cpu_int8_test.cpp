// Weights as int8: what becomes of a row's numbers, and that both backends multiply by just that.
#include <limits>

#include "kernels/cpu/packed_matrix.h"
#include "tests/special_numbers.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();  // normal

// The definition in ops.h, independent of both backends.
struct Int8Row {
  Int8Row(const TestWeights& weights, int row, int width) {
    float largest = 0;
    for (int k = 0; k < width; ++k) largest = std::max(largest, std::abs(weights.at(row, k)));
    scale = std::max(largest / 127, kSmallest);
    for (int k = 0; k < width; ++k)
      q.push_back(std::nearbyint(weights.at(row, k) / scale) + 0.0f);  // no -0
  }

  float scale;
  std::vector<float> q;
};

TestWeights f32_row(std::initializer_list<float> row) {
  TestWeights weights(WeightType::kF32, 1, static_cast<int>(row.size()));
  for (int k = 0; const float w : row) weights.set(k++, std::bit_cast<std::uint32_t>(w));
  return weights;
}

TestRows kept(Backend& backend, const TestWeights& weights) {
  return specdec::kept(backend, weights.host(), WeightFormat::kInt8);
}

TEST(CpuInt8, EveryElementIsTheChainOverQTimesTheScale) {
  const auto product = [](std::span<const float> x, const Int8Row& row) {
    float total = 0;
    for (std::size_t k = 0; k < x.size(); ++k) total = std::fma(x[k], row.q[k], total);
    return total * row.scale;
  };
  const auto rounded = [](const TestWeights& weights, int n, int width) {
    return Int8Row(weights, n, width);
  };
  expect_products(71, WeightFormat::kInt8, rounded, product);
}

TEST(CpuInt8, EmbedGivesScaleTimesQWithinHalfAScale) {
  TestNumbers numbers(72);
  for (const WeightType type : kWeightTypes) {
    for (const int width : {1, 37, 256, 517}) {
      const TestWeights weights = TestWeights::random(numbers, type, 67, width);
      for (Backend* backend : all_backends()) {
        const TestRows rows = kept(*backend, weights);
        for (int n = 0; n < 67; ++n) {
          const Int8Row want(weights, n, width);
          // w / scale, at most 127, is rounded to a float32 before it is to an integer; and so is
          // scale * q.
          const float tolerance = want.scale * (0.5f + 2 * 127 * 0x1p-24f);
          for (int k = 0; k < width; ++k) {
            const float got = rows.row(n)[k];
            ASSERT_TRUE(same_number(got, want.scale * want.q[static_cast<std::size_t>(k)]));
            ASSERT_LE(std::abs(got - weights.at(n, k)), tolerance) << n << ", " << k;
          }
        }
      }
    }
  }
}

TEST(CpuInt8, HalvesGoToTheEvenInteger) {
  const TestWeights weights = f32_row(
      {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f, -127, 2.4999998f, 2.5000002f});
  const float want[] = {127, 0, 2, 2, 0, -2, -2, 126, -126, -127, 2, 3};
  for (Backend* backend : all_backends()) {
    const TestRows rows = kept(*backend, weights);
    for (int k = 0; k < 12; ++k) EXPECT_EQ(rows.row(0)[k], want[k]) << backend->name() << k;
  }
}

TEST(CpuInt8, TheLargestMagnitudeIsKept) {
  TestNumbers numbers(73);
  for (Backend* backend : all_backends()) {
    for (const float largest : {3e38f, 1e-30f, 3.0f, kSmallest * 127}) {
      for (const float w : {largest, -largest}) {
        const TestRows rows = kept(*backend, f32_row({w / 3, w, 0, w / 7}));
        EXPECT_NEAR(rows.row(0)[1], w, std::abs(w) * 0x1p-23f) << backend->name();
        EXPECT_EQ(std::signbit(rows.row(0)[0]), std::signbit(w));
      }
    }
  }
}

// Below the smallest scale there is nothing but multiples of it; zeros are zeros, and finite.
TEST(CpuInt8, ZerosAndSubnormalNumbers) {
  for (Backend* backend : all_backends()) {
    const TestRows tiny =
        kept(*backend, f32_row({kSmallest * 0.75f, kSmallest * 0.25f, -kSmallest * 3, 1e-45f}));
    const float want[] = {kSmallest, 0, -kSmallest * 3, 0};
    for (int k = 0; k < 4; ++k) EXPECT_EQ(tiny.row(0)[k], want[k]) << backend->name();
    const TestWeights zeros = f32_row({0, -0.0f, 0});
    const TestRows kept_zeros = kept(*backend, zeros);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(kept_zeros.row(0)[k], 0);
    TestRows x(1, 3), y(1, 1);
    for (int k = 0; k < 3; ++k) x.row(0)[k] = std::numeric_limits<float>::max();
    backend->matmul(x.view(), *load(*backend, zeros, WeightFormat::kInt8), y.view());
    EXPECT_EQ(y.row(0)[0], 0);
  }
}

TEST(CpuInt8, ANanOrInfinityMakesItsOutputNanAndNoOther) {
  TestNumbers numbers(74);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 45, 300);
    weights.set(40 * 300 + 277, std::bit_cast<std::uint32_t>(bad) >> 16);
    const TestRows x = TestRows::random(numbers, 9, 300);
    for (Backend* backend : all_backends()) {
      TestRows y(9, 45);
      backend->matmul(x.view(), *load(*backend, weights, WeightFormat::kInt8), y.view());
      const TestRows rows = kept(*backend, weights);
      for (int n = 0; n < 45; ++n) {
        for (int t = 0; t < 9; ++t) EXPECT_EQ(std::isfinite(y.row(t)[n]), n != 40) << bad;
        for (int k = 0; k < 300; ++k) EXPECT_EQ(std::isnan(rows.row(n)[k]), n == 40) << bad;
      }
      EXPECT_TRUE(std::isnan(y.row(3)[40]));
    }
  }
}

TEST(CpuInt8, CountsItsBytesWithScalesAndPadding) {
  TestNumbers numbers(75);
  for (const WeightType type : kWeightTypes) {
    const TestWeights weights = TestWeights::random(numbers, type, 33, 10);
    const std::size_t padded = (33 + cpu::kPanelRows - 1) / cpu::kPanelRows * cpu::kPanelRows;
    EXPECT_EQ(load(fast_backend(1), weights, WeightFormat::kInt8)->bytes(), padded * (10 + 4));
    EXPECT_EQ(load(plain_backend(), weights, WeightFormat::kInt8)->bytes(), 33 * (10 + 4));
  }
}

TEST(CpuInt8DeathTest, NoCheckpointHoldsIt) {
  std::vector<std::byte> bytes(6);
  const HostMatrix part{WeightType::kInt8, bytes, 2, 3};
  EXPECT_DEATH(plain_backend().load_matrix({&part, 1}), "a type that checkpoints have");
}

}  // namespace
}  // namespace specdec
