#pragma once
#include <cstddef>
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

// Backend::attention (kernels/ops.h) in steps, each faster than the one before. q, out: [T, H * D];
// device memory. Every step takes any number of rows, in any order, of any sequences, so prefill,
// decode and verification are the same call. In each step, the order of operations for a row and
// head depends only on the row's position and on D.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The widest head_dim of steps 2 to 4; attention() uses step 1 for wider heads.
inline constexpr int kMaxHeadDim = 256;

// Positions per piece in step 4.
inline constexpr int kAttentionPiece = 2 * kAttentionChunk;

// Lets steps 3 and 4 choose the most rows of a block.
inline constexpr int kRowsByBlocks = 0;

// One thread per row and head.
void attention_naive(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// One warp per row and head.
void attention_warp(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                    const HeadShape& heads, DeviceRows out, cudaStream_t stream);

// One block for the query heads that share a key and value head, and for several rows: at most
// most_rows or, by default, more where there are more blocks. It changes no bits.
void attention_grouped(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                       const HeadShape& heads, DeviceRows out, cudaStream_t stream,
                       int most_rows = kRowsByBlocks);

// Device memory for at least one row. If it has no room for all rows, they are computed in turns.
struct AttentionScratch {
  std::span<float> pieces;          // attention_scratch() of a row
  std::span<unsigned> blocks_done;  // [H] of a row; zero between launches
};

// The same, with the context split into pieces, one block per piece (Flash-Decoding). REQUIRES:
// places.context is above every position.
void attention_split(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, const AttentionScratch& scratch,
                     cudaStream_t stream, int most_rows = kRowsByBlocks);

// Floats for the pieces of `rows` rows with positions below `context`, but at most 64 MiB if that
// is enough for a row.
std::size_t attention_scratch(int rows, const HeadShape& heads, int context);

// What the engine calls: attention_split, except for wide heads and for contexts of one piece.
// These get the same bits without scratch.
void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out, const AttentionScratch& scratch,
               cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
