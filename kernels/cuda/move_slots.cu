// Each thread makes all moves of one column (4 bytes) of the keys or of the values, in order. So a
// move overwrites only what has been read before, without a barrier. Grid: blocks along a row; keys
// and values.
#include <algorithm>

#include "kernels/cpu/require.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/move_slots.h"
#include "kernels/int_size.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kThreads = 128;

struct Moves {
  int count = 0;
  SlotMove at[kMostMoves];
};

__global__ void move_slots_kernel(KvRows<std::uint32_t> cache, int width, Moves moves) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  std::uint32_t* column = (blockIdx.y == 0 ? cache.keys : cache.values) + i;
  for (int n = 0; n < moves.count; ++n) {
    const auto [from, to] = moves.at[n];
    column[std::ptrdiff_t{to} * width] = column[std::ptrdiff_t{from} * width];
  }
}

}  // namespace

void move_slots(KvLayer cache, int width, std::span<const SlotMove> moves, cudaStream_t stream) {
  const std::size_t bytes = width * element_size(cache.type);
  cpu::require(bytes % sizeof(std::uint32_t) == 0, "keys of whole words");
  const int words = bytes / sizeof(std::uint32_t);
  while (!moves.empty()) {
    Moves some;
    some.count = std::min(int_size(moves), kMostMoves);
    const auto now = moves.first(some.count);
    std::copy(now.begin(), now.end(), some.at);
    launch(move_slots_kernel, dim3(blocks_for(words, kThreads), 2), kThreads, 0, stream,
           cache.rows<std::uint32_t>(), words, some);
    moves = moves.subspan(now.size());
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
