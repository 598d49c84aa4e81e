#pragma once
#include "kernels/cuda/matmul/matmul.h"
#include "tests/cuda/kernel_test.h"

// Shared by tests of products.
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

// The same, with every row aligned to 16 bytes if the width allows it.
inline TestRows run_aligned(Matmul kernel, ConstDeviceRows x, const CudaMatrix& weight) {
  const DeviceMatrix device_x(x, (4 - x.width % 4) % 4), y(x.rows, weight.rows());
  kernel(device_x.view(), weight, y.view(), nullptr);
  return y.get();
}

// The expected product, and the magnitude of the terms that it adds. Two of q4 make a weight, which
// may be smaller: q times scale is at most twice the group's largest weight, and the minimum is at
// most that weight.
struct Expected {
  Expected(const TestRows& x, const TestWeights& weights, WeightFormat format)
      : y(x.rows(), weights.rows()), magnitude(x.rows(), weights.rows()) {
    const auto plain = load(plain_backend(), weights, format);
    plain_backend().matmul(x.view(), *plain, y.view());
    TestRows terms = kept(plain_backend(), weights.host(), format);
    if (format == WeightFormat::kQ4) enlarge_to_terms(terms);
    for (int t = 0; t < x.rows(); ++t) {
      for (int n = 0; n < weights.rows(); ++n) {
        double sum = std::numeric_limits<float>::min();  // below it, rounding is absolute
        for (int k = 0; k < x.width(); ++k) sum += std::fabs(double{x.row(t)[k]} * terms.row(n)[k]);
        magnitude.row(t)[n] = static_cast<float>(sum);
      }
    }
  }

  TestRows y, magnitude;

 private:
  static void enlarge_to_terms(TestRows& weights) {
    for (int n = 0; n < weights.rows(); ++n) {
      for (int first = 0; first < weights.width(); first += kGroupElements) {
        const int end = std::min(first + kGroupElements, weights.width());
        float largest = 0;
        for (int k = first; k < end; ++k) {
          largest = std::max(largest, std::fabs(weights.row(n)[k]));
        }
        std::fill(weights.row(n) + first, weights.row(n) + end, 3 * largest);
      }
    }
  }
};

// On either side, a sum of K terms has an error of at most K half units of the terms' magnitude,
// and the scale of an int8 row adds one more. (The groups of q4 are shorter sums.)
inline double tolerance(int width) { return (width + 2) * 0x1p-23; }

// A row's bits do not depend on the other rows of the call, their number, its index or its
// alignment.
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
