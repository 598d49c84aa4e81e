// The backend with cuBLAS for its matrix products; in the emulation, with a stand-in for cuBLAS.
#include "tests/cuda/kernel_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class CublasKernel : public KernelTest {};

Backend& with_cublas() {
#ifdef SPECDEC_EMULATED
  static const std::unique_ptr<Backend> backend = make_emulated_backend(Gemm::kCublas);
#else
  static const std::unique_ptr<Backend> backend = make_cuda_backend(Gemm::kCublas);
#endif
  return *backend;
}

// Places x and y with random gaps and alignments.
TestRows run(Backend& backend, TestNumbers& numbers, ConstDeviceRows x,
             const WeightMatrix& weight) {
  const DeviceMatrix device_x(x, numbers.below(5), numbers.below(5));
  const DeviceMatrix y(x.rows, weight.rows(), numbers.below(5), numbers.below(5));
  device().wait();  // each backend has a stream of its own
  backend.matmul(device_x.view(), weight, y.view());
  backend.wait();
  EXPECT_TRUE(y.gaps_untouched());
  return y.get();
}

TEST_F(CublasKernel, IsNearPlainLoops) {
  TestNumbers numbers(1);
  for (const WeightType type : kWeightTypes) {
    // Rounding an input to the weights' type takes at most this much of each term.
    const double input = type == WeightType::kF32 ? 0 : type == WeightType::kF16 ? 0x1p-11 : 0x1p-8;
    for (const int width : {1, 3, 64, 100, 1000}) {
      for (const int rows : {1, 6, 20}) {
        const int outputs = numbers.between(1, 130);
        TestRows x = TestRows::random(numbers, rows, width);
        const TestWeights weights = TestWeights::random(numbers, type, outputs, width);
        TestRows want(rows, outputs), magnitude(rows, outputs);
        plain_backend().matmul(x.view(), *load(plain_backend(), weights), want.view());
        for (int t = 0; t < rows; ++t) {
          for (int n = 0; n < outputs; ++n) {
            double sum = std::numeric_limits<float>::min();  // below it, rounding is absolute
            for (int k = 0; k < width; ++k) {
              sum += std::fabs(double{x.row(t)[k]} * weights.at(n, k));
            }
            magnitude.row(t)[n] = static_cast<float>(sum);
          }
        }
        EXPECT_TRUE(near_rows(run(with_cublas(), numbers, x.view(), *load(with_cublas(), weights)),
                              want, magnitude, input + (width + 2) * 0x1p-23))
            << width << " inputs";
      }
    }
  }
}

TEST_F(CublasKernel, RoundsTheInputsOfBfloat16Alone) {
  const float third = 1.0f / 3.0f, rounded = cpu::float_from_bf16(0x3eabu);
  TestRows x(1, 1);
  x.row(0)[0] = third;
  const DeviceMatrix device_x(x.view()), y(1, 1);
  device().wait();  // each backend has a stream of its own
  for (const auto& [type, one, want] : {std::tuple{WeightType::kF32, 0x3f800000u, third},
                                        std::tuple{WeightType::kBF16, 0x3f80u, rounded}}) {
    TestWeights weights(type, 1, 1);
    weights.set(0, one);
    const auto weight = load(with_cublas(), weights);
    with_cublas().matmul(device_x.view(), *weight, y.view());
    with_cublas().wait();
    EXPECT_EQ(y.get().row(0)[0], want);
  }
}

TEST_F(CublasKernel, RoundedWeightsHaveOurOwnProduct) {
  TestNumbers numbers(2);
  const TestRows x = TestRows::random(numbers, 3, 224);
  for (const auto [type, format] : kFormats) {
    if (format == WeightFormat::kStored && !is_grouped(type)) continue;
    const auto matrix = load(device(), TestWeights::random(numbers, type, 20, 224), format);
    EXPECT_TRUE(same_rows(run(with_cublas(), numbers, x.view(), *matrix),
                          run(device(), numbers, x.view(), *matrix)));
  }
}

// How many of the rows change their bits when others join them.
int changed_rows(Backend& backend, TestNumbers& numbers, const TestRows& x,
                 const WeightMatrix& matrix) {
  const TestRows together = run(backend, numbers, x.view(), matrix);
  int changed = 0;
  for (int t = 0; t < x.rows(); ++t) {
    const TestRows alone = run(backend, numbers, x.view().slice(t, 1), matrix);
    if (!same_rows(alone.view(), together.view().slice(t, 1))) ++changed;
  }
  return changed;
}

// Our product guarantees that there are none. cuBLAS guarantees nothing, so the test only records
// its number.
TEST_F(CublasKernel, OursKeepsARowsBitsWhereCublasNeedNot) {
  TestNumbers numbers(3);
  const TestRows x = TestRows::random(numbers, 64, 512);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 96, 512);
  const auto matrix = load(device(), weights);
  EXPECT_EQ(changed_rows(device(), numbers, x, *matrix), 0);
  RecordProperty("rows_of_64_changed_by_cublas", changed_rows(with_cublas(), numbers, x, *matrix));
}

TEST_F(CublasKernel, WhatDoesNotFitIsRefused) {
  TestNumbers numbers(4);
  const auto matrix = load(with_cublas(), TestWeights::random(numbers, WeightType::kF32, 3, 8));
  const DeviceMatrix x(2, 8), y(2, 3), wide(2, 9);
  EXPECT_DEATH(with_cublas().matmul(wide.view(), *matrix, y.view()), "x as wide as");
  EXPECT_DEATH(with_cublas().matmul(x.view(), *matrix, wide.view()), "y as wide as");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
