#pragma once
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Moves of one launch: they travel as its argument.
inline constexpr int kMostMoves = 64;

// Backend::move_slots (kernels/ops.h): a launch for up to kMostMoves moves. moves: host memory.
void move_slots(KvLayer cache, int width, std::span<const SlotMove> moves, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
