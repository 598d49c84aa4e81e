// From rows of logits to distributions and tokens, with several blocks per row: the steps, formulas
// and bits of common/sampling/distribution.cpp.
#include "kernels/cuda/sampling/sampling_search.h"
#include "kernels/cuda/sampling/sampling_segments.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// Writes the scores (logits, after the penalty for tokens of the history) and finds the largest.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks) scores_kernel(Rows rows) {
  const RowTask row = rows.tasks[row_number()];
  float* scores = scores_of(rows);
  const Segment segment = own_segment(rows.V);
  const auto logit_of = [&](int i) { return row.logits[min(i, row.width - 1)]; };
  for_loaded_tokens(segment, logit_of, [&](int i, float logit) {
    scores[i] = i < row.width ? logit : -static_cast<float>(kInfinity);
  });
  __syncthreads();
  const int first = blockIdx.x * threads() / kWarp * kSegment;
  const int last = min(first + threads() / kWarp * kSegment, row.width);
  for (int h = thread(); h < row.history_size + row.path_size; h += threads()) {
    const int token = h < row.history_size ? row.history[h] : row.path[h - row.history_size];
    if (token < first || token >= last) continue;
    const double logit = row.logits[token], penalty = row.repetition_penalty;
    // Atomic, because threads with the same token write the same value at the same time.
    atomicExch(scores + token, logit < 0 ? logit * penalty : logit / penalty);
  }
  __syncthreads();
  unsigned long long peak = 0;
  for_loaded_tokens(
      segment, [&](int i) { return scores[i]; },
      [&](int i, float score) { peak = Max()(peak, key_of(score, i)); });
  peak = block_max(peak);
  if (thread() == 0) atomicMax(&rows.states[row_number()].peak, peak);
}

// Stores the sums of this block's segments; the row's last block adds them up.
__device__ void finish_sums(const Rows& rows, double sum, const Segment& segment) {
  double* sums = sums_of(rows);
  RowState& state = rows.states[row_number()];
  if (segment.first < rows.V && lane() == 0) sums[segment.index] = sum;
  if (!is_last_block(state.blocks_done, gridDim.x) || thread() >= kWarp) return;
  const double total = total_of(sums, rows.V);
  if (thread() == 0) {
    state.total = total;
    const double goal = rows.tasks[row_number()].top_p * total / kWeightUnit;
    state.goal = ceil(goal);
  }
}

// Writes weights, which are zero for scores that top-k drops, and adds them up.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks) weights_kernel(Rows rows) {
  const RowTask row = rows.tasks[row_number()];
  const RowState& state = rows.states[row_number()];
  if (!has_distribution(state)) return;
  const float* scores = scores_of(rows);
  const double peak = score_of(state.peak);
  const int best = index_of(state.peak);
  const unsigned long long last = state.last;
  const Segment segment = own_segment(rows.V);
  double sum = 0;
  for_loaded_tokens(
      segment, [&](int i) { return scores[i]; },
      [&](int i, float score) {
        double weight = 0;
        if (row.scale == 0) {
          weight = i == best ? 1 : 0;
        } else if (key_of(score, i) >= last) {
          weight = exponential64((score - peak) * row.scale);
        }
        row.probs[i] = weight;
        sum += weight;
      });
  finish_sums(rows, warp_sum(sum), segment);
}

// Sets the weights that top-p drops to zero, and adds up the rest.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks) top_p_kernel(Rows rows) {
  const RowTask row = rows.tasks[row_number()];
  const RowState& state = rows.states[row_number()];
  if (!has_distribution(state) || !has_top_p(row)) return;
  const float* scores = scores_of(rows);
  const unsigned long long last = state.last;
  const Segment segment = own_segment(rows.V);
  struct Token {
    float score;
    double weight;
  };
  const auto load = [&](int i) { return Token{scores[i], row.probs[i]}; };
  double sum = 0;
  for_loaded_tokens(segment, load, [&](int i, const Token& token) {
    const bool kept = key_of(token.score, i) >= last;
    if (!kept) row.probs[i] = 0;
    sum += kept ? token.weight : 0;
  });
  finish_sums(rows, warp_sum(sum), segment);
}

// The lowest index with the largest of the segments' values, by all threads of the last block.
__device__ int winner(const double* values, const std::int32_t* ids, int V) {
  double largest = -kInfinity;
  int at = V;
  for (int s = thread(); s < segments_of(V); s += threads()) {
    const double value = __ldcg(values + s);
    if (value > largest) {
      largest = value;
      at = __ldcg(ids + s);
    }
  }
  return block_tree_min(largest == block_tree_max(largest) ? at : V);
}

// The largest value so far, and the first token that has it.
struct Best {
  double value = -kInfinity;
  int token;

  __device__ void offer(double other, int i) {
    if (other > value) {
      value = other;
      token = i;
    }
  }
};

// Turns weights into probabilities, and draws tokens from them.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    draw_kernel(Rows rows, const DrawTask* draws, std::int32_t* tokens) {
  const RowTask row = rows.tasks[row_number()];
  const DrawTask task = draws[row_number()];
  RowState& state = rows.states[row_number()];
  if (!has_distribution(state)) {
    if (blockIdx.x == 0 && thread() == 0) tokens[row_number()] = -1;
    return;
  }
  const double scale = 1 / state.total;
  double sum = 0;
  Best best{.token = rows.V};
  const Segment segment = own_segment(rows.V);
  for_loaded_tokens(
      segment, [&](int i) { return row.probs[i]; },
      [&](int i, double weight) {
        const double prob = weight * scale;
        row.probs[i] = prob;
        sum += prob;
        best.offer(prob, i);
      });
  if (!task.wanted) return;
  if (task.by == DrawBy::kRace) {
    best = {.token = rows.V};
    for_tokens(segment,
               [&](int i) { best.offer(arrival(row.probs[i], task.seed, task.position, i), i); });
  }
  const double most = warp_max(best.value);
  const int id = warp_reduce(best.value == most ? best.token : rows.V, Min());
  sum = warp_sum(sum);
  double* sums = sums_of(rows);
  if (segment.first < rows.V && lane() == 0) {
    sums[segment.index] = task.by == DrawBy::kInversion ? sum : most;
    ids_of(rows)[segment.index] = id;
  }
  if (!is_last_block(state.blocks_done, gridDim.x)) return;
  int token = 0;
  if (task.by != DrawBy::kInversion) {
    token = winner(sums, ids_of(rows), rows.V);
  } else if (thread() < kWarp) {
    const double u = uniform(task.seed, task.position, task.purpose);
    token = draw(u, sums, rows.V, [&](int i) { return __ldcg(row.probs + i); });
  }
  if (thread() == 0) tokens[row_number()] = token;
}

}  // namespace

Filters filters_of(std::span<const RowTask> rows) {
  Filters filters;
  for (const RowTask& row : rows) {
    filters.top_k |= row.scale > 0 && row.top_k > 0;
    filters.top_p |= row.scale > 0 && row.top_p < 1;
  }
  return filters;
}

void make_distributions(const Rows& rows, const Filters& filters, const DrawTask* draws,
                        std::int32_t* tokens, cudaStream_t stream) {
  const int V = rows.V, count = rows.count;
  launch_segments(scores_kernel, V, count, stream, rows);
  if (filters.top_k) find_last(rows, Filter::kTopK, stream);
  launch_segments(weights_kernel, V, count, stream, rows);
  if (filters.top_p) {
    find_last(rows, Filter::kTopP, stream);
    launch_segments(top_p_kernel, V, count, stream, rows);
  }
  launch_segments(draw_kernel, V, count, stream, rows, draws, tokens);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
