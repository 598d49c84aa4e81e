// One sum for several blocks: the bits of the pipeline for every number of them. And two ways whose
// bits depend on the order of the blocks, or on their number.
#include <cstdio>
#include <cstdlib>

#include "tests/cuda/matmul_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kAllPieces[] = {1, 2, 4, 8};

class SplitKernel : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && !can_run_matmul_split()) {
      GTEST_SKIP() << "NOT CHECKED: a GPU of compute capability 9.0, and code for it";
    }
  }

  // Inputs and weights, and y = x W^T in several ways.
  class Product {
   public:
    Product(std::uint32_t seed, int rows, int outputs, int width)
        : numbers_(seed),
          x_(TestRows::random(numbers_, rows, width).view()),
          weights_(on_device(TestWeights::random(numbers_, WeightType::kBF16, outputs, width),
                             WeightFormat::kStored)) {}

    TestRows by_pipeline() const {
      return with_y([&](DeviceRows y) {
        matmul_pipeline_then(Then::kStore, x_.view(), weights_, y, nullptr);
      });
    }
    TestRows handed_over(int pieces) const {
      return with_y([&](DeviceRows y) { matmul_split(pieces, x_.view(), weights_, y, nullptr); });
    }
    // With the emulation's order of the threads, and so of the blocks of a cluster.
    TestRows added_atomically(int pieces, const char* order) const {
      const char* const variable = std::getenv("SPECDEC_THREAD_ORDER");
      const std::string before = variable == nullptr ? "forward" : variable;
      setenv("SPECDEC_THREAD_ORDER", order, 1);
      TestRows sums = parts(pieces, x_.view().rows);
      setenv("SPECDEC_THREAD_ORDER", before.c_str(), 1);
      return sums;
    }
    // By a second kernel, in order.
    TestRows added_later(int pieces) const {
      const DeviceMatrix of_pieces(parts(pieces, pieces * x_.view().rows).view());
      return with_y([&](DeviceRows y) { add_parts(of_pieces.view(), y, nullptr); });
    }

   private:
    template <typename Multiply>
    TestRows with_y(const Multiply& multiply) const {
      const DeviceMatrix y(x_.view().rows, weights_.rows());
      multiply(y.view());
      return y.get();
    }
    TestRows parts(int pieces, int rows) const {
      const std::vector<float> zeros(static_cast<std::size_t>(rows * weights_.rows()), 0.0f);
      const DeviceMatrix y(ConstDeviceRows(zeros.data(), rows, weights_.rows(), weights_.rows()));
      matmul_split_parts(pieces, x_.view(), weights_, y.view(), nullptr);
      return y.get();
    }
    TestNumbers numbers_;
    DeviceMatrix x_;
    CudaMatrix weights_;
  };
};

// Parts of a chain, chains that no number of pieces divides, pieces without a chain; tiles that end
// beyond x and W.
TEST_F(SplitKernel, HasTheBitsOfThePipeline) {
  for (int rows = 1; rows <= 16; ++rows) {
    for (const int width : {1, 33 * rows, 320, 1100}) {
      const Product product(static_cast<std::uint32_t>(rows), rows, 7 * rows, width);
      const TestRows want = product.by_pipeline();
      for (const int pieces : kAllPieces) {
        EXPECT_TRUE(same_rows(product.handed_over(pieces), want))
            << rows << " rows, " << width << " inputs, " << pieces << " pieces";
      }
    }
  }
}

TEST_F(SplitKernel, TheSameWhenOneWaitsForSeven) {
  const Product product(1, 3, 20, 1100);
  EXPECT_TRUE(same_rows(product.handed_over(8), product.by_pipeline()));
}

int count_other_bits(const TestRows& a, const TestRows& b) {
  int count = 0;
  for (int t = 0; t < a.rows(); ++t) {
    for (int n = 0; n < a.width(); ++n) count += !same_number(a.row(t)[n], b.row(t)[n]);
  }
  return count;
}

// The table of docs/kernels/10_a_sum_for_several_blocks.md. Of two parts, the order changes
// nothing.
TEST_F(SplitKernel, CountsSumsWithOtherBits) {
  const Product product(2, 10, 100, 1100);
  const TestRows want = product.by_pipeline();
  std::printf("pieces   handed over   added later   atomicAdd, in two orders\n");
  for (const int pieces : {2, 4, 8}) {
    const int handed_over = count_other_bits(product.handed_over(pieces), want);
    const int later = count_other_bits(product.added_later(pieces), want);
    const int in_orders = count_other_bits(product.added_atomically(pieces, "forward"),
                                           product.added_atomically(pieces, "reverse"));
    std::printf("%6d %13d %13d %26d\n", pieces, handed_over, later, in_orders);
    EXPECT_EQ(handed_over, 0);
    EXPECT_GT(later, 500);
    EXPECT_EQ(count_other_bits(product.added_later(pieces), product.added_later(pieces)), 0);
#ifdef SPECDEC_EMULATED  // on a GPU the order is a matter of luck
    EXPECT_EQ(in_orders > 0, pieces > 2);
#endif
  }
  EXPECT_EQ(count_other_bits(product.added_later(1), want), 0);
}

TEST_F(SplitKernel, WhatItCannotMultiplyIsRefused) {
  const Product product(3, 1, 1, 64);
  EXPECT_THROW(product.handed_over(9), std::runtime_error) << "a cluster of nine blocks";
  const Product wide(4, 1, 1, 6081);
  EXPECT_THROW(wide.handed_over(1), std::runtime_error) << "more chains than its memory holds";
  EXPECT_TRUE(same_rows(wide.handed_over(2), wide.by_pipeline()));
  TestNumbers numbers(5);
  const CudaMatrix floats =
      on_device(TestWeights::random(numbers, WeightType::kF32, 3, 8), WeightFormat::kStored);
  const DeviceMatrix x(2, 8), y(2, 3);
  EXPECT_DEATH(matmul_split(2, x.view(), floats, y.view(), nullptr), "weights of type bf16");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
