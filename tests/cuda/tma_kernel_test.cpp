// The product by the copy engine: the bits of the pipeline, whatever the shape.
#include "tests/cuda/boxes_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class TmaKernel : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && !can_run_matmul_tma()) {
      GTEST_SKIP() << "NOT CHECKED: a GPU of compute capability 9.0, and code for it";
    }
  }
};

TEST_F(TmaKernel, HasTheBitsOfThePipeline) {
  TestNumbers numbers(1);
  // Parts of a chain, of a box and of a stage; more stages than slots; several blocks.
  for (const int width : {1, 33, 64, 300, 1100}) {
    for (const int rows : {1, 8, 20}) {
      const int outputs = numbers.between(1, 100);
      const TestRows x = TestRows::random(numbers, rows, width);
      const CudaMatrix matrix = on_device(
          TestWeights::random(numbers, WeightType::kBF16, outputs, width), WeightFormat::kStored);
      EXPECT_TRUE(same_rows(run_aligned(matmul_tma, x.view(), matrix),
                            run_aligned(matmul_pipeline_store, x.view(), matrix)))
          << rows << " rows, " << outputs << " outputs, " << width << " inputs";
    }
  }
}

TEST_F(TmaKernel, ReadsWhatTheKernelBeforeHasWritten) {
  TestNumbers numbers(2);
  expect_reads_what_the_kernel_before_has_written(matmul_tma, numbers);
}

TEST_F(TmaKernel, WhatTheEngineCannotCopyIsRefused) {
  TestNumbers numbers(3);
  expect_refuses_what_the_engine_cannot_copy(matmul_tma, numbers);
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
