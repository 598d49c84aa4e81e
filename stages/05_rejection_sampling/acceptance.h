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
// A drafted token, and what both models say at its place.
struct Proposal {
  int position = 0;                      // of the token
  TokenId token = 0;                     // the draft
  std::span<const double> target_probs;  // [V]
  std::span<const double> draft_probs;   // [V]; empty: one-hot, all on the draft
  double lenience = 1;                   // in (0, 1], for the lenient rules

  double target_prob(TokenId i) const { return target_probs[static_cast<std::size_t>(i)]; }
  double draft_prob(TokenId i) const {
    return draft_probs.empty() ? (i == token ? 1.0 : 0.0)
                               : draft_probs[static_cast<std::size_t>(i)];
  }
};

// What becomes of it: the draft stays, or another token is emitted in its place and the round ends.
struct Decision {
  bool accepted = false;
  TokenId token = 0;
};
// [end snippet proposal]

// An acceptance rule. scratch: [V], for the distribution of a correction.
// REQUIRES: both distributions are normalised up to rounding; draft_prob(token) > 0, as it is for
// every token that was drawn from draft_probs.
// Ensures: a token of target probability zero is never emitted (the lenient argmax rule too).
using AcceptanceRule = Decision (*)(const Proposal& draft, RandomSource& random,
                                    std::span<double> scratch);

// What rules are made of. min(1, p/q), the probability to keep a draft. REQUIRES: q > 0.
double ratio(double target_prob, double draft_prob);

// max(0, p - q) [V], in scratch: what the target still owes after a rejection.
std::span<const double> residual(const Proposal& draft, std::span<double> scratch);

// Draws the token that is emitted in place of a rejected draft, from weights [V] that need not be
// normalised; from the target's distribution where all of them are zero.
Decision correct(const Proposal& draft, RandomSource& random, std::span<const double> weights);

// Speculative sampling (Leviathan et al., Algorithm 1; proof in appendix A.1): accept with
// probability min(1, p/q), otherwise draw from norm(max(0, p - q)). Lossless; accepts sum min(p,
// q), and no rule that looks at one draft accepts more.
Decision rejection(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Accept exactly where p >= q. Lossless with its own residual, p - q [p >= q]; accepts the sum of q
// over those tokens, which is less, but needs no random number to do it.
Decision at_least(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Non-iterative rejection sampling (appendix A.2): accept with probability p / (M q), where M is
// the largest p/q, otherwise draw from p itself. Lossless; accepts 1/M.
Decision non_iterative(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// The target draws its own token, as it would without a draft, and that one is emitted. The draft
// was right where it is the same. Lossless, and the text is that of plain sampling with the same
// seed; accepts sum p q.
Decision sample_and_match(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// As if the draft had been certain of its token, which is true of a lookup: accept with probability
// p, otherwise draw from p without the token. Lossless, however the token came about; accepts
// sum p q.
Decision one_hot(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// As sample_and_match, with the target's token drawn by an exponential race whose noise the draft
// shares: where p and q are close, both races have the same winner. Lossless, the text is that of
// plain race sampling with the same seed.
Decision coupled(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy: q counts only as l q where it is compared with p (appendix A.5): accept with probability
// min(1, p / (l q)). Accepts sum min(p/l, q). No token is emitted with a probability above p/l.
Decision lenient(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy: rejection() that draws its correction from p, as if the draft had said nothing. What the
// draft likes comes out too often: it had two chances.
Decision residual_skipped(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// Lossy, for a target that decodes greedily (appendix A.5): accept where p >= l max p, otherwise
// take the likeliest. target_probs: at temperature 1, not the argmax's one-hot.
Decision lenient_argmax(const Proposal& draft, RandomSource& random, std::span<double> scratch);

// A rule as --acceptance names it.
struct NamedRule {
  std::string_view name;
  std::string_view summary;
  AcceptanceRule rule = nullptr;
  bool tests_by_uniform = true;             // it draws Purpose::kAccept
  bool corrects_by_residual = false;        // norm(max(0, p - q))
  Purpose correction = Purpose::kResample;  // what it draws a correction for
  bool races = false;                       // all tokens are drawn by exponential races
  bool lossless = true;
  std::optional<VerificationRule> on_device = {};  // the same for a GPU; none: the host judges
};

std::span<const NamedRule> acceptance_rules();

// What a lenience below 1 makes of "rejection": lenient(), or lenient_argmax() at temperature 0.
const NamedRule& lenient_rule(double temperature);

// Throws Error, listing the names.
const NamedRule& find_acceptance_rule(std::string_view name);

}  // namespace specdec
