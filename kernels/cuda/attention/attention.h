#pragma once
#include <cstddef>
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

// Backend::attention (kernels/ops.h), step by step faster. q, out: [T, H * D]; device memory. Every
// step takes any number of rows, in any order, of any sequences: prefill, decode and verification
// are one call. Each has one order of operations for a row and head, which depends on the row's
// position and on D alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The widest head_dim of steps 2 to 4; the engine's attention takes wider heads by the first step.
inline constexpr int kMaxHeadDim = 256;

// Positions of a piece in step 4.
inline constexpr int kAttentionPiece = 2 * kAttentionChunk;

// One thread a row and head.
void attention_naive(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// One warp a row and head.
void attention_warp(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                    const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// One block for the query heads that share a key and value head, and for several rows.
void attention_grouped(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                       const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// The same, and the context in pieces, each a block's. REQUIRES: places.context above every
// position. scratch: device memory for one row at least (attention_scratch); rows for which it has
// no room are computed after the others.
void attention_split(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, std::span<float> scratch,
                     cudaStream_t stream);

// Floats of scratch for so many rows of positions below context.
std::size_t attention_scratch(int rows, const HeadShape& heads, int context);

// The one that the engine calls: attention_split, but for contexts of one piece, which need neither
// scratch nor a second kernel and get the same bits without, and for wide heads.
void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out, std::span<float> scratch,
               cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
