#pragma once
#include "kernels/cuda/sampling/sampling_accept.h"
#include "kernels/cuda/sampling/tree_tasks.h"

// The drafts that follow one node of a tree, judged by one block: the rules of
// stages/08_token_trees/sibling_rules.h, put together from blocks. Device code: included by .cu
// files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// They come in the order in which they were drafted.
struct Siblings {
  int position;                // of their tokens
  int first_index;             // of their draws
  const NodeTask* nodes;       // of the tree, by their numbers
  const TrialTask* trials;     // [count]
  int count;                   // at least 1
  const double* target_probs;  // [V]
  int V;
  std::uint64_t seed;

  __device__ Proposal proposal(int k, const double* owed) const {
    const TrialTask& trial = trials[k];
    return {position, nodes[trial.node].token, owed, trial.probs, V, 1, seed, first_index + k};
  }
};

// Which of them the text goes on with; or none, and another token.
struct SiblingDecision {
  int node;   // -1: none
  int token;  // where there is none
  int tested;
};

// Normalises the weights into `owed`. Where rounding left nothing of them, what was left before
// stays. owed may be what the weights are made of.
template <typename Weight>
__device__ const double* owe(int V, const double* before, double* owed, const Weight& weight) {
  const double total = sum_of(V, weight);
  if (!(total > 0)) return before;
  for (int i = thread(); i < V; i += threads()) owed[i] = weight(i) / total;
  __syncthreads();
  return owed;
}

__device__ inline SiblingDecision none_of(const Siblings& siblings, const double* left) {
  const double u = uniform(siblings.seed, siblings.position, kDrawResample);
  return {-1, draw(siblings.V, u, [&](int i) { return left[i]; }), siblings.count};
}

// One after another. owed: [V], working memory.
__device__ inline SiblingDecision one_by_one(const VerificationRule& rule, const Siblings& siblings,
                                             double* owed) {
  const CorrectFrom from = rule.correction;
  const double* left = siblings.target_probs;
  int own = -1;  // the target's token, once it is drawn
  for (int k = 0; k < siblings.count; ++k) {
    Proposal draft = siblings.proposal(k, left);
    if (rule.draft_is_certain) draft.draft_probs = nullptr;
    if (accepts(rule, draft, own)) return {siblings.trials[k].node, -1, k + 1};
    if (from == CorrectFrom::kResidual || from == CorrectFrom::kSurplus) {
      left = owe(siblings.V, left, owed, [&](int i) { return owed_weight(from, draft, i); });
    }
  }
  if (from != CorrectFrom::kOwnToken) return none_of(siblings, left);
  return {-1, own < 0 ? draw_own(rule, siblings.proposal(0, left)) : own, siblings.count};
}

// K-sequential selection (Sun et al. 2023, SpecTr, algorithm 2). beta: sum min(q, p / rho).
__device__ inline double k_sequential_beta(const Siblings& siblings, double rho) {
  const double *p = siblings.target_probs, *q = siblings.trials[0].probs;
  return sum_of(siblings.V, [&](int i) { return fmin(q[i], p[i] / rho); });
}

// rho: 1 - (1 - beta)^count = rho beta, halved in on as k_sequential_factor() of stage 8 does.
__device__ inline double k_sequential_rho(const Siblings& siblings) {
  double low = 1, high = siblings.count;
  for (int step = 0; step < 100 && low < high; ++step) {
    const double rho = (low + high) / 2, beta = k_sequential_beta(siblings, rho);
    (1 - pow(1 - beta, siblings.count) > rho * beta ? low : high) = rho;
    if (rho == low && rho == high) break;
  }
  return high;
}

// REQUIRES: all trials have one distribution.
__device__ inline SiblingDecision together(const Siblings& siblings, double* owed) {
  const double *p = siblings.target_probs, *q = siblings.trials[0].probs;
  const double rho = k_sequential_rho(siblings);
  for (int k = 0; k < siblings.count; ++k) {
    const Proposal draft = siblings.proposal(k, p);
    const double scaled = p[draft.token] / rho;
    if (accept(draft, fmin(1.0, scaled / q[draft.token]))) {
      return {siblings.trials[k].node, -1, k + 1};
    }
  }
  const double beta = k_sequential_beta(siblings, rho);
  const double tried = beta > 0 ? (1 - pow(1 - beta, siblings.count)) / beta : 0;
  const double* left = owe(siblings.V, p, owed,
                           [&](int i) { return fmax(0.0, p[i] - tried * fmin(q[i], p[i] / rho)); });
  return none_of(siblings, left);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
