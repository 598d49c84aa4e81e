#pragma once
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The most moves of one launch, which are its argument.
inline constexpr int kMostMoves = 64;

// Backend::move_slots (kernels/ops.h): one launch per kMostMoves moves. moves: host memory.
void move_slots(KvLayer cache, int width, std::span<const SlotMove> moves, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
