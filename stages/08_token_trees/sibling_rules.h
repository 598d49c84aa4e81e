#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "common/sampling/random_source.h"
#include "stages/05_rejection_sampling/acceptance.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// [snippet siblings]
// The drafts that follow one node, in the order in which they were drafted, and what the target
// says there.
struct Siblings {
  int position = 0;  // of their tokens
  const Drafts& tree;
  std::span<const Drafts::Trial> trials;  // at least one
  std::span<const double> target_probs;   // [V]
  double lenience = 1;                    // of rejection_chain() and lenient_likeliest(), in (0, 1]

  TokenId token(const Drafts::Trial& trial) const { return tree.node(trial.node).token; }
};

// Which of them the text goes on with; or none, and another token.
struct SiblingDecision {
  int node = Drafts::kRoot;  // kRoot: none
  TokenId token = 0;
  int tested = 0;  // trials
};
// [end snippet siblings]

// A rule for siblings. owed: [V], working memory. Lossless: whatever the trials are, the token has
// the target's distribution. REQUIRES: each trial's token was drawn from its own probs, given the
// trials before it, or is certain.
using SiblingRule = SiblingDecision (*)(const Siblings& siblings, RandomSource& random,
                                        std::span<double> owed);

// Iterative speculative sampling (Stratos, section 2): the trials one after another, each against
// what the ones before left of the target: p_0 = p; accept with min(1, p_k / q_k); otherwise
// p_(k+1) = norm(max(0, p_k - q_k)). After the last trial a token is drawn from what is owed then.
// Certain drafts are accepted with p_k, and otherwise taken out of it. Lossy with a lenience l
// below 1, as stage 5's lenient(): accepts with min(1, p_k / (l q_k)).
SiblingDecision rejection_chain(const Siblings& siblings, RandomSource& random,
                                std::span<double> owed);

// Lossy, for a target that decodes greedily, as stage 5's lenient_argmax(): the first trial with
// p >= l max p, or else the likeliest token. target_probs: at temperature 1.
SiblingDecision lenient_likeliest(const Siblings& siblings, RandomSource& random,
                                  std::span<double> owed);

// As rejection_chain(), with stage 5's at_least() for each trial: accept where p_k >= q_k.
SiblingDecision at_least_chain(const Siblings& siblings, RandomSource& random,
                               std::span<double> owed);

// The same with stage 5's non_iterative(): accept with p / (M q), and what is owed stays p.
SiblingDecision non_iterative_chain(const Siblings& siblings, RandomSource& random,
                                    std::span<double> owed);

// The target draws its own token, as plain decoding does, and the text goes on with the draft that
// is the same, if there is one. The text is that of plain sampling with the same seed.
SiblingDecision match_own(const Siblings& siblings, RandomSource& random, std::span<double> owed);

// The same where the target's token wins an exponential race.
SiblingDecision match_race(const Siblings& siblings, RandomSource& random, std::span<double> owed);

// K-sequential selection (Sun et al. 2023, SpecTr, algorithm 2): each trial is accepted with
// min(1, p / (rho q)), where rho is as small as the target allows; if none is, a token is drawn
// from one common residual. REQUIRES: all trials were drawn from the same distribution.
SiblingDecision k_sequential(const Siblings& siblings, RandomSource& random,
                             std::span<double> owed);

// The factor rho of k_sequential for `count` trials from q: the solution of
// 1 - (1 - beta)^count = rho beta, with beta = sum min(q, p / rho), in [1, count].
double k_sequential_factor(std::span<const double> target_probs,
                           std::span<const double> draft_probs, int count);

// A rule as --siblings names it.
struct NamedSiblingRule {
  std::string_view name;
  std::string_view summary;
  SiblingRule rule = nullptr;             // null: block verification, which judges a whole path
  std::string_view of_one = "rejection";  // stage 5's rule, which it is where there are no siblings
  bool needs_same_draws = false;          // only for drafts that are drawn from one distribution
  std::optional<TreeRule> on_device = {};  // the same for a GPU; none: the host judges

  // Whether the target's tokens are drawn by exponential races.
  bool races() const { return find_acceptance_rule(of_one).races; }
};

std::span<const NamedSiblingRule> sibling_rules();

// Throws Error, listing the names. option: which names it.
const NamedSiblingRule& find_sibling_rule(std::string_view name,
                                          std::string_view option = "--siblings");

}  // namespace specdec
