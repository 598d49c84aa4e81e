// Finds the last token that top-k or top-p keeps, without a sort, with several blocks per row. The
// first kernel makes a histogram of the scores' distances below the peak, in 1,024 bins, and finds
// the bin of the last token. The second lists that bin's tokens, which are few, and searches among
// them. All sums are of integers, so their order does not matter.
#include <cfloat>

#include "kernels/cuda/sampling/sampling_search.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// A token as a filter reads it; top-k reads no weight.
struct Token {
  float score;
  double weight;
};

// A row as a filter reads it.
struct FilteredRow {
  __device__ FilteredRow(const Rows& rows, Filter of)
      : filter(of),
        task(rows.tasks[row_number()]),
        scores(scores_of(rows)),
        peak(score_of(rows.states[row_number()].peak)) {}

  __device__ Token token(int i) const {
    return {scores[i], filter == Filter::kTopK ? 0 : task.probs[i]};
  }
  // What a token adds to the sum: 1 for top-k, its weight for top-p.
  __device__ unsigned long long units(const Token& token) const {
    if (filter == Filter::kTopK) return token.score >= -FLT_MAX ? 1 : 0;
    return rint(token.weight / kWeightUnit);
  }
  // 32 bins per unit of a score (top-k), or of x in e^x (top-p). For top-p, tokens with a nonzero
  // count are less than 32 units below the peak, because 2^-45 = e^-31.2; for top-k, most are.
  __device__ int bin(const Token& token) const {
    const double below = (peak - token.score) * (filter == Filter::kTopK ? 1 : task.scale) * 32;
    return below < kBins - 1 ? static_cast<int>(below) : kBins - 1;
  }

  Filter filter;
  RowTask task;
  const float* scores;
  double peak;
};

__device__ bool has(Filter filter, const Rows& rows) {
  const RowTask& row = rows.tasks[row_number()];
  return has_distribution(rows.states[row_number()]) &&
         (filter == Filter::kTopK ? has_top_k(row, rows.V) : has_top_p(row));
}

__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    bins_kernel(Rows rows, Filter filter) {
  if (!has(filter, rows)) return;
  const FilteredRow row(rows, filter);
  RowState& state = rows.states[row_number()];
  unsigned long long* all_bins = rows.scratch.bins + std::ptrdiff_t{row_number()} * kBins;
  __shared__ unsigned long long bins[kBins];
  for (int b = thread(); b < kBins; b += threads()) bins[b] = 0;
  __syncthreads();
  const auto load = [&](int i) { return row.token(i); };
  for_loaded_tokens(own_segment(rows.V), load, [&](int, const Token& token) {
    const unsigned long long units = row.units(token);
    if (units > 0) atomicAdd(bins + row.bin(token), units);
  });
  __syncthreads();
  for (int b = thread(); b < kBins; b += threads()) {
    if (bins[b] > 0) atomicAdd(all_bins + b, bins[b]);
  }
  if (!is_last_block(state.blocks_done, gridDim.x)) return;
  for (int b = thread(); b < kBins; b += threads()) bins[b] = atomicExch(all_bins + b, 0ull);
  __syncthreads();
  if (thread() >= kWarp) return;
  const unsigned long long goal = filter == Filter::kTopK ? row.task.top_k : state.goal;
  const auto place = place_above(goal - 1, 0ull, 0, kBins, [&](int b) { return bins[b]; });
  if (thread() != 0) return;
  state.bin = place.index;
  state.rest = (place.above ? goal : place.total) - place.before;  // a goal above the total is cut
  state.candidates = 0;
}

// The largest key, of n different ones, such that the units of this key and all larger ones reach
// the goal.
//
// This replaces a sort: halve the range of keys, add the units in its upper half, and continue in
// the half that contains the goal. The range is always cut to existing keys, so it soon has only
// one. REQUIRES: the units of all keys reach the goal; no key is larger than `highest`.
template <typename Key, typename Units>
__device__ unsigned long long key_that_reaches(unsigned long long goal, int n,
                                               unsigned long long highest, const Key& key,
                                               const Units& units) {
  unsigned long long low = 0, high = highest;
  // [snippet key-that-reaches]
  while (low < high) {
    const unsigned long long middle = high - (high - low) / 2;
    unsigned long long below = low, from = high;  // the next keys on both sides of the cut
    unsigned long long sum = 0;
    for (int j = thread(); j < n; j += threads()) {
      const unsigned long long k = key(j);
      if (k >= middle) {
        sum += units(j);
        if (k < from) from = k;
      } else if (k > below) {
        below = k;
      }
    }
    if (block_tree_sum(sum) >= goal) {
      low = block_tree_min(from);
    } else {
      high = block_tree_max(below);
    }
  }
  // [end snippet key-that-reaches]
  return low;
}

__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    last_token_kernel(Rows rows, Filter filter) {
  if (!has(filter, rows)) return;
  const FilteredRow row(rows, filter);
  RowState& state = rows.states[row_number()];
  std::int32_t* candidates = rows.scratch.candidates + std::ptrdiff_t{row_number()} * rows.V;
  const int bin = state.bin;
  const auto load = [&](int i) { return row.token(i); };
  for_loaded_tokens(own_segment(rows.V), load, [&](int i, const Token& token) {
    const bool listed = row.units(token) > 0 && row.bin(token) == bin;
    if (listed) candidates[atomicAdd(&state.candidates, 1)] = i;
  });
  if (!is_last_block(state.blocks_done, gridDim.x)) return;
  const auto candidate = [&](int j) { return __ldcg(candidates + j); };
  const auto key = [&](int j) { return key_of(row.scores[candidate(j)], candidate(j)); };
  const unsigned long long last =
      key_that_reaches(state.rest, atomicAdd(&state.candidates, 0), state.peak, key,
                       [&](int j) { return row.units(row.token(candidate(j))); });
  // Top-k keeps all tokens with equal scores.
  if (thread() == 0) state.last = filter == Filter::kTopK ? last >> 32 << 32 : last;
}

}  // namespace

void find_last(const Rows& rows, Filter filter, cudaStream_t stream) {
  launch_segments(bins_kernel, rows.V, rows.count, stream, rows, filter);
  launch_segments(last_token_kernel, rows.V, rows.count, stream, rows, filter);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
