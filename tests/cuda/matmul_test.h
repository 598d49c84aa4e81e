#pragma once
#include "kernels/cuda/matmul/matmul.h"
#include "tests/cuda/kernel_test.h"

// What tests of products share.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

using Matmul = void (*)(ConstDeviceRows, const CudaMatrix&, DeviceRows, cudaStream_t);

inline CudaMatrix on_device(const TestWeights& weights, WeightFormat format) {
  const HostMatrix part = weights.host();
  return CudaMatrix(device(), {&part, 1}, format);
}

// Places x and y with random gaps and alignments.
inline TestRows run(Matmul kernel, TestNumbers& numbers, ConstDeviceRows x,
                    const CudaMatrix& weight) {
  const DeviceMatrix device_x(x, numbers.below(5), numbers.below(5));
  const DeviceMatrix y(x.rows, weight.rows(), numbers.below(5), numbers.below(5));
  kernel(device_x.view(), weight, y.view(), nullptr);
  EXPECT_TRUE(y.gaps_untouched());
  return y.get();
}

// The same, every row aligned to 16 bytes where the width allows it.
inline TestRows run_aligned(Matmul kernel, ConstDeviceRows x, const CudaMatrix& weight) {
  const DeviceMatrix device_x(x, (4 - x.width % 4) % 4), y(x.rows, weight.rows());
  kernel(device_x.view(), weight, y.view(), nullptr);
  return y.get();
}

// What a product is to be, and how large the terms are that it adds up.
struct Expected {
  Expected(const TestRows& x, const TestWeights& weights, WeightFormat format)
      : y(x.rows(), weights.rows()), magnitude(x.rows(), weights.rows()) {
    const auto plain = load(plain_backend(), weights, format);
    plain_backend().matmul(x.view(), *plain, y.view());
    TestRows kept(weights.rows(), x.width());  // the weights as the format keeps them
    std::vector<std::int32_t> ids;
    for (int n = 0; n < weights.rows(); ++n) ids.push_back(n);
    plain_backend().embed(*plain, ids.data(), kept.view());
    for (int t = 0; t < x.rows(); ++t) {
      for (int n = 0; n < weights.rows(); ++n) {
        double sum = std::numeric_limits<float>::min();  // below it, rounding is absolute
        for (int k = 0; k < x.width(); ++k) sum += std::fabs(double{x.row(t)[k]} * kept.row(n)[k]);
        magnitude.row(t)[n] = static_cast<float>(sum);
      }
    }
  }

  TestRows y, magnitude;
};

// Either side's sum of K terms is off by at most K half units of the terms' magnitude, and the
// scale of a row of int8 adds one more.
inline double tolerance(int width) { return (width + 2) * 0x1p-23; }

// Which rows share the call, how many, where they stand and how they are aligned changes nothing.
inline void expect_same_bits_in_any_company(Matmul kernel, TestNumbers& numbers,
                                            const TestWeights& weights, WeightFormat format,
                                            int width, int rows, int most = 20) {
  const CudaMatrix matrix = on_device(weights, format);
  const TestRows x = TestRows::random(numbers, rows, width);
  const TestRows together = run_aligned(kernel, x.view(), matrix);
  for (int count = 1; count <= most; ++count) {
    const int first = numbers.below(rows + 1 - count);
    const ConstDeviceRows some = x.view().slice(first, count);
    const ConstDeviceRows want = together.view().slice(first, count);
    ASSERT_TRUE(same_rows(run_aligned(kernel, some, matrix).view(), want)) << count << " rows";
    ASSERT_TRUE(same_rows(run(kernel, numbers, some, matrix).view(), want)) << count << " rows";
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
