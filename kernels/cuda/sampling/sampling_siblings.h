#pragma once
#include "kernels/cuda/sampling/sampling_accept.h"
#include "kernels/cuda/sampling/sampling_block.h"
#include "kernels/cuda/sampling/tree_tasks.h"

// Judges the drafts after one node of a tree by one block: the rules of
// stages/08_token_trees/sibling_rules.h, composed of blocks. Device code: only .cu files include
// it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The drafts after one node, in the order drafted.
struct Siblings {
  int position;             // of their tokens
  int first_index;          // of their draws
  const NodeTask* nodes;    // of the tree
  const TrialTask* trials;  // [count]
  int count;                // at least 1
  double* target_probs;     // [V]; the residual replaces them
  int own_token;            // the target's, if the rule reads it
  std::uint64_t seed;
  int V;
  double* sums;  // [segments], working memory

  __device__ Proposal proposal(int k) const {
    const TrialTask& trial = trials[k];
    return {position, nodes[trial.node].token, own_token, target_probs, trial.probs, 1, 1,
            seed,     first_index + k};
  }
};

// The accepted sibling, or a token in place of all.
struct SiblingDecision {
  int node;   // -1: none
  int token;  // if none is accepted
  int tested;
};

// Replaces the target's probabilities by the normalised weights, which are computed from them. If
// rounding left no weights, does nothing.
template <typename Weight>
__device__ void owe(const Siblings& siblings, const Weight& weight) {
  const double total = sum_of(siblings.sums, siblings.V, weight);
  if (!(total > 0)) return;
  for (int i = thread(); i < siblings.V; i += threads()) {
    siblings.target_probs[i] = weight(i) / total;
  }
  __syncthreads();
}

__device__ inline SiblingDecision none_of(const Siblings& siblings) {
  const double u = uniform(siblings.seed, siblings.position, kDrawResample);
  const int token =
      draw_by_block(u, siblings.sums, siblings.V, [&](int i) { return siblings.target_probs[i]; });
  return {-1, token, siblings.count};
}

// Judges the siblings one after another.
__device__ inline SiblingDecision one_by_one(const VerificationRule& rule,
                                             const Siblings& siblings) {
  const CorrectFrom from = rule.correction;
  for (int k = 0; k < siblings.count; ++k) {
    Proposal draft = siblings.proposal(k);
    if (rule.draft_is_certain) draft.draft_probs = nullptr;
    if (rule.envelope) {
      draft.smallest_ratio = smallest_of(siblings.V, [&](int i) {
        const double p = draft.target_prob(i);
        return p > 0 ? draft.draft_prob(i) / p : 1.0;
      });
    }
    if (accepts(rule, draft)) return {siblings.trials[k].node, -1, k + 1};
    if (from == CorrectFrom::kResidual || from == CorrectFrom::kSurplus) {
      owe(siblings, [&](int i) { return correction_weight(from, draft, i); });
    }
  }
  if (from != CorrectFrom::kOwnToken) return none_of(siblings);
  return {-1, siblings.own_token, siblings.count};
}

// K-sequential selection (Sun et al. 2023, SpecTr, algorithm 2). beta: sum min(q, p / rho).
__device__ inline double k_sequential_beta(const Siblings& siblings, double rho) {
  const double *p = siblings.target_probs, *q = siblings.trials[0].probs;
  return sum_of(siblings.sums, siblings.V, [&](int i) { return fmin(q[i], p[i] / rho); });
}

// rho solves 1 - (1 - beta)^count = rho beta, by bisection as in k_sequential_factor() of stage 8.
__device__ inline double k_sequential_rho(const Siblings& siblings) {
  double low = 1, high = siblings.count;
  for (int step = 0; step < 100 && low < high; ++step) {
    const double rho = (low + high) / 2, beta = k_sequential_beta(siblings, rho);
    (1 - pow(1 - beta, siblings.count) > rho * beta ? low : high) = rho;
    if (rho == low && rho == high) break;
  }
  return high;
}

// Judges the siblings together. REQUIRES: all trials have the same distribution.
__device__ inline SiblingDecision together(const Siblings& siblings) {
  const double *p = siblings.target_probs, *q = siblings.trials[0].probs;
  const double rho = k_sequential_rho(siblings);
  for (int k = 0; k < siblings.count; ++k) {
    const Proposal draft = siblings.proposal(k);
    const double scaled = p[draft.token] / rho;
    if (accept(draft, fmin(1.0, scaled / q[draft.token]))) {
      return {siblings.trials[k].node, -1, k + 1};
    }
  }
  const double beta = k_sequential_beta(siblings, rho);
  const double tried = beta > 0 ? (1 - pow(1 - beta, siblings.count)) / beta : 0;
  owe(siblings, [&](int i) { return fmax(0.0, p[i] - tried * fmin(q[i], p[i] / rho)); });
  return none_of(siblings);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
