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

// REQUIRES: from is not kOwnToken, for which nothing is drawn.
__device__ inline int correct(CorrectFrom from, const Proposal& draft) {
  return draw_correction(draft, [&](int i) {
    const double p = draft.target_prob(i);
    if (from == CorrectFrom::kTarget) return p;
    const double q = draft.draft_prob(i);
    if (from == CorrectFrom::kSurplus) return p >= q ? p - q : p;
    return fmax(0.0, p - q);
  });
}

__device__ inline Decision decide(const VerificationRule& rule, Proposal draft) {
  if (rule.draft_is_certain) draft.draft_probs = nullptr;
  const double p = draft.target_prob(draft.token);
  const auto draw_own = [&] {
    return own_token(rule.own_token, draft.target_probs, draft.V, draft.seed, draft.position);
  };
  int own = -1;  // none yet
  bool accepted = false;
  switch (rule.accept) {
    case AcceptWhen::kUniformBelowRatio:
      accepted = accept(draft, fmin(1.0, scaled_ratio(rule.envelope, draft)));
      break;
    case AcceptWhen::kTargetAtLeastDraft:
      accepted = p >= draft.draft_prob(draft.token);
      break;
    case AcceptWhen::kOwnTokenMatches:
      own = draw_own();
      accepted = own == draft.token;
      break;
    case AcceptWhen::kNearOwnToken:
      own = draw_own();
      accepted = p >= draft.lenience * draft.target_prob(own);
      break;
  }
  if (accepted) return {true, draft.token};
  if (rule.correction != CorrectFrom::kOwnToken) return {false, correct(rule.correction, draft)};
  return {false, own < 0 ? draw_own() : own};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
