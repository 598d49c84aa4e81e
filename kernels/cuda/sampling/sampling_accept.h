#pragma once
#include "kernels/cuda/sampling/sampling_draw.h"
#include "kernels/cuda/sampling/sampling_tasks.h"

// A VerificationRule (kernels/sampling.h) applied to a draft, by one block. Device code: included
// by .cu files alone.
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
  int index = 0;  // of the draws

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
  return uniform(draft.seed, draft.position, kDrawAccept, draft.index) < probability;
}

// sum min(p, q): how likely rejection sampling is to keep a draft.
__device__ inline double acceptance_prob(const Proposal& draft) {
  if (draft.draft_probs == nullptr) return draft.target_prob(draft.token);
  return sum_of(draft.V, [&](int i) { return fmin(draft.target_probs[i], draft.draft_probs[i]); });
}

// A token of the target's own: the bonus, and what some rules compare a draft with.
__device__ inline int own_token(DrawBy by, const double* target_probs, int V, std::uint64_t seed,
                                int position) {
  switch (by) {
    case DrawBy::kLargest:
      return largest(target_probs, V);
    case DrawBy::kRace:
      return race(target_probs, V, seed, position);
    case DrawBy::kInversion:
      break;
  }
  return draw_token(target_probs, V, seed, position, kDrawTarget);
}

// p / (lenience q), within the envelope if there is one.
__device__ inline double scaled_ratio(bool envelope, const Proposal& draft) {
  double scale = 1;
  if (envelope) {
    scale = -max_of(draft.V, [&](int i) {  // 1 / M, the smallest q/p, at most 1
      const double p = draft.target_prob(i);
      return p > 0 ? -fmin(1.0, draft.draft_prob(i) / p) : -1.0;
    });
  }
  const double p = draft.target_prob(draft.token) / draft.lenience;  // not l q, which may vanish
  return scale * p / draft.draft_prob(draft.token);
}

// Draws the token in place of a rejected draft, from the target's own distribution where rounding
// left nothing of the weights.
template <typename Weight>
__device__ int draw_correction(const Proposal& draft, const Weight& weight) {
  const double u = uniform(draft.seed, draft.position, kDrawResample);
  const int token = draw(draft.V, u, weight);
  if (token >= 0) return token;
  return draw(draft.V, u, [&](int i) { return draft.target_prob(i); });
}

// What the target still owes of a token after the draft's rejection. REQUIRES: from is not
// kOwnToken, for which nothing is drawn.
__device__ inline double owed_weight(CorrectFrom from, const Proposal& draft, int i) {
  const double p = draft.target_prob(i);
  if (from == CorrectFrom::kTarget) return p;
  const double q = draft.draft_prob(i);
  if (from == CorrectFrom::kSurplus) return p >= q ? p - q : p;
  return fmax(0.0, p - q);
}

__device__ inline int draw_own(const VerificationRule& rule, const Proposal& draft) {
  return own_token(rule.own_token, draft.target_probs, draft.V, draft.seed, draft.position);
}

// Whether the draft stays. own: the target's own token, drawn where it is needed and still -1.
__device__ inline bool accepts(const VerificationRule& rule, const Proposal& draft, int& own) {
  const double p = draft.target_prob(draft.token);
  switch (rule.accept) {
    case AcceptWhen::kUniformBelowRatio:
      return accept(draft, fmin(1.0, scaled_ratio(rule.envelope, draft)));
    case AcceptWhen::kTargetAtLeastDraft:
      return p >= draft.draft_prob(draft.token);
    case AcceptWhen::kOwnTokenMatches:
    case AcceptWhen::kNearOwnToken:
      break;
  }
  if (own < 0) own = draw_own(rule, draft);
  if (rule.accept == AcceptWhen::kOwnTokenMatches) return own == draft.token;
  return p >= draft.lenience * draft.target_prob(own);
}

__device__ inline Decision decide(const VerificationRule& rule, Proposal draft) {
  if (rule.draft_is_certain) draft.draft_probs = nullptr;
  int own = -1;  // none yet
  if (accepts(rule, draft, own)) return {true, draft.token};
  if (rule.correction != CorrectFrom::kOwnToken) {
    return {false,
            draw_correction(draft, [&](int i) { return owed_weight(rule.correction, draft, i); })};
  }
  return {false, own < 0 ? draw_own(rule, draft) : own};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
