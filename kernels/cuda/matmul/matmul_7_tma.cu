// On tensor cores, with copies by the GPU's copy engine. In step 6, every thread computes addresses
// and requests its share of a stage, and all threads meet at a barrier in each stage. Here one
// thread, the producer, requests whole boxes, and the engine computes addresses, fills with zeros
// what is outside the matrix, and swizzles. Four consumer warps only multiply. Barriers in shared
// memory pass stages from one side to the other (boxes.h), so no warp waits for all others. A third
// pair of barriers says that all consumers have written their chains' sums.
//
// A stage has four chains of 64 inputs, one for each consumer. The order of sums is that of step 6,
// and so are the bits.
#include "kernels/cuda/matmul/boxes.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kConsumers = 4, kThreads = kWarp * (kConsumers + 1), kSlots = 4;
constexpr int kOutputs = 32, kOutputTiles = kOutputs / kTileOutputs;

template <int kRows>
using TmaStage = BoxStage<kConsumers, kOutputs, kRows>;

template <int kRows>
struct TmaShared {
  static constexpr int kRowTiles = kRows / kTileRows, kTiles = kOutputTiles * kRowTiles;
  static_assert(kTiles <= kConsumers, "each tile has a warp that adds its chains");

  BoxRing<TmaStage<kRows>, kSlots> ring;
  Tile sums[2][kConsumers][kTiles][kWarp];  // of the chains of a stage and of the one before
  SharedBarrier met[2];
};

// The products of one chain, in the order of step 6.
template <int kRows>
__device__ void multiply_boxes(const TmaStage<kRows>& stage, int chain,
                               Tile (&totals)[TmaShared<kRows>::kTiles]) {
  constexpr int kRowTiles = TmaShared<kRows>::kRowTiles, kSteps = kChain / kTileDepth;
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
      FragmentB parts[kParts];
      split(load_inputs(stage.inputs[chain], kTileRows * r, step), parts);
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
        first_row + tile % kRowTiles * kTileRows + row_of_operand(2 * (lane % 4) + i % 2);
    if (output < y.width && row < y.rows) row_of(y, row)[output] = total.at[i];
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_tma_kernel(const __grid_constant__ TensorMap weights,
                      const __grid_constant__ TensorMap inputs, int width, DeviceRows y) {
  using Shared = TmaShared<kRows>;
  using Stage = TmaStage<kRows>;
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  const int first_output = blockIdx.y * kOutputs, first_row = blockIdx.x * kRows;
  auto& shared = shared_boxes<Shared>();
  auto& ring = shared.ring;

  if (thread == 0) {
    ring.init(kConsumers);
    for (SharedBarrier& met : shared.met) met.init(kConsumers);
    publish_barriers();
  }
  __syncthreads();

  if (warp == kConsumers) {
    using Producer = BoxProducer<BoxRing<Stage, kSlots>>;
    return Producer{weights, inputs, width, first_output, first_row}.fill(ring);
  }

  await_kernels_before();
  // [snippet consumer]
  const int stages = stages_of<Stage>(width);
  Tile total = {};
  for (int stage = 0; stage < stages; ++stage) {
    const int slot = stage % kSlots;
    Tile chain[Shared::kTiles] = {};
    ring.full[slot].wait(stage / kSlots);
    if (stage * Stage::kInputs + warp * kChain < width) {
      multiply_boxes(ring.slots[slot], warp, chain);
    }
    __syncwarp();
    if (lane == 0) ring.empty[slot].arrive();
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
  launch_with_boxes<TmaStage<kRows>>(matmul_tma_kernel<kRows>, kThreads,
                                     kBytesWithBoxes<TmaShared<kRows>>, x, weight, y, stream);
}

}  // namespace

bool can_run_matmul_tma() {
  return can_copy_boxes(reinterpret_cast<const void*>(matmul_tma_kernel<8>));
}

void matmul_tma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  if (x.rows <= 8) return launch_tma<8>(x, weight, y, stream);
  launch_tma<16>(x, weight, y, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
