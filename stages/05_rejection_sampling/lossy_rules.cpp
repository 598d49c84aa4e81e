// The rules that change the distribution: lenient rules, which servers may choose, and a bug.
#include <algorithm>

#include "stages/05_rejection_sampling/acceptance.h"

namespace specdec {

// [snippet lossy]
Decision lenient(const Proposal& draft, RandomSource& random, std::span<double> scratch) {
  const TokenId x = draft.token;
  const double p = draft.target_prob(x) / draft.lenience;  // p/l, because l q may underflow to 0
  if (random.accept(ratio(p, draft.draft_prob(x)), draft.position)) return {true, x};
  return correct(draft, random, residual(draft, scratch));
}

Decision residual_skipped(const Proposal& draft, RandomSource& random,
                          std::span<double> /*scratch*/) {
  const TokenId x = draft.token;
  if (random.accept(ratio(draft.target_prob(x), draft.draft_prob(x)), draft.position)) {
    return {true, x};
  }
  return correct(draft, random, draft.target_probs);
}

Decision lenient_argmax(const Proposal& draft, RandomSource& /*random*/,
                        std::span<double> /*scratch*/) {
  const auto best = std::ranges::max_element(draft.target_probs);
  if (draft.target_prob(draft.token) >= draft.lenience * *best) return {true, draft.token};
  return {false, static_cast<TokenId>(best - draft.target_probs.begin())};
}
// [end snippet lossy]

}  // namespace specdec
