// On tensor cores, with copies by the GPU's copy engine. In step 6, every thread computes addresses
// and requests its share of a stage, and all threads meet at a barrier in each stage. Here one
// thread, the producer, requests whole boxes, and the engine computes addresses, fills with zeros
// what is outside the matrix, and swizzles. Four consumer warps only multiply. Barriers in shared
// memory pass stages from one side to the other, so no warp waits for all others:
//
//   full[slot]    the engine has brought a stage's bytes       consumers wait
//   empty[slot]   all consumers have read the stage            the producer waits
//   met[stage%2]  all consumers have written their chains' sums
//
// A stage has four chains of 64 inputs, one for each consumer. The order of sums is that of step 6,
// and so are the bits.
#include <algorithm>

#include "kernels/cpu/require.h"
#include "kernels/cuda/bulk_copy.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/matmul/pipeline.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kConsumers = 4, kThreads = kWarp * (kConsumers + 1), kSlots = 4;
constexpr int kOutputs = 32, kOutputTiles = kOutputs / kTileOutputs;
constexpr int kStageInputs = kConsumers * kChain;
// A chain of an output is one row of a box, and a chain of an input row is two.
constexpr int kHalfChain = kBoxRowBytes / sizeof(float);
static_assert(kChain * sizeof(__nv_bfloat16) == kBoxRowBytes && kChain == 2 * kHalfChain);

template <int kRows>
struct TmaStage {
  unsigned char weights[kConsumers][kOutputs * kBoxRowBytes];
  unsigned char inputs[kConsumers][2][kRows * kBoxRowBytes];

  static constexpr int kChainBytes = sizeof weights[0] + sizeof inputs[0];
};

template <int kRows>
struct TmaShared {
  static constexpr int kRowTiles = kRows / kTileRows, kTiles = kOutputTiles * kRowTiles;
  static_assert(kTiles <= kConsumers, "each tile has a warp that adds its chains");
  static constexpr std::size_t kAlignment = 1024;  // of boxes; dynamic shared memory has less

  TmaStage<kRows> slots[kSlots];
  Tile sums[2][kConsumers][kTiles][kWarp];  // of the chains of a stage and of the one before
  SharedBarrier full[kSlots], empty[kSlots], met[2];
};

// [snippet row-of-column]
// The row of x for column `column` of the tensor cores' operand. In this order the lanes of a load
// use different banks, although the engine's swizzle is made for units of 16 bytes and they load 8.
__host__ __device__ constexpr int row_of_column(int column) {
  return 2 * (column % 4) + column / 4;
}
// [end snippet row-of-column]

// The offset in a chain's first or second box of the inputs that lane `lane` takes: 2 of a step.
__host__ __device__ constexpr int place_of_inputs(int lane, int unit) {
  const int c = lane % 4;
  return place_in_box(row_of_column(lane / 4), unit + c / 2) + c % 2 * 8;
}
constexpr bool no_inputs_wait_for_each_other() {
  bool good = true;
  for (int half_warp = 0; half_warp < 2; ++half_warp) {
    for (int unit = 0; unit < 8; unit += 2) {
      good = good && in_different_banks(16, 8, [=](int lane) {
               return place_of_inputs(16 * half_warp + lane, unit);
             });
    }
  }
  return good;
}
static_assert(no_inputs_wait_for_each_other());

// Requests the boxes of one stage after the other.
template <int kRows>
struct TmaProducer {
  const TensorMap &weights, &inputs;
  int width, first_output, first_row;

  __device__ int chains(int stage) const {
    return min(kConsumers, (width - stage * kStageInputs + kChain - 1) / kChain);
  }
  __device__ void request_weights(TmaStage<kRows>& to, int stage, SharedBarrier& full) const {
    full.arrive_and_expect(chains(stage) * TmaStage<kRows>::kChainBytes);
#pragma unroll 1
    for (int chain = 0; chain < chains(stage); ++chain) {
      copy_box(to.weights[chain], weights, stage * kStageInputs + chain * kChain, first_output,
               full);
    }
  }
  __device__ void request_inputs(TmaStage<kRows>& to, int stage, SharedBarrier& full) const {
#pragma unroll 1
    for (int box = 0; box < 2 * chains(stage); ++box) {
      copy_box(to.inputs[box / 2][box % 2], inputs, stage * kStageInputs + box * kHalfChain,
               first_row, full);
    }
  }
};

// The products of one chain, in the order of step 6.
template <int kRows>
__device__ void multiply_boxes(const TmaStage<kRows>& stage, int chain,
                               Tile (&totals)[TmaShared<kRows>::kTiles]) {
  constexpr int kRowTiles = TmaShared<kRows>::kRowTiles, kSteps = kChain / kTileDepth;
  const int thread = threadIdx.x, lane = thread % kWarp;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    FragmentA w[kOutputTiles];
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
      w[o] = load_fragment([&](int l) {
        return stage.weights[chain] + place_in_box(kTileOutputs * o + l % 16, 2 * step + l / 16);
      });
    }
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const unsigned char* const rows =
          stage.inputs[chain][step / 2] + kBoxRowBytes * kTileRows * r;
      const auto two = [&](int unit) {
        return *reinterpret_cast<const float2*>(rows + place_of_inputs(lane, unit));
      };
      const float2 first = two(step % 2 * 4), second = two(step % 2 * 4 + 2);
      FragmentB parts[kParts];
      split({{first.x, first.y, second.x, second.y}}, parts);
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) {
        multiply_add(w[o], parts, totals[o * kRowTiles + r]);
      }
    }
  }
}

// Adds the chains of stage `stage` to the warp's tile, in their order.
template <int kRows>
__device__ void add_chains(TmaShared<kRows>& shared, int stage, Tile& total) {
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  shared.met[stage % 2].wait(stage / 2);
  if (warp >= shared.kTiles) return;
#pragma unroll
  for (int chain = 0; chain < kConsumers; ++chain) {
    const Tile sum = shared.sums[stage % 2][chain][warp][lane];
#pragma unroll
    for (int i = 0; i < 4; ++i) total.at[i] += sum.at[i];
  }
}

template <int kRows>
__device__ void write_rows(const Tile& total, int first_output, int first_row, DeviceRows y) {
  const int thread = threadIdx.x, tile = thread / kWarp, lane = thread % kWarp;
  constexpr int kRowTiles = TmaShared<kRows>::kRowTiles;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int output = first_output + tile / kRowTiles * kTileOutputs + lane / 4 + i / 2 * 8;
    const int row =
        first_row + tile % kRowTiles * kTileRows + row_of_column(2 * (lane % 4) + i % 2);
    if (output < y.width && row < y.rows) row_of(y, row)[output] = total.at[i];
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_tma_kernel(const __grid_constant__ TensorMap weights,
                      const __grid_constant__ TensorMap inputs, int width, DeviceRows y) {
  using Shared = TmaShared<kRows>;
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  const int first_output = blockIdx.y * kOutputs, first_row = blockIdx.x * kRows;
  const int stages = (width + kStageInputs - 1) / kStageInputs;
  unsigned char* const bytes = dynamic_shared<unsigned char>();
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(bytes) % Shared::kAlignment;
  auto& shared =
      *reinterpret_cast<Shared*>(bytes + (Shared::kAlignment - misplaced) % Shared::kAlignment);

  if (thread == 0) {
    for (int slot = 0; slot < kSlots; ++slot) {
      shared.full[slot].init(1);  // the producer arrives, and expects bytes
      shared.empty[slot].init(kConsumers);
    }
    for (SharedBarrier& met : shared.met) met.init(kConsumers);
    publish_barriers();
  }
  __syncthreads();

  // [snippet producer]
  if (warp == kConsumers) {
    const TmaProducer<kRows> producer{weights, inputs, width, first_output, first_row};
    const int at_once = lane == 0 ? min(kSlots, stages) : 0;
    for (int stage = 0; stage < at_once; ++stage) {
      producer.request_weights(shared.slots[stage], stage, shared.full[stage]);
    }
    await_kernels_before();  // they write the inputs
    if (lane > 0) return;
    for (int stage = 0; stage < stages; ++stage) {
      const int slot = stage % kSlots, round = stage / kSlots;
      if (round > 0) {
        shared.empty[slot].wait(round - 1);
        producer.request_weights(shared.slots[slot], stage, shared.full[slot]);
      }
      producer.request_inputs(shared.slots[slot], stage, shared.full[slot]);
    }
    return;
  }
  // [end snippet producer]

  await_kernels_before();
  // [snippet consumer]
  Tile total = {};
  for (int stage = 0; stage < stages; ++stage) {
    const int slot = stage % kSlots;
    Tile chain[Shared::kTiles] = {};
    shared.full[slot].wait(stage / kSlots);
    if (stage * kStageInputs + warp * kChain < width) {
      multiply_boxes(shared.slots[slot], warp, chain);
    }
    __syncwarp();
    if (lane == 0) shared.empty[slot].arrive();
    if (stage > 0) add_chains(shared, stage - 1, total);
#pragma unroll
    for (int i = 0; i < Shared::kTiles; ++i) shared.sums[stage % 2][warp][i][lane] = chain[i];
    __syncwarp();
    if (lane == 0) shared.met[stage % 2].arrive();
  }
  add_chains(shared, stages - 1, total);
  // [end snippet consumer]
  if (warp < Shared::kTiles) write_rows<kRows>(total, first_output, first_row, y);
}

template <int kRows>
void launch_tma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  const auto kernel = matmul_tma_kernel<kRows>;
  constexpr std::size_t kSharedBytes = sizeof(TmaShared<kRows>) + TmaShared<kRows>::kAlignment;
  static const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  cuda_check(allowed);
  const Weights<__nv_bfloat16> w(weight);
  const TensorMap weights(reinterpret_cast<const __nv_bfloat16*>(w.data), w.rows, w.width,
                          w.row_bytes, kOutputs);
  const TensorMap inputs(x.data, x.rows, x.width, x.stride * sizeof(float), kRows);
  launch(kernel, dim3(blocks_for(x.rows, kRows), blocks_for(w.rows, kOutputs)), kThreads,
         kSharedBytes, early(stream), weights, inputs, x.width, y);
}

}  // namespace

bool can_run_matmul_tma() {
  return can_copy_boxes(reinterpret_cast<const void*>(matmul_tma_kernel<8>));
}

void matmul_tma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  cpu::require(weight.type() == WeightType::kBF16, "weights of type bf16");
  cpu::require(is_aligned(x.data) && x.stride % 4 == 0, "rows of x at multiples of 16 bytes");
  if (x.rows <= 8) return launch_tma<8>(x, weight, y, stream);
  launch_tma<16>(x, weight, y, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
