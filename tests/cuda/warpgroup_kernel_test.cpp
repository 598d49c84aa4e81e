// The product by warpgroups. Are its bits those of the pipeline? On the emulation they are if the
// tensor cores add equally in both instructions. On a GPU, the first test is the experiment.
#include <cstdio>

#include "tests/cuda/boxes_test.h"
#include "tests/cuda/tensor_core_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class WarpgroupKernel : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && !can_run_matmul_warpgroup()) {
      GTEST_SKIP() << "NOT CHECKED: a GPU of compute capability 9.0, and code for sm_90a";
    }
  }
};

// How products differ from those of the pipeline.
struct Difference {
  int sums = 0, other_bits = 0;
  double largest = 0.0;  // of |y - want| / |want| over a product

  void add(const TestRows& y, const TestRows& want) {
    double error = 0.0, norm = 0.0;
    for (int t = 0; t < want.rows(); ++t) {
      for (int n = 0; n < want.width(); ++n) {
        ++sums;
        other_bits += !same_number(y.row(t)[n], want.row(t)[n]);
        error += std::pow(double{y.row(t)[n]} - double{want.row(t)[n]}, 2);
        norm += std::pow(double{want.row(t)[n]}, 2);
      }
    }
    const double relative = error == 0.0 ? 0.0 : std::sqrt(error / norm);
    if (!(relative <= largest)) largest = relative;  // or NaN
  }
};

void compare(TestNumbers& numbers, int rows, int outputs, int width, Difference& difference) {
  const TestRows x = TestRows::random(numbers, rows, width);
  const CudaMatrix matrix = on_device(
      TestWeights::random(numbers, WeightType::kBF16, outputs, width), WeightFormat::kStored);
  difference.add(run_aligned(matmul_warpgroup, x.view(), matrix),
                 run_aligned(matmul_pipeline_store, x.view(), matrix));
}

// Parts of a chain and of a box; more stages than slots; parts of a warpgroup's rows; several
// blocks.
TEST_F(WarpgroupKernel, HasTheBitsOfThePipeline) {
  TestNumbers numbers(1);
  Difference all;
  for (const int rows : {1, 63, 64, 65, 128, 200}) {
    for (const int width : {1, 33, 64, 300, 1100}) {
      compare(numbers, rows, numbers.between(1, 300), width, all);
    }
  }
  std::printf(
      "EXPERIMENT: wgmma and mma.sync, %d of %d sums have different bits, products differ by %.1e "
      "at most\n",
      all.other_bits, all.sums, all.largest);
  EXPECT_LE(all.largest, kFloat32Tolerance);
#ifdef SPECDEC_EMULATED
  EXPECT_EQ(all.other_bits, 0) << "by equal models";
#endif
}

TEST_F(WarpgroupKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(2);
  constexpr int kRows = 140, kWidth = 150;
  const CudaMatrix matrix =
      on_device(TestWeights::random(numbers, WeightType::kBF16, 5, kWidth), WeightFormat::kStored);
  const TestRows x = TestRows::random(numbers, kRows, kWidth);
  const TestRows together = run_aligned(matmul_warpgroup, x.view(), matrix);
  for (const int count : {1, 2, 16, 63, 64, 65, 129, 140}) {
    const int first = numbers.below(kRows + 1 - count);
    EXPECT_TRUE(
        same_rows(run_aligned(matmul_warpgroup, x.view().slice(first, count), matrix).view(),
                  together.view().slice(first, count)))
        << count << " rows";
  }
}

double error_for(bool positive, int width) {
  TestNumbers numbers(3);
  const Product product(numbers, width, positive);
  return product.error_of(run_aligned(matmul_warpgroup, product.x.view(),
                                      on_device(product.weights, WeightFormat::kStored)));
}

TEST_F(WarpgroupKernel, IsWithinFloat32sTolerance) {
  for (const bool positive : {false, true}) {
    for (const int width : {1000, 8192}) {
      EXPECT_LE(error_for(positive, width), kFloat32Tolerance) << width << " inputs";
    }
  }
}

#ifdef SPECDEC_EMULATED
// The table of docs/kernels/11_products_of_a_warpgroup.md: what the experiment says if wgmma adds
// in another way than mma.sync.
TEST_F(WarpgroupKernel, OtherModelsGiveOtherBits) {
  std::printf("wgmma: products at a time, extra bits   different bits   difference   error\n");
  for (const int block : {4, 8, 16}) {
    for (const int extra_bits : {0, 1, 2}) {
      const ModelIs model(emulation::warpgroup_model(), {block, extra_bits});
      TestNumbers numbers(4);
      Difference difference;
      compare(numbers, 10, 100, 1100, difference);
      const double error = error_for(true, 8192);
      std::printf("%24d %14d %16d %12.1e %7.1e\n", block, extra_bits, difference.other_bits,
                  difference.largest, error);
      const auto [same_block, same_bits] = emulation::tensor_core_model();
      EXPECT_EQ(difference.other_bits == 0, block == same_block && extra_bits == same_bits);
      EXPECT_LE(difference.largest, kFloat32Tolerance);
      EXPECT_LE(error, kFloat32Tolerance);
    }
  }
}
#endif

TEST_F(WarpgroupKernel, ReadsWhatTheKernelBeforeHasWritten) {
  TestNumbers numbers(5);
  expect_reads_what_the_kernel_before_has_written(matmul_warpgroup, numbers);
}

TEST_F(WarpgroupKernel, WhatTheEngineCannotCopyIsRefused) {
  TestNumbers numbers(6);
  expect_refuses_what_the_engine_cannot_copy(matmul_warpgroup, numbers);
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
