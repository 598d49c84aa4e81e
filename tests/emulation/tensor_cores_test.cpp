#include "kernels/emulation/tensor_cores.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/emulation/device_functions.h"

namespace specdec::emulation {
namespace {

// sum + 16 times a b, by tensor cores of a model.
float add_16(float sum, float a, float b, TensorCoreModel model) {
  tensor_core_model() = model;
  TensorRows of_a = {};
  float of_b[kTensorDepth] = {}, sums[kTensorRows] = {};
  for (int k = 0; k < kTensorDepth; ++k) {
    of_a[k][3] = a;
    of_b[k] = b;
  }
  sums[3] = sum;
  sums[4] = 7.0f;
  add_products(of_a, of_b, sums);
  tensor_core_model() = {};
  EXPECT_TRUE(sums[4] == 7.0f || !std::isfinite(b)) << "another row";
  return sums[3];
}

TEST(TensorCores, AddsWhatFloat32Holds) {
  EXPECT_EQ(add_16(1.0f, 3.0f, 0.5f, {}), 25.0f);
  EXPECT_EQ(add_16(0.0f, 0x1p-70f, -0x1p-70f, {}), -0x1p-136f);
  EXPECT_EQ(add_16(0.0f, 0.0f, 5.0f, {}), 0.0f);
}

// Each product is half of the last bit of 1; rounding once would make 2^-20 of them.
TEST(TensorCores, CutsOffWhatIsBelowTheLastBit) {
  for (const int block : {4, 8, 16}) {
    EXPECT_EQ(add_16(1.0f, 0x1p-12f, 0x1p-12f, {block, 0}), 1.0f);
    EXPECT_EQ(add_16(-1.0f, 0x1p-12f, -0x1p-12f, {block, 0}), -1.0f);
    EXPECT_EQ(add_16(1.0f, 0x1p-12f, -0x1p-13f, {block, 0}), 1.0f) << "not rounded down either";
    EXPECT_EQ(add_16(1.0f, 0x1p-12f, 0x1p-12f, {block, 1}), 1.0f + 0x1p-20f);
  }
}

TEST(TensorCores, HandsOnWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(add_16(1.0f, 2.0f, kInfinity, {}), kInfinity);
  EXPECT_TRUE(std::isnan(add_16(-kInfinity, 2.0f, kInfinity, {})));
  EXPECT_TRUE(std::isnan(add_16(1.0f, 0.0f, kInfinity, {})));
  EXPECT_EQ(add_16(0.0f, 0x1p127f, 1.0f, {}), kInfinity);
}

// A digit of the selector names a byte of x, 0 to 3, or of y, 4 to 7.
TEST(TensorCores, BytesArePermuted) {
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7632u), 0x77663322u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x0123u), 0x00112233u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x4b000000u, 0x7442u), 0x4b000022u);
}

}  // namespace
}  // namespace specdec::emulation
