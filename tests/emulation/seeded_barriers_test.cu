// Seeded bugs of barriers in shared memory, and of the copies of boxes that they wait for.
#include <numeric>

#include "kernels/cuda/bulk_copy.h"
#include "tests/emulation/seeded_bugs.h"

// A race ends the program, so that a test can see it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace specdec::cuda::inline emulated {
namespace {

// A warp requests boxes of 8 rows x 32 floats, one after the other, and another warp adds them up,
// lane l the numbers of column l. Two boxes are in flight.
enum class Bug {
  kNone,
  kExpectsTooMuch,
  kExpectsTooLittle,
  kConsumerKeepsItsPhase,
  kRefillsWithoutWaiting,
  kWaitsForTheWrongPhase,
  kRequestsTooMany,
  kNoInit,
  kTwoArrive,
  kMisplacedBox,
  kSwizzleForgotten,
};
constexpr int kThreads = 64, kBoxes = 5, kSlots = 2, kRows = 8, kWidth = 32;
constexpr int kBoxBytes = kRows * kBoxRowBytes;

template <Bug kBug>
__global__ void add_boxes(const __grid_constant__ TensorMap numbers, float* sums) {
  unsigned char* const boxes = dynamic_shared<unsigned char>();
  SharedBarrier* const full = reinterpret_cast<SharedBarrier*>(boxes + kSlots * kBoxBytes);
  SharedBarrier* const empty = full + kSlots;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  if (thread == 0) {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (kBug != Bug::kNoInit) full[slot].init(1);
      empty[slot].init(1);
    }
    publish_barriers();
  }
  __syncthreads();
  if (thread >= kWarp) {
    if (lane > (kBug == Bug::kTwoArrive)) return;
    constexpr int kRequests = kBug == Bug::kRequestsTooMany ? kBoxes + 1 : kBoxes;
    for (int box = 0; box < kRequests; ++box) {
      const int slot = box % kSlots, round = box / kSlots;
      if (kBug != Bug::kRefillsWithoutWaiting && round > 0) empty[slot].wait(round - 1);
      constexpr int kWrong =
          16 * ((kBug == Bug::kExpectsTooMuch) - (kBug == Bug::kExpectsTooLittle));
      full[slot].arrive_and_expect(kBoxBytes + kWrong);
      copy_box(boxes + slot * kBoxBytes + (kBug == Bug::kMisplacedBox ? 16 : 0), numbers, 0,
               box * kRows, full[slot]);
    }
    return;
  }
  float sum = 0.0f;
  for (int box = 0; box < kBoxes; ++box) {
    const int slot = box % kSlots, round = box / kSlots;
    full[slot].wait(kBug == Bug::kConsumerKeepsItsPhase   ? 0
                    : kBug == Bug::kWaitsForTheWrongPhase ? round + 1
                                                          : round);
    for (int r = 0; r < kRows; ++r) {
      const int place = kBug == Bug::kSwizzleForgotten ? r * kBoxRowBytes + lane / 4 * 16
                                                       : place_in_box(r, lane / 4);
      const float* const unit = reinterpret_cast<const float*>(boxes + slot * kBoxBytes + place);
      sum += unit[lane % 4];
    }
    __syncwarp();
    if (lane == 0) empty[slot].arrive();
  }
  sums[lane] = sum;
}

template <Bug kBug>
std::vector<float> sums_of_boxes() {
  std::vector<float> numbers(kBoxes * kRows * kWidth);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const Buffer<float> from(numbers), to(std::size_t{kWidth});
  const TensorMap map(from.data(), kBoxes * kRows, kWidth, kWidth * sizeof(float), kRows);
  launch(add_boxes<kBug>, 1, kThreads, kSlots * kBoxBytes + 2 * kSlots * sizeof(SharedBarrier),
         nullptr, map, to.data());
  return to.get();
}
std::vector<float> right_sums() {
  std::vector<float> sums(kWidth, 0.0f);
  for (int i = 0; i < kBoxes * kRows * kWidth; ++i) sums[i % kWidth] += static_cast<float>(i);
  return sums;
}

// A consumer that does not wait reads NaNs, and frees slots before they are full: the producer then
// misses a phase or arrives too often, or no thread waits for its copies.
template <Bug kBug>
void expect_phases_in_disorder() {
  EXPECT_DEATH(
      sums_of_boxes<kBug>(),
      kThreadSanitizer
          ? "data race(.|\n)*add_boxes|CUDA emulation: "
          : "CUDA emulation: (deadlock|more threads arrive|the block has ended with copies)");
}
template <Bug kBug>
void expect_reported(const std::string& report) {
  EXPECT_DEATH(sums_of_boxes<kBug>(), "CUDA emulation: (" + report + ")");
}

TEST_F(SeededBugs, BarriersPassBoxesFromOneWarpToAnother) {
  in_every_order(
      [](const char* order) { EXPECT_EQ(sums_of_boxes<Bug::kNone>(), right_sums()) << order; });
}
TEST_F(SeededBugs, APhaseExpectsMoreBytesThanCome) {
  expect_reported<Bug::kExpectsTooMuch>(
      "deadlock: the phase of a barrier expects more bytes than copies bring");
}
TEST_F(SeededBugs, APhaseExpectsFewerBytesThanCome) {
  expect_reported<Bug::kExpectsTooLittle>("copies bring more bytes than the phase");
}
// It waits for phase 0 of a slot in every round, so only the first time.
TEST_F(SeededBugs, AConsumerDoesNotCountPhases) {
  expect_phases_in_disorder<Bug::kConsumerKeepsItsPhase>();
}
// A phase of the other parity seems to have ended before it began.
TEST_F(SeededBugs, AConsumerIsAPhaseAhead) {
  expect_phases_in_disorder<Bug::kWaitsForTheWrongPhase>();
}
TEST_F(SeededBugs, ASlotIsRefilledTooSoon) {
  expect_reported<Bug::kRefillsWithoutWaiting>("more threads arrive at a barrier than it counts");
}
TEST_F(SeededBugs, NoThreadWaitsForTheLastCopy) {
  expect_reported<Bug::kRequestsTooMany>("the block has ended with copies of boxes in flight");
}
TEST_F(SeededBugs, ABarrierWithoutInit) {
  expect_reported<Bug::kNoInit>("a barrier in shared memory is used before its init");
}
// To ThreadSanitizer, the two threads write the same box.
TEST_F(SeededBugs, MoreThreadsArriveThanTheBarrierCounts) {
  EXPECT_DEATH(sums_of_boxes<Bug::kTwoArrive>(),
               kThreadSanitizer
                   ? "data race(.|\n)*copy_box"
                   : "CUDA emulation: (more threads arrive at a barrier than it counts)");
}
TEST_F(SeededBugs, ABoxAtAWrongAddress) {
  expect_reported<Bug::kMisplacedBox>("an access at an address that is not a multiple of its size");
}
TEST_F(SeededBugs, ABoxIsReadWithoutItsSwizzle) {
  in_every_order([](const char* order) {
    EXPECT_NE(sums_of_boxes<Bug::kSwizzleForgotten>(), right_sums()) << order;
  });
}

// What is outside the matrix is zero, on all four sides.
__global__ void copy_a_corner(const __grid_constant__ TensorMap from, int column, int row,
                              float* to) {
  unsigned char* const box = dynamic_shared<unsigned char>();
  SharedBarrier& full = *reinterpret_cast<SharedBarrier*>(box + kBoxBytes);
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == 0) {
    full.init(1);
    full.arrive_and_expect(kBoxBytes);
    copy_box(box, from, column, row, full);
  }
  __syncthreads();
  full.wait(0);
  for (int r = 0; r < kRows; ++r) {
    to[r * kWidth + lane] =
        reinterpret_cast<const float*>(box + place_in_box(r, lane / 4))[lane % 4];
  }
}
TEST_F(SeededBugs, OutsideTheMatrixABoxIsZero) {
  constexpr int kHeight = 11, kMatrixWidth = 45, kStride = 48;
  std::vector<float> numbers(kHeight * kStride, 7.0f);  // 7 in the gaps
  const auto element = [](int row, int column) { return 1.0f + 100 * row + column; };
  for (int r = 0; r < kHeight; ++r) {
    for (int c = 0; c < kMatrixWidth; ++c) numbers[r * kStride + c] = element(r, c);
  }
  const Buffer<float> from(numbers), to(std::size_t{kRows * kWidth});
  const TensorMap map(from.data(), kHeight, kMatrixWidth, kStride * sizeof(float), kRows);
  for (const int row : {-3, 0, 8, 11}) {
    for (const int column : {-30, 0, 8, 40, 64}) {
      launch(copy_a_corner, 1, kWarp, kBoxBytes + sizeof(SharedBarrier), nullptr, map, column, row,
             to.data());
      const std::vector<float> got = to.get();
      for (int i = 0; i < kRows * kWidth; ++i) {
        const int r = row + i / kWidth, c = column + i % kWidth;
        const bool inside = r >= 0 && r < kHeight && c >= 0 && c < kMatrixWidth;
        ASSERT_EQ(got[i], inside ? element(r, c) : 0.0f) << r << " " << c;
      }
    }
  }
}

TEST_F(SeededBugs, TheDriverRefusesWrongTensorMaps) {
  const Buffer<float> from(std::size_t{1024});
  EXPECT_NO_THROW(TensorMap(from.data(), 2, 5, 32, 256));
  EXPECT_THROW(TensorMap(from.data(), 2, 5, 20, 8), std::runtime_error) << "stride";
  EXPECT_THROW(TensorMap(from.data() + 1, 2, 4, 16, 8), std::runtime_error) << "address";
  EXPECT_THROW(TensorMap(from.data(), 0, 4, 16, 8), std::runtime_error) << "rows";
  EXPECT_THROW(TensorMap(from.data(), 2, 4, 16, 257), std::runtime_error) << "box";
}

}  // namespace
}  // namespace specdec::cuda::inline emulated
