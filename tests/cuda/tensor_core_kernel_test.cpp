// The products on tensor cores: their accuracy for every way in which a tensor core may add, and
// that a row's bits depend only on that row.
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/quantize.h"
#include "tests/cuda/tensor_core_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class TensorCoreKernel : public KernelTest {};

constexpr PipelineTile kPipelineTiles[] = {PipelineTile::kRows8,           PipelineTile::kRows16,
                                           PipelineTile::kRows16Outputs64, PipelineTile::kRows32,
                                           PipelineTile::kRows64,          PipelineTile::kRows8Wide,
                                           PipelineTile::kRows16Wide};

// Whether the device has the shared memory for a tile.
bool fits(PipelineTile tile) {
  const bool wide = tile == PipelineTile::kRows8Wide || tile == PipelineTile::kRows16Wide;
  return !wide || device_limits().shared_bytes >= 163 << 10;
}

template <PipelineTile tile>
void by_tile(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  matmul_pipeline(fits(tile) ? tile : PipelineTile::kRows8, Then::kStore, x, weight, y, stream);
}
constexpr Matmul kByTile[] = {
    by_tile<PipelineTile::kRows8>,           by_tile<PipelineTile::kRows16>,
    by_tile<PipelineTile::kRows16Outputs64>, by_tile<PipelineTile::kRows32>,
    by_tile<PipelineTile::kRows64>,          by_tile<PipelineTile::kRows8Wide>,
    by_tile<PipelineTile::kRows16Wide>};

// Weights that are exact in bf16, or whose q are.
constexpr Format kExact[] = {{WeightType::kBF16, WeightFormat::kStored},
                             {WeightType::kBF16, WeightFormat::kInt8},
                             {WeightType::kBF16, WeightFormat::kQ4},
                             {WeightType::kQ8, WeightFormat::kStored}};

// There are three products per input, and a step of 16 may truncate each product and the sum by one
// unit: 3 x 17 / 16 units per input, and twice as much if a step is two of 8.
double cut_off_tolerance(int width) { return 8 * (width + 16) * 0x1p-23; }

TEST_F(TensorCoreKernel, IsNearPlainLoops) {
  TestNumbers numbers(1);
  for (const auto [type, format] : kExact) {
    for (const int some : {1, 3, 8, 31, 64, 65, 100, 600}) {
      const int width = width_for(type, some);
      for (const int outputs : {1, 17, 140}) {
        const TestRows x = TestRows::random(numbers, numbers.between(1, 70), width);
        const TestWeights weights = TestWeights::random(numbers, type, outputs, width);
        const Expected want(x, weights, format);
        const CudaMatrix matrix = on_device(weights, format);
        for (const Matmul kernel : kByTile) {
          EXPECT_TRUE(near_rows(run(kernel, numbers, x.view(), matrix), want.y, want.magnitude,
                                cut_off_tolerance(width)))
              << width << " inputs, " << outputs << " outputs";
        }
        if (format != WeightFormat::kStored || type == WeightType::kQ8) continue;
        EXPECT_TRUE(near_rows(run(matmul_mma, numbers, x.view(), matrix), want.y, want.magnitude,
                              cut_off_tolerance(width)));
      }
    }
  }
}

TEST_F(TensorCoreKernel, ARowsBitsDependOnNothingElse) {
  TestNumbers numbers(2);
  for (const auto [type, format] : kExact) {
    for (const int some : {7, 150}) {
      const int width = width_for(type, some);
      const TestWeights weights = TestWeights::random(numbers, type, 5, width);
      for (const Matmul kernel : kByTile) {
        expect_same_bits_in_any_company(kernel, numbers, weights, format, width, 42, 40);
      }
      expect_same_bits_in_any_company(matmul, numbers, weights, format, width, 42, 40);
      if (format != WeightFormat::kStored || type == WeightType::kQ8) continue;
      expect_same_bits_in_any_company(matmul_mma, numbers, weights, format, width, 42, 40);
    }
  }
}

// With every operation on the products.
TEST_F(TensorCoreKernel, TheTileChangesNoBits) {
  TestNumbers numbers(3);
  for (const auto [type, format] : kExact) {
    for (const int some : {5, 64, 200, 600}) {
      const int width = width_for(type, some);
      for (const Then then : {Then::kStore, Then::kAdd, Then::kSiluMul}) {
        const int rows = numbers.between(1, 70), outputs = 2 * numbers.between(1, 70);
        const CudaMatrix matrix =
            on_device(TestWeights::random(numbers, type, outputs, width), format);
        const TestRows x = TestRows::random(numbers, rows, width);
        const TestRows before =
            TestRows::random(numbers, rows, then == Then::kSiluMul ? outputs / 2 : outputs);
        const auto run_tile = [&](PipelineTile tile) {
          const DeviceMatrix device_x(x.view(), numbers.below(5), numbers.below(5));
          const DeviceMatrix y(before.view(), numbers.below(5), numbers.below(5));
          matmul_pipeline(tile, then, device_x.view(), matrix, y.view(), nullptr);
          EXPECT_TRUE(y.gaps_untouched());
          return y.get();
        };
        const TestRows want = run_tile(PipelineTile::kRows8);
        EXPECT_FALSE(same_rows(want, before)) << "control";
        for (const PipelineTile tile : kPipelineTiles) {
          if (!fits(tile)) continue;
          EXPECT_TRUE(same_rows(run_tile(tile), want))
              << rows << " rows, " << outputs << " outputs, " << width << " inputs";
        }
      }
    }
  }
}

// By the device's multiprocessors and shared memory: an H100, a GeForce RTX 4090, and a small GPU.
TEST_F(TensorCoreKernel, TheTileFitsTheOutputsAndTheDevice) {
  const DeviceLimits h100{132, 227 << 10}, rtx4090{128, 99 << 10}, small{40, 163 << 10};
  const auto tile = [](int rows, int outputs, int inputs, const DeviceLimits& limits) {
    return pipeline_tile(rows, outputs, inputs, limits);
  };
  EXPECT_EQ(tile(1, 3072, 8192, h100), PipelineTile::kRows8Wide);  // down_proj of the 3B
  EXPECT_EQ(tile(8, 132 * 32, 3072, h100), PipelineTile::kRows8Wide);
  EXPECT_EQ(tile(8, 132 * 32 + 1, 3072, h100), PipelineTile::kRows8);
  EXPECT_EQ(tile(9, 3072, 8192, h100), PipelineTile::kRows16Wide);
  EXPECT_EQ(tile(16, 5120, 3072, h100), PipelineTile::kRows16);            // qkv: 160 blocks
  EXPECT_EQ(tile(16, 16384, 3072, h100), PipelineTile::kRows16Outputs64);  // gate_up
  EXPECT_EQ(tile(9, 132 * 64, 3072, h100), PipelineTile::kRows16);
  EXPECT_EQ(tile(9, 132 * 64 + 1, 3072, h100), PipelineTile::kRows16Outputs64);
  EXPECT_EQ(tile(8, 16384, 3072, h100), PipelineTile::kRows8);
  EXPECT_EQ(tile(17, 3072, 8192, h100), PipelineTile::kRows32);
  EXPECT_EQ(tile(1, 3072, 256, h100), PipelineTile::kRows8);  // a single stage
  EXPECT_EQ(tile(1, 3072, 8192, rtx4090), PipelineTile::kRows8);
  EXPECT_EQ(tile(1, 3072, 8192, small), PipelineTile::kRows8);
  EXPECT_EQ(tile(1, 1280, 8192, small), PipelineTile::kRows8Wide);
}

double error_of_pipeline(int width, bool positive, WeightFormat format) {
  TestNumbers numbers(4);
  const Product product(numbers, width, positive);
  return product.error_of(run_aligned(matmul, product.x.view(), on_device(product.weights, format)),
                          format);
}

#ifdef SPECDEC_EMULATED
TEST_F(TensorCoreKernel, IsWithinFloat32sToleranceHoweverTensorCoresAdd) {
  for (const int block : {4, 8, 16}) {
    for (const int extra_bits : {0, 1, 2, 3}) {
      const ModelIs model(emulation::tensor_core_model(), {block, extra_bits});
      for (const bool positive : {false, true}) {
        for (const int width : {1000, 8192}) {
          for (const WeightFormat format : {WeightFormat::kStored, WeightFormat::kQ4}) {
            const double error = error_of_pipeline(width, positive, format);
            EXPECT_LE(error, kFloat32Tolerance)
                << block << " at a time, " << extra_bits << " extra bits, " << width << " inputs";
          }
        }
      }
    }
  }
}

// The reason for chains: the longer a sum stays in the tensor cores, the more it loses.
TEST_F(TensorCoreKernel, WithoutChainsTheErrorGrowsWithTheSum) {
  TestNumbers numbers(5);
  const Product product(numbers, 8192, true);
  const CudaMatrix matrix = on_device(product.weights, WeightFormat::kStored);
  const double whole = product.error_of(run_aligned(matmul_mma, product.x.view(), matrix));
  const double chains = product.error_of(run_aligned(matmul, product.x.view(), matrix));
  EXPECT_GT(whole, kFloat32Tolerance);
  EXPECT_GT(whole, 10 * chains);
}

// The first of the sums that a step multiplies: 16 inputs in three parts, the smallest first.
class StepSum {
 public:
  // input(k): a number and its weight, for k from 0 to 15.
  template <typename Input>
  void add(const Input& input) {
    float a[16][16] = {}, b[3][16] = {};
    for (int k = 0; k < 16; ++k) {
      float left = 0.0f;
      std::tie(left, a[k][0]) = input(k);
      for (int part = 2; part >= 0; --part) {
        b[part][k] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(left) & 0xffff0000u);
        left -= b[part][k];
      }
      EXPECT_EQ(left, 0.0f) << "three parts are all of it";
    }
    for (const auto& part : b) emulation::add_products(a, part, sums_);
  }
  float sum() const { return sums_[0]; }

 private:
  float sums_[16] = {};
};

// Element n of row t in plain loops: chains of 64 in steps of 16.
float sum_of_chains(const float* x, const float* weights, int width) {
  float sum = 0.0f;
  for (int chain = 0; chain < width; chain += 64) {
    StepSum total;
    for (int first = chain; first < chain + 64; first += 16) {
      total.add([=](int k) {
        const int i = first + k;
        return i < width ? std::pair(x[i], weights[i]) : std::pair(0.0f, 0.0f);
      });
    }
    sum += total.sum();
  }
  return sum;
}

float q_of(const cpu::Q4Group& group, int i) { return static_cast<float>(group.q(i)); }
float q_of(const cpu::Q8Group& group, int i) { return group.q[static_cast<std::size_t>(i)]; }

// The same with weights in groups. A chain is two groups, and a group has a sum of products with
// its q, and in q4 a sum of its inputs. A step takes every other four of a group's inputs, and of
// each four two in its first half and two in its second.
template <typename Group>
float sum_of_groups(const float* x, const std::vector<Group>& groups, int width) {
  float sum = 0.0f, chain = 0.0f;
  for (int g = 0; g < std::ssize(groups); ++g) {
    const Group& group = groups[static_cast<std::size_t>(g)];
    StepSum products, inputs;
    for (int step = 0; step < 2; ++step) {
      const auto input = [&](int k) {  // its number within the group
        const int c = k % 8 / 2;
        return 4 * (c % 2 + c / 2 * 4 + step * 2) + k / 8 * 2 + k % 2;
      };
      const auto number = [&](int i) { return g * 32 + i < width ? x[g * 32 + i] : 0.0f; };
      products.add([&](int k) { return std::pair(number(input(k)), q_of(group, input(k))); });
      inputs.add([&](int k) { return std::pair(number(input(k)), 1.0f); });
    }
    chain = std::fma(cpu::float_from_f16(group.scale), products.sum(), chain);
    if constexpr (std::is_same_v<Group, cpu::Q4Group>) {
      chain = std::fma(cpu::float_from_f16(group.minimum), inputs.sum(), chain);
    }
    if (g % 2 == 1 || g + 1 == std::ssize(groups)) {
      sum += chain;
      chain = 0.0f;
    }
  }
  return sum;
}

TEST_F(TensorCoreKernel, IsTheSumOfItsChains) {
  TestNumbers numbers(6);
  for (const int block : {4, 8, 16}) {
    const ModelIs model(emulation::tensor_core_model(), {block, 1});
    for (const int width : {1, 40, 64, 129, 1000}) {
      const Product product(numbers, width, false);
      const TestRows y =
          run_aligned(matmul, product.x.view(), on_device(product.weights, WeightFormat::kStored));
      std::vector<float> weights(static_cast<std::size_t>(width));
      for (int n = 0; n < product.weights.rows(); ++n) {
        for (int k = 0; k < width; ++k) {
          weights[static_cast<std::size_t>(k)] = product.weights.at(n, k);
        }
        for (int t = 0; t < product.x.rows(); ++t) {
          ASSERT_EQ(y.row(t)[n], sum_of_chains(product.x.row(t), weights.data(), width))
              << width << " inputs";
        }
      }
    }
  }
}

TEST_F(TensorCoreKernel, OfFourBitsIsTheSumOfItsGroups) {
  TestNumbers numbers(9);
  for (const int block : {4, 8, 16}) {
    const ModelIs model(emulation::tensor_core_model(), {block, 1});
    for (const int width : {1, 31, 40, 64, 129, 1000}) {
      const Product product(numbers, width, false);
      const HostMatrix host = product.weights.host();
      const TestRows y =
          run_aligned(matmul, product.x.view(), on_device(product.weights, WeightFormat::kQ4));
      std::vector<cpu::Q4Group> groups(static_cast<std::size_t>(cpu::groups_of(width)));
      for (int n = 0; n < host.rows; ++n) {
        cpu::quantize_q4(host.type, host.bytes.data() + n * width * 2, width, groups.data());
        for (int t = 0; t < product.x.rows(); ++t) {
          ASSERT_EQ(y.row(t)[n], sum_of_groups(product.x.row(t), groups, width))
              << width << " inputs";
        }
      }
    }
  }
}

TEST_F(TensorCoreKernel, OfAFilesEightBitsIsTheSumOfItsGroups) {
  TestNumbers numbers(10);
  for (const int block : {4, 8, 16}) {
    const ModelIs model(emulation::tensor_core_model(), {block, 1});
    for (const int width : {32, 64, 160, 1024}) {
      const TestWeights weights = TestWeights::random(numbers, WeightType::kQ8, 16, width);
      const TestRows x = TestRows::random(numbers, 3, width);
      const TestRows y = run_aligned(matmul, x.view(), on_device(weights, WeightFormat::kStored));
      std::vector<cpu::Q8Group> groups(static_cast<std::size_t>(cpu::groups_of(width)));
      const std::size_t row_bytes = groups.size() * sizeof(cpu::Q8Group);
      for (int n = 0; n < weights.rows(); ++n) {
        const std::byte* row =
            weights.host().bytes.data() + static_cast<std::size_t>(n) * row_bytes;
        std::memcpy(groups.data(), row, row_bytes);
        for (int t = 0; t < x.rows(); ++t) {
          ASSERT_EQ(y.row(t)[n], sum_of_groups(x.row(t), groups, width)) << width << " inputs";
        }
      }
    }
  }
}
#else
TEST_F(TensorCoreKernel, IsWithinFloat32sTolerance) {
  for (const bool positive : {false, true}) {
    for (const int width : {1000, 8192}) {
      for (const WeightFormat format : {WeightFormat::kStored, WeightFormat::kQ4}) {
        EXPECT_LE(error_of_pipeline(width, positive, format), kFloat32Tolerance)
            << width << " inputs";
      }
    }
  }
}
#endif

TEST_F(TensorCoreKernel, LargeAndSmallInputsAreExact) {
  TestNumbers numbers(7);
  for (const float value : {0x1.fffffep127f, 0x1.234566p100f, 0x1p-126f, 0x1.fffffep-90f}) {
    Product product(numbers, 70, false);
    for (int k = 0; k < 70; ++k) {
      product.weights.set(k, k == 33 ? 0x3f80u : 0u);  // 1
      product.x.row(2)[k] = value;
    }
    const TestRows y =
        run_aligned(matmul, product.x.view(), on_device(product.weights, WeightFormat::kStored));
    EXPECT_EQ(y.row(2)[0], value);
  }
}

TEST_F(TensorCoreKernel, WhatTheyCannotHoldIsRefused) {
  TestNumbers numbers(8);
  for (const WeightType type : {WeightType::kF32, WeightType::kF16}) {
    const CudaMatrix matrix =
        on_device(TestWeights::random(numbers, type, 3, 8), WeightFormat::kStored);
    const DeviceMatrix x(2, 8), y(2, 3);
    EXPECT_FALSE(can_pipeline(matrix));
    EXPECT_DEATH(matmul_mma(x.view(), matrix, y.view(), nullptr), "weights of type bf16");
    EXPECT_DEATH(matmul_pipeline_then(Then::kStore, x.view(), matrix, y.view(), nullptr),
                 "weights of type bf16, int8, q4 or q8");
  }
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
