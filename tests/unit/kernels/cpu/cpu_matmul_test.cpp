#include "kernels/cpu/packed_matrix.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

// The definition, independent of both backends: one chain of fused multiply-adds.
float chain(const float* x, const TestWeights& weights, int row, int width) {
  float total = 0.0f;
  for (int k = 0; k < width; ++k) total = std::fma(x[k], weights.at(row, k), total);
  return total;
}

struct Shape {
  int rows, outputs, inputs;
};

std::vector<Shape> shapes(TestNumbers& numbers) {
  std::vector<Shape> list = {{1, 1, 1},    {1, 1, 70},  {3, 31, 1},     {8, 32, 64},
                             {9, 33, 65},  {6, 96, 48}, {64, 40, 17},   {16, 17, 129},
                             {300, 37, 5}, {513, 8, 3}, {48, 64, 1030}, {300, 70, 600}};
  for (int rows = 1; rows <= 64; ++rows) {
    list.push_back({rows, numbers.between(1, 130), numbers.between(1, 90)});
  }
  return list;
}

TEST(CpuMatmul, EveryElementIsTheChain) {
  TestNumbers numbers(2);
  for (const Shape& shape : shapes(numbers)) {
    for (const WeightType type : kWeightTypes) {
      const TestWeights weights = TestWeights::random(numbers, type, shape.outputs, shape.inputs);
      const TestRows x = TestRows::random(numbers, shape.rows, shape.inputs, numbers.below(20));
      TestRows want(shape.rows, shape.outputs);
      for (int t = 0; t < shape.rows; ++t) {
        for (int n = 0; n < shape.outputs; ++n) {
          want.row(t)[n] = chain(x.row(t), weights, n, shape.inputs);
        }
      }
      Backend* backends[] = {&plain_backend(), &fast_backend(1), &fast_backend(2),
                             &fast_backend(3)};
      for (Backend* backend : backends) {
        const auto matrix = load(*backend, weights);
        TestRows got(shape.rows, shape.outputs, numbers.below(20));
        backend->matmul(x.view(), *matrix, got.view());
        ASSERT_TRUE(same_rows(got, want))
            << backend->name()
            << fmt::format(": {} x {} x {}, type {}", shape.rows, shape.outputs, shape.inputs,
                           static_cast<int>(type));
      }
    }
  }
}

// Every type as it is, and rounded.
class CpuMatmulFormats : public ::testing::TestWithParam<std::tuple<WeightType, WeightFormat>> {
 protected:
  WeightType type() const { return std::get<0>(GetParam()); }
  WeightFormat format() const { return std::get<1>(GetParam()); }
  void expect_equal_in_any_company(int rows, int inputs, int outputs);
};

INSTANTIATE_TEST_SUITE_P(, CpuMatmulFormats,
                         ::testing::Combine(::testing::ValuesIn(kWeightTypes),
                                            ::testing::Values(WeightFormat::kStored,
                                                              WeightFormat::kInt8,
                                                              WeightFormat::kQ4)));

// A matrix does not belong to the backend that loaded it, not even for the many rows of a prefill.
TEST_P(CpuMatmulFormats, AnyCpuBackendMultiplies) {
  TestNumbers numbers(4);
  const int outputs = 75, inputs = 301, rows = 64;
  const TestRows x = TestRows::random(numbers, rows, inputs);
  const TestWeights weights = TestWeights::random(numbers, type(), outputs, inputs);
  const auto own = make_cpu_backend(1), other = make_cpu_backend(2);
  const auto matrix = load(*own, weights, format());
  TestRows want(rows, outputs), got(rows, outputs);
  own->matmul(x.view(), *matrix, want.view());
  other->matmul(x.view(), *matrix, got.view());
  EXPECT_TRUE(same_rows(got, want));
}

// Which rows share the call, and in which order they come, changes nothing.
void CpuMatmulFormats::expect_equal_in_any_company(int rows, int inputs, int outputs) {
  TestNumbers numbers(3);
  const TestRows x = TestRows::random(numbers, rows, inputs);
  const TestWeights weights = TestWeights::random(numbers, type(), outputs, inputs);
  const auto matrix = load(fast_backend(2), weights, format());
  TestRows alone(rows, outputs);
  for (int t = 0; t < rows; ++t) {
    fast_backend(2).matmul(x.view().slice(t, 1), *matrix, alone.view().slice(t, 1));
  }
  for (int count = 1; count <= rows; ++count) {
    std::vector<std::int32_t> order(rows);
    for (int t = 0; t < rows; ++t) order[static_cast<std::size_t>(t)] = t;
    numbers.shuffle(order);
    TestRows some(count, inputs), got(count, outputs), want(count, outputs);
    fast_backend(1).gather_rows(x.view(), order.data(), some.view());
    fast_backend(1).gather_rows(alone.view(), order.data(), want.view());
    fast_backend(numbers.between(1, 3)).matmul(some.view(), *matrix, got.view());
    ASSERT_TRUE(same_rows(got, want)) << count << " rows";
  }
}

TEST_P(CpuMatmulFormats, RowsAloneAndInAnyCompanyAreEqual) {
  expect_equal_in_any_company(64, 301, 75);
}

TEST_P(CpuMatmulFormats, RowsThatWouldShareASetOfTheCacheAreEqual) {
  expect_equal_in_any_company(25, 1024, 40);
}

TEST_P(CpuMatmulFormats, StackedPartsStandSideBySide) {
  TestNumbers numbers(4);
  for (int round = 0; round < 20; ++round) {
    const int inputs = numbers.between(1, 40), rows = numbers.between(1, 9);
    std::vector<TestWeights> parts;
    std::vector<HostMatrix> hosts;
    int outputs = 0;
    for (int part = numbers.between(1, 5); part > 0; --part) {
      parts.push_back(TestWeights::random(numbers, type(), numbers.between(1, 70), inputs));
      outputs += parts.back().rows();
    }
    for (const TestWeights& part : parts) hosts.push_back(part.host());
    const TestRows x = TestRows::random(numbers, rows, inputs);
    for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
      const auto stacked = backend->load_matrix(hosts, format());
      ASSERT_EQ(stacked->rows(), outputs);
      TestRows got(rows, outputs);
      backend->matmul(x.view(), *stacked, got.view());
      int column = 0;
      for (const TestWeights& part : parts) {
        TestRows want(rows, part.rows());
        backend->matmul(x.view(), *load(*backend, part, format()), want.view());
        ASSERT_TRUE(same_rows(got.view().columns(column, part.rows()), want.view()));
        column += part.rows();
      }
    }
  }
}

TEST(CpuMatmul, CountsItsBytesWithPadding) {
  TestNumbers numbers(5);
  for (const WeightType type : kWeightTypes) {
    const std::size_t size = type == WeightType::kF32 ? 4 : 2;
    const TestWeights weights = TestWeights::random(numbers, type, 33, 10);
    const std::size_t padded = (33 + cpu::kPanelRows - 1) / cpu::kPanelRows * cpu::kPanelRows;
    EXPECT_EQ(load(fast_backend(1), weights)->bytes(), padded * 10 * size);
    EXPECT_EQ(load(plain_backend(), weights)->bytes(), 33 * 10 * size);
  }
}

// A NaN or infinity of one row of x, or of one output's weights, stays there: padding is finite,
// and nothing is shared between outputs.
TEST(CpuMatmul, NanStaysInItsRowAndItsOutput) {
  TestNumbers numbers(6);
  TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 45, 19);
  weights.set(40 * 19 + 7, 0x7fc0u);
  TestRows x = TestRows::random(numbers, 9, 19);
  x.row(4)[18] = std::numeric_limits<float>::infinity();
  x.row(4)[0] = std::numeric_limits<float>::quiet_NaN();
  TestRows y(9, 45);
  fast_backend(2).matmul(x.view(), *load(fast_backend(2), weights), y.view());
  for (int t = 0; t < 9; ++t) {
    for (int n = 0; n < 45; ++n) EXPECT_EQ(std::isnan(y.row(t)[n]), t == 4 || n == 40);
  }
}

TEST(CpuMatmul, EmbedReadsRows) {
  TestNumbers numbers(7);
  for (const WeightType type : kWeightTypes) {
    const TestWeights table = TestWeights::random(numbers, type, 101, 37);
    for (Backend* backend : {&plain_backend(), &fast_backend(1), &fast_backend(3)}) {
      const auto matrix = load(*backend, table);
      std::vector<std::int32_t> ids = {100, 0, 31, 32, 33, 0, 64, 15, 16, 17};
      TestRows got(10, 37, 3), want(10, 37);
      for (int t = 0; t < 10; ++t) {
        for (int k = 0; k < 37; ++k) want.row(t)[k] = table.at(ids[static_cast<std::size_t>(t)], k);
      }
      backend->embed(*matrix, ids.data(), got.view());
      ASSERT_TRUE(same_rows(got, want)) << backend->name();
    }
  }
}

}  // namespace
}  // namespace specdec
