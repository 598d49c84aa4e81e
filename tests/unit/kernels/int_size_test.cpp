#include "kernels/int_size.h"

#include <concepts>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace specdec {
namespace {

TEST(IntSize, CountsElementsNotBytes) {
  const std::vector<double> three(3);
  const int four[] = {1, 2, 3, 4};
  EXPECT_EQ(int_size(three), 3);
  EXPECT_EQ(int_size(four), 4);
  EXPECT_EQ(int_size(std::span(four).first(2)), 2);
  EXPECT_EQ(int_size(std::string_view("token")), 5);
}

TEST(IntSize, IsSignedSoThatTheLastIndexOfNothingIsMinusOne) {
  const auto last = int_size(std::vector<int>()) - 1;
  static_assert(std::same_as<decltype(last), const int>);
  EXPECT_LT(last, 0);
}

}  // namespace
}  // namespace specdec
