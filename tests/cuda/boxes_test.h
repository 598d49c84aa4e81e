#pragma once
#include "tests/cuda/matmul_test.h"

// Shared by tests of products by the copy engine.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

inline void matmul_pipeline_store(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                                  cudaStream_t stream) {
  matmul_pipeline_then(Then::kStore, x, weight, y, stream);
}

// Its weights may be requested before the kernel before has ended, its inputs only afterwards.
inline void expect_reads_what_the_kernel_before_has_written(Matmul kernel, TestNumbers& numbers) {
  const TestRows x = TestRows::random(numbers, 4, 300);
  const auto square = [&] {
    return on_device(TestWeights::random(numbers, WeightType::kBF16, 300, 300),
                     WeightFormat::kStored);
  };
  const CudaMatrix first = square(), second = square();
  const auto run_both = [&](bool waits) {
    cudaStream_t stream;
    cuda_check(cudaStreamCreate(&stream));
    const DeviceMatrix device_x(x.view()), between(4, 300), y(4, 300);
    kernel(device_x.view(), first, between.view(), stream);
    if (waits) cuda_check(cudaStreamSynchronize(stream));
    kernel(between.view(), second, y.view(), stream);
    cuda_check(cudaStreamSynchronize(stream));
    cuda_check(cudaStreamDestroy(stream));
    return y.get();
  };
  const TestRows want = run_both(true);
#ifdef SPECDEC_EMULATED
  const std::size_t early = emulation::traffic().early;
#endif
  EXPECT_TRUE(same_rows(run_both(false), want));
#ifdef SPECDEC_EMULATED
  EXPECT_EQ(emulation::traffic().early - early, 1u) << "the second kernel";
#endif
}

inline void expect_refuses_what_the_engine_cannot_copy(Matmul kernel, TestNumbers& numbers) {
  const CudaMatrix matrix =
      on_device(TestWeights::random(numbers, WeightType::kBF16, 3, 8), WeightFormat::kStored);
  const CudaMatrix floats =
      on_device(TestWeights::random(numbers, WeightType::kF32, 3, 8), WeightFormat::kStored);
  const DeviceMatrix x(2, 8), gaps(2, 8, 1), shifted(2, 8, 0, 1), y(2, 3);
  EXPECT_DEATH(kernel(x.view(), floats, y.view(), nullptr), "weights of type bf16");
  EXPECT_DEATH(kernel(gaps.view(), matrix, y.view(), nullptr), "multiples of 16 bytes");
  EXPECT_DEATH(kernel(shifted.view(), matrix, y.view(), nullptr), "multiples of 16 bytes");
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
