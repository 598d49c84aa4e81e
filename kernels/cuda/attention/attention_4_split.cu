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
      const int d = element_of<kColumns>(lane, c);
      if (d < D) pieces.totals[at * D + d] = softmax.total[c];
    }
    if (lane != 0) return;
    pieces.maxima[at] = softmax.maximum;
    pieces.weight_sums[at] = softmax.weight_sum;
  };
  attend<kVectors, kColumns>(in, block, begin, min(begin + kAttentionPiece, block.last + 1), write);
}

// A block for each query, and a thread for each of its elements: adds the query's pieces in order,
// scaled to their common maximum. Pieces past the query's position were never written. Grid: rows,
// heads.
constexpr int kTogether = 8;  // pieces whose loads do not wait for each other
__global__ void __launch_bounds__(kMaxHeadDim)
    combine_kernel(Pieces pieces, const std::int32_t* positions, HeadShape heads, DeviceRows out) {
  await_kernels_before();
  const int d = threadIdx.x, t = blockIdx.x, h = blockIdx.y, D = heads.head_dim;
  const int query = t * heads.n_heads + h, count = positions[t] / kAttentionPiece + 1;
  float largest = -FLT_MAX;
  for (int piece = d % kWarp; piece < count; piece += kWarp) {
    largest = fmaxf(largest, pieces.maxima[pieces.index(query, piece)]);
  }
  const float maximum = warp_reduce(largest, MaxNumber());

  const float* const totals = pieces.totals + min(d, D - 1);  // past the end, repeat the last one
  float weight_sum = 0.0f, total = -0.0f;                     // adding -0 changes no bit
  for (int first = 0; first < count; first += kTogether) {
    float maxima[kTogether], weight_sums[kTogether], of_piece[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {  // past the end, repeat the last piece
      const std::ptrdiff_t at = pieces.index(query, min(first + i, count - 1));
      maxima[i] = pieces.maxima[at];
      weight_sums[i] = pieces.weight_sums[at];
      of_piece[i] = totals[at * D];
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const bool counts = first + i < count;
      const float rescale = expf(maxima[i] - maximum);
      weight_sum = counts ? fmaf(weight_sums[i], rescale, weight_sum) : weight_sum;
      total = counts ? fmaf(of_piece[i], rescale, total) : total;
    }
  }
  if (d < D) (row_of(out, t) + h * D)[d] = total / weight_sum;
}

}  // namespace

std::size_t attention_scratch(int rows, const HeadShape& heads, int context) {
  const std::size_t row = scratch_of_row(heads, context);
  return std::max(row, std::min(rows * row, kMaxScratch / row * row));
}

void attention_split(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, std::span<float> scratch,
                     cudaStream_t stream, int most_rows) {
  const int pieces = pieces_of(places.context);
  const int room =
      std::min(scratch.size() / scratch_of_row(heads, places.context), std::size_t{INT_MAX});
  cpu::require(room > 0, "scratch for a row");
  for (int first = 0; first < q.rows; first += room) {
    const int rows = std::min(room, q.rows - first);
    const ConstDeviceRows queries = q.slice(first, rows);
    const RowPlaces of_queries = rows == q.rows ? places : places.from_row(first);
    const std::ptrdiff_t results = std::ptrdiff_t{rows} * heads.n_heads * pieces;
    float* maxima = scratch.data() + results * heads.head_dim;
    const Pieces all{scratch.data(), maxima, maxima + results, pieces};
    with_tile(cache, heads.head_dim, [&]<bool kVectors, int kColumns, typename T>(KvRows<T> kv) {
      const RowGroups groups(AttentionTile<kColumns, T>::kQueries, queries, of_queries, heads,
                             pieces, most_rows);
      launch(attention_piece_kernel<kVectors, kColumns, T>, groups.grid(), kBlockThreads, 0,
             early(stream), AttentionInputs<T>{{queries, of_queries, heads, groups}, kv}, all);
    });
    launch(combine_kernel, dim3(rows, heads.n_heads), blocks_for(heads.head_dim, kWarp) * kWarp, 0,
           early(stream), all, of_queries.positions, heads, out.slice(first, rows));
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
