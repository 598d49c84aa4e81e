#include <span>

#include "kernels/cpu/quantize.h"
#include "tests/cuda/matmul_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class MatmulKernel : public KernelTest {};

constexpr int kWidths[] = {1, 3, 7, 64, 100, 1000};
constexpr int kOutputs[] = {1, 5, 130};

TEST_F(MatmulKernel, IsNearPlainLoops) {
  TestNumbers numbers(1);
  for (const auto [type, format] : kFormats) {
    for (const int some : kWidths) {
      const int width = width_for(type, some);
      for (const int outputs : kOutputs) {
        const TestRows x = TestRows::random(numbers, numbers.between(1, 20), width);
        const TestWeights weights = TestWeights::random(numbers, type, outputs, width);
        const CudaMatrix matrix = on_device(weights, format);
        const Expected want(x, weights, format);
        for (const Matmul kernel : {matmul_naive, matmul_warp, matmul_vector, matmul_rows}) {
          EXPECT_TRUE(near_rows(run(kernel, numbers, x.view(), matrix), want.y, want.magnitude,
                                tolerance(width)))
              << width << " inputs, " << outputs << " outputs";
        }
      }
    }
  }
}

TEST_F(MatmulKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(2);
  for (const auto [type, format] : kFormats) {
    for (const int some : {1, 7, 64, 100, 1000, 2064}) {
      const int width = width_for(type, some);
      const TestWeights weights = TestWeights::random(numbers, type, 6, width);
      expect_same_bits_in_any_company(matmul, numbers, weights, format, width, 64);
    }
  }
}

TEST_F(MatmulKernel, ARowsBitsInTheStepsOfTheLadder) {
  TestNumbers numbers(3);
  for (const Matmul kernel : {matmul_naive, matmul_warp, matmul_vector, matmul_rows}) {
    for (const auto [type, format] : kFormats) {
      const int width = width_for(type, 100);
      const TestWeights weights = TestWeights::random(numbers, type, 5, width);
      expect_same_bits_in_any_company(kernel, numbers, weights, format, width, 21);
    }
  }
}

TEST_F(MatmulKernel, AnOutputsBitsDependOnItsWeightsAlone) {
  TestNumbers numbers(4);
  const TestRows x = TestRows::random(numbers, 3, 300);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 11, 300);
  const TestRows all = run(matmul, numbers, x.view(), on_device(weights, WeightFormat::kStored));
  const std::size_t row_bytes = 300 * 2;
  for (int n = 0; n < 11; ++n) {
    const HostMatrix one = {
        WeightType::kBF16,
        weights.host().bytes.subspan(static_cast<std::size_t>(n) * row_bytes, row_bytes), 1, 300};
    const TestRows alone =
        run(matmul, numbers, x.view(), CudaMatrix(device(), {&one, 1}, WeightFormat::kStored));
    for (int t = 0; t < 3; ++t) EXPECT_EQ(alone.row(t)[0], all.row(t)[n]);
  }
}

void matmul_pipeline_store(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                           cudaStream_t stream) {
  matmul_pipeline_then(Then::kStore, x, weight, y, stream);
}

// For any number of rows: tensor cores if the weights, or their q, are exact in bf16.
TEST_F(MatmulKernel, TheEnginesIsOneForEachTypeOfWeights) {
  TestNumbers numbers(5);
  for (const auto [type, format] : kFormats) {
    const int width = width_for(type, 777);
    const CudaMatrix matrix = on_device(TestWeights::random(numbers, type, 33, width), format);
    const bool exact = type == WeightType::kBF16 || type == WeightType::kQ8;
    for (const int count : {1, 6, 12, 40, 100}) {
      const TestRows x = TestRows::random(numbers, count, width);
      const TestRows rows =
          run(exact ? matmul_pipeline_store : matmul_rows, numbers, x.view(), matrix);
      EXPECT_TRUE(same_rows(run(matmul, numbers, x.view(), matrix), rows));
      // The bits of a long sum depend on its order, so the two kernels can be told apart.
      EXPECT_FALSE(
          same_rows(run(exact ? matmul_rows : matmul_warp, numbers, x.view(), matrix), rows));
      const DeviceMatrix device_x(x.view()), y(count, 33);
      device().matmul(device_x.view(), matrix, y.view());
      EXPECT_TRUE(same_rows(y.get(), rows));
    }
  }
}

TEST_F(MatmulKernel, NanAndInfinityStayInTheirRows) {
  TestNumbers numbers(6);
  for (const Matmul kernel :
       {matmul_naive, matmul_warp, matmul_vector, matmul_rows, matmul_mma, matmul}) {
    TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 23, 19);
    weights.set(20 * 19 + 7, 0x7fc0u);  // a NaN
    TestRows x = TestRows::random(numbers, 18, 19);
    x.row(4)[18] = kInfinity;
    x.row(4)[0] = std::numeric_limits<float>::quiet_NaN();
    x.row(17)[18] = kInfinity;
    const TestRows y = run(kernel, numbers, x.view(), on_device(weights, WeightFormat::kStored));
    for (int t = 0; t < 17; ++t) {
      for (int n = 0; n < 23; ++n) EXPECT_EQ(std::isnan(y.row(t)[n]), t == 4 || n == 20) << t;
    }
    for (int n = 0; n < 23; ++n) EXPECT_FALSE(std::isfinite(y.row(17)[n]));
  }
}

// A row or group with a NaN as its scale, next to others.
TEST_F(MatmulKernel, NanInRoundedWeightsStaysInItsOutput) {
  TestNumbers numbers(7);
  TestWeights weights = TestWeights::random(numbers, WeightType::kF32, 9, 37);
  weights.set(5 * 37 + 36, 0x7f800000u);  // infinity
  const TestRows x = TestRows::random(numbers, 2, 37);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kQ4}) {
    for (const Matmul kernel : {matmul_naive, matmul_warp, matmul_vector, matmul_rows, matmul}) {
      const TestRows y = run(kernel, numbers, x.view(), on_device(weights, format));
      for (int n = 0; n < 9; ++n) EXPECT_EQ(std::isnan(y.row(1)[n]), n == 5);
    }
  }
}

// The same in groups of a file.
TEST_F(MatmulKernel, ANanScaleOfAFileStaysInItsOutput) {
  TestNumbers numbers(9);
  std::vector<cpu::Q8Group> groups = random_groups(numbers, 9 * 3);
  groups[5 * 3 + 2].scale = 0x7e00;
  const HostMatrix file{WeightType::kQ8, std::as_bytes(std::span(groups)), 9, 96};
  const CudaMatrix matrix(device(), {&file, 1}, WeightFormat::kStored);
  const TestRows x = TestRows::random(numbers, 2, 96);
  for (const Matmul kernel : {matmul_naive, matmul_warp, matmul_vector, matmul_rows, matmul}) {
    const TestRows y = run(kernel, numbers, x.view(), matrix);
    for (int n = 0; n < 9; ++n) EXPECT_EQ(std::isnan(y.row(1)[n]), n == 5);
  }
}

TEST_F(MatmulKernel, StackedPartsStandSideBySide) {
  TestNumbers numbers(8);
  for (const auto [type, format] : kFormats) {
    for (const int some : {5, 32}) {
      const int width = width_for(type, some);
      const TestWeights upper = TestWeights::random(numbers, type, 3, width);
      const TestWeights lower = TestWeights::random(numbers, type, 10, width);
      const HostMatrix parts[] = {upper.host(), lower.host()};
      const CudaMatrix stacked(device(), parts, format);
      ASSERT_EQ(stacked.rows(), 13);
      const std::size_t scales = format == WeightFormat::kInt8 ? 4
                                 : format == WeightFormat::kQ4 ? 8  // of one or two groups
                                 : type == WeightType::kQ8     ? 4
                                                               : 0;
      EXPECT_EQ(stacked.bytes(), 13 * (stacked.row_bytes() + scales));
      EXPECT_EQ(stacked.row_bytes() % 16, 0u);
      const TestRows x = TestRows::random(numbers, 4, width);
      TestRows y = run(matmul, numbers, x.view(), stacked);
      const auto same = [&, format = format](const TestWeights& part, int column) {
        const TestRows want = run(matmul, numbers, x.view(), on_device(part, format));
        return same_rows(y.view().columns(column, part.rows()), want.view());
      };
      EXPECT_TRUE(same(upper, 0));
      EXPECT_TRUE(same(lower, 3));
    }
  }
}

// What the device keeps of a matrix is what the CPU keeps: every 7th row.
void expect_kept(const HostMatrix& weights, WeightFormat format) {
  const auto matrix = device().load_matrix({&weights, 1}, format);
  const auto plain = plain_backend().load_matrix({&weights, 1}, format);
  std::vector<std::int32_t> ids;
  for (int n = 0; n < weights.rows; n += 7) ids.push_back(n);
  const int count = static_cast<int>(ids.size());
  const DeviceMatrix got(count, weights.width);
  TestRows want(count, weights.width);
  device().embed(*matrix, OnDevice<std::int32_t>(ids).data(), got.view());
  plain_backend().embed(*plain, ids.data(), want.view());
  EXPECT_TRUE(same_rows(got.get(), want));
}

// Quantised 4 MiB at a time: here in several pieces, with a shorter last one.
TEST_F(MatmulKernel, LargeMatricesAreQuantizedRowByRow) {
  constexpr int kRows = 150, kWidth = 70000;
  TestWeights weights(WeightType::kBF16, kRows, kWidth);
  for (int n = 0; n < kRows; ++n) {
    weights.set(n * kWidth, 0x3f80u + static_cast<unsigned>(n));  // 1 and up
    weights.set(n * kWidth + kWidth - 1, 0xbf80u);                // -1
  }
  expect_kept(weights.host(), WeightFormat::kInt8);
  expect_kept(weights.host(), WeightFormat::kQ4);
}

TEST_F(MatmulKernel, GroupsOfAFileStayAsTheyAre) {
  TestNumbers numbers(10);
  // The last in two pieces.
  for (const auto& [rows, width] : {std::pair(15, 32), std::pair(15, 96), std::pair(150, 32768)}) {
    expect_kept(TestWeights::random(numbers, WeightType::kQ8, rows, width).host(),
                WeightFormat::kStored);
  }
  for (const int width : {32, 96, 100}) {
    std::vector<cpu::Q4Group> groups(static_cast<std::size_t>(15 * cpu::groups_of(width)));
    for (cpu::Q4Group& group : groups) {
      group.scale = cpu::f16_from_float(numbers.number());
      group.minimum = cpu::f16_from_float(numbers.number());
      for (std::uint8_t& pair : group.pairs) pair = static_cast<std::uint8_t>(numbers.bits());
    }
    const HostMatrix file{WeightType::kQ4, std::as_bytes(std::span(groups)), 15, width};
    expect_kept(file, WeightFormat::kStored);
    expect_kept(file, WeightFormat::kQ4);
  }
}

TEST_F(MatmulKernel, TakesNoRows) {
  TestNumbers numbers(12);
  const CudaMatrix matrix =
      on_device(TestWeights::random(numbers, WeightType::kF32, 3, 8), WeightFormat::kStored);
  device().matmul({nullptr, 0, 8, 8}, matrix, {nullptr, 0, 3, 3});
}

TEST_F(MatmulKernel, WhatDoesNotFitIsRefused) {
  TestNumbers numbers(13);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kF32, 3, 8);
  const CudaMatrix matrix = on_device(weights, WeightFormat::kStored);
  const DeviceMatrix x(2, 8), y(2, 3), wide(2, 9), high(3, 3);
  EXPECT_DEATH(device().matmul(x.view(), matrix, high.view()), "as many rows");
  EXPECT_DEATH(device().matmul(wide.view(), matrix, y.view()), "x as wide as");
  EXPECT_DEATH(device().matmul(x.view(), matrix, wide.view()), "y as wide as");
  EXPECT_DEATH(device().matmul(x.view(), *load(plain_backend(), weights), y.view()),
               "a matrix that this backend loaded");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
