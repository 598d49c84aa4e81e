#pragma once
#include <algorithm>
#include <optional>

#include "stages/00_toy_speculation/enumeration.h"

// Rejection sampling as a loop: the first form in appendix A.2 of Leviathan, Kalman and Matias
// (2023), after von Neumann (1951). It draws and rejects until a draft is kept.
namespace specdec::toy {

// [snippet rejection-loop]
// M, the largest p / q. REQUIRES: q > 0 wherever p > 0; otherwise no M is large enough.
inline double largest_ratio(const Probs& target_probs, const Probs& draft_probs) {
  double largest = 0;
  for (std::size_t i = 0; i < target_probs.size(); ++i) {
    if (target_probs[i] <= 0) continue;
    SPECDEC_CHECK(draft_probs[i] > 0, "a draft that can draw token {}, as the target can", i);
    largest = std::max(largest, target_probs[i] / draft_probs[i]);
  }
  return largest;
}

struct LoopResult {
  std::optional<TokenId> token;  // none: the tries were used up
  int tries = 0;
};

// Keeps a draft with p / (M q), and draws another one otherwise. `ratio` is M.
template <typename Random>
LoopResult rejection_loop(const Probs& target_probs, const Probs& draft_probs, double ratio,
                          int most_tries, Random& random) {
  LoopResult result;
  while (!result.token && result.tries < most_tries) {
    const TokenId draft = random.token(draft_probs, result.tries, Purpose::kDraft);
    const double probability = accept_probability(target_probs[draft], ratio * draft_probs[draft]);
    if (random.accept(probability, result.tries)) result.token = draft;
    ++result.tries;
  }
  return result;
}
// [end snippet rejection-loop]

struct LoopLaw {
  Law law;                // of the token, divided by the probability that there is one
  double finished = 0;    // that probability
  double mean_tries = 0;  // at most most_tries
};

// Every path of at most `most_tries` tries.
inline LoopLaw loop_law(const Probs& target_probs, const Probs& draft_probs, double ratio,
                        int most_tries) {
  LoopLaw result;
  EveryPath random;
  do {
    const LoopResult loop = rejection_loop(target_probs, draft_probs, ratio, most_tries, random);
    result.mean_tries += random.probability() * loop.tries;
    if (!loop.token) continue;
    result.finished += random.probability();
    result.law[{*loop.token}] += random.probability();
  } while (random.next());
  for (auto& [text, probability] : result.law) probability /= result.finished;
  return result;
}

}  // namespace specdec::toy
