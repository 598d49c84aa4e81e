// Chooses the tokens with which a tree of drafts continues after a row of logits.
#include "kernels/cuda/sampling/sampling_block.h"
#include "kernels/cuda/sampling/sampling_search.h"
#include "kernels/cuda/sampling/tree_tasks.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

__device__ void write(const BranchTask& task, int k, int token, const double* probs) {
  if (thread() == 0) task.tokens[k] = {token, probs[token]};
}

__device__ double draw_number(const BranchTask& task, int k) {
  return uniform(task.seed, task.position, task.purpose, task.first_index + k);
}

// The first token to arrive in a race by prob(i).
template <typename Prob>
__device__ int race(const BranchTask& task, int V, const Prob& prob) {
  return argmax_of(V, [&](int i) { return arrival(prob(i), task.seed, task.position, i); });
}

// Draws all tokens from the row's distribution.
__device__ void draw_each(const BranchTask& task, const double* probs, double* sums, int V) {
  const auto prob = [&](int i) { return probs[i]; };
  if (task.races && task.count > 0) write(task, 0, race(task, V, prob), probs);
  sum_segments(sums, V, prob);
  if (thread() >= kWarp) return;
  for (int k = task.races; k < task.count; ++k)
    write(task, k, draw(draw_number(task, k), sums, V, prob), probs);
}

// Draws without replacement: each token from the normalised rest of the row's distribution.
__device__ void draw_distinct(const BranchTask& task, const double* probs, double* sums, int V) {
  const double* before = probs;
  int taken = -1;
  for (int k = 0; k < task.count; ++k) {
    double* own = task.probs + std::ptrdiff_t{k} * V;
    const auto left = [&](int i) { return i == taken ? 0 : before[i]; };
    const double total = k == 0 ? 1 : sum_of(sums, V, left);
    if (!(total > 0)) return;
    for (int i = thread(); i < V; i += threads()) own[i] = left(i) / total;
    __syncthreads();
    const auto prob = [&](int i) { return own[i]; };
    taken = task.races ? race(task, V, prob) : draw_by_block(draw_number(task, k), sums, V, prob);
    write(task, k, taken, probs);
    before = own;
  }
}

// Ranks tokens by probability, then by id: each one is the first after the one before.
__device__ void rank(const BranchTask& task, const double* probs, int V) {
  double last_prob = kInfinity;
  int last = -1;
  for (int k = 0; k < task.count; ++k) {
    const int next = argmax_of(V, [&](int i) {
      const bool follows = probs[i] < last_prob || (probs[i] == last_prob && i > last);
      return follows && probs[i] > 0 ? probs[i] : -kInfinity;
    });
    if (next == V) return;
    write(task, k, next, probs);
    last = next;
    last_prob = probs[next];
  }
}

// One block per row.
__global__ void __launch_bounds__(kMaxRowThreads)
    branch_kernel(Rows rows, const BranchTask* branches) {
  const BranchTask task = branches[blockIdx.x];
  const double* probs = rows.tasks[blockIdx.x].probs;
  double* sums = rows.scratch.sums + std::ptrdiff_t{blockIdx.x} * segments_of(rows.V);
  for (int k = 0; thread() == 0 && k < task.count; ++k) task.tokens[k] = {-1, 0};
  if (!has_distribution(rows.states[blockIdx.x])) return;
  switch (task.by) {
    case BranchBy::kDraws:
      draw_each(task, probs, sums, rows.V);
      break;
    case BranchBy::kDistinctDraws:
      draw_distinct(task, probs, sums, rows.V);
      break;
    case BranchBy::kLikeliest:
      rank(task, probs, rows.V);
      break;
  }
}

}  // namespace

void branch_rows(const Rows& rows, const BranchTask* branches, cudaStream_t stream) {
  launch(branch_kernel, rows.count, row_threads(rows.V), 0, stream, rows, branches);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
