#pragma once
#include "kernels/cuda/sampling/sampling_segments.h"

// Applies a VerificationRule (kernels/sampling.h) to a draft. Device code: only .cu files include
// it.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A drafted token, and both models' distributions at its position.
struct Proposal {
  int position;
  int token;
  int own_token;               // the target's, if the rule reads it
  const double* target_probs;  // [V]
  const double* draft_probs;   // [V]; null: one-hot, all on the draft
  double smallest_ratio;       // the smallest q/p of all tokens, at most 1
  double lenience;
  std::uint64_t seed;
  int index = 0;  // of the draw

  __device__ double target_prob(int i) const { return target_probs[i]; }
  __device__ double draft_prob(int i) const {
    return draft_probs == nullptr ? (i == token ? 1.0 : 0.0) : draft_probs[i];
  }
};

// The proposal of draft i in a round. REQUIRES: the row has a distribution.
__device__ inline Proposal proposal_of(const Rows& rows, const Rounds& rounds,
                                       const RoundTask& round, int i) {
  const DraftTask draft = rounds.drafts[round.first_draft + i];
  const int row = round.first_row + i;
  return {round.position + i,
          draft.token,
          rounds.own_tokens[row],
          rows.tasks[row].probs,
          round.rule.draft_is_certain ? nullptr : draft.probs,
          rounds.draft_states[round.first_draft + i].smallest_ratio,
          round.lenience,
          round.seed};
}

// Dice::accept().
__device__ inline bool accept(const Proposal& draft, double probability) {
  return uniform(draft.seed, draft.position, kDrawAccept, draft.index) < probability;
}

__device__ inline bool accepts(const VerificationRule& rule, const Proposal& draft) {
  const double p = draft.target_prob(draft.token), q = draft.draft_prob(draft.token);
  switch (rule.accept) {
    case AcceptWhen::kTargetAtLeastDraft:
      return p >= q;
    case AcceptWhen::kOwnTokenMatches:
      return draft.own_token == draft.token;
    case AcceptWhen::kNearOwnToken:
      return p >= draft.lenience * draft.target_prob(draft.own_token);
    case AcceptWhen::kUniformBelowRatio:
      break;
  }
  const double scale = rule.envelope ? draft.smallest_ratio : 1;
  const double ratio = scale * (p / draft.lenience) / q;  // not l q, which may vanish
  return accept(draft, fmin(1.0, ratio));
}

// The weight of a token among those that may replace the draft.
__device__ inline double correction_weight(CorrectFrom from, const Proposal& draft, int i) {
  const double p = draft.target_prob(i);
  if (from == CorrectFrom::kTarget) return p;
  const double q = draft.draft_prob(i);
  if (from == CorrectFrom::kSurplus) return p >= q ? p - q : p;
  return fmax(0.0, p - q);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
