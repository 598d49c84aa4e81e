#pragma once
#include "kernels/cuda/attention/row_groups.h"

// One tile in the shared memory of a block, and what a warp computes from it for its queries:
// scores, weights, and sums of values. attention_tiles.h explains how lanes share the work and in
// which order they add.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kBlocksAtOnce = 3;  // per multiprocessor, as registers allow

// Numbers per copy.
template <typename T>
constexpr int kOf16Bytes = 16 / sizeof(T);

// The shared memory of a block, for heads of up to 32 * kColumns elements, with keys and values in
// the cache's type: below 48 KiB. There is room for the queries of 6 rows, which verify 5 drafts,
// with 3 heads of 128 elements or 4 heads of 64 (Llama 3.2).
template <int kColumns, typename T>
struct AttentionTile {
  static constexpr int kPositions = kColumns <= 4 ? 32 : 16;
  static constexpr int kQueries = kColumns <= 2 ? 24 : kColumns <= 4 ? 20 : 8;
  static constexpr int kWidth = kColumns * kWarp;
  using Row = T[kWidth + kOf16Bytes<T>];  // of a key or value

  __align__(16) float queries[kQueries][kWidth + kOf16Bytes<float>];
  __align__(16) Row keys[kPositions];
  __align__(16) Row values[kPositions];
  float weights[kQueries][kPositions];
  std::ptrdiff_t offsets[2][kPositions];  // of the head in keys and values: this tile's, the next's
};
constexpr std::size_t kStaticSharedBytes = 48 << 10;  // of a block without opting in for more
static_assert(sizeof(AttentionTile<2, float>) <= kStaticSharedBytes);
static_assert(sizeof(AttentionTile<4, float>) <= kStaticSharedBytes);
static_assert(sizeof(AttentionTile<8, float>) <= kStaticSharedBytes);

// Neighbouring elements of a value that a lane has, so that one load brings them.
template <int kColumns>
constexpr int kSide = kColumns < 4 ? kColumns : 4;
template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Neighbours {
  T at[kCount];
};
// The element of a head that is a lane's number c.
template <int kColumns>
__device__ int element_of(int lane, int c) {
  constexpr int kCount = kSide<kColumns>;
  return (c / kCount * kWarp + lane) * kCount + c % kCount;
}

// The softmax of one query so far; each lane has the sums of its elements.
template <int kColumns>
struct RunningSoftmax {
  float maximum = -FLT_MAX;
  float weight_sum = 0.0f;
  float total[kColumns] = {};
};

// Elements 4 i .. 4 i + 3 of a row in shared memory.
__device__ inline float4 vector4(const float* row, int i) {
  return reinterpret_cast<const float4*>(row)[i];
}
__device__ inline float4 vector4(const BFloat16* row, int i) {
  struct alignas(8) Four {
    BFloat16 at[4];
  };
  const Four four = reinterpret_cast<const Four*>(row)[i];
  return make_float4(as_float(four.at[0]), as_float(four.at[1]), as_float(four.at[2]),
                     as_float(four.at[3]));
}

// How many steps of a loop over shared memory a warp loads before it computes the first: it waits
// for shared memory once, not at each step. With more queries a step has more work, and more
// registers.
template <int kPerWarp>
constexpr int kScoreSteps = kPerWarp > 2   ? 2
                            : kPerWarp > 1 ? 4
                                           : 8;
template <int kPerWarp>
constexpr int kValueSteps = kPerWarp > 2   ? 2
                            : kPerWarp > 1 ? 4
                                           : 8;

// Adds the products of kSteps groups of four elements, from group i on.
template <int kSteps, int kPerWarp, int kColumns, typename T>
__device__ void add_products(const AttentionTile<kColumns, T>& tile, const T* key, int i,
                             float4 (&sums)[kPerWarp]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float4 k[kSteps], x[kSteps][kPerWarp];
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
    k[n] = vector4(key, i + n);
#pragma unroll
    for (int p = 0; p < kPerWarp; ++p)
      x[n][p] = vector4(tile.queries[warp + p * kBlockWarps], i + n);
  }
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
#pragma unroll
    for (int p = 0; p < kPerWarp; ++p) {
      sums[p].x = fmaf(x[n][p].x, k[n].x, sums[p].x);
      sums[p].y = fmaf(x[n][p].y, k[n].y, sums[p].y);
      sums[p].z = fmaf(x[n][p].z, k[n].z, sums[p].z);
      sums[p].w = fmaf(x[n][p].w, k[n].w, sums[p].w);
    }
  }
}

// Adds the values of kSteps positions of a tile, from j on, each with its weight. kAll: every query
// of the warp attends to all of them; otherwise, only to those below its end.
template <int kSteps, bool kAll, int kPerWarp, int kColumns, typename T>
__device__ void add_values(const AttentionTile<kColumns, T>& tile, int start, int j,
                           const int (&query_end)[kPerWarp],
                           RunningSoftmax<kColumns> (&running)[kPerWarp]) {
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  constexpr int kCount = kSide<kColumns>;
  float value[kSteps][kColumns], weight[kSteps][kPerWarp];
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
#pragma unroll
    for (int c = 0; c < kColumns; c += kCount) {
      const T* from = tile.values[j + n] + element_of<kColumns>(lane, c);
      const auto some = *reinterpret_cast<const Neighbours<T, kCount>*>(from);
#pragma unroll
      for (int i = 0; i < kCount; ++i) value[n][c + i] = as_float(some.at[i]);
    }
#pragma unroll
    for (int p = 0; p < kPerWarp; ++p) weight[n][p] = tile.weights[warp + p * kBlockWarps][j + n];
  }
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
#pragma unroll
    for (int p = 0; p < kPerWarp; ++p) {
      if (!kAll && start + j + n >= query_end[p]) continue;
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        running[p].total[c] = fmaf(weight[n][p], value[n][c], running[p].total[c]);
    }
  }
}

// Adds the values of all positions of a tile, in order. all_attend: as kAll.
template <int kPerWarp, int kColumns, typename T>
__device__ void add_tile(const AttentionTile<kColumns, T>& tile, int start, int count,
                         bool all_attend, const int (&query_end)[kPerWarp],
                         RunningSoftmax<kColumns> (&running)[kPerWarp]) {
  constexpr int kSteps = kValueSteps<kPerWarp>;
  int j = 0;
  if (all_attend) {
#pragma unroll 1
    for (; j + kSteps <= count; j += kSteps)
      add_values<kSteps, true>(tile, start, j, query_end, running);
  }
#pragma unroll 1
  for (; j < count; ++j) add_values<1, false>(tile, start, j, query_end, running);
}

// Scores of this lane's position for the warp's queries, even if it is masked for them.
template <int kPerWarp, int kColumns, typename T>
__device__ void score_tile(const AttentionTile<kColumns, T>& tile, int head_dim,
                           float (&scores)[kPerWarp]) {
  constexpr int kSteps = kScoreSteps<kPerWarp>;
  const T* key = tile.keys[static_cast<int>(threadIdx.x) % tile.kPositions];
  float4 sums[kPerWarp] = {};
  int i = 0;
#pragma unroll 1
  for (; 4 * (i + kSteps - 1) < head_dim; i += kSteps) add_products<kSteps>(tile, key, i, sums);
#pragma unroll 1
  for (; 4 * i < head_dim; ++i) add_products<1>(tile, key, i, sums);
  for (int p = 0; p < kPerWarp; ++p) {
    scores[p] = ((sums[p].x + sums[p].y) + (sums[p].z + sums[p].w)) * score_scale(head_dim);
  }
}

// Adds one score per lane to the running softmax. Returns this lane's weight: 0 if it is masked.
template <int kColumns>
__device__ float soften(float score, bool visible, RunningSoftmax<kColumns>& running) {
  const float maximum =
      fmaxf(running.maximum, warp_reduce(visible ? score : -FLT_MAX, MaxNumber()));
  const float weight = visible ? expf(score - maximum) : 0.0f;
  const float rescale = expf(running.maximum - maximum);
  running.maximum = maximum;
  running.weight_sum = fmaf(running.weight_sum, rescale, warp_sum(weight));
  for (float& total : running.total) total *= rescale;
  return weight;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
