// Judges trees of drafts, like SamplingTreeJudge of stages/08_token_trees. One block per tree.
#include "kernels/cuda/sampling/sampling_search.h"
#include "kernels/cuda/sampling/sampling_siblings.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// One tree, and the target's results for its rows: row 0 is the root's, then come the nodes'.
struct Tree {
  TreeTask task;
  const RowTask* rows;
  const RowState* states;
  const NodeTask* nodes;
  const TrialTask* trials;         // of all trees
  const std::int32_t* own_tokens;  // of the rows
  int V;
  double* sums;         // [segments], working memory
  TestedPlace* places;  // [levels]

  __device__ Tree(const Rows& of, const TreeTasks& all, int tree)
      : task(all.trees[tree]),
        rows(of.tasks + task.first_row),
        states(of.states + task.first_row),
        nodes(all.nodes + task.first_row),
        trials(all.trials),
        own_tokens(all.own_tokens + task.first_row),
        V(of.V),
        sums(of.scratch.sums + std::ptrdiff_t{task.first_row} * segments_of(of.V)),
        places(all.places + std::ptrdiff_t{tree} * all.levels) {}

  __device__ void write_place(int level, int node, int tested) const {
    if (thread() == 0) places[level] = {node, tested};
  }
};

// Follows one path from the root to a leaf, or to a node after which all drafts are rejected.
__device__ TreeVerdict walk(const Tree& tree) {
  const TreeTask& task = tree.task;
  for (int row = 0, level = 0;; ++level) {
    if (!has_distribution(tree.states[row])) return {level, -1};
    const NodeTask& node = tree.nodes[row];
    if (node.trials == 0) return {level, tree.own_tokens[row]};
    const Siblings siblings = {task.position + level,
                               level * task.level_draws,
                               tree.nodes + 1,
                               tree.trials + node.first_trial,
                               node.trials,
                               tree.rows[row].probs,
                               tree.own_tokens[row],
                               task.seed,
                               tree.V,
                               tree.sums};
    const SiblingDecision decision = task.rule.judge == JudgeTree::kTogether
                                         ? together(siblings)
                                         : one_by_one(task.rule.draft, siblings);
    tree.write_place(level, decision.node, decision.tested);
    if (decision.node < 0) return {level, decision.token};
    row = decision.node + 1;
  }
}

// A chain: row i follows i drafts, and trial i is draft i.
struct Path {
  const Tree& tree;

  __device__ Proposal draft(int i) const {
    const Tree& t = tree;
    const TrialTask& trial = t.trials[t.nodes[0].first_trial + i];
    return {t.task.position + i,
            t.nodes[i + 1].token,
            t.own_tokens[i],
            t.rows[i].probs,
            trial.probs,
            1,
            1,
            t.task.seed,
            i * t.task.level_draws};
  }
  // The residual after i drafts: max(0, reach p - q), where the drafts were reached with this
  // probability.
  __device__ auto owed_after(int i, double reach) const {
    return [draft = this->draft(i), reach](int t) {
      return fmax(0.0, reach * draft.target_prob(t) - draft.draft_prob(t));
    };
  }
};

// The token in place of draft i, drawn from the residual, or from the target's own distribution if
// rounding left no residual.
__device__ int correction(const Path& path, int i, double reach) {
  const Tree& tree = path.tree;
  const Proposal draft = path.draft(i);
  const double u = uniform(draft.seed, draft.position, kDrawResample);
  const int token = draw_by_block(u, tree.sums, tree.V, path.owed_after(i, reach));
  if (token >= 0) return token;
  return draw_by_block(u, tree.sums, tree.V, [&](int t) { return draft.target_prob(t); });
}

// Block verification (Sun et al. 2024, algorithm 2): the longest prefix that passes its test.
__device__ TreeVerdict judge_path(const Tree& tree) {
  const int n = tree.task.nodes;
  for (int row = 0; row <= n; ++row) {
    if (!has_distribution(tree.states[row])) return {0, -1};
  }
  const Path path = {tree};
  int accepted = 0;
  double reach = 1, reach_accepted = 1;
  for (int i = 1; i <= n; ++i) {
    const Proposal draft = path.draft(i - 1);
    reach = fmin(1.0, reach * draft.target_prob(draft.token) / draft.draft_prob(draft.token));
    double probability = reach;
    if (i < n) {
      const double left = sum_of(tree.sums, tree.V, path.owed_after(i, reach)),
                   all = left + 1 - reach;
      probability = all > 0 ? left / all : 1;
    }
    if (accept(draft, probability)) {
      accepted = i;
      reach_accepted = reach;
    }
  }
  for (int i = 0; i < accepted; ++i) tree.write_place(i, i, 1);
  if (accepted == n) return {n, tree.own_tokens[n]};
  tree.write_place(accepted, -1, 1);
  return {accepted, correction(path, accepted, reach_accepted)};
}

__global__ void __launch_bounds__(kMaxRowThreads) judge_trees_kernel(Rows rows, TreeTasks all) {
  const int t = blockIdx.x;
  const Tree tree(rows, all, t);
  for (int level = 0; level < all.levels; ++level) tree.write_place(level, -1, 0);
  const bool whole = tree.task.rule.judge == JudgeTree::kPath;
  const TreeVerdict verdict = whole ? judge_path(tree) : walk(tree);
  if (thread() == 0) all.verdicts[t] = verdict;
}

}  // namespace

void judge_trees(const Rows& rows, const TreeTasks& tasks, int tree_count, cudaStream_t stream) {
  launch(judge_trees_kernel, tree_count, row_threads(rows.V), 0, stream, rows, tasks);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
