// The choice of the largest on the host.
#include "common/argmax.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/sampling/bad_logits.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

TEST(ArgmaxTest, TheLargestAndTheLowestIdAmongEquals) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(argmax(std::vector<float>{-3}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-2, -1, -4}), 1);
  EXPECT_EQ(argmax(std::vector<float>{1, 2, 5, 5, 5}), 2);
  EXPECT_EQ(argmax(std::vector<float>{-0.F, 0.F}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-infinity, -infinity, 0, infinity}), 3);
  EXPECT_EQ(argmax(std::vector<float>{-infinity, -infinity}), 0);
  EXPECT_EQ(argmax(std::vector<double>{0.25, 0.375, 0.375}), 1);
}

TEST(ArgmaxTest, NotANumberChoosesNoToken) {
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<float> logits{1, 2, 3};
    logits[i] = std::nanf("");
    EXPECT_THROW(argmax(logits), BadLogits) << i;
  }
}

}  // namespace
}  // namespace specdec
