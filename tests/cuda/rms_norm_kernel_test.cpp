#include "kernels/cuda/rms_norm/rms_norm.h"
#include "tests/cuda/kernel_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class RmsNormKernel : public KernelTest {};

using RmsNorm = void (*)(ConstDeviceRows, const float*, float, DeviceRows, cudaStream_t);

constexpr RmsNorm kKernels[] = {rms_norm_naive, rms_norm_block, rms_norm_vector, rms_norm};
constexpr float kEps = 1e-5f;

std::vector<float> random_weight(TestNumbers& numbers, int width) {
  std::vector<float> weight;
  for (int i = 0; i < width; ++i) weight.push_back(numbers.number());
  return weight;
}

// Places x, the weight and the result with random gaps and alignments.
TestRows run(RmsNorm kernel, TestNumbers& numbers, ConstDeviceRows x,
             const std::vector<float>& weight) {
  const TestRows weight_row = [&] {
    TestRows row(1, x.width);
    std::copy(weight.begin(), weight.end(), row.row(0));
    return row;
  }();
  const DeviceMatrix device_x(x, numbers.below(5), numbers.below(5));
  const DeviceMatrix device_weight(weight_row.view(), 0, numbers.below(5));
  const DeviceMatrix out(x.rows, x.width, numbers.below(5), numbers.below(5));
  kernel(device_x.view(), device_weight.view().data, kEps, out.view(), nullptr);
  EXPECT_TRUE(out.gaps_untouched());
  return out.get();
}

TestRows by_plain_loops(const TestRows& x, const std::vector<float>& weight) {
  TestRows out(x.rows(), x.width());
  plain_backend().rms_norm(x.view(), weight.data(), kEps, out.view());
  return out;
}

TEST_F(RmsNormKernel, IsNearPlainLoops) {
  TestNumbers numbers(1);
  for (const RmsNorm kernel : kKernels) {
    for (const int width : {1, 3, 64, 100, 576, 2049}) {
      const TestRows x = TestRows::random(numbers, numbers.between(1, 40), width);
      const std::vector<float> weight = random_weight(numbers, width);
      const TestRows want = by_plain_loops(x, weight);
      TestRows magnitude = want;
      for (int r = 0; r < x.rows(); ++r) {
        for (int i = 0; i < width; ++i) magnitude.row(r)[i] = std::fabs(magnitude.row(r)[i]);
      }
      // The mean square is a sum of positive terms: its relative error is at most (width + 2) half
      // units in either order; the square root halves it. Quotient, root and products: 3 units.
      EXPECT_TRUE(
          near_rows(run(kernel, numbers, x.view(), weight), want, magnitude, (width + 8) * 0x1p-24))
          << width;
    }
  }
}

TEST_F(RmsNormKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(2);
  for (const RmsNorm kernel : kKernels) {
    for (const int width : {1, 7, 64, 257, 1000}) {
      const TestRows x = TestRows::random(numbers, 40, width);
      const std::vector<float> weight = random_weight(numbers, width);
      const TestRows together = run(kernel, numbers, x.view(), weight);
      for (int round = 0; round < 6; ++round) {
        const int count = numbers.between(1, 6), first = numbers.below(41 - count);
        const TestRows some = run(kernel, numbers, x.view().slice(first, count), weight);
        ASSERT_TRUE(same_rows(some.view(), together.view().slice(first, count))) << width;
      }
    }
  }
}

TEST_F(RmsNormKernel, TheEnginesIsTheVectorOne) {
  TestNumbers numbers(3);
  const TestRows x = TestRows::random(numbers, 5, 999);
  const std::vector<float> weight = random_weight(numbers, 999);
  EXPECT_TRUE(same_rows(run(rms_norm, numbers, x.view(), weight),
                        run(rms_norm_vector, numbers, x.view(), weight)));
  // Sums of 999 terms in other orders have other bits, so the comparison distinguishes the kernels.
  EXPECT_FALSE(same_rows(run(rms_norm, numbers, x.view(), weight),
                         run(rms_norm_naive, numbers, x.view(), weight)));
}

TEST_F(RmsNormKernel, NanAndInfinityStayInTheirRows) {
  TestNumbers numbers(4);
  for (const RmsNorm kernel : kKernels) {
    TestRows x = TestRows::random(numbers, 35, 70);
    const std::vector<float> weight = random_weight(numbers, 70);
    const TestRows clean = run(kernel, numbers, x.view(), weight);
    x.row(3)[69] = std::numeric_limits<float>::quiet_NaN();
    x.row(33)[0] = -std::numeric_limits<float>::infinity();
    const TestRows got = run(kernel, numbers, x.view(), weight);
    for (int r = 0; r < 35; ++r) {
      if (r != 3 && r != 33) {
        EXPECT_TRUE(same_rows(got.view().slice(r, 1), clean.view().slice(r, 1)));
      }
    }
    for (int i = 0; i < 70; ++i) EXPECT_TRUE(std::isnan(got.row(3)[i]));
    EXPECT_TRUE(std::isnan(got.row(33)[0]));  // infinity / infinity
    EXPECT_EQ(got.row(33)[1], 0.0f);
  }
}

TEST_F(RmsNormKernel, FusedWithTheAddIsTheTwo) {
  TestNumbers numbers(5);
  for (const int width : {1, 3, 4, 64, 100, 577, 2500}) {
    const int rows = numbers.between(1, 5);
    const TestRows x = TestRows::random(numbers, rows, width);
    const TestRows y = TestRows::random(numbers, rows, width);
    const OnDevice<float> weight(random_weight(numbers, width));
    const DeviceMatrix added(x.view()), y_plain(y.view()), normed(rows, width);
    device().add(added.view(), y_plain.view());
    device().rms_norm(added.view(), weight.data(), kEps, normed.view());

    for (const auto kernel : {add_rms_norm_vector, add_rms_norm}) {
      const DeviceMatrix device_x(x.view(), numbers.below(5), numbers.below(5));
      const DeviceMatrix device_y(y.view(), numbers.below(5), numbers.below(5));
      const DeviceMatrix out(rows, width, numbers.below(5), numbers.below(5));
      kernel(device_x.view(), device_y.view(), weight.data(), kEps, out.view(), nullptr);
      EXPECT_TRUE(same_rows(device_x.get(), added.get())) << width;
      EXPECT_TRUE(same_rows(out.get(), normed.get())) << width;
      EXPECT_TRUE(device_x.gaps_untouched() && out.gaps_untouched());
    }
  }
}

// The backend's operation, and the default implementation of other backends.
TEST_F(RmsNormKernel, BackendsAddAndNormalise) {
  TestNumbers numbers(6);
  const TestRows y = TestRows::random(numbers, 3, 130);
  TestRows x = TestRows::random(numbers, 3, 130), normed(3, 130);
  const std::vector<float> weight = random_weight(numbers, 130);
  const DeviceMatrix device_x(x.view()), device_y(y.view()), out(3, 130);
  device().add_rms_norm(device_x.view(), device_y.view(), OnDevice<float>(weight).data(), kEps,
                        out.view());
  plain_backend().add_rms_norm(x.view(), y.view(), weight.data(), kEps, normed.view());
  EXPECT_TRUE(same_rows(device_x.get(), x));
  EXPECT_TRUE(same_rows(normed, by_plain_loops(x, weight)));
  TestRows magnitude = normed;
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < 130; ++i) magnitude.row(r)[i] = std::fabs(magnitude.row(r)[i]);
  }
  EXPECT_TRUE(near_rows(out.get(), normed, magnitude, (130 + 8) * 0x1p-24));  // as above
}

TEST_F(RmsNormKernel, TakesNoRows) {
  const OnDevice<float> weight(std::vector<float>(8, 1.0f));
  device().rms_norm({nullptr, 0, 8, 8}, weight.data(), kEps, {nullptr, 0, 8, 8});
  device().add_rms_norm({nullptr, 0, 8, 8}, {nullptr, 0, 8, 8}, weight.data(), kEps,
                        {nullptr, 0, 8, 8});
}

TEST_F(RmsNormKernel, ShapesThatDifferAreRefused) {
  const DeviceMatrix a(2, 8), b(3, 8), c(2, 7);
  const OnDevice<float> weight(std::vector<float>(8, 1.0f));
  for (const DeviceMatrix* other : {&b, &c}) {
    EXPECT_DEATH(device().rms_norm(a.view(), weight.data(), kEps, other->view()), "same shape");
    EXPECT_DEATH(device().add_rms_norm(a.view(), other->view(), weight.data(), kEps, a.view()),
                 "same shape");
    EXPECT_DEATH(device().add_rms_norm(a.view(), a.view(), weight.data(), kEps, other->view()),
                 "same shape");
  }
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
