#pragma once
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/matmul/tensor_core.h"
#include "kernels/cuda/rotation.h"

// How the operands of matmul_6_pipeline.cu come to shared memory: what each thread requests, and
// where it is stored. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Inputs, whose products the tensor cores alone add; of groups, they add those of each group.
constexpr int kChain = 64;

// How a block divides a tile of y. A warp has kOutputTiles x kRowTiles tiles of 16 x 8. The warps
// divide the outputs, the rows and the chains of a stage, which has kChainWarps chains. kStages
// stages are in shared memory, all but one of them in flight.
template <typename WeightT, int kOutputTiles_, int kRowTiles_, int kOutputWarps_, int kRowWarps_,
          int kChainWarps_, int kStages_>
struct PipelineShape {
  using T = WeightT;
  static constexpr int kOutputTiles = kOutputTiles_, kRowTiles = kRowTiles_;
  static constexpr int kOutputWarps = kOutputWarps_, kRowWarps = kRowWarps_;
  static constexpr int kChainWarps = kChainWarps_, kStages = kStages_;
  static constexpr int kTiles = kOutputTiles * kRowTiles;  // per warp
  static constexpr int kWarps = kOutputWarps * kRowWarps * kChainWarps, kThreads = kWarp * kWarps;
  static constexpr int kOutputs = kTileOutputs * kOutputTiles * kOutputWarps;
  static constexpr int kRows = kTileRows * kRowTiles * kRowWarps;
  static constexpr int kStageInputs = kChain * kChainWarps;
  using Scales = typename ScalesOf<T>::Type;
  static constexpr bool kScalesGroups = kHasGroups<T>, kAddsMinimums = std::is_same_v<T, Q4>;

  // In units of 16 bytes: an output's weights, and a row's inputs, in a chain.
  static constexpr int kWeightUnits = kChain / kGroup<T>, kInputUnits = kChain / 4;
  // In bytes, per chain and per stage. The scales of the groups of a chain follow its weights.
  static constexpr int kChainNumbers = 16 * kOutputs * kWeightUnits;
  static constexpr int kChainScales = kScalesGroups ? kOutputs * sizeof(Scales) : 0;
  static constexpr int kChainWeights = kChainNumbers + kChainScales;
  static constexpr int kChainInputs = 16 * kRows * kInputUnits;
  static constexpr int kStageWeights = kChainWarps * kChainWeights;
  static constexpr int kStageBytes = kStageWeights + kChainWarps * kChainInputs;
  // For the sums of the warps' chains, of one stage and the one before.
  static constexpr int kMeetingBytes = kChainWarps > 1 ? 2 * 16 * kWarps* kTiles* kWarp : 0;
  static constexpr std::size_t kSharedBytes = std::size_t{kStages} * kStageBytes + kMeetingBytes;
  // A wide shape has a multiprocessor for itself: two warps for each scheduler, with twice the
  // chains in a stage.
  static constexpr bool kWide = kWarps > 4;
  static constexpr int kBlocksAtOnce = kWide ? 1 : 2;
  static_assert(kSharedBytes <= (kWide ? 163 : 99) << 10,
                "the limit per block on compute capability 8.0 and above, or 8.6 and 12");
};

// The offset in bytes of unit u in row r of a chain. XOR with swizzle(r, u) avoids bank conflicts
// between the lanes of one access. kUnits, per row, tells what is stored, and what one access
// reads:
//   16  inputs: 8 bytes by 4 lanes in each of 4 rows, or 16 bytes by 4 lanes in each of 2 rows
//    8  bf16 weights: the same unit of 8 rows
//    4  int8 weights: all units of 2 rows; q8 weights: 8 bytes by 4 lanes in each of 4 rows
//    2  q4 weights: 4 bytes by 4 lanes in the same unit of 8 rows
template <int kUnits>
__host__ __device__ constexpr int swizzle(int r, int u) {
  switch (kUnits) {
    case 16:
      return (u >> 3 & 1) | (r & 3) << 1;
    case 8:
      return r & 7;
    case 4:
      return r & 2;
    case 2:
      return r >> 2 & 1;
    default:
      return 0;
  }
}
template <int kUnits>
__host__ __device__ constexpr int place_of(int r, int u) {
  return 16 * (r * kUnits + (u ^ swizzle<kUnits>(r, u)));
}
// place_of(r + rows, u ^ units) from place_of(r, u): one or two instructions if rows and units are
// constants. REQUIRES: r and rows have no bit in common.
template <int kUnits>
__host__ __device__ constexpr int place_beyond(int place, int rows, int units) {
  return (place ^ 16 * (units ^ swizzle<kUnits>(rows, units))) + 16 * rows * kUnits;
}

// Whether `lanes` pieces of `bytes` bytes at place(0), place(1), ... are free of bank conflicts.
template <typename Place>
constexpr bool in_different_banks(int lanes, int bytes, Place place) {
  bool used[32] = {};
  for (int lane = 0; lane < lanes; ++lane) {
    for (int word = place(lane) / 4; word < (place(lane) + bytes) / 4; ++word) {
      if (used[word % 32]) return false;
      used[word % 32] = true;
    }
  }
  return true;
}
// Where a group's inputs of lane c begin, in units of 4; see q4_bit().
__host__ __device__ constexpr int unit_of_group(int c) { return c % 2 + c / 2 * 4; }

// Where lane c's q of a q8 group begin, in row r of a chain.
__host__ __device__ constexpr int place_of_q8(int r, int c) {
  return place_of<4>(r, c / 2) + c % 2 * 8;
}

constexpr bool no_lanes_wait_for_each_other() {
  bool good = true;
  for (int r = 0; r < 16; r += 2) {
    for (int u = 0; u < 16; u += 2) {
      const auto two = [=](int l) {
        return place_of<16>(r / 4 * 4 + l / 4, u + l % 4 / 2) + l % 2 * 8;
      };
      const auto four = [=](int l) { return place_of<16>(r + l / 4, 4 * (l % 4) + u / 4); };
      const auto of_pair = [=](int l) { return place_of<16>(r + l / 4, unit_of_group(l % 4) ^ u); };
      const auto fragment = [=](int l) { return place_of<8>(r / 8 * 8 + l, u / 2); };
      const auto eight = [=](int l) {
        return place_beyond<4>(place_of_q8(r % 8 / 4 * 4 + l / 4, l % 4), r / 8 * 8, u / 8 * 2);
      };
      const auto bytes = [=](int l) { return place_of<4>(r + l / 4, l % 4); };
      const auto word = [=](int l) { return place_of<2>(l / 4, u / 8) + 4 * (l % 4); };
      good = good && in_different_banks(16, 8, two) && in_different_banks(8, 16, four) &&
             in_different_banks(8, 16, of_pair) && in_different_banks(8, 16, fragment) &&
             in_different_banks(8, 16, bytes) && in_different_banks(16, 8, eight) &&
             in_different_banks(32, 4, word);
      good = good &&
             place_of<4>(r % 8 + 8, u / 4) == place_beyond<4>(place_of<4>(r % 8, u / 4), 8, 0) &&
             place_of<16>(r + 16, u ^ 3) == place_beyond<16>(place_of<16>(r, u), 16, 3) &&
             place_of<8>(r % 4 + 4, u / 2) == place_beyond<8>(place_of<8>(r % 4, u / 2), 4, 0);
    }
  }
  return good;
}
static_assert(no_lanes_wait_for_each_other());

// A block's share of the rows of x and W.
template <typename S>
struct BlockTile {
  int n, t;  // the first column and row of y
  int half;  // for kRopeStore: D / 2

  // Columns of y that a block writes.
  static __host__ __device__ constexpr int columns(Then then) {
    return then == Then::kSiluMul ? S::kOutputs / 2 : S::kOutputs;
  }
  // [snippet weight-row]
  // The row of W for the block's output o; past the end, repeat the last row. A lane has outputs o
  // and o + 8 of each 16. So for SwiGLU the first 8 are gates and the others their factors, and for
  // RoPE the first and the second numbers of 8 pairs.
  __device__ int weight_row(int o, int weight_rows, Then then) const {
    const int second = o / 8 % 2, last = weight_rows / 2 - 1;
    if (then == Then::kSiluMul) {
      return second * (last + 1) + min(n + o / 16 * 8 + o % 8, last);
    }
    if (then == Then::kRopeStore) {
      return second * half + start_of_pair(min((n + o) / 16 * 8 + o % 8, last), half);
    }
    return min(n + o, weight_rows - 1);
  }
  // [end snippet weight-row]
};

// Requests one stage after the other. A thread copies the same unit of rows at a fixed distance.
template <typename S>
class PipelineLoader {
 public:
  __device__ PipelineLoader(const ConstDeviceRows& x, const Weights<typename S::T>& weight,
                            Then then, const BlockTile<S>& block, bool aligned)
      : x_(x),
        weights_(weight.data),
        row_bytes_(weight.row_bytes),
        units_(weight.loads()),
        first_row_(block.t + thread() / kInputsOfRow),
        aligned_(aligned) {
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      const int o = thread() / kWeightsOfRow + i * kWeightStep;
      weight_rows_[i] = block.weight_row(o, weight.rows, then);
    }
    if constexpr (S::kScalesGroups) {
      scales_ = weight.scales + block.weight_row(thread() % S::kOutputs, weight.rows, then);
      scales_stride_ = weight.rows;
    }
  }

  // Requests stage number `stage` into `to`; past the last stage, nothing. Past a row's end, and
  // past the last row, the data is zero. The weights come first; the inputs end the stage's group.
  __device__ void request(unsigned char* to, int stage) {
    request_weights(to, stage);
    request_inputs(to, stage);
  }
  __device__ void request_weights(unsigned char* to, int stage) {
    if (stage * S::kStageInputs >= x_.width) return;
    copy_weights(to, stage * kWeightsOfRow + thread() % kWeightsOfRow);
    if constexpr (S::kScalesGroups) copy_scales(to, stage * S::kChainWarps);
  }
  // Asks L2 for the weights of a stage that is requested later.
  __device__ void prefetch_weights(int stage) {
    const int g = stage * kWeightsOfRow + thread() % kWeightsOfRow;
    if (g % kUnitsOfLine != 0 || g >= units_ || thread() / kWeightsOfRow >= S::kOutputs) return;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      prefetch(weights_ + 16 * std::ptrdiff_t{g} + std::size_t{weight_rows_[i]} * row_bytes_);
    }
  }
  __device__ void request_inputs(unsigned char* to, int stage) {
    if (stage * S::kStageInputs < x_.width) {
      copy_inputs(to + S::kStageWeights, 4 * (stage * kInputsOfRow + thread() % kInputsOfRow));
    }
    copies_.end_group();
  }
  template <int kLater>
  __device__ void wait() {
    copies_.wait_for_groups<kLater>();
  }

 private:
  static constexpr int kWeightsOfRow = S::kWeightUnits * S::kChainWarps;
  static constexpr int kInputsOfRow = S::kInputUnits * S::kChainWarps;
  static constexpr int kUnitsOfLine = 8;  // of L2, with 128 bytes
  static constexpr int kWeightStep = S::kThreads / kWeightsOfRow;
  static constexpr int kInputStep = S::kThreads / kInputsOfRow;
  static constexpr int kWeightCopies = (S::kOutputs + kWeightStep - 1) / kWeightStep;
  static constexpr int kInputCopies = S::kRows / kInputStep;

  static __device__ int thread() { return threadIdx.x; }

  // Unit g of each output's weights.
  __device__ void copy_weights(unsigned char* to, int g) {
    if (kWeightStep > S::kOutputs && thread() / kWeightsOfRow >= S::kOutputs) return;
    const int unit = thread() % kWeightsOfRow, chain = unit / S::kWeightUnits;
    const int place = chain * S::kChainWeights +
                      place_of<S::kWeightUnits>(thread() / kWeightsOfRow, unit % S::kWeightUnits);
    const int bytes = g < units_ ? 16 : 0;
    const unsigned char* const from = weights_ + 16 * std::ptrdiff_t{bytes > 0 ? g : 0};
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      copies_.copy16(to + place_beyond<S::kWeightUnits>(place, i * kWeightStep, 0),
                     from + std::size_t{weight_rows_[i]} * row_bytes_, bytes);
    }
  }

  // The scales of a stage, whose first chain has this number: of one output and chain per thread.
  __device__ void copy_scales(unsigned char* to, int first) {
    static_assert(S::kOutputs * S::kChainWarps <= S::kThreads);
    static_assert(kChain == 2 * kGroupElements, "a ScalePair for each chain");
    const int o = thread() % S::kOutputs, chain = thread() / S::kOutputs;
    if (chain >= S::kChainWarps) return;
    const bool reads = (first + chain) * kChain < x_.width;
    const auto* from = scales_ + std::ptrdiff_t{reads ? first + chain : 0} * scales_stride_;
    auto* const place = to + chain * S::kChainWeights + S::kChainNumbers + o * sizeof *from;
    copies_.template copy_few<sizeof *from>(place, from, reads);
  }

  // Inputs k .. k + 3 of each row.
  __device__ void copy_inputs(unsigned char* to, int k) {
    const int unit = thread() % kInputsOfRow, chain = unit / S::kInputUnits;
    const int place = chain * S::kChainInputs +
                      place_of<S::kInputUnits>(thread() / kInputsOfRow, unit % S::kInputUnits);
    const int count = max(0, min(x_.width - k, 4));
    const float* const from = x_.data + (count > 0 ? k : 0);
    const unsigned stride = x_.stride;
    const auto copy = [&](int i, const auto& copy_unit) {
      const int r = first_row_ + i * kInputStep;
      const unsigned row = min(r, x_.rows - 1);  // unsigned: one instruction multiplies to 64 bits
      copy_unit(to + place_beyond<S::kInputUnits>(place, i * kInputStep, 0),
                from + std::size_t{row} * stride, r < x_.rows ? count : 0);
    };
    if (aligned_) {
#pragma unroll
      for (int i = 0; i < kInputCopies; ++i) {
        copy(i, [&](unsigned char* at, const float* inputs, int reads) {
          copies_.copy16(at, inputs, 4 * reads);
        });
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kInputCopies; ++i) {
        copy(i, [&](unsigned char* at, const float* inputs, int reads) {
          for (int j = 0; j < 4; ++j)
            copies_.copy4(at + 4 * j, inputs + (j < reads ? j : 0), j < reads);
        });
      }
    }
  }

  ConstDeviceRows x_;
  const unsigned char* weights_;
  const typename S::Scales* scales_;  // of groups
  int scales_stride_;
  unsigned row_bytes_;
  int units_, first_row_;
  bool aligned_;
  unsigned weight_rows_[kWeightCopies];
  AsyncCopies copies_;
};

// Where a warp's tiles begin within its block's, in tiles.
template <typename S>
struct WarpPlace {
  __device__ explicit WarpPlace(int warp)
      : output_tile(warp % S::kOutputWarps * S::kOutputTiles),
        row_tile(warp / S::kOutputWarps % S::kRowWarps * S::kRowTiles),
        chain(warp / (S::kOutputWarps * S::kRowWarps)) {}
  int output_tile, row_tile, chain;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
