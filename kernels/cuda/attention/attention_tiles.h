#pragma once
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/attention/attention_sums.h"

// Shared by steps 3 and 4 of attention: a block computes all queries that read the same keys and
// values. A query is a row and a query head. A block has the query heads of one key and value head
// (grouped-query attention) for neighbouring rows of one sequence, at most 24 queries.
//
//   for each tile of 32 positions:
//     all threads   wait for its keys, and request its values: 16 bytes per copy into shared
//                   memory, once for all queries
//     each warp     takes its own queries, every fourth:
//       lane = position      score = q . k: all of them use the key in shared memory
//       warp                 weights = exp(score - maximum so far)
//     all threads   wait for the values, and request the next tile's keys
//     each warp
//       lane = element of D  sums = sums * rescale + weights V
//
// So keys or values are in flight all the time, with the memory of a single tile.
//
// Shared memory: each lane reads its own key, all at the same element. Rows are padded by 16 bytes,
// so that 8 lanes, which read 16 bytes each in one access, use different banks; without the
// padding, all would use the same banks. A lane reads bf16 in accesses of 8 bytes, as many as it
// makes of 16 bytes for floats. All lanes read queries and weights at one address, and values side
// by side.
//
// The order of operations of a query does not depend on the other queries of its block. Each chain
// of products runs over d = i, i + 4, ... for i = 0 .. 3, and their sum is (0 + 1) + (2 + 3). A
// tree across lanes adds the weights of a tile. Values are added position by position. Masked
// positions are skipped, not added with a weight of 0, because they may hold NaN.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

struct AttentionCall {
  ConstDeviceRows q;  // [T, H * D]
  RowPlaces places;
  HeadShape heads;
  RowGroups groups;
};
template <typename T>
struct AttentionInputs : AttentionCall {
  KvRows<T> cache;
};

// The queries of a block. Query i is head first_head + i % heads of row first_row + i / heads.
struct BlockQueries {
  int first_row, rows;
  int first_head, heads;
  int kv_head;
  int last;  // the largest position

  __device__ int count() const { return rows * heads; }
  __device__ int row(int i) const { return first_row + i / heads; }
  __device__ int head(int i) const { return first_head + i % heads; }
};

// Finds the block's queries: those of a group of rows (row_groups.h), for one part of the query
// heads that share a key and value head. Returns 0 rows if the block has nothing to do.
template <int kMaxQueries>
__device__ BlockQueries queries_of_block(const AttentionCall& in) {
  const int group = in.heads.n_heads / in.heads.n_kv_heads;
  const int parts = (group + kMaxQueries - 1) / kMaxQueries;  // more than 1 for large groups
  const int thread = threadIdx.x, x = blockIdx.x, y = blockIdx.y, part = y % parts;
  BlockQueries block = {};
  block.kv_head = y / parts;
  block.first_head = block.kv_head * group + part * kMaxQueries;
  block.heads = min(kMaxQueries, group - part * kMaxQueries);
  block.first_row = in.groups.first_row(x, in.places);

  const std::int32_t* starts = in.places.table_starts;
  const int t = block.first_row, end = min(in.q.rows, in.groups.end(x, t));
  if (!in.groups.begins_at(x, t, starts) || t >= end) return block;
  const int mine = t + thread % kWarp;
  const bool together = mine < end && starts[mine] == starts[t];
  const unsigned others = ~__ballot_sync(kAllLanes, together);
  block.rows = __ffs(others) - 1;  // at most 24, so some bit is set
  block.last = warp_max(mine < t + block.rows ? in.places.positions[mine] : 0);
  return block;
}

// A block's work on one tile of positions from `start` on: for all its queries or, in their tails,
// for those of one row.
struct Visit {
  int start;
  int row;  // of the block; -1: all
};

// A block's visits that cover positions begin .. end - 1, in order for every query.
class Visits {
 public:
  __device__ Visits(const AttentionCall& in, const BlockQueries& block, int begin, int end,
                    int tile)
      : positions_(in.places.positions + block.first_row), end_(end), tile_(tile) {
    const int tail_first =
        in.places.tail_firsts == nullptr ? end : in.places.tail_firsts[block.first_row];
    if (tail_first < end) {
      shared_end_ = begin + max(0, tail_first - begin) / tile * tile;
      rows_ = block.rows;
    } else {
      shared_end_ = end;
      rows_ = 0;
    }
    first_ = after({begin - tile, -1});
  }

  __device__ Visit first() const { return first_; }
  __device__ bool has(Visit visit) const { return visit.row < rows_; }
  __device__ bool any_tails() const { return rows_ > 0; }
  __device__ Visit after(Visit visit) const {
    visit.start += tile_;
    if (visit.start < end_of(visit.row)) return visit;
    do {
      ++visit.row;
    } while (visit.row < rows_ && end_of(visit.row) <= shared_end_);
    return {shared_end_, visit.row};
  }
  // The number of positions in a visit.
  __device__ int count(Visit visit) const { return min(tile_, end_of(visit.row) - visit.start); }

 private:
  __device__ int end_of(int row) const {
    return row < 0 ? shared_end_ : min(end_, positions_[row] + 1);
  }

  const std::int32_t* positions_;  // of the block's rows
  int end_, tile_;
  int shared_end_;  // below it, all rows read the same slots
  int rows_;        // that have tails
  Visit first_;
};

// [snippet load-tile]
// Requests the keys, or the values, of a tile's positions: from the layer's `from`, at each
// position's offset, into the tile's `rows`. Past the end of the context, repeats the last
// position, because a branch would delay the requests.
template <bool kVectors, int kColumns, typename T>
__device__ void load_rows(const T* from, const std::ptrdiff_t* offsets, int count, int head_dim,
                          typename AttentionTile<kColumns, T>::Row* rows, AsyncCopies& copies) {
  constexpr int kAtOnce = kOf16Bytes<T>, kThreadsOfRow = kColumns * kWarp / kAtOnce;
  constexpr int kStep = kBlockThreads / kThreadsOfRow;
  const int thread = threadIdx.x, first = thread / kThreadsOfRow;
  const int d = kAtOnce * (thread % kThreadsOfRow);
  if (d >= head_dim) return;
#pragma unroll
  for (int n = 0; n < AttentionTile<kColumns, T>::kPositions / kStep; ++n) {
    T* to = rows[first + n * kStep] + d;
    const T* row = from + offsets[min(first + n * kStep, count - 1)] + d;
    if constexpr (kVectors) {
      copies.copy16(to, row);
    } else {
      for (int i = 0; i < kAtOnce; i += kAtOnce / 4)
        copies.copy4(to + i, row + i, d + i < head_dim);
    }
  }
}
// [end snippet load-tile]

// Computes the block's queries over positions begin .. end - 1, kPerWarp per warp, and calls
// write(query, its RunningSoftmax) for each query that attends to at least one of the positions.
template <int kPerWarp, bool kVectors, int kColumns, typename T, typename Write>
__device__ void attend(const AttentionInputs<T>& in, const BlockQueries& block, int begin, int end,
                       AttentionTile<kColumns, T>& tile, const Write& write) {
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  const int D = in.heads.head_dim;
  const Visits visits(in, block, begin, end, tile.kPositions);
  const auto look_up = [&](Visit visit, std::ptrdiff_t* offsets) {
    const int i = threadIdx.x;
    if (!visits.has(visit) || i >= visits.count(visit)) return;
    const int t = block.first_row + max(0, visit.row);
    offsets[i] = offset_of_row(in.places, t, visit.start + i, in.heads) + block.kv_head * D;
  };
  AsyncCopies copies;
  const auto load = [&](const T* from, Visit visit, const std::ptrdiff_t* offsets,
                        typename AttentionTile<kColumns, T>::Row* rows) {
    load_rows<kVectors, kColumns>(from, offsets, visits.count(visit), D, rows, copies);
  };

  Visit visit = visits.first();
  look_up(visit, tile.offsets[0]);
  __syncthreads();  // the first offsets are written
  load(in.cache.keys, visit, tile.offsets[0], tile.keys);

  RunningSoftmax<kColumns> running[kPerWarp];
  int query_end[kPerWarp];                // each query of the warp attends to positions below it
  const auto set_active = [&](int row) {  // the queries of a row; -1: all
    for (int p = 0; p < kPerWarp; ++p) {
      const int i = warp + p * kBlockWarps;
      const bool active = i < block.count() && (row < 0 || row == block.row(i) - block.first_row);
      query_end[p] = active ? min(end, in.places.positions[block.row(i)] + 1) : 0;
    }
  };
  const auto all_attend_below = [&](int position) {
    bool all = true;
    for (const int query : query_end) all &= query == 0 || position <= query;
    return all;
  };
  set_active(-1);
  for (int i = warp; i < block.count(); i += kBlockWarps) {
    const float* query = row_of(in.q, block.row(i)) + block.head(i) * D;
    for (int d = lane; d < (D + 3) / 4 * 4; d += kWarp)
      tile.queries[i][d] = d < D ? query[d] : 0.0f;
  }
  int now = 0;  // of the two lists of offsets
  for (Visit next; visits.has(visit); visit = next, now = 1 - now) {
    const int start = visit.start, count = visits.count(visit);
    next = visits.after(visit);
    copies.wait();
    __syncthreads();  // keys and queries have arrived, and the previous values have been read
    load(in.cache.values, visit, tile.offsets[now], tile.values);  // while scores are computed
    look_up(next, tile.offsets[1 - now]);
    if (visit.row >= 0) set_active(visit.row);

    // [snippet attention-tile]
    float scores[kPerWarp];
    score_tile(tile, D, scores);
    for (int p = 0; p < kPerWarp; ++p) {
      const bool visible = lane < tile.kPositions && start + lane < query_end[p];
      const float weight = soften(scores[p], visible, running[p]);
      if (lane < tile.kPositions) tile.weights[warp + p * kBlockWarps][lane] = weight;
    }
    copies.wait();
    __syncthreads();  // values, weights and next offsets have arrived, and keys have been read
    if (visits.has(next)) load(in.cache.keys, next, tile.offsets[1 - now], tile.keys);  // meanwhile
    const bool all_attend = visit.row < 0 && all_attend_below(start + count);
    add_tile(tile, start, count, all_attend, query_end, running);
    // [end snippet attention-tile]
  }
  if (visits.any_tails()) set_active(-1);
  for (int p = 0; p < kPerWarp; ++p) {
    if (begin < query_end[p]) write(warp + p * kBlockWarps, running[p]);
  }
}

// Picks the smallest kPerWarp that fits, so that warps with few queries do not compute for more.
template <int kMostPerWarp, bool kVectors, int kColumns, typename T, typename Write>
__device__ void attend_fitting(const AttentionInputs<T>& in, const BlockQueries& block, int begin,
                               int end, AttentionTile<kColumns, T>& tile, const Write& write) {
  if constexpr (kMostPerWarp > 1) {
    if (block.count() <= kMostPerWarp / 2 * kBlockWarps) {
      attend_fitting<kMostPerWarp / 2, kVectors>(in, block, begin, end, tile, write);
      return;
    }
  }
  attend<kMostPerWarp, kVectors>(in, block, begin, end, tile, write);
}

// attend() for any number of queries. Threads per block: kBlockThreads.
template <bool kVectors, int kColumns, typename T, typename Write>
__device__ void attend(const AttentionInputs<T>& in, const BlockQueries& block, int begin, int end,
                       const Write& write) {
  using Tile = AttentionTile<kColumns, T>;
  __shared__ Tile tile;
  attend_fitting<Tile::kQueries / kBlockWarps, kVectors>(in, block, begin, end, tile, write);
}

// Calls job.operator()<kVectors, kColumns>(KvRows<T>) with the arguments that fit the cache and the
// heads. If a head's size is a multiple of 16 bytes, its rows are aligned to 16 bytes. The tile,
// and with it the order of sums, depends only on the head's size.
template <typename Job>
void with_tile(const KvLayer& cache, int head_dim, const Job& job) {
  with_rows(cache, [&]<typename T>(KvRows<T> rows) {
    const auto with_columns = [&]<bool kVectors>() {
      if (head_dim <= 64) return job.template operator()<kVectors, 2>(rows);
      if (head_dim <= 128) return job.template operator()<kVectors, 4>(rows);
      job.template operator()<kVectors, 8>(rows);
    };
    if (head_dim % 4 != 0) return job.template operator()<false, 8>(rows);
    if constexpr (kOf16Bytes < T >> 4) {
      if (head_dim % kOf16Bytes<T> != 0) return with_columns.template operator()<false>();
    }
    with_columns.template operator()<true>();
  });
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
