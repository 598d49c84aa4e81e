#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "common/argmax.h"
#include "kernels/int_size.h"
#include "stages/00_toy_speculation/enumeration.h"

// Several drafts for one position: iterative speculative sampling, section 2 of Stratos,
// "Speculative Decoding". A trial's number names its random numbers, as a position does in a round.
namespace specdec::toy {

// The probabilities divided by their sum. REQUIRES: the sum is positive.
inline Probs scaled(Probs probs) {
  const double total = std::accumulate(probs.begin(), probs.end(), 0.0);
  SPECDEC_CHECK(total > 0, "probabilities with a positive sum, not {}", total);
  for (double& prob : probs) prob /= total;
  return probs;
}

// All probability on the likeliest token, the first one among equals.
inline Probs only_likeliest(const Probs& probs) {
  Probs certain(probs.size());
  certain[argmax(probs)] = 1;
  return certain;
}

// [snippet draft-trials]
// A draft, and the distribution that it was drawn from.
struct Trial {
  TokenId draft;
  Probs draft_probs;
};

enum class Drafting {
  kIndependent,         // each drawn from q: the same token may come twice
  kWithoutReplacement,  // each drawn from the rest of q: no token comes twice
  kLikeliest,           // the likeliest tokens of q, without chance
};

// `count` drafts for one position; fewer where q has no more tokens to give.
template <typename Random>
std::vector<Trial> draft_trials(const Probs& draft_probs, Drafting drafting, int count,
                                Random& random) {
  std::vector<Trial> trials;
  Probs left = draft_probs;
  for (int k = 0; k < count && std::ranges::max(left) > 0; ++k) {
    Probs own = drafting == Drafting::kLikeliest ? only_likeliest(left) : scaled(left);
    const TokenId draft = random.token(own, k, Purpose::kDraft);
    if (drafting != Drafting::kIndependent) left[draft] = 0;
    trials.push_back({draft, std::move(own)});
  }
  return trials;
}
// [end snippet draft-trials]

// [snippet judge-trials]
// The emitted token, and the trial whose draft it is. If it is no draft, `trial` is the number of
// trials.
struct Chosen {
  TokenId token;
  std::size_t trial;
};

// Tries the drafts in their order. After a rejection, the residual is the target of the next trial.
template <typename Random>
Chosen judge_trials(const Probs& target_probs, const std::vector<Trial>& trials, Random& random,
                    const Rule& rule = {}) {
  Probs owed = target_probs;
  for (std::size_t k = 0; k < trials.size(); ++k) {
    const auto& [draft, draft_probs] = trials[k];
    const double probability = rule.accept(owed[draft], draft_probs[draft]);
    if (random.accept(probability, k)) return {draft, k};
    owed = rule.correction(owed, draft_probs);
  }
  const int end = int_size(trials);
  return {random.token(owed, end, Purpose::kResample), trials.size()};
}
// [end snippet judge-trials]

// What happens to the drafts between drawing and judging. Nothing should: see wrong_rules.h.
using Arrange = void (*)(std::vector<Trial>& trials);
inline void as_drafted(std::vector<Trial>&) {}

struct TrialsLaw {
  Law law;              // of the emitted token
  double accepted = 0;  // the probability that it is a draft
};

// Every path through drawing and judging.
inline TrialsLaw trials_law(const Probs& target_probs, const Probs& draft_probs, Drafting drafting,
                            int count, Arrange arrange = as_drafted, const Rule& rule = {}) {
  TrialsLaw result;
  EveryPath random;
  do {
    std::vector<Trial> trials = draft_trials(draft_probs, drafting, count, random);
    arrange(trials);
    const Chosen chosen = judge_trials(target_probs, trials, random, rule);
    result.law[{chosen.token}] += random.probability();
    if (chosen.trial < trials.size()) result.accepted += random.probability();
  } while (random.next());
  return result;
}

// A row as the law of a text of one token.
inline Law law_of(const Probs& probs) {
  Law law;
  for (TokenId token = 0; token < std::ssize(probs); ++token) {
    if (probs[token] > 0) law[{token}] = probs[token];
  }
  return law;
}

}  // namespace specdec::toy
