// The tokens that a tree of drafts goes on with after a row of logits.
#include "kernels/cuda/sampling/sampling_draw.h"
#include "kernels/cuda/sampling/tree_tasks.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

__device__ void write(const BranchTask& task, int k, int token, const double* probs) {
  if (thread() == 0) task.tokens[k] = {token, probs[token]};
}

// Each from what the earlier ones left of the row's distribution.
__device__ void draw_distinct(const BranchTask& task, const double* probs, int V) {
  const double* before = probs;
  int taken = -1;
  for (int k = 0; k < task.count; ++k) {
    double* own = task.probs + static_cast<std::ptrdiff_t>(k) * V;
    const auto left = [&](int i) { return i == taken ? 0 : before[i]; };
    const double total = k == 0 ? 1 : sum_of(V, left);
    if (!(total > 0)) return;
    for (int i = thread(); i < V; i += threads()) own[i] = left(i) / total;
    __syncthreads();
    taken = draw_token(own, V, task.seed, task.position, task.purpose, task.first_index + k);
    write(task, k, taken, probs);
    before = own;
  }
}

// In the order of probabilities, and of ids among equals: each the first one behind the last.
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

// A block a row.
__global__ void __launch_bounds__(kMaxSamplingThreads)
    branch_kernel(const BranchTask* branches, const RowTask* rows, const int* valid, int V) {
  const BranchTask task = branches[blockIdx.x];
  const double* probs = rows[blockIdx.x].probs;
  for (int k = 0; thread() == 0 && k < task.count; ++k) task.tokens[k] = {-1, 0};
  if (valid[blockIdx.x] == 0) return;
  switch (task.by) {
    case BranchBy::kDraws:
      for (int k = 0; k < task.count; ++k) {
        const int index = task.first_index + k;
        write(task, k, draw_token(probs, V, task.seed, task.position, task.purpose, index), probs);
      }
      break;
    case BranchBy::kDistinctDraws:
      draw_distinct(task, probs, V);
      break;
    case BranchBy::kLikeliest:
      rank(task, probs, V);
      break;
  }
}

}  // namespace

void branch_rows(const BranchTask* branches, const RowTask* rows, const int* valid, int row_count,
                 int vocab_size, cudaStream_t stream) {
  launch(branch_kernel, static_cast<unsigned>(row_count), threads_for(vocab_size), 0, stream,
         branches, rows, valid, vocab_size);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
