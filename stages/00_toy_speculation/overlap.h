#pragma once
#include <algorithm>

#include "stages/00_toy_speculation/several_drafts.h"

// Speculation without text: section 6 of Leviathan, Kalman and Matias (2023). A slow function f
// computes a distribution, and a slow function g works on a draw from it. g starts on a guess while
// f runs. target_probs is the distribution that f computes, and the guess is drawn from
// draft_probs.
namespace specdec::toy {

// [snippet overlap]
struct Times {
  double f, g;
};

struct Overlap {
  TokenId input;  // of g, distributed as target_probs
  double latency;
};

// The guess costs no time. If it is rejected, g runs again after f and the first g have ended.
template <typename Random>
Overlap overlap(const Probs& target_probs, const Probs& draft_probs, const Times& times,
                Random& random, const Rule& rule = {}) {
  const auto guess = draft_trials(draft_probs, Drafting::kIndependent, 1, random);
  const Chosen chosen = judge_trials(target_probs, guess, random, rule);
  const double both = std::max(times.f, times.g);
  return {chosen.token, chosen.trial == 0 ? both : both + times.g};
}

// The mean of the latency: beta is the probability that a guess is kept, sum min(p, q).
inline double mean_latency(const Times& times, double beta) {
  return std::max(times.f, times.g) + (1 - beta) * times.g;
}
// [end snippet overlap]

struct OverlapLaw {
  Law law;  // of g's input
  double mean_latency = 0;
};

inline OverlapLaw overlap_law(const Probs& target_probs, const Probs& draft_probs,
                              const Times& times, const Rule& rule = {}) {
  OverlapLaw result;
  EveryPath random;
  do {
    const Overlap run = overlap(target_probs, draft_probs, times, random, rule);
    result.law[{run.input}] += random.probability();
    result.mean_latency += random.probability() * run.latency;
  } while (random.next());
  return result;
}

}  // namespace specdec::toy
