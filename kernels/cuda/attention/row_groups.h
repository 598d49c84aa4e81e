#pragma once
#include <algorithm>
#include <cstddef>

#include "kernels/cuda/attention/attention_code.h"
#include "kernels/cuda/device_limits.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kBlockWarps = 4;
constexpr int kBlockThreads = kBlockWarps * kWarp;

// How the rows of a call are divided among blocks. A group of rows ends at each multiple of
// most_rows, and where another sequence's rows begin. So a group begins at each multiple, and at
// the beginning of each run of one sequence's rows. Block x of the grid has the group at the x-th
// multiple or, after the last multiple, at the beginning of a run; it has nothing to do if a run
// begins at a multiple. If the runs are unknown, it looks at each row for the beginning of one.
//
// If a sequence's rows cross a multiple, two blocks read the same keys at about the same time, and
// the second finds them in the L2 cache.
class RowGroups {
 public:
  // max_queries: that a block has room for. pieces: of the context, each with its own blocks.
  // most_rows: of a group, if there is room; or kRowsByBlocks.
  RowGroups(int max_queries, ConstDeviceRows q, const RowPlaces& places, const HeadShape& heads,
            int pieces, int most_rows)
      : rows_(q.rows), runs_(places.runs > 0 ? places.runs : q.rows), pieces_(pieces) {
    const int group = heads.n_heads / heads.n_kv_heads;
    heads_ = heads.n_kv_heads * static_cast<int>(blocks_for(group, max_queries));
    const int room = std::max(1, max_queries / group);
    set_most_rows(most_rows == kRowsByBlocks ? room : std::min(most_rows, room));
    if (most_rows != kRowsByBlocks) return;
    // Fewer rows save time only where each warp gets fewer queries: the steps of attend_fitting().
    const std::ptrdiff_t few = std::ptrdiff_t{kFewBlocks} * device_limits().multiprocessors;
    for (int per_warp = max_queries / kBlockWarps / 2; per_warp > 0; per_warp /= 2) {
      const int fewer = std::max(1, per_warp * kBlockWarps / group);
      if (blocks(fewer) <= few) set_most_rows(fewer);
    }
  }

  dim3 grid() const { return dim3(multiples_ + runs_ - 1, heads_, pieces_); }

  __device__ int first_row(int x, const RowPlaces& places) const {
    if (x < multiples_) return x * most_rows_;
    const int run = x - multiples_ + 1;
    return places.runs > 0 ? places.run_starts[run] : run;
  }
  // Whether block x's group begins at its first row t; else another block has that row.
  __device__ bool begins_at(int x, int t, const std::int32_t* table_starts) const {
    return x < multiples_ || (t % most_rows_ != 0 && table_starts[t - 1] != table_starts[t]);
  }
  // The next multiple after block x's first row t.
  __device__ int end(int x, int t) const {
    return t + most_rows_ - (x < multiples_ ? 0 : t % most_rows_);
  }

 private:
  // Per multiprocessor. With one query per warp, a block's warps wait for most of their clocks, so
  // two blocks hardly delay each other.
  static constexpr int kFewBlocks = 2;

  void set_most_rows(int most_rows) {
    most_rows_ = most_rows;
    multiples_ = static_cast<int>(blocks_for(rows_, most_rows));
  }
  std::ptrdiff_t blocks(int most_rows) const {
    return (std::ptrdiff_t{blocks_for(rows_, most_rows)} + runs_ - 1) * heads_ * pieces_;
  }

  int rows_, runs_, pieces_;
  int heads_;  // parts of query heads, each with its own blocks
  int most_rows_, multiples_;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
