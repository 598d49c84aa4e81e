// The product by the copy engine: the bits of the pipeline, whatever the shape.
#include "tests/cuda/matmul_test.h"

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

void matmul_pipeline_store(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                           cudaStream_t stream) {
  matmul_pipeline_then(Then::kStore, x, weight, y, stream);
}

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

// Its weights may be requested before the kernel before has ended, its inputs only afterwards.
TEST_F(TmaKernel, ReadsWhatTheKernelBeforeHasWritten) {
  TestNumbers numbers(2);
  const TestRows x = TestRows::random(numbers, 4, 300);
  const auto square = [&] {
    return on_device(TestWeights::random(numbers, WeightType::kBF16, 300, 300),
                     WeightFormat::kStored);
  };
  const CudaMatrix first = square(), second = square();
  const auto run_both = [&](Matmul kernel) {
    cudaStream_t stream;
    cuda_check(cudaStreamCreate(&stream));
    const DeviceMatrix device_x(x.view()), between(4, 300), y(4, 300);
    kernel(device_x.view(), first, between.view(), stream);
    kernel(between.view(), second, y.view(), stream);
    cuda_check(cudaStreamSynchronize(stream));
    cuda_check(cudaStreamDestroy(stream));
    return y.get();
  };
#ifdef SPECDEC_EMULATED
  const std::size_t early = emulation::traffic().early;
#endif
  EXPECT_TRUE(same_rows(run_both(matmul_tma), run_both(matmul_pipeline_store)));
#ifdef SPECDEC_EMULATED
  EXPECT_EQ(emulation::traffic().early - early, 2u) << "the second kernel of each pair";
#endif
}

TEST_F(TmaKernel, WhatTheEngineCannotCopyIsRefused) {
  TestNumbers numbers(3);
  const CudaMatrix matrix =
      on_device(TestWeights::random(numbers, WeightType::kBF16, 3, 8), WeightFormat::kStored);
  const CudaMatrix floats =
      on_device(TestWeights::random(numbers, WeightType::kF32, 3, 8), WeightFormat::kStored);
  const DeviceMatrix x(2, 8), gaps(2, 8, 1), shifted(2, 8, 0, 1), y(2, 3);
  EXPECT_DEATH(matmul_tma(x.view(), floats, y.view(), nullptr), "weights of type bf16");
  EXPECT_DEATH(matmul_tma(gaps.view(), matrix, y.view(), nullptr), "multiples of 16 bytes");
  EXPECT_DEATH(matmul_tma(shifted.view(), matrix, y.view(), nullptr), "multiples of 16 bytes");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
