// One sum for several blocks. The inputs form the chains of matmul_6_pipeline.cu, and each block of
// a cluster multiplies a piece of them. A chain begins at zero, so for that a block needs nothing
// from the others. Then they add one after the other: a block finds the total of the pieces before
// its own in its shared memory, adds its chains, and writes the total into the memory of the next
// block. So every number of pieces gives the bits of a single block, which are those of the
// pipeline.
//
// add_part_kernel does not wait. Then the bits depend on which block comes first or, if
// add_parts_kernel adds parts later, on the number of pieces.
//
// A lesson: a warp loads its operands from global memory and waits for them, as in matmul_5_mma.cu.
#include "kernels/cpu/require.h"
#include "kernels/cuda/cluster.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/matmul/tensor_core.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kChain = 64;  // inputs
constexpr int kWarps = 4;

using Bf16 = __nv_bfloat16;

__host__ __device__ constexpr int chains_of_piece(int width, int pieces) {
  return (width + kChain * pieces - 1) / (kChain * pieces);
}

// The chains of a block, for a tile of 16 outputs and 8 rows. Device code.
class Piece {
 public:
  __device__ Piece(const ConstDeviceRows& x, const Weights<Bf16>& weight, int number, int pieces)
      : x_(x), weight_(weight), count_(chains_of_piece(x.width, pieces)), first_(number * count_) {}

  // Computes the sums of the chains, each with tensor cores alone. REQUIRES: a barrier before
  // add().
  __device__ void multiply() {
    for (int c = warp(); c < count_; c += kWarps) sums()[c * kWarp] = chain((first_ + c) * kChain);
  }
  // total + the first chain + the second + ..., of a lane's elements of the tile.
  __device__ Tile add(Tile total) const {
    for (int c = 0; c < count_; ++c) {
      for (int i = 0; i < 4; ++i) total.at[i] += sums()[c * kWarp].at[i];
    }
    return total;
  }
  // Calls visit(element of y, its sum) for these elements.
  template <typename Visit>
  static __device__ void for_elements(const DeviceRows& y, const Tile& tile, const Visit& visit) {
    for (int i = 0; i < 4; ++i) {
      const int n = first_output() + lane() / 4 + i / 2 * 8;
      const int t = first_row() + lane() % 4 * 2 + i % 2;
      if (n < y.width && t < y.rows) visit(row_of(y, t)[n], tile.at[i]);
    }
  }

  static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  // In shared memory, for the lane: the total of the pieces before.
  static __device__ Tile* handed() { return dynamic_shared<Tile>() + lane(); }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static __device__ Tile* sums() { return handed() + kWarp; }  // of chain c: + c * kWarp
  static __device__ int first_output() { return static_cast<int>(blockIdx.y) * kTileOutputs; }
  static __device__ int first_row() { return static_cast<int>(blockIdx.z) * kTileRows; }

  // The products of inputs k .. k + 63.
  __device__ Tile chain(int k) const {
    const int g = lane() / 4, c = lane() % 4;
    const float* const row = row_of(x_, min(first_row() + g, x_.rows - 1));
    Tile sum = {};
#pragma unroll
    for (int step = 0; step < kChain; step += kTileDepth) {
      const int i = k + step + 2 * c;
      const FragmentA w = {{two_weights(g, i), two_weights(g + 8, i), two_weights(g, i + 8),
                            two_weights(g + 8, i + 8)}};
      FragmentB parts[kParts];
      split({{input(row, i), input(row, i + 1), input(row, i + 8), input(row, i + 9)}}, parts);
      multiply_add(w, parts, sum);
    }
    return sum;
  }
  // Past the end of a row, inputs and weights are zeros, and so are whole chains.
  __device__ float input(const float* row, int k) const { return k < x_.width ? row[k] : 0.0f; }
  __device__ unsigned two_weights(int o, int k) const {
    if (k >= weight_.loads() * kGroup<Bf16>) return 0;
    const int n = min(first_output() + o, weight_.rows - 1);
    return reinterpret_cast<const unsigned*>(weight_.row(n))[k / 2];
  }

  const ConstDeviceRows& x_;
  const Weights<Bf16>& weight_;
  int count_, first_;  // chains
};

// [snippet hand-over]
__global__ void hand_over_kernel(ConstDeviceRows x, Weights<Bf16> weight, DeviceRows y) {
  const auto cluster = this_cluster();
  const int mine = cluster.block_rank(), pieces = cluster.num_blocks();
  Piece piece(x, weight, mine, pieces);
  piece.multiply();
  cluster.sync();  // all chains are multiplied, so all blocks have begun
  for (int turn = 0; turn < pieces; ++turn) {
    if (turn == mine && piece.warp() == 0) {
      const Tile total = piece.add(turn == 0 ? Tile{} : *piece.handed());
      if (turn + 1 < pieces) {
        *cluster.map_shared_rank(piece.handed(), turn + 1) = total;
      } else {
        piece.for_elements(y, total, [](float& element, float sum) { element = sum; });
      }
    }
    cluster.sync();  // the next block has its total
  }
}
// [end snippet hand-over]

// [snippet add-part]
// A block adds the total of its own chains when it has it: to y, or to one of several parts of y.
__global__ void add_part_kernel(ConstDeviceRows x, Weights<Bf16> weight, DeviceRows y) {
  const auto cluster = this_cluster();
  const int mine = cluster.block_rank();
  Piece piece(x, weight, mine, cluster.num_blocks());
  piece.multiply();
  __syncthreads();
  if (piece.warp() > 0) return;
  const DeviceRows part = {row_of(y, mine * x.rows % y.rows), x.rows, y.width, y.stride};
  piece.for_elements(part, piece.add({}), [](float& to, float sum) { atomicAdd(&to, sum); });
}
__global__ void add_parts_kernel(ConstDeviceRows parts, DeviceRows y) {
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int t = static_cast<int>(blockIdx.y);
  if (n >= y.width) return;
  float sum = row_of(parts, t)[n];
  for (int part = t + y.rows; part < parts.rows; part += y.rows) sum += row_of(parts, part)[n];
  row_of(y, t)[n] = sum;
}
// [end snippet add-part]

template <typename Kernel>
void launch_pieces(Kernel kernel, int pieces, ConstDeviceRows x, const CudaMatrix& weight,
                   DeviceRows y, cudaStream_t stream) {
  cpu::require(weight.type() == WeightType::kBF16, "weights of type bf16");
  const dim3 grid(pieces, blocks_for(weight.rows(), kTileOutputs), blocks_for(x.rows, kTileRows));
  const std::size_t shared_bytes = (1 + chains_of_piece(x.width, pieces)) * kWarp * sizeof(Tile);
  launch(kernel, grid, kWarps * kWarp, shared_bytes, in_clusters(pieces, stream), x,
         Weights<Bf16>(weight), y);
}

}  // namespace

bool can_run_matmul_split() {
  return has_code_for_9_0(reinterpret_cast<const void*>(hand_over_kernel));
}

void matmul_split(int pieces, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                  cudaStream_t stream) {
  launch_pieces(hand_over_kernel, pieces, x, weight, y, stream);
}

void matmul_split_parts(int pieces, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                        cudaStream_t stream) {
  launch_pieces(add_part_kernel, pieces, x, weight, y, stream);
}

void add_parts(ConstDeviceRows parts, DeviceRows y, cudaStream_t stream) {
  constexpr int kThreads = 128;
  launch(add_parts_kernel, dim3(blocks_for(y.width, kThreads), y.rows), kThreads, 0, stream, parts,
         y);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
