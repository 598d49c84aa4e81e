// Groups of eight bits, as a file holds them: they are kept to the bit, and products with them are,
// to the bit, what plain.cpp defines.
#include <array>
#include <limits>
#include <span>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quantize.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

using cpu::Q8Group;

// Random rows of groups as a file holds them, at an odd address.
class GroupsOfAFile {
 public:
  GroupsOfAFile(TestNumbers& numbers, int rows, int width)
      : rows_(rows),
        width_(width),
        groups_(random_groups(numbers, static_cast<std::size_t>(rows * cpu::groups_of(width)))),
        bytes_(groups_.size() * sizeof(Q8Group) + 1) {
    store();
  }

  Q8Group& group(int row, int g) {
    return groups_[static_cast<std::size_t>(row * cpu::groups_of(width_) + g)];
  }
  void store() { std::memcpy(bytes_.data() + 1, groups_.data(), groups_.size() * sizeof(Q8Group)); }
  HostMatrix host() const { return {WeightType::kQ8, std::span(bytes_).subspan(1), rows_, width_}; }

  // The definition: a chain for each group.
  float product(const float* x, int row) {
    float total = 0;
    for (int first = 0; first < width_; first += kGroupElements) {
      const Q8Group& one = group(row, first / kGroupElements);
      float chain = 0;
      for (int i = 0; i < std::min(kGroupElements, width_ - first); ++i) {
        chain = std::fma(x[first + i], one.q[static_cast<std::size_t>(i)], chain);
      }
      total = std::fma(cpu::float_from_f16(one.scale), chain, total);
    }
    return total;
  }

 private:
  int rows_, width_;
  std::vector<Q8Group> groups_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<const WeightMatrix> load(Backend& backend, const HostMatrix& host) {
  return backend.load_matrix({&host, 1});
}

// For few rows and many, whole panels and others.
TEST(CpuQ8, EveryElementIsTheSumOverGroups) {
  TestNumbers numbers(91);
  for (int rows = 1; rows <= 64; ++rows) {
    const int outputs = numbers.between(1, 130);
    const int inputs = 32 * numbers.between(1, 20);
    GroupsOfAFile groups(numbers, outputs, inputs);
    const TestRows x = TestRows::random(numbers, rows, inputs, numbers.below(20));
    TestRows want(rows, outputs);
    for (int t = 0; t < rows; ++t) {
      for (int n = 0; n < outputs; ++n) want.row(t)[n] = groups.product(x.row(t), n);
    }
    for (Backend* backend : all_backends()) {
      TestRows got(rows, outputs, numbers.below(20));
      backend->matmul(x.view(), *load(*backend, groups.host()), got.view());
      ASSERT_TRUE(same_rows(got, want))
          << backend->name() << fmt::format(": {} x {} x {}", rows, outputs, inputs);
    }
  }
}

// Which rows share the call changes nothing.
TEST(CpuQ8, RowsAloneAndInCompanyAreEqual) {
  TestNumbers numbers(92);
  const int outputs = 75, inputs = 320, rows = 64;
  const GroupsOfAFile groups(numbers, outputs, inputs);
  const TestRows x = TestRows::random(numbers, rows, inputs);
  const auto matrix = load(fast_backend(2), groups.host());
  TestRows alone(rows, outputs);
  for (int t = 0; t < rows; ++t) {
    fast_backend(2).matmul(x.view().slice(t, 1), *matrix, alone.view().slice(t, 1));
  }
  for (int count = 1; count <= rows; ++count) {
    const int first = numbers.below(rows - count + 1);
    TestRows got(count, outputs);
    fast_backend(numbers.between(1, 3)).matmul(x.view().slice(first, count), *matrix, got.view());
    ASSERT_TRUE(same_rows(got.view(), alone.view().slice(first, count))) << count << " rows";
  }
}

TEST(CpuQ8, GroupsOfAFileAreKeptToTheBit) {
  TestNumbers numbers(93);
  const int outputs = 45, inputs = 96;
  GroupsOfAFile groups(numbers, outputs, inputs);
  groups.group(3, 1).scale = 0x8001u;  // the smallest subnormal number, negative
  groups.group(3, 1).q = {0, 1, -1, 127, -128};
  groups.store();
  for (Backend* backend : all_backends()) {
    const TestRows rows = kept(*backend, groups.host(), WeightFormat::kStored);
    for (int n = 0; n < outputs; ++n) {
      for (int k = 0; k < inputs; ++k) {
        const Q8Group& group = groups.group(n, k / kGroupElements);
        const float q = group.q[static_cast<std::size_t>(k % kGroupElements)];
        const float want = cpu::float_from_f16(group.scale) * q;
        ASSERT_TRUE(same_number(rows.row(n)[k], want)) << backend->name() << n << ", " << k;
      }
    }
  }
}

TEST(CpuQ8, StackedPartsStandSideBySide) {
  TestNumbers numbers(94);
  const int inputs = 64;
  GroupsOfAFile parts[] = {{numbers, 5, inputs}, {numbers, 40, inputs}, {numbers, 1, inputs}};
  const HostMatrix hosts[] = {parts[0].host(), parts[1].host(), parts[2].host()};
  const TestRows x = TestRows::random(numbers, 3, inputs);
  for (Backend* backend : all_backends()) {
    TestRows got(3, 46);
    backend->matmul(x.view(), *backend->load_matrix(hosts), got.view());
    for (int n = 0; n < 46; ++n) {
      GroupsOfAFile& part = parts[n < 5 ? 0 : n < 45 ? 1 : 2];
      EXPECT_EQ(got.row(2)[n], part.product(x.row(2), n < 5 ? n : n < 45 ? n - 5 : 0));
    }
  }
}

// A scale that is no number reaches its own row alone.
TEST(CpuQ8, ANanStaysInItsRow) {
  TestNumbers numbers(95);
  GroupsOfAFile groups(numbers, 45, 96);
  groups.group(40, 2).scale = 0x7e00u;
  groups.store();
  const TestRows x = TestRows::random(numbers, 9, 96);
  for (Backend* backend : all_backends()) {
    TestRows y(9, 45);
    backend->matmul(x.view(), *load(*backend, groups.host()), y.view());
    for (int n = 0; n < 45; ++n) EXPECT_EQ(std::isnan(y.row(4)[n]), n == 40) << backend->name();
  }
}

TEST(CpuQ8, CountsItsBytesWithPadding) {
  TestNumbers numbers(96);
  const GroupsOfAFile groups(numbers, 33, 96);
  const std::size_t padded = (33 + cpu::kPanelRows - 1) / cpu::kPanelRows * cpu::kPanelRows;
  EXPECT_EQ(load(fast_backend(1), groups.host())->bytes(), padded * 3 * 34);
  EXPECT_EQ(load(plain_backend(), groups.host())->bytes(), 33 * 3 * 34);
}

TEST(CpuQ8DeathTest, IsNotRoundedAgain) {
  TestNumbers numbers(97);
  const GroupsOfAFile groups(numbers, 3, 32);
  const HostMatrix part = groups.host();
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kQ4}) {
    EXPECT_DEATH(plain_backend().load_matrix({&part, 1}, format), "not rounded twice");
  }
}

}  // namespace
}  // namespace specdec
