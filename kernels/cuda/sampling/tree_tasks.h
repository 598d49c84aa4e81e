#pragma once
#include <cstddef>

#include "kernels/cuda/sampling/sampling_tasks.h"

// The tasks that the host gives the kernels that branch and judge trees, in addition to those of
// sampling_tasks.h. All pointers are device memory.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// How tokens are chosen after a row: Branch of kernels/sampling.h.
struct BranchTask {
  BranchBy by;
  bool races;
  int count, position;
  std::uint64_t seed;
  std::uint32_t purpose;
  int first_index;
  double* probs;        // [count, V], for kDistinctDraws
  BranchToken* tokens;  // [count]
};

// A row of a tree: the root or a node.
struct NodeTask {
  std::int32_t token;           // of a node
  int trials = 0, first_trial;  // that follow it; first_trial counts over all trees
};

struct TrialTask {
  const double* probs;  // [V], or null if the draft was certain
  int node;             // of its token, in its tree
};

struct TreeTask {
  int first_row;  // this tree's, among those of all trees: the root's, then the nodes'
  int nodes, position, level_draws;
  TreeRule rule;
  std::uint64_t seed;
};

// All trees, and their results.
struct TreeTasks {
  const TreeTask* trees;
  const NodeTask* nodes;           // [rows]
  const std::int32_t* own_tokens;  // [rows], valid for rows where a rule reads it, and for leaves
  const TrialTask* trials;
  int levels;
  TreeVerdict* verdicts;  // [trees]
  TestedPlace* places;    // [trees, levels]
};

// Chooses the tokens of each branch by the distribution of its row. Launches 1 kernel.
void branch_rows(const Rows& rows, const BranchTask* branches, cudaStream_t stream);

// Judges each tree by the distributions of its rows, which residuals may overwrite. Launches 1
// kernel.
void judge_trees(const Rows& rows, const TreeTasks& tasks, int tree_count, cudaStream_t stream);

// The most that a call of either kind uploads and downloads, in addition to other calls' data.
std::size_t tree_task_bytes(const SamplerRoom& room);
std::size_t tree_result_bytes(const SamplerRoom& room);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
