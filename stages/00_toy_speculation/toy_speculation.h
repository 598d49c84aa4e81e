#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "common/base/check.h"
#include "common/base/token_id.h"
#include "common/sampling/distribution.h"
#include "common/sampling/uniform.h"
#include "kernels/int_size.h"

// Speculative sampling without a network: Algorithm 1 of Leviathan, Kalman and Matias ("Fast
// Inference from Transformers via Speculative Decoding", 2023) on two tables of numbers. The
// paper's p is target_probs, its q draft_probs, its gamma spec_length.
namespace specdec::toy {

// [snippet tables]
using Probs = std::vector<double>;  // [V], at least 0, sums to 1
using Text = std::vector<TokenId>;

// Two models. Each knows only the last token of the text so far, the context.
struct Tables {
  std::vector<Probs> target_probs;  // [context token][token]
  std::vector<Probs> draft_probs;   // [context token][token]
};
// [end snippet tables]

// [snippet accept]
// The probability that a drafted token is accepted: min(1, p / q).
// REQUIRES: draft_prob > 0, as it is for every token that was drawn from the draft's row.
inline double accept_probability(double target_prob, double draft_prob) {
  SPECDEC_CHECK(draft_prob > 0, "a drafted token that can be drawn, not one of probability {}",
                draft_prob);
  return std::min(1.0, target_prob / draft_prob);
}
// [end snippet accept]

// [snippet residual]
// The residual distribution, from which a rejected token is replaced: norm(max(0, p - q)).
inline Probs residual(const Probs& target_probs, const Probs& draft_probs) {
  // [task 0.1: the residual]
  Probs rest(target_probs.size());
  double total = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    rest[i] = std::max(0.0, target_probs[i] - draft_probs[i]);
    total += rest[i];
  }
  if (!(total > 0)) return target_probs;  // equal rows: only rounding can have rejected
  for (double& prob : rest) prob /= total;
  return rest;
  // [end task 0.1]
}
// [end snippet residual]

// [snippet rule]
inline Probs target_alone(const Probs& target_probs, const Probs& /*draft_probs*/) {
  return target_probs;
}

// The three decisions of a round. Any other choice is an experiment: see wrong_rules.h.
struct Rule {
  double (*accept)(double target_prob, double draft_prob) = accept_probability;
  Probs (*correction)(const Probs& target_probs, const Probs& draft_probs) = residual;
  Probs (*bonus)(const Probs& target_probs, const Probs& draft_probs) = target_alone;
};
// [end snippet rule]

// [snippet round]
struct Round {
  Text drafts;       // spec_length tokens
  int accepted = 0;  // how many of them, from the first on, were accepted
  Text emitted;      // the accepted ones, and one more: the correction or the bonus
};

// One round after `text`, whose last token is the context. `random` makes the random decisions:
// Dice (below) draws, EveryPath (enumeration.h) takes every path. REQUIRES: text is not empty.
template <typename Random>
Round speculative_round(const Tables& tables, const Text& text, int spec_length, Random& random,
                        const Rule& rule = {}) {
  Round round;
  TokenId context = text.back();
  int position = int_size(text);  // of the next token
  // [task 0.2: draft K tokens]
  // Each guess builds on the guess before it; the target is not asked yet.
  for (int i = 0; i < spec_length; ++i) {
    context = random.token(tables.draft_probs[context], position + i, Purpose::kDraft);
    round.drafts.push_back(context);
  }
  // [end task 0.2]
  // A real target computes its spec_length + 1 rows here, in one pass. A table has them already.
  // [task 0.3: test the drafts in order]
  context = text.back();
  for (const TokenId draft : round.drafts) {
    const Probs& target_probs = tables.target_probs[context];
    const Probs& draft_probs = tables.draft_probs[context];
    if (!random.accept(rule.accept(target_probs[draft], draft_probs[draft]), position)) {
      const Probs correction = rule.correction(target_probs, draft_probs);
      round.emitted.push_back(random.token(correction, position, Purpose::kResample));
      return round;  // the drafts after a rejection are never tested
    }
    round.emitted.push_back(draft);
    ++round.accepted;
    ++position;
    context = draft;
  }
  const Probs bonus = rule.bonus(tables.target_probs[context], tables.draft_probs[context]);
  round.emitted.push_back(random.token(bonus, position, Purpose::kTarget));
  return round;
  // [end task 0.3]
}
// [end snippet round]

// [snippet dice]
// A program's random decisions, by random numbers in [0, 1): one for each position and purpose.
struct Dice {
  std::function<double(int position, Purpose purpose)> uniform;

  TokenId token(const Probs& probs, int position, Purpose purpose) const {
    return sample(probs, uniform(position, purpose));
  }
  // Below, and not "at most", because a uniform of 0 must not accept a draft of probability 0.
  bool accept(double probability, int position) const {
    return uniform(position, Purpose::kAccept) < probability;
  }
};
// [end snippet dice]

}  // namespace specdec::toy
