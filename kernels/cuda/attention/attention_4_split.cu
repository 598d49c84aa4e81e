// Step 3 with the context in pieces of kAttentionPiece positions, one block each (Dao et al. 2023,
// "Flash-Decoding"). The block that finishes last for a group of queries combines their pieces.
// Pieces begin at multiples of their size in every call, so a query's pieces and their order are
// always the same.
//
// Why 128: at one row and 4,096 cached positions, 8 key and value heads make 8 * 32 = 256 blocks,
// about two for each multiprocessor of an H100, so one may load a tile of 32 KiB (D = 128) while
// another computes. Pieces of 64 would double the intermediate data. That is (D + 2) floats per
// query and piece, against 2 * 128 * D floats of keys and values per key and value head and piece:
// 1 / 64 with 4 query heads per group and one row.
//
// The last block gives each warp a query at a time, and a lane has 64 loads in flight. A second
// kernel with a block per query would spread this over the GPU, but it would cost a launch, about a
// microsecond. Which is better, by estimates: with one row of Llama 3.2, a warp has one query, and
// up to 32 pieces take two to four waits for L2 either way, so the launch is saved. With many
// groups, many multiprocessors combine at the same time. Only for many queries and many pieces in
// few groups is the last block slower: for 18 queries of 128 elements and 32 pieces it reads 300
// KB, 2.5 microseconds at 64 bytes per clock.
#include <algorithm>
#include <climits>

#include "kernels/cpu/require.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/last_block.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr std::size_t kMaxScratch = std::size_t{64} << 20 >> 2;  // floats: 64 MiB

// The results of the pieces of each query, [rows * H, count].
struct Pieces {
  float* totals;          // [rows * H, count, D], not yet divided by the sum of weights
  float* maxima;          // [rows * H, count]
  float* weight_sums;     // [rows * H, count]
  int count;              // of a query that reaches the end of the context
  unsigned* blocks_done;  // [rows * H], of which a group has that of its first query

  __device__ std::ptrdiff_t index(int query, int piece) const {
    return std::ptrdiff_t{query} * count + piece;
  }
};

int pieces_of(int context) { return (context + kAttentionPiece - 1) / kAttentionPiece; }

std::size_t scratch_of_row(const HeadShape& heads, int context) {
  return std::ptrdiff_t{heads.n_heads} * pieces_of(context) * (heads.head_dim + 2);
}

// Adds a query's pieces in order, by one warp, scaled to their common maximum. Pieces from `count`
// on, which are past the query's position, were never written. out: [D]
template <int kColumns>
__device__ void combine(const Pieces& pieces, int query, int count, int D, float* out) {
  constexpr int kTogether = 64 / kColumns;  // pieces whose loads do not wait for each other
  static_assert(kTogether <= kWarp);
  const int lane = threadIdx.x % kWarp, last = count - 1;
  const std::ptrdiff_t first_piece = pieces.index(query, 0);
  const float *maxima = pieces.maxima + first_piece,
              *weight_sums = pieces.weight_sums + first_piece;
  float largest = -FLT_MAX;
  for (int i = lane; i < count; i += kWarp) largest = fmaxf(largest, __ldcg(maxima + i));
  const float maximum = warp_reduce(largest, MaxNumber());

  float weight_sum = 0.0f, total[kColumns];
  for (float& sum : total) sum = -0.0f;  // adding -0 changes no bit
  for (int first = 0; first < count; first += kTogether) {
    const int mine = min(first + lane, last);  // past the end, repeat the last piece
    const float own_maximum = __ldcg(maxima + mine), own_weight_sum = __ldcg(weight_sums + mine);
    float of_piece[kTogether][kColumns];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float* totals = pieces.totals + (first_piece + min(first + i, last)) * D;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {  // past the end, repeat the last element
        of_piece[i][c] = __ldcg(totals + min(lane + c * kWarp, D - 1));
      }
    }
    const float own_rescale = expf(own_maximum - maximum);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float rescale = __shfl_sync(kAllLanes, own_rescale, i);
      const float weights = __shfl_sync(kAllLanes, own_weight_sum, i);
      const bool counts = first + i < count;
      weight_sum = counts ? fmaf(weights, rescale, weight_sum) : weight_sum;
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        total[c] = counts ? fmaf(of_piece[i][c], rescale, total[c]) : total[c];
    }
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (lane + c * kWarp < D) out[lane + c * kWarp] = total[c] / weight_sum;
}

template <bool kVectors, int kColumns, typename T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce)
    attention_piece_kernel(AttentionInputs<T> in, Pieces pieces, DeviceRows out) {
  await_kernels_before();
  const BlockQueries block = queries_of_block<AttentionTile<kColumns, T>::kQueries>(in);
  const int piece = blockIdx.z, begin = piece * kAttentionPiece;
  if (block.rows == 0 || begin > block.last) return;
  const int thread = threadIdx.x, lane = thread % kWarp, D = in.heads.head_dim;
  const auto query = [&](int i) { return block.row(i) * in.heads.n_heads + block.head(i); };
  const auto write = [&](int i, const RunningSoftmax<kColumns>& softmax) {
    const std::ptrdiff_t at = pieces.index(query(i), piece);
    for (int c = 0; c < kColumns; ++c) {
      const int d = element_of<kColumns>(lane, c);
      if (d < D) pieces.totals[at * D + d] = softmax.total[c];
    }
    if (lane != 0) return;
    pieces.maxima[at] = softmax.maximum;
    pieces.weight_sums[at] = softmax.weight_sum;
  };
  attend<kVectors, kColumns>(in, block, begin, min(begin + kAttentionPiece, block.last + 1), write);

  const auto pieces_up_to = [](int position) { return position / kAttentionPiece + 1; };
  if (!is_last_block(pieces.blocks_done[query(0)], pieces_up_to(block.last))) return;
  for (int i = thread / kWarp; i < block.count(); i += kBlockWarps) {
    combine<kColumns>(pieces, query(i), pieces_up_to(in.places.positions[block.row(i)]), D,
                      row_of(out, block.row(i)) + block.head(i) * D);
  }
}

}  // namespace

std::size_t attention_scratch(int rows, const HeadShape& heads, int context) {
  const std::size_t row = scratch_of_row(heads, context);
  return std::max(row, std::min(rows * row, kMaxScratch / row * row));
}

void attention_split(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                     const HeadShape& heads, DeviceRows out, const AttentionScratch& scratch,
                     cudaStream_t stream, int most_rows) {
  const int pieces = pieces_of(places.context);
  const int room = std::min({scratch.pieces.size() / scratch_of_row(heads, places.context),
                             scratch.blocks_done.size() / heads.n_heads, std::size_t{INT_MAX}});
  cpu::require(room > 0, "scratch for a row");
  for (int first = 0; first < q.rows; first += room) {
    const int rows = std::min(room, q.rows - first);
    const ConstDeviceRows queries = q.slice(first, rows);
    const RowPlaces of_queries = rows == q.rows ? places : places.from_row(first);
    const std::ptrdiff_t results = std::ptrdiff_t{rows} * heads.n_heads * pieces;
    float* maxima = scratch.pieces.data() + results * heads.head_dim;
    const Pieces all{scratch.pieces.data(), maxima, maxima + results, pieces,
                     scratch.blocks_done.data()};
    with_tile(cache, heads.head_dim, [&]<bool kVectors, int kColumns, typename T>(KvRows<T> kv) {
      const RowGroups groups(AttentionTile<kColumns, T>::kQueries, queries, of_queries, heads,
                             pieces, most_rows);
      launch(attention_piece_kernel<kVectors, kColumns, T>, groups.grid(), kBlockThreads, 0,
             early(stream), AttentionInputs<T>{{queries, of_queries, heads, groups}, kv}, all,
             out.slice(first, rows));
    });
  }
}

void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
               const HeadShape& heads, DeviceRows out, const AttentionScratch& scratch,
               cudaStream_t stream) {
  if (heads.head_dim > kMaxHeadDim) return attention_naive(q, cache, places, heads, out, stream);
  if (places.context <= kAttentionPiece) {
    return attention_grouped(q, cache, places, heads, out, stream);
  }
  attention_split(q, cache, places, heads, out, scratch, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
