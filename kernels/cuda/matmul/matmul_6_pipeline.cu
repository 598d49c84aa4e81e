// On tensor cores, in a pipeline. The weights and inputs of the next stages are in flight to shared
// memory while a warp multiplies those that have arrived. So the limit of bytes in flight is no
// longer a multiprocessor's registers and warps, but its shared memory.
//
// The order along K is the same for every tile of y, whatever its size: the inputs form chains of
// 64. The tensor cores add a chain's products, starting from zero. The chains' sums are added in
// float32, rounded to nearest, in the order of the chains. So the tensor cores truncate only within
// a chain, and a block may give its warps different chains.
//
// Seven shapes of a block's tile, and the bytes of bf16 weights in flight with each:
//
//   outputs x rows   a stage: inputs, weights, x     stages   weights in flight
//    32 x  8         256, 16 KiB,  8 KiB             3        32 KiB
//    32 x 16         128,  8 KiB,  8 KiB             5        32 KiB
//    64 x 16         128, 16 KiB,  8 KiB             3        32 KiB
//    32 x 32          64,  4 KiB,  8 KiB             8        28 KiB
//   128 x 64          64, 16 KiB, 16 KiB             3        32 KiB
//    32 x  8, wide   512, 32 KiB, 16 KiB             3        64 KiB
//    32 x 16, wide   256, 16 KiB, 16 KiB             4        48 KiB
//
// Two blocks of 4 warps share a multiprocessor, so each scheduler has 2 warps. If there are no more
// blocks than multiprocessors, each block is alone on one; then the wide shapes have 8 warps.
//
// With q4 weights, a chain has two groups of 32. The tensor cores add a group's products of q and
// x, and its inputs, each from zero. Scale and minimum multiply the two sums in float32. So a tile
// needs more registers, and the shape of 128 x 64 has only 64 outputs. q8 is the same without a
// minimum.
//
// Rows vary fastest in the grid, so blocks that share weights run at the same time. L2 has the
// weights for all but the first of them, and keeps all of x, 6 MiB for 512 rows of 3,072.
#include "kernels/cpu/require.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/matmul/chain_products.h"
#include "kernels/cuda/matmul/pipeline.h"
#include "kernels/cuda/silu.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// Weights of a byte or less take about half the room, so there are more stages.
template <typename T>
using Rows8 = PipelineShape<T, 2, 1, 1, 1, 4, sizeof(T) == 1 ? 5 : 3>;
template <typename T>
using Rows16 = PipelineShape<T, 2, 1, 1, 2, 2, sizeof(T) == 1 ? 7 : 5>;
template <typename T>
using Rows16Outputs64 = PipelineShape<T, 4, 1, 1, 2, 2, sizeof(T) == 1 ? 5 : 3>;
template <typename T>
using Rows32 = PipelineShape<T, 2, 1, 1, 4, 1, 8>;
template <typename T>
using Rows64 = PipelineShape<T, kHasGroups<T> ? 2 : 4, 4, 2, 2, 1, 3>;
template <typename T>
using Rows8Wide = PipelineShape<T, 2, 1, 1, 1, 8, sizeof(T) == 1 ? 4 : 3>;
template <typename T>
using Rows16Wide = PipelineShape<T, 2, 1, 1, 2, 4, sizeof(T) == 1 ? 6 : 4>;

// Stages whose weights L2 is asked for, beyond those in shared memory, while a block waits for its
// inputs.
constexpr int kPrefetched = 4;

// The sums of a block's tile so far. If all warps work on the same chain, each keeps the sums of
// its own tiles. If they work on different chains, the warps share the block's tiles out among
// themselves, and exchange their chains' sums in shared memory.
template <typename S>
class RunningSums {
 public:
  static constexpr bool kMeet = S::kChainWarps > 1;
  static constexpr int kOfBlock = S::kOutputWarps * S::kRowWarps * S::kTiles;
  static constexpr int kMine = kMeet ? (kOfBlock + S::kWarps - 1) / S::kWarps : S::kTiles;

  // meeting: the shared memory for the exchange.
  __device__ explicit RunningSums(unsigned char* meeting)
      : meeting_(reinterpret_cast<Tile*>(meeting)) {}

  // Adds a chain's sums of stage `stage`, either immediately or in meet().
  __device__ void take(const Tile (&chain)[S::kTiles], int stage) {
#pragma unroll
    for (int i = 0; i < S::kTiles; ++i) {
      if constexpr (kMeet) {
        place(stage, warp() / (S::kOutputWarps * S::kRowWarps), first_tile() + i) = chain[i];
      } else {
        add(chain[i], totals[i]);
      }
    }
  }
  // Adds the sums that all warps passed to take(). REQUIRES: a barrier since take(stage), and
  // another before take(stage + 2), which reuses the memory.
  __device__ void meet(int stage) {
    if constexpr (kMeet) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        if (tile(i) >= kOfBlock) return;
#pragma unroll
        for (int chain = 0; chain < S::kChainWarps; ++chain) {
          add(place(stage, chain, tile(i)), totals[i]);
        }
      }
    }
  }
  // The index within the block of this thread's tile i.
  __device__ int tile(int i) const { return kMeet ? warp() + i * S::kWarps : first_tile() + i; }

  Tile totals[kMine] = {};

 private:
  static __device__ int thread() { return threadIdx.x; }
  static __device__ int warp() { return thread() / kWarp; }
  static __device__ int first_tile() {
    return warp() % (S::kOutputWarps * S::kRowWarps) * S::kTiles;
  }
  static __device__ void add(const Tile& from, Tile& to) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] += from.at[i];
  }
  __device__ Tile& place(int stage, int chain, int tile) {
    const int lane = thread() % kWarp;
    return meeting_[((stage % 2 * S::kChainWarps + chain) * kOfBlock + tile) * kWarp + lane];
  }

  Tile* meeting_;
};

// Writes a tile that begins at the block's output o and row r.
template <typename S>
__device__ void write_tile(const Tile& total, int o, int r, const BlockTile<S>& block,
                           const Weights<typename S::T>& weight, DeviceRows y, Then then,
                           const RopeStore& to) {
  const int thread = threadIdx.x, lane = thread % kWarp, g = lane / 4, c = lane % 4;
  const auto product = [&](int i) {
    return weight.scale(block.weight_row(o + g + i / 2 * 8, weight.rows, then)) * total.at[i];
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = block.t + r + 2 * c + i % 2;
    if (then == Then::kSiluMul) {
      const int column = block.n + o / 2 + g;
      if (i < 2 && row < y.rows && column < y.width) {
        row_of(y, row)[column] = silu_mul(product(i), product(i + 2));
      }
      continue;
    }
    if (then == Then::kRopeStore) {
      const int pair = (block.n + o) / 2 + g;
      if (i < 2 && row < y.rows && pair < y.width / 2) {
        rope_store_pair(to, {product(i), product(i + 2)}, pair, row, y);
      }
      continue;
    }
    const int column = block.n + o + g + i / 2 * 8;
    if (row >= y.rows || column >= y.width) continue;
    float& element = row_of(y, row)[column];
    element = then == Then::kAdd ? element + product(i) : product(i);
  }
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksAtOnce)
    matmul_pipeline_kernel(ConstDeviceRows x, bool aligned, Weights<typename S::T> weight,
                           DeviceRows y, Then then, RopeStore to) {
  const int thread = threadIdx.x, column = blockIdx.y, row = blockIdx.x;
  const BlockTile<S> block = {column * BlockTile<S>::columns(then), row * S::kRows,
                              to.cosines.width};
  const WarpPlace<S> place(thread / kWarp);
  unsigned char* const shared = dynamic_shared<unsigned char>();
  PipelineLoader<S> loader(x, weight, then, block, aligned);
  RunningSums<S> sums(shared + S::kStages * S::kStageBytes);

  // [snippet pipeline]
  for (int stage = 0; stage < S::kStages - 1; ++stage) {
    loader.request_weights(shared + stage * S::kStageBytes, stage);
  }
  if (S::kRows <= kTileRows * 2 && row == 0) {  // while other kernels run, memory would idle
    for (int stage = S::kStages - 1; stage < S::kStages - 1 + kPrefetched; ++stage) {
      loader.prefetch_weights(stage);
    }
  }
  await_kernels_before();  // they write the inputs
  for (int stage = 0; stage < S::kStages - 1; ++stage) {
    loader.request_inputs(shared + stage * S::kStageBytes, stage);
  }
  const int stages = (x.width + S::kStageInputs - 1) / S::kStageInputs;
  unsigned char *now = shared, *before = shared + (S::kStages - 1) * S::kStageBytes;
  for (int stage = 0; stage < stages; ++stage) {
    loader.template wait<S::kStages - 2>();  // for this stage; the later ones are in flight
    __syncthreads();  // all threads have it, and the memory of the previous stage is free
    loader.request(before, stage + S::kStages - 1);
    if (stage > 0) sums.meet(stage - 1);
    Tile chain[S::kTiles] = {};
    if (stage * S::kStageInputs + place.chain * kChain < x.width) {
      multiply_chain<S>(now, place, chain);
    }
    sums.take(chain, stage);
    before = now;
    now = now == shared + (S::kStages - 1) * S::kStageBytes ? shared : now + S::kStageBytes;
  }
  // [end snippet pipeline]
  __syncthreads();
  sums.meet(stages - 1);

#pragma unroll
  for (int i = 0; i < sums.kMine; ++i) {
    const int tile = sums.tile(i);
    if (tile >= sums.kOfBlock) return;
    const WarpPlace<S> at(tile / S::kTiles);
    write_tile<S>(sums.totals[i], kTileOutputs * (at.output_tile + tile % S::kTiles / S::kRowTiles),
                  kTileRows * (at.row_tile + tile % S::kRowTiles), block, weight, y, then, to);
  }
}

template <typename S>
void launch_shape(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                  cudaStream_t stream, const RopeStore& to) {
  const auto kernel = matmul_pipeline_kernel<S>;
  static const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  cuda_check(allowed);
  launch(kernel,
         dim3(blocks_for(x.rows, S::kRows), blocks_for(y.width, BlockTile<S>::columns(then))),
         S::kThreads, S::kSharedBytes, early(stream), x, is_aligned(x.data) && x.stride % 4 == 0,
         Weights<typename S::T>(weight), y, then, to);
}

template <typename T>
void launch_tile(PipelineTile tile, Then then, ConstDeviceRows x, const CudaMatrix& weight,
                 DeviceRows y, cudaStream_t stream, const RopeStore& to) {
  switch (tile) {
    case PipelineTile::kRows8:
      return launch_shape<Rows8<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows16:
      return launch_shape<Rows16<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows16Outputs64:
      return launch_shape<Rows16Outputs64<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows32:
      return launch_shape<Rows32<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows64:
      return launch_shape<Rows64<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows8Wide:
      return launch_shape<Rows8Wide<T>>(then, x, weight, y, stream, to);
    case PipelineTile::kRows16Wide:
      return launch_shape<Rows16Wide<T>>(then, x, weight, y, stream, to);
  }
}

}  // namespace

void matmul_pipeline(PipelineTile tile, Then then, ConstDeviceRows x, const CudaMatrix& weight,
                     DeviceRows y, cudaStream_t stream, const RopeStore& to) {
  cpu::require(can_pipeline(weight), "weights of type bf16, int8, q4 or q8");
  if (weight.type() == WeightType::kInt8) {
    return launch_tile<std::int8_t>(tile, then, x, weight, y, stream, to);
  }
  if (weight.type() == WeightType::kQ4) {
    return launch_tile<Q4>(tile, then, x, weight, y, stream, to);
  }
  if (weight.type() == WeightType::kQ8) {
    return launch_tile<Q8>(tile, then, x, weight, y, stream, to);
  }
  launch_tile<__nv_bfloat16>(tile, then, x, weight, y, stream, to);
}

// The tiles with more outputs read fewer bytes per product, but need enough blocks to fill a GPU.
// A wide one is for matrices with so few outputs that each block has a multiprocessor for itself,
// and with more inputs than one stage of the other.
PipelineTile pipeline_tile(int rows, int outputs, int inputs, const DeviceLimits& device) {
  constexpr unsigned kEnoughBlocks = 96;
  using Narrow = Rows8<__nv_bfloat16>;
  using Wide = Rows8Wide<__nv_bfloat16>;
  const bool wide = blocks_for(outputs, Narrow::kOutputs) <= unsigned(device.multiprocessors) &&
                    inputs > Narrow::kStageInputs && Wide::kSharedBytes <= device.shared_bytes;
  if (rows <= 8) return wide ? PipelineTile::kRows8Wide : PipelineTile::kRows8;
  if (rows <= 16 && blocks_for(outputs, 64) > unsigned(device.multiprocessors)) {
    return PipelineTile::kRows16Outputs64;
  }
  if (rows <= 16) return wide ? PipelineTile::kRows16Wide : PipelineTile::kRows16;
  const bool enough = blocks_for(rows, 64) * blocks_for(outputs, 128) >= kEnoughBlocks;
  return rows > 32 && enough ? PipelineTile::kRows64 : PipelineTile::kRows32;
}

void matmul_pipeline_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                          cudaStream_t stream, const RopeStore& to) {
  const PipelineTile tile = pipeline_tile(x.rows, weight.rows(), weight.width(), device_limits());
  matmul_pipeline(tile, then, x, weight, y, stream, to);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
