#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/token_id.h"
#include "common/sampling/random_source.h"
#include "kernels/sampling.h"

namespace specdec {

// [snippet proposal]
// A drafted token, with the distributions of both models at its position.
struct Proposal {
  int position = 0;                      // of the token in the context
  TokenId token = 0;                     // the draft
  std::span<const double> target_probs;  // [V]
  std::span<const double> draft_probs;   // [V]; empty: the draft is certain, q = 1
  double lenience = 1;                   // l in (0, 1], for the lenient rules

  double target_prob(TokenId i) const { return target_probs[static_cast<std::size_t>(i)]; }
  double draft_prob(TokenId i) const {
    return draft_probs.empty() ? (i == token ? 1.0 : 0.0)
                               : draft_probs[static_cast<std::size_t>(i)];
  }
};

// The outcome: the draft is accepted, or a correction is emitted instead and the round ends.
struct Decision {
  bool accepted = false;
  TokenId token = 0;  // the draft or the correction
};
// [end snippet proposal]

// An acceptance rule. scratch: [V], for the residual distribution. REQUIRES: both distributions are
// normalised up to rounding; draft_prob(token) > 0, which holds for every token that was drawn from
// draft_probs. Ensures: a token with target probability 0 is never emitted, even by the lossy
// rules.
using AcceptanceRule = Decision (*)(const Proposal& draft, RandomSource& random,
                                    std::span<double> scratch);

// min(1, p/q), the probability of accepting a draft. REQUIRES: q > 0.
double ratio(double target_prob, double draft_prob);

// Writes the residual max(0, p - q), not normalised, into scratch, [V], and returns scratch.
std::span<const double> residual(const Proposal& draft, std::span<double> scratch);

// Draws the correction after a rejected draft from weights, [V], which need not be normalised. If
// all weights are 0, draws from the target's distribution.
Decision correct(const Proposal& draft, RandomSource& random, std::span<const double> weights);

// Speculative sampling (Leviathan et al., Algorithm 1; proof in appendix A.1): accepts with
// probability min(1, p/q), otherwise draws from the residual distribution norm(max(0, p - q)).
// Lossless. Acceptance rate sum min(p, q), the highest of all lossless rules for a single draft.
Decision rejection(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Accepts if p >= q. Lossless with a residual of its own: p - q where p >= q, elsewhere p.
// Acceptance rate: the sum of q over the tokens with p >= q. It is lower than that of rejection(),
// but the test needs no random number.
Decision at_least(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Non-iterative rejection sampling (appendix A.2): accepts with probability p / (M q), where M is
// the largest p/q, otherwise draws from p. Lossless. Acceptance rate 1/M.
Decision non_iterative(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Draws the target's token as without a draft, and emits it. The draft is accepted if it is the
// same token. Lossless, and the text is that of plain sampling with the same seed. Acceptance rate
// sum p q.
Decision sample_and_match(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Treats q as one-hot, which is true for prompt lookup: accepts with probability p, otherwise draws
// from p without the token. Lossless for every way of choosing the draft. Acceptance rate sum p q.
Decision one_hot(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Like sample_and_match(), but draft and target draw by exponential races (Gumbel-max) with the
// same noise: if p and q are close, both races mostly have the same winner. Lossless, and the text
// is that of plain race sampling with the same seed.
Decision coupled(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy: compares p with l q instead of q (appendix A.5), so it accepts with probability
// min(1, p / (l q)). Acceptance rate sum min(p/l, q). Emits no token with a probability above p/l.
Decision lenient(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy: rejection() with the classic bug that draws the correction from p, not from the residual
// distribution. Tokens that the draft model prefers come out too often: they have two chances.
Decision residual_skipped(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy, for a target that decodes greedily (appendix A.5): accepts if p >= l max p, otherwise
// emits the likeliest token. target_probs: at temperature 1, not one-hot.
Decision lenient_argmax(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// A value of --acceptance.
struct NamedRule {
  std::string_view name;
  std::string_view summary;
  AcceptanceRule rule = nullptr;
  bool tests_by_uniform = true;             // each test draws a uniform, Purpose::kAccept
  bool corrects_by_residual = false;        // corrections come from norm(max(0, p - q))
  Purpose correction = Purpose::kResample;  // the purpose of a correction's draw
  bool races = false;                       // all tokens are drawn by exponential races
  bool lossless = true;
  std::optional<VerificationRule> on_device = {};  // the same rule on a GPU; none: host only
};

std::span<const NamedRule> acceptance_rules();  // the first is rejection(), the default

// The rule for a lenience below 1: lenient(), or lenient_argmax() at temperature 0.
const NamedRule& lenient_rule(double temperature);

// The rule of this name. Throws Error, listing all names, if there is none.
const NamedRule& find_acceptance_rule(std::string_view name);

}  // namespace specdec
