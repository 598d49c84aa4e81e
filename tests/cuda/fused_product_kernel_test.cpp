// A product with an operation fused into its kernel, compared to two kernels: equal bit for bit.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "kernels/cuda/matmul/matmul.h"
#include "tests/cuda/kernel_test.h"
#include "tests/unit/kernels/cpu/stored_rows.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class FusedProductKernel : public KernelTest {};

constexpr int kRows[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 40};
constexpr int kWidths[] = {1, 7, 64, 100, 1000};

TEST_F(FusedProductKernel, AddedProductsAreTheTwo) {
  TestNumbers numbers(1);
  for (const auto [type, format] : kFormats) {
    for (const int some : kWidths) {
      const int width = width_for(type, some);
      for (const int outputs : {1, 3, 4, 130}) {
        const TestWeights weights = TestWeights::random(numbers, type, outputs, width);
        const auto matrix = load(device(), weights, format);
        const int rows = kRows[numbers.below(std::ssize(kRows))];
        const DeviceMatrix x(TestRows::random(numbers, rows, width).view(), numbers.below(5),
                             numbers.below(5));
        const TestRows before = TestRows::random(numbers, rows, outputs);
        const DeviceMatrix want(before.view()), got(before.view(), numbers.below(5), 3);
        const DeviceMatrix products(rows, outputs), unused(rows, outputs);
        device().matmul(x.view(), *matrix, products.view());
        device().add(want.view(), products.view());
        device().matmul_add(x.view(), *matrix, unused.view(), got.view());
        EXPECT_TRUE(same_rows(got.get(), want.get())) << rows << " rows, " << outputs << " outputs";
        EXPECT_TRUE(got.gaps_untouched());
        EXPECT_FALSE(same_rows(got.get(), products.get())) << "control";
      }
    }
  }
}

TEST_F(FusedProductKernel, GatedProductsAreTheTwo) {
  TestNumbers numbers(2);
  for (const auto [type, format] : kFormats) {
    for (const int some : kWidths) {
      const int width = width_for(type, some);
      for (const int outputs : {1, 2, 3, 4, 65}) {
        const TestWeights weights = TestWeights::random(numbers, type, 2 * outputs, width);
        const auto matrix = load(device(), weights, format);
        const int rows = kRows[numbers.below(std::ssize(kRows))];
        const DeviceMatrix x(TestRows::random(numbers, rows, width).view(), numbers.below(5),
                             numbers.below(5));
        const DeviceMatrix want(rows, outputs), got(rows, outputs, numbers.below(5), 3);
        const DeviceMatrix products(rows, 2 * outputs), unused(rows, 2 * outputs);
        device().matmul(x.view(), *matrix, products.view());
        device().silu_mul(products.view().columns(0, outputs),
                          products.view().columns(outputs, outputs), want.view());
        device().matmul_silu_mul(x.view(), *matrix, unused.view(), got.view());
        EXPECT_TRUE(same_rows(got.get(), want.get())) << rows << " rows, " << outputs << " outputs";
        EXPECT_TRUE(got.gaps_untouched());
      }
    }
  }
}

// q, k and v, rotated and stored, by one kernel and by two.
TEST_F(FusedProductKernel, RotatedProductsAreTheTwo) {
  TestNumbers numbers(6);
  for (const auto [type, format] : kFormats) {
    for (const int half : {1, 3, 8, 32, 64}) {
      for (const KvType kv_type : kKvTypes) {
        const int kv_heads = numbers.between(1, 2), heads = kv_heads * numbers.between(1, 3);
        const HeadShape shape{heads, kv_heads, 2 * half};
        const int q_width = heads * 2 * half, kv_width = kv_heads * 2 * half;
        const int rows = kRows[numbers.below(std::ssize(kRows))], slots = rows + 3;
        const int width = width_for(type, kWidths[numbers.below(std::ssize(kWidths))]);
        const auto matrix = load(
            device(), TestWeights::random(numbers, type, q_width + 2 * kv_width, width), format);
        const DeviceMatrix x(TestRows::random(numbers, rows, width).view(), numbers.below(5),
                             numbers.below(5));
        const DeviceMatrix cosines(TestRows::random(numbers, rows, half).view());
        const DeviceMatrix sines(TestRows::random(numbers, rows, half).view());
        std::vector<std::int32_t> row_slots(static_cast<std::size_t>(slots));
        std::iota(row_slots.begin(), row_slots.end(), 0);
        numbers.shuffle(row_slots);
        const OnDevice<std::int32_t> on_device(row_slots);
        const RowPlaces places{.slots = on_device.data()};
        const auto results = [&](bool fused) {
          const DeviceMatrix qkv(rows, q_width + 2 * kv_width, numbers.below(5), 3);
          const std::vector<std::byte> empty = stored(TestRows(slots, kv_width), kv_type);
          const OnDevice<std::byte> keys(empty), values(empty);
          const KvLayer cache{keys.data(), values.data(), kv_type};
          if (fused) {
            device().matmul_rope_store_kv(x.view(), *matrix, shape, qkv.view(), cosines.view(),
                                          sines.view(), places, cache);
          } else {
            device().Backend::matmul_rope_store_kv(x.view(), *matrix, shape, qkv.view(),
                                                   cosines.view(), sines.view(), places, cache);
          }
          EXPECT_TRUE(qkv.gaps_untouched());
          return std::tuple(qkv.get(), keys.get(), values.get());
        };
        const auto [want, want_keys, want_values] = results(false);
        const auto [got, keys, values] = results(true);
        for (int t = 0; t < rows; ++t) {
          EXPECT_TRUE(std::equal(got.row(t), got.row(t) + q_width, want.row(t)))
              << "row " << t << " of " << rows << ", D " << 2 * half;
        }
        EXPECT_EQ(keys, want_keys);
        EXPECT_EQ(values, want_values);
        EXPECT_NE(keys, values) << "control";
      }
    }
  }
}

// Each row alone, and with others.
TEST_F(FusedProductKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(3);
  for (const auto [type, format] : kFormats) {
    const int width = width_for(type, 300);
    const TestWeights weights = TestWeights::random(numbers, type, 10, width);
    const auto matrix = load(device(), weights, format);
    const DeviceMatrix x(TestRows::random(numbers, 20, width).view()), unused(20, 10);
    for (const Then then : {Then::kAdd, Then::kSiluMul}) {
      const TestRows before = TestRows::random(numbers, 20, then == Then::kAdd ? 10 : 5);
      const auto compute = [&](int first, int count) {
        const DeviceMatrix y(before.view().slice(first, count));
        const DeviceRows some = x.view().slice(first, count);
        if (then == Then::kAdd) {
          device().matmul_add(some, *matrix, unused.view().slice(0, count), y.view());
        } else {
          device().matmul_silu_mul(some, *matrix, unused.view().slice(0, count), y.view());
        }
        return y.get();
      };
      const TestRows together = compute(0, 20);
      for (int count = 1; count <= 20; ++count) {
        const int first = numbers.below(21 - count);
        EXPECT_TRUE(same_rows(compute(first, count).view(), together.view().slice(first, count)));
      }
    }
  }
}

TEST_F(FusedProductKernel, NanStaysInItsRow) {
  TestNumbers numbers(4);
  const auto matrix =
      load(device(), TestWeights::random(numbers, WeightType::kBF16, 6, 64), WeightFormat::kStored);
  TestRows x = TestRows::random(numbers, 5, 64);
  x.row(2)[7] = std::numeric_limits<float>::quiet_NaN();
  const DeviceMatrix device_x(x.view()), unused(5, 6), gated(5, 3);
  const DeviceMatrix added(TestRows::random(numbers, 5, 6).view());
  device().matmul_add(device_x.view(), *matrix, unused.view(), added.view());
  device().matmul_silu_mul(device_x.view(), *matrix, unused.view(), gated.view());
  for (int t = 0; t < 5; ++t) {
    for (int n = 0; n < 6; ++n) EXPECT_EQ(std::isnan(added.get().row(t)[n]), t == 2);
    for (int n = 0; n < 3; ++n) EXPECT_EQ(std::isnan(gated.get().row(t)[n]), t == 2);
  }
}

TEST_F(FusedProductKernel, TakesNoRowsAndRefusesWhatDoesNotFit) {
  TestNumbers numbers(5);
  const auto matrix =
      load(device(), TestWeights::random(numbers, WeightType::kF32, 6, 8), WeightFormat::kStored);
  const DeviceRows none{nullptr, 0, 6, 6};
  device().matmul_add({nullptr, 0, 8, 8}, *matrix, none, none);
  device().matmul_silu_mul({nullptr, 0, 8, 8}, *matrix, none, {nullptr, 0, 3, 3});
  const DeviceMatrix x(2, 8), products(2, 6), y(2, 6), half(2, 3), high(3, 3), wide(2, 4);
  EXPECT_DEATH(device().matmul_add(x.view(), *matrix, products.view(), half.view()),
               "as wide as the weight matrix has rows");
  EXPECT_DEATH(device().matmul_silu_mul(x.view(), *matrix, products.view(), wide.view()),
               "half as many");
  EXPECT_DEATH(device().matmul_silu_mul(x.view(), *matrix, products.view(), high.view()),
               "half as many");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
