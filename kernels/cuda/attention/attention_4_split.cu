// Step 3 with the context in pieces of kAttentionPiece positions, one block each (Dao et al. 2023,
// "Flash-Decoding"); a second kernel combines the pieces of each query. Pieces begin at multiples
// of their size in every call, so a query's pieces and their order are always the same.
//
// Why 128: at one row and 4,096 cached positions, 8 key and value heads make 8 * 32 = 256 blocks,
// about two for each multiprocessor of an H100, so one may load a tile of 32 KiB (D = 128) while
// another computes. Pieces of 64 would double the intermediate data. That is (D + 2) floats per
// query and piece, against 2 * 128 * D floats of keys and values per key and value head and piece:
// 1 / 64 with 4 query heads per group and one row.
#include <algorithm>
#include <climits>

#include "kernels/cpu/require.h"
#include "kernels/cuda/attention/attention_tiles.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr std::size_t kMaxScratch = std::size_t{64} << 20 >> 2;  // floats: 64 MiB

// The results of the pieces of each query, [rows * H, count].
struct Pieces {
  float* totals;       // [rows * H, count, D], not yet divided by the sum of weights
  float* maxima;       // [rows * H, count]
  float* weight_sums;  // [rows * H, count]
  int count;           // of a query that reaches the end of the context

  __device__ std::ptrdiff_t index(int query, int piece) const {
    return std::ptrdiff_t{query} * count + piece;
  }
};

int pieces_of(int context) { return (context + kAttentionPiece - 1) / kAttentionPiece; }

std::size_t scratch_of_row(const HeadShape& heads, int context) {
  return std::ptrdiff_t{heads.n_heads} * pieces_of(context) * (heads.head_dim + 2);
}

template <bool kVectors, int kColumns, typename T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce)
    attention_piece_kernel(AttentionInputs<T> in, Pieces pieces) {
  await_kernels_before();
  const BlockQueries block = queries_of_block<AttentionTile<kColumns, T>::kQueries>(in);
  const int piece = blockIdx.z, begin = piece * kAttentionPiece;
  if (block.rows == 0 || begin > block.last) return;
  const int thread = threadIdx.x, lane = thread % kWarp, D = in.heads.head_dim;
  const auto write = [&](int i, const RunningSoftmax<kColumns>& softmax) {
    const std::ptrdiff_t at = pieces.index(block.row(i) * in.heads.n_heads + block.head(i), piece);
    for (int c = 0; c < kColumns; ++c) {
      const int d = lane + c * kWarp;
      if (d < D) pieces.totals[at * D + d] = softmax.total[c];
    }
    if (lane != 0) return;
    pieces.maxima[at] = softmax.maximum;
    pieces.weight_sums[at] = softmax.weight_sum;
  };
  attend<kVectors, kColumns>(in, block, begin, min(begin + kAttentionPiece, block.last + 1), write);
}

// One warp per query: adds its pieces in order, scaled to their common maximum. Pieces past the
// query's position were never written.
template <int kColumns>
__global__ void combine_kernel(Pieces pieces, const std::int32_t* positions, HeadShape heads,
                               DeviceRows out) {
  await_kernels_before();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, query = thread / kWarp;
  if (query >= out.rows * heads.n_heads) return;
  const int t = query / heads.n_heads, h = query % heads.n_heads, D = heads.head_dim;
  const int lane = thread % kWarp;
  const int count = positions[t] / kAttentionPiece + 1;
  float largest = -FLT_MAX;
  for (int piece = lane; piece < count; piece += kWarp) {
    largest = fmaxf(largest, pieces.maxima[pieces.index(query, piece)]);
  }
  const float maximum = warp_reduce(largest, MaxNumber());

  float weight_sum = 0.0f, total[kColumns];
  for (float& sum : total) sum = -0.0f;  // adding it to a number changes no bit
#pragma unroll 4
  for (int piece = 0; piece < count; ++piece) {
    const std::ptrdiff_t at = pieces.index(query, piece);
    const float rescale = expf(pieces.maxima[at] - maximum);
    weight_sum = fmaf(pieces.weight_sums[at], rescale, weight_sum);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {  // past the head's end, repeat its last element
      const int d = min(lane + c * kWarp, D - 1);
      total[c] = fmaf(pieces.totals[at * D + d], rescale, total[c]);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    const int d = lane + c * kWarp;
    if (d < D) (row_of(out, t) + h * D)[d] = total[c] / weight_sum;
  }
}

}  // namespace

std::size_t attention_scratch(int rows, const HeadShape& heads, int context) {
  const std::size_t row = scratch_of_row(heads, context);
  return std::max(row, std::min(rows * row, kMaxScratch / row * row));
}

void attention_split(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, std::span<float> scratch,
                     cudaStream_t stream) {
  const int pieces = pieces_of(places.context);
  const int room =
      std::min(scratch.size() / scratch_of_row(heads, places.context), std::size_t{INT_MAX});
  cpu::require(room > 0, "scratch for a row");
  for (int first = 0; first < q.rows; first += room) {
    const int rows = std::min(room, q.rows - first);
    const AttentionCall call{q.slice(first, rows), places.from_row(first), heads};
    const std::ptrdiff_t queries = std::ptrdiff_t{rows} * heads.n_heads;
    float* maxima = scratch.data() + queries * pieces * heads.head_dim;
    const Pieces all{scratch.data(), maxima, maxima + queries * pieces, pieces};
    with_tile(cache, heads.head_dim, [&]<bool kVectors, int kColumns, typename T>(KvRows<T> kv) {
      launch(attention_piece_kernel<kVectors, kColumns, T>,
             query_grid<AttentionTile<kColumns, T>::kQueries>(rows, heads, pieces), kBlockThreads,
             0, early(stream), AttentionInputs<T>{call, kv}, all);
      launch(combine_kernel<kColumns>, blocks_for(queries, kBlockWarps), kBlockThreads, 0,
             early(stream), all, call.places.positions, heads, out.slice(first, rows));
    });
  }
}

void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out, std::span<float> scratch,
               cudaStream_t stream) {
  if (heads.head_dim > kMaxHeadDim) return attention_naive(q, cache, places, heads, out, stream);
  if (places.context <= kAttentionPiece) {
    return attention_grouped(q, cache, places, heads, out, stream);
  }
  attention_split(q, cache, places, heads, out, scratch, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
