#include "kernels/cuda/rms_norm.h"
#include "tests/cuda/kernel_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class RmsNormKernel : public KernelTest {};

using RmsNorm = void (*)(ConstDeviceRows, const float*, float, DeviceRows, cudaStream_t);

TestRows by_plain_loops(const TestRows& x, const std::vector<float>& weight, float eps) {
  TestRows out(x.rows(), x.width());
  plain_backend().rms_norm(x.view(), weight.data(), eps, out.view());
  return out;
}

void expect_near_plain(RmsNorm rms_norm_kernel, TestNumbers& numbers, int rows, int width,
                       int gap) {
  const TestRows x = TestRows::random(numbers, rows, width);
  std::vector<float> weight;
  for (int i = 0; i < width; ++i) weight.push_back(numbers.number());
  const OnDevice<float> device_weight(weight);
  const DeviceMatrix device_x(x.view(), gap), out(rows, width, gap);
  rms_norm_kernel(device_x.view(), device_weight.data(), 1e-5f, out.view(), nullptr);

  const TestRows want = by_plain_loops(x, weight, 1e-5f);
  TestRows magnitude = want;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) magnitude.row(r)[i] = std::fabs(magnitude.row(r)[i]);
  }
  // The mean square is a sum of positive terms: its relative error is at most (width + 2) / 2 half
  // units; the square root halves it.
  EXPECT_TRUE(near_rows(out.get(), want, magnitude, (width + 8) * 0x1p-24));
}

TEST_F(RmsNormKernel, IsNearPlainLoops) {
  TestNumbers numbers(1);
  for (const RmsNorm kernel : {rms_norm_naive, rms_norm}) {
    for (const int width : {1, 3, 64, 100, 576}) {
      expect_near_plain(kernel, numbers, numbers.between(1, 9), width, numbers.below(5));
    }
  }
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
