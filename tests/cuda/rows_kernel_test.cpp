#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/rows.h"
#include "tests/cuda/kernel_test.h"
#include "tests/special_numbers.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class RowsKernel : public KernelTest {};
class ArgmaxKernel : public KernelTest {};

constexpr int kWidths[] = {1, 2, 3, 4, 5, 64, 127, 513, 1030};

// A matrix in device memory with random gaps and alignment: a copy of x, or empty.
DeviceMatrix placed(TestNumbers& numbers, const TestRows& x) {
  return DeviceMatrix(x.view(), numbers.below(5), numbers.below(5));
}
DeviceMatrix placed(TestNumbers& numbers, int rows, int width) {
  return DeviceMatrix(rows, width, numbers.below(5), numbers.below(5));
}

void expect_rows(const DeviceMatrix& got, const TestRows& want) {
  EXPECT_TRUE(same_rows(got.get(), want));
  EXPECT_TRUE(got.gaps_untouched());
}

// Through pinned memory in pieces of 4 MiB: the host's array may change as soon as the call
// returns.
TEST_F(RowsKernel, LargeUploadsArriveWhole) {
  TestNumbers numbers(20);
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{13} << 20}) {
    for (const std::size_t more : {0, 12}) {
      const std::size_t count = (bytes + more) / sizeof(float);
      const TestRows sent = TestRows::random(numbers, 1, static_cast<int>(count));
      std::vector<float> host(sent.row(0), sent.row(0) + count);
      const DeviceArray<float> there(device(), count);
      device().upload(host.data(), there.data(), count * sizeof(float));
      std::fill(host.begin(), host.end(), kNan);
      device().download(there.data(), host.data(), count * sizeof(float));
      EXPECT_TRUE(std::equal(host.begin(), host.end(), sent.row(0))) << bytes + more;
    }
  }
}

TEST_F(RowsKernel, EmbedReadsRowsOfEachType) {
  TestNumbers numbers(1);
  for (const WeightType type : kWeightTypes) {
    for (const WeightFormat format :
         {WeightFormat::kStored, WeightFormat::kInt8, WeightFormat::kQ4}) {
      for (const int width : kWidths) {
        const TestWeights table = TestWeights::random(numbers, type, 50, width);
        const std::vector<std::int32_t> ids = {49, 0, 31, 31, 7, 1, 48};
        TestRows want(7, width);
        plain_backend().embed(*load(plain_backend(), table, format), ids.data(), want.view());
        const DeviceMatrix got = placed(numbers, 7, width);
        device().embed(*load(device(), table, format), OnDevice<std::int32_t>(ids).data(),
                       got.view());
        expect_rows(got, want);
      }
    }
  }
}

TEST_F(RowsKernel, GatherCopiesRows) {
  TestNumbers numbers(2);
  for (const int width : kWidths) {
    const TestRows x = TestRows::random(numbers, 9, width);
    const std::vector<std::int32_t> rows = {8, 0, 3, 3, 5};
    TestRows want(5, width);
    plain_backend().gather_rows(x.view(), rows.data(), want.view());
    const DeviceMatrix from = placed(numbers, x), got = placed(numbers, 5, width);
    device().gather_rows(from.view(), OnDevice<std::int32_t>(rows).data(), got.view());
    expect_rows(got, want);
  }
}

TEST_F(RowsKernel, AddIsTheSum) {
  TestNumbers numbers(3);
  for (const int width : kWidths) {
    const TestRows y = TestRows::random(numbers, 6, width);
    TestRows x = TestRows::random(numbers, 6, width);
    x.row(2)[width - 1] = kNan;
    const DeviceMatrix device_x = placed(numbers, x), device_y = placed(numbers, y);
    device().add(device_x.view(), device_y.view());
    plain_backend().add(x.view(), y.view());
    expect_rows(device_x, x);
  }
}

// expf is exact to 2 units in the last place (CUDA C++ Programming Guide), the plain exponential to
// 1. A sum, a quotient and a product add half a unit each on either side, so 6 units cover
// everything. If exp(-z) overflows, both results are zero or below the smallest normal number.
TEST_F(RowsKernel, SiluMulIsNearPlain) {
  TestNumbers numbers(4);
  for (const int width : kWidths) {
    TestRows gate = TestRows::random(numbers, 5, width);
    const TestRows up = TestRows::random(numbers, 5, width);
    for (int t = 0; t < 5; ++t) {
      for (int i = 0; i < width; ++i) gate.row(t)[i] *= 40.0f * static_cast<float>(t);
    }
    TestRows want(5, width);
    plain_backend().silu_mul(gate.view(), up.view(), want.view());
    TestRows magnitude = want;
    for (int t = 0; t < 5; ++t) {
      for (int i = 0; i < width; ++i) {
        magnitude.row(t)[i] = std::fabs(want.row(t)[i]) + 0x1p-100f;
      }
    }
    const DeviceMatrix device_gate = placed(numbers, gate), device_up = placed(numbers, up);
    const DeviceMatrix got = placed(numbers, 5, width);
    device().silu_mul(device_gate.view(), device_up.view(), got.view());
    EXPECT_TRUE(near_rows(got.get(), want, magnitude, 6 * 0x1p-23)) << width;
    EXPECT_TRUE(got.gaps_untouched());
  }
}

TEST_F(RowsKernel, SiluMulOfExtremes) {
  TestRows gate(1, 6), up(1, 6), want(1, 6);
  const float values[] = {kNan, kInfinity, 0.0f, -0.0f, -200.0f, 200.0f};
  for (int i = 0; i < 6; ++i) {
    gate.row(0)[i] = values[i];
    up.row(0)[i] = 2.0f;
  }
  plain_backend().silu_mul(gate.view(), up.view(), want.view());
  const DeviceMatrix device_gate(gate.view()), device_up(up.view()), got(1, 6);
  device().silu_mul(device_gate.view(), device_up.view(), got.view());
  EXPECT_TRUE(same_rows(got.get(), want));
}

TEST_F(RowsKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(5);
  for (const int width : {7, 64, 1000}) {
    const TestRows gate = TestRows::random(numbers, 20, width);
    const TestRows up = TestRows::random(numbers, 20, width);
    const DeviceMatrix all_gate(gate.view()), all_up(up.view()), together(20, width);
    device().silu_mul(all_gate.view(), all_up.view(), together.view());
    for (int t = 0; t < 20; ++t) {
      const DeviceMatrix one_gate(gate.view().slice(t, 1), 0, numbers.below(5));
      const DeviceMatrix one_up(up.view().slice(t, 1), 0, numbers.below(5));
      const DeviceMatrix alone(1, width, 0, numbers.below(5));
      device().silu_mul(one_gate.view(), one_up.view(), alone.view());
      EXPECT_TRUE(same_rows(alone.get().view(), together.get().view().slice(t, 1)));
    }
  }
}

TEST_F(RowsKernel, FillFillsColumns) {
  TestNumbers numbers(6);
  for (const int width : kWidths) {
    TestRows x = TestRows::random(numbers, 4, width + 8);
    const DeviceMatrix device_x = placed(numbers, x);
    const int first = numbers.below(8);
    device().fill(device_x.view().columns(first, width), -kInfinity);
    plain_backend().fill(x.view().columns(first, width), -kInfinity);
    expect_rows(device_x, x);
  }
}

using Argmax = void (*)(ConstDeviceRows, std::int32_t*, cudaStream_t);

// argmax_blocks, which must leave its scratch at zero.
void argmax_by_blocks(ConstDeviceRows x, std::int32_t* ids, cudaStream_t stream) {
  const auto rows = static_cast<std::size_t>(x.rows);
  const OnDevice<unsigned long long> keys(std::vector<unsigned long long>(rows, 0));
  const OnDevice<unsigned> done(std::vector<unsigned>(rows, 0));
  for (int again = 0; again < 2; ++again) {
    argmax_blocks(x, ids, {keys.data(), done.data()}, stream);
  }
  cuda_check(cudaDeviceSynchronize());
  EXPECT_EQ(keys.get(), std::vector<unsigned long long>(rows, 0));
  EXPECT_EQ(done.get(), std::vector<unsigned>(rows, 0));
}

constexpr Argmax kArgmaxKernels[] = {argmax_naive, argmax_block, argmax_by_blocks};

std::vector<std::int32_t> run(Argmax kernel, TestNumbers& numbers, const TestRows& x) {
  const DeviceMatrix device_x = placed(numbers, x);
  const OnDevice<std::int32_t> ids(
      std::vector<std::int32_t>(static_cast<std::size_t>(x.rows()), -7));
  kernel(device_x.view(), ids.data(), nullptr);
  return ids.get();
}

// Rows full of equals, infinities, zeros of both signs, subnormal numbers and NaN.
TEST_F(ArgmaxKernel, IsThatOfPlainLoops) {
  TestNumbers numbers(7);
  const float specials[] = {kNan,       kInfinity, -kInfinity, 0.0f,  -0.0f,
                            1e-40f,     -1e-40f,   1.0f,       -1.0f, std::nextafter(1.0f, 2.0f),
                            -kInfinity, 0.0f};
  for (const int width : {1, 2, 3, 31, 32, 33, 255, 1000, 1031, 33000}) {
    const int rows = width > 5000 ? 2 : 40;
    for (int round = 0; round < 3; ++round) {
      TestRows x = TestRows::random(numbers, rows, width);
      for (int t = 0; t < rows; ++t) {
        const int choice = numbers.below(4);  // 0: random numbers; 1: few values; 2: very few
        const int first = numbers.below(4) == 0 ? 0 : 1, count = choice == 2 ? 2 : 11;
        for (int i = 0; choice > 0 && i < width; ++i) {
          if (choice < 3) x.row(t)[i] = specials[first + numbers.below(count)];
        }
        if (choice == 3) std::fill_n(x.row(t), width, specials[numbers.below(12)]);
      }
      std::vector<std::int32_t> want(static_cast<std::size_t>(rows));
      plain_backend().argmax(x.view(), want);
      for (const Argmax kernel : kArgmaxKernels) {
        EXPECT_EQ(run(kernel, numbers, x), want) << width;
      }
    }
  }
}

// One largest element, or two equal ones, anywhere; all others random and negative.
TEST_F(ArgmaxKernel, FindsTheLowestOfEqualsAnywhere) {
  TestNumbers numbers(8);
  constexpr int kWidth = 1500;
  TestRows x = TestRows::random(numbers, 60, kWidth);
  std::vector<std::int32_t> want;
  for (int t = 0; t < x.rows(); ++t) {
    for (int i = 0; i < kWidth; ++i) x.row(t)[i] = -std::fabs(x.row(t)[i]);
    const int a = t == 0 ? kWidth - 1 : numbers.below(kWidth), b = numbers.below(kWidth);
    x.row(t)[a] = x.row(t)[b] = t % 2 == 0 ? 1e-30f : 1e30f;
    want.push_back(std::min(a, b));
  }
  for (const Argmax kernel : kArgmaxKernels) EXPECT_EQ(run(kernel, numbers, x), want);
}

TEST_F(ArgmaxKernel, ANanAnywhereIsMinusOneInItsRowAlone) {
  TestNumbers numbers(9);
  for (const float nan : {kNan, -kNan}) {
    TestRows x = TestRows::random(numbers, 40, 700);
    std::vector<std::int32_t> want(40);
    plain_backend().argmax(x.view(), want);
    for (int t = 0; t < 40; t += 3) {
      x.row(t)[t == 0 ? 699 : numbers.below(700)] = nan;
      want[static_cast<std::size_t>(t)] = -1;
    }
    for (const Argmax kernel : kArgmaxKernels) {
      EXPECT_EQ(run(kernel, numbers, x), want);
    }
  }
}

TEST_F(ArgmaxKernel, TheBackendGrowsItsRoom) {
  TestNumbers numbers(10);
  for (const int rows : {1, 3, 2, 50}) {
    const TestRows x = TestRows::random(numbers, rows, 300);
    std::vector<std::int32_t> got(static_cast<std::size_t>(rows)), want = got;
    device().argmax(placed(numbers, x).view(), got);
    plain_backend().argmax(x.view(), want);
    EXPECT_EQ(got, want);
  }
}

TEST_F(RowsKernel, TakesNoRowsAndNoColumns) {
  const DeviceRows none{nullptr, 0, 5, 5};
  device().add(none, none);
  device().silu_mul(none, none, none);
  device().gather_rows(none, nullptr, none);
  device().fill(none, 1.0f);
  device().argmax(none, {});
  const DeviceMatrix x(2, 5);
  device().fill(x.view().columns(5, 0), 1.0f);
}

TEST_F(RowsKernel, ShapesThatDifferAreRefused) {
  const DeviceMatrix a(2, 8), higher(3, 8), wider(2, 9);
  TestNumbers numbers(11);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kF32, 3, 8);
  const auto table = load(device(), weights);
  for (const DeviceMatrix* other : {&higher, &wider}) {
    EXPECT_DEATH(device().add(a.view(), other->view()), "same shape");
    EXPECT_DEATH(device().silu_mul(a.view(), other->view(), a.view()), "same shape");
    EXPECT_DEATH(device().silu_mul(a.view(), a.view(), other->view()), "same shape");
  }
  const OnDevice<std::int32_t> ids({0, 0});
  EXPECT_DEATH(device().gather_rows(a.view(), ids.data(), wider.view()), "the same width");
  EXPECT_DEATH(device().embed(*table, ids.data(), wider.view()), "as wide as the table");
  EXPECT_DEATH(device().embed(*load(plain_backend(), weights), ids.data(), a.view()),
               "a matrix that this backend loaded");
  std::vector<std::int32_t> three(3), two(2);
  EXPECT_DEATH(device().argmax(a.view(), three), "an id for each row");
  EXPECT_DEATH(device().argmax(a.view().columns(0, 0), two), "rows with an element");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
