// Seeded bugs of products of a warpgroup.
#include "kernels/cuda/matmul/warpgroup.h"
#include "tests/emulation/seeded_bugs.h"

// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

// A warpgroup multiplies 64 rows of 64 inputs by the weights in a box, each input in three parts.
enum class Bug {
  kNone,
  kReadsBeforeTheWait,
  kNoWait,
  kNoFence,
  kWritesAfterTheFence,
  kOverwritesInputs,
  kOverwritesSums,
  kRefillsWeights,
  kForgetsTheStep,
  kThreeWarpsWait,
  kShiftedWarps,
  kAnotherProduct,
  kAnotherProductInALane,
  kNoSwizzle,
  kMisplacedBox,
  kStepBeyondTheRow,
  kBoxBeyondMemory,
};
constexpr int kSteps = 4, kInputs = kSteps * kTileDepth;
constexpr int kBoxBytes = kGroupOutputs * kBoxRowBytes;
// The box may be misplaced by a row.
constexpr int kSharedBytes = kBoxBytes + kBoxRowBytes + sizeof(SharedBarrier);

// Small numbers, so that all sums are exact.
__host__ __device__ int input(int row, int k) { return (row + 2 * k) % 7 - 3; }
__host__ __device__ int weight(int output, int k) { return (3 * output + k) % 5 - 2; }

__device__ unsigned pair_of(int row, int k) {
  return leading_bits(static_cast<float>(input(row, k)), static_cast<float>(input(row, k + 1)));
}
// Not a real split: part p of input k is input k + p.
__device__ void load_part(int thread, int step, int p, FragmentA& a) {
  const int row = thread / kWarp * 16 + thread % kWarp / 4, k = step * kTileDepth + thread % 4 * 2;
  for (int r = 0; r < 4; ++r) a.at[r] = pair_of(row + r % 2 * 8, k + r / 2 * 8 + p);
}

template <Bug kBug>
__device__ std::uint64_t describe(const unsigned char* box, int step, int thread) {
  const std::uint64_t right = describe_weights(box, kBug == Bug::kForgetsTheStep ? 0 : step);
  const bool wrong = (kBug == Bug::kAnotherProduct && thread / kWarp == 2) ||
                     (kBug == Bug::kAnotherProductInALane && thread == 50);
  if (wrong) return describe_weights(box, step ^ 1);
  if (kBug == Bug::kNoSwizzle) return right & ~(std::uint64_t{3} << 62);
  if (kBug == Bug::kStepBeyondTheRow) return right + 1;
  if (kBug == Bug::kBoxBeyondMemory) return right + kBoxBytes / 2 / 16;
  return right;
}

template <Bug kBug>
__global__ void multiply(const __grid_constant__ TensorMap weights, float* out) {
  constexpr int kFirst = kBug == Bug::kShiftedWarps ? kWarp : 0;
  unsigned char* const box =
      dynamic_shared<unsigned char>() + (kBug == Bug::kMisplacedBox ? kBoxRowBytes : 0);
  SharedBarrier& full =
      *reinterpret_cast<SharedBarrier*>(dynamic_shared<unsigned char>() + kBoxBytes + kBoxRowBytes);
  const int thread = static_cast<int>(threadIdx.x) - kFirst;
  const auto request = [&] {
    full.arrive_and_expect(kBoxBytes);
    copy_box(box, weights, 0, 0, full);
  };
  if (thread == 0) {
    full.init(1);
    publish_barriers();
    request();
  }
  __syncthreads();
  if (thread < 0) return;
  full.wait(0);

  FragmentA a[kSteps][kParts];
  float sums[kGroupSums];
  const auto write = [&] {
    for (int i = 0; i < kGroupSums; ++i) {
      const int row = thread / kWarp * 16 + thread % kWarp / 4 + i / 2 % 2 * 8;
      out[row * kGroupOutputs + i / 4 * 8 + thread % 4 * 2 + i % 2] = sums[i];
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    for (int p = 0; p < kParts; ++p) load_part(thread, step, p, a[step][p]);
    if (kBug != Bug::kNoFence) fence_operands(a[step]);
    if (kBug == Bug::kWritesAfterTheFence && step == 2) a[2][1].at[3] += 1;
    for (int p = 0; p < kParts; ++p) {
      start_product(a[step][p], describe<kBug>(box, step, thread), step + p > 0, sums);
    }
  }
  if (kBug == Bug::kReadsBeforeTheWait) write();
  if (kBug == Bug::kOverwritesInputs) load_part(thread, 1, 0, a[0][0]);
  if (kBug == Bug::kOverwritesSums) sums[5] = 0.0f;
  if (kBug == Bug::kRefillsWeights && thread == 0) request();
  if (kBug == Bug::kThreeWarpsWait && thread / kWarp == 3) return;
  if (kBug != Bug::kNoWait) await_products(sums);
  if (kBug == Bug::kRefillsWeights) full.wait(1);
  if (kBug != Bug::kReadsBeforeTheWait) write();
}

template <Bug kBug>
std::vector<float> products() {
  std::vector<__nv_bfloat16> numbers(kGroupOutputs * kInputs);
  for (int i = 0; i < kGroupOutputs * kInputs; ++i) {
    numbers[i] = __float2bfloat16(static_cast<float>(weight(i / kInputs, i % kInputs)));
  }
  const Buffer<__nv_bfloat16> from(numbers);
  const Buffer<float> to(std::vector<float>(kGroupRows * kGroupOutputs, 0.0f));
  const TensorMap map(from.data(), kGroupOutputs, kInputs, kInputs * sizeof(__nv_bfloat16),
                      kGroupOutputs);
  launch(multiply<kBug>, 1, kWarpgroup + (kBug == Bug::kShiftedWarps ? kWarp : 0), kSharedBytes,
         nullptr, map, to.data());
  return to.get();
}
std::vector<float> right_products() {
  std::vector<float> sums(kGroupRows * kGroupOutputs, 0.0f);
  for (int row = 0; row < kGroupRows; ++row) {
    for (int n = 0; n < kGroupOutputs; ++n) {
      for (int i = 0; i < kInputs * kParts; ++i) {
        const int k = i / kParts;
        sums[row * kGroupOutputs + n] +=
            static_cast<float>(weight(n, k) * input(row, k + i % kParts));
      }
    }
  }
  return sums;
}

template <Bug kBug>
void expect_wrong() {
  in_every_order([](const char* order) { EXPECT_NE(products<kBug>(), right_products()) << order; });
}
template <Bug kBug>
void expect_reported(const std::string& report) {
  EXPECT_DEATH(products<kBug>(), "CUDA emulation: (" + report + ")");
}

TEST_F(SeededBugs, AWarpgroupMultiplies) {
  in_every_order(
      [](const char* order) { EXPECT_EQ(products<Bug::kNone>(), right_products()) << order; });
}
TEST_F(SeededBugs, SumsAreReadBeforeTheWait) { expect_wrong<Bug::kReadsBeforeTheWait>(); }
TEST_F(SeededBugs, NoWarpWaitsForItsProducts) {
  expect_reported<Bug::kNoWait>("the block has ended with products in flight");
}
TEST_F(SeededBugs, AProductWithoutAFence) {
  expect_reported<Bug::kNoFence>("registers of A were written without a fence");
}
TEST_F(SeededBugs, InputsAreWrittenAfterTheFence) {
  expect_reported<Bug::kWritesAfterTheFence>("registers of A were written without a fence");
}
TEST_F(SeededBugs, InputsAreWrittenInFlight) {
  expect_reported<Bug::kOverwritesInputs>("registers of A were written while");
}
TEST_F(SeededBugs, SumsAreWrittenInFlight) {
  expect_reported<Bug::kOverwritesSums>("sums were written while");
}
TEST_F(SeededBugs, WeightsAreRefilledInFlight) {
  EXPECT_DEATH(products<Bug::kRefillsWeights>(),
               kThreadSanitizer ? "data race(.|\n)*copy_box|CUDA emulation: weights"
                                : "CUDA emulation: weights were written while");
}
TEST_F(SeededBugs, EachStepMultipliesTheSameWeights) { expect_wrong<Bug::kForgetsTheStep>(); }
TEST_F(SeededBugs, AWarpDoesNotWait) {
  expect_reported<Bug::kThreeWarpsWait>("deadlock: not all four warps of a warpgroup");
}
TEST_F(SeededBugs, FourWarpsThatAreNoWarpgroup) {
  expect_reported<Bug::kShiftedWarps>("deadlock: not all four warps of a warpgroup");
}
TEST_F(SeededBugs, AWarpStartsAnotherProduct) {
  expect_reported<Bug::kAnotherProduct>("the warps of a warpgroup start different products");
}
TEST_F(SeededBugs, ALaneStartsAnotherProduct) {
  expect_reported<Bug::kAnotherProductInALane>("the lanes of a warp start different products");
}
TEST_F(SeededBugs, DescriptorsThatNameNoBox) {
  expect_reported<Bug::kNoSwizzle>("a descriptor without the 128-byte swizzle");
  expect_reported<Bug::kMisplacedBox>("the box of a descriptor is not at a multiple of 1024");
  expect_reported<Bug::kStepBeyondTheRow>("the inputs of a descriptor are not in one row");
  expect_reported<Bug::kBoxBeyondMemory>("the box of a descriptor ends beyond");
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
