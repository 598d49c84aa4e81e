#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "common/sampling/random_source.h"
#include "stages/05_rejection_sampling/acceptance.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// [snippet siblings]
// The sibling drafts after one node, in the order in which they were drafted, and the target's
// distribution there.
struct Siblings {
  int position = 0;  // of the drafts' tokens
  const Drafts& tree;
  std::span<const Drafts::Trial> trials;  // at least one
  std::span<const double> target_probs;   // [V]
  double lenience = 1;                    // of rejection_chain() and lenient_likeliest(), in (0, 1]

  TokenId token(const Drafts::Trial& trial) const { return tree.node(trial.node).token; }
};

// The accepted draft, or the token that is emitted instead if all are rejected.
struct SiblingDecision {
  int node = Drafts::kRoot;  // of the accepted draft; kRoot: all were rejected
  TokenId token = 0;
  int tested = 0;  // the number of trials that were tested
};
// [end snippet siblings]

// An acceptance rule for siblings. owed: [V], working memory. Lossless unless the rule says
// otherwise: the emitted token has the target's distribution, whatever the trials are. REQUIRES:
// given the trials before it, each trial's token was drawn from its own probs, or is certain.
using SiblingRule = SiblingDecision (*)(const Siblings& siblings, RandomSource& random,
                                        std::span<double> owed);

// Iterative speculative sampling (Stratos, section 2): tests the trials one after another, each
// against the residual distribution that the earlier ones left of the target. p_0 = p; trial k is
// accepted with probability min(1, p_k / q_k); otherwise p_(k+1) = norm(max(0, p_k - q_k)). If all
// are rejected, a token is drawn from the last residual. A certain draft is accepted with
// probability p_k, and otherwise removed from p_k. Lossy for a lenience l below 1, as stage 5's
// lenient(): trial k is then accepted with probability min(1, p_k / (l q_k)).
SiblingDecision rejection_chain(const Siblings& siblings, RandomSource& random,
                                std::span<double> owed);

// Lossy, for a target that decodes greedily, as stage 5's lenient_argmax(): accepts the first trial
// with p >= l max p; if there is none, emits the likeliest token. target_probs: at temperature 1.
SiblingDecision lenient_likeliest(const Siblings& siblings, RandomSource& random,
                                  std::span<double> owed);

// rejection_chain() with the test and the residual of stage 5's at_least(): accepts trial k exactly
// if p_k >= q_k.
SiblingDecision at_least_chain(const Siblings& siblings, RandomSource& random,
                               std::span<double> owed);

// rejection_chain() with the test of stage 5's non_iterative(): accepts with probability p / (M q),
// and after a rejection the residual is p again.
SiblingDecision non_iterative_chain(const Siblings& siblings, RandomSource& random,
                                    std::span<double> owed);

// Sample and match: draws a token from the target, as plain decoding does, and accepts the draft
// with this token, if there is one. The text is that of plain sampling with the same seed.
SiblingDecision match_own(const Siblings& siblings, RandomSource& random, std::span<double> owed);

// match_own(), with the target's token drawn by an exponential race (Gumbel-max).
SiblingDecision match_race(const Siblings& siblings, RandomSource& random, std::span<double> owed);

// K-sequential selection (Sun et al. 2023, SpecTr, algorithm 2): accepts each trial with
// probability min(1, p / (rho q)), where rho is k_sequential_factor(). If all are rejected, a token
// is drawn from one residual distribution, whatever their tokens were. REQUIRES: all trials were
// drawn from the same distribution.
SiblingDecision k_sequential(const Siblings& siblings, RandomSource& random,
                             std::span<double> owed);

// The factor rho of k_sequential for `count` trials from q: the solution of
// 1 - (1 - beta)^count = rho beta, with beta = sum min(q, p / rho), in [1, count].
double k_sequential_factor(std::span<const double> target_probs,
                           std::span<const double> draft_probs, int count);

// A rule for siblings with its name in --siblings.
struct NamedSiblingRule {
  std::string_view name;
  std::string_view summary;
  SiblingRule rule = nullptr;  // null: block verification, which judges a whole path
  const NamedRule* of_one = &acceptance_rules().front();  // that it equals if a node has one draft
  bool needs_same_draws = false;           // only for siblings drawn from one distribution
  std::optional<TreeRule> on_device = {};  // the same rule on a GPU; none: the host judges

  // Whether the target's tokens are drawn by exponential races (Gumbel-max).
  bool races() const { return of_one->races; }
};

std::span<const NamedSiblingRule> sibling_rules();  // first rejection_chain(), the default

// The rule with this name. Throws Error, which lists all names, if there is none. option: the
// command-line option that gave the name.
const NamedSiblingRule& find_sibling_rule(std::string_view name,
                                          std::string_view option = "--siblings");

}  // namespace specdec
