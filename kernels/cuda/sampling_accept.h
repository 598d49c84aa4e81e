#pragma once
#include "kernels/cuda/sampling_draw.h"
#include "kernels/cuda/sampling_tasks.h"

// The rules of stages/05_rejection_sampling/acceptance.cpp, each decided by one block. Device code:
// included by .cu files alone.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A drafted token, and what both models say at its place.
struct Proposal {
  int position;
  int token;
  const double* target_probs;  // [V]
  const double* draft_probs;   // [V]; null: one-hot, all on the draft
  int V;
  double lenience;
  std::uint64_t seed;

  __device__ double target_prob(int i) const { return target_probs[i]; }
  __device__ double draft_prob(int i) const {
    return draft_probs == nullptr ? (i == token ? 1.0 : 0.0) : draft_probs[i];
  }
};

// What becomes of it: the draft stays, or another token is emitted in its place.
struct Decision {
  bool accepted;
  int token;
};

// Dice::accept().
__device__ inline bool accept(const Proposal& draft, double probability) {
  return uniform(draft.seed, draft.position, kDrawAccept) < probability;
}

// sum min(p, q): how likely rejection sampling is to keep a draft.
__device__ inline double overlap(const Proposal& draft) {
  if (draft.draft_probs == nullptr) return draft.target_prob(draft.token);
  return sum_of(draft.V, [&](int i) { return fmin(draft.target_probs[i], draft.draft_probs[i]); });
}

// Draws the token in place of a rejected draft, from the target's own distribution where rounding
// left nothing of the weights.
template <typename Weight>
__device__ Decision correct(const Proposal& draft, const Weight& weight) {
  const double u = uniform(draft.seed, draft.position, kDrawResample);
  const int token = draw(draft.V, u, weight);
  if (token >= 0) return {false, token};
  return {false, draw(draft.V, u, [&](int i) { return draft.target_prob(i); })};
}

// Accepts with the probability p/q, p being a share of the target in the draft; otherwise draws
// from max(0, target - draft).
__device__ inline Decision rejection(const Proposal& draft, double target_share) {
  if (accept(draft, fmin(1.0, target_share / draft.draft_prob(draft.token)))) {
    return {true, draft.token};
  }
  return correct(draft,
                 [&](int i) { return fmax(0.0, draft.target_prob(i) - draft.draft_prob(i)); });
}

__device__ inline Decision at_least(const Proposal& draft) {
  if (draft.target_prob(draft.token) >= draft.draft_prob(draft.token)) return {true, draft.token};
  return correct(draft, [&](int i) {
    const double p = draft.target_prob(i), q = draft.draft_prob(i);
    return p >= q ? p - q : p;
  });
}

__device__ inline Decision non_iterative(const Proposal& draft) {
  const double least = -max_of(draft.V, [&](int i) {  // 1 / M, the smallest q/p, at most 1
    const double p = draft.target_prob(i);
    return p > 0 ? -fmin(1.0, draft.draft_prob(i) / p) : -1.0;
  });
  const double probability = least * draft.target_prob(draft.token) / draft.draft_prob(draft.token);
  if (accept(draft, fmin(1.0, probability))) return {true, draft.token};
  return correct(draft, [&](int i) { return draft.target_prob(i); });
}

__device__ inline Decision residual_skipped(const Proposal& draft) {
  const int x = draft.token;
  if (accept(draft, fmin(1.0, draft.target_prob(x) / draft.draft_prob(x)))) return {true, x};
  return correct(draft, [&](int i) { return draft.target_prob(i); });
}

__device__ inline Decision lenient_argmax(const Proposal& draft) {
  const int best = largest(draft.target_probs, draft.V);
  const bool accepted = draft.target_prob(draft.token) >= draft.lenience * draft.target_prob(best);
  return {accepted, accepted ? draft.token : best};
}

// A token of the target's own: the bonus, and what the drafts of some rules must match.
__device__ inline int own_token(AcceptBy rule, const double* target_probs, int V,
                                std::uint64_t seed, int position) {
  if (rule == AcceptBy::kLenientArgmax) return largest(target_probs, V);
  if (rule == AcceptBy::kCoupled) return race(target_probs, V, seed, position);
  return draw_token(target_probs, V, seed, position, kDrawTarget);
}

__device__ inline Decision decide(AcceptBy rule, Proposal draft) {
  const double p = draft.target_prob(draft.token);
  switch (rule) {
    case AcceptBy::kOneHot:
      draft.draft_probs = nullptr;
      return rejection(draft, p);
    case AcceptBy::kRejection:
      return rejection(draft, p);
    case AcceptBy::kLenient:
      return rejection(draft, p / draft.lenience);
    case AcceptBy::kAtLeast:
      return at_least(draft);
    case AcceptBy::kNonIterative:
      return non_iterative(draft);
    case AcceptBy::kResidualSkipped:
      return residual_skipped(draft);
    case AcceptBy::kLenientArgmax:
      return lenient_argmax(draft);
    case AcceptBy::kSampleAndMatch:
    case AcceptBy::kCoupled:
      break;
  }
  const int own = own_token(rule, draft.target_probs, draft.V, draft.seed, draft.position);
  return {own == draft.token, own};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
