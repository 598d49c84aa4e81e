#include "stages/08_token_trees/sibling_rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/base/named.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// One trial as stage 5's Proposal, with the residual `owed` as the target's distribution.
Proposal proposal(const Siblings& siblings, const Drafts::Trial& trial,
                  std::span<const double> owed) {
  return {siblings.position, siblings.token(trial), owed, siblings.tree.probs(trial), 1};
}

// Sets `owed` to the normalised weights. If all weights are 0, the two distributions were equal up
// to rounding, and `owed` stays as it was.
template <typename Weight>
void owe(std::span<double> owed, Weight&& weight) {
  double total = 0;
  for (TokenId i = 0; i < std::ssize(owed); i++) total += weight(i);
  if (!(total > 0)) return;
  for (TokenId i = 0; i < std::ssize(owed); i++) {
    owed[i] = weight(i) / total;
  }
}

SiblingDecision last(const Siblings& siblings, RandomSource& random, std::span<const double> owed) {
  return {Drafts::kRoot, random.token(owed, siblings.position, Purpose::kResample),
          int_size(siblings.trials)};
}

SiblingDecision kept(const Siblings& siblings, int k) {
  const Drafts::Trial& trial = siblings.trials[k];
  return {trial.node, siblings.token(trial), k + 1};
}

// [snippet one-after-another]
// Tests each trial against the residual that the earlier ones left of the target. accepts(p, q, k):
// whether trial k is accepted, if its token has probabilities p and q. left(p, q): the weight that
// a rejection leaves of a token.
template <typename Accepts, typename Left>
SiblingDecision one_after_another(const Siblings& siblings, RandomSource& random,
                                  std::span<double> owed, Accepts&& accepts, Left&& left) {
  // [task 8.5: one trial after another]
  std::ranges::copy(siblings.target_probs, owed.begin());
  for (int k = 0; k < std::ssize(siblings.trials); k++) {
    const Proposal draft = proposal(siblings, siblings.trials[k], owed);
    const TokenId x = draft.token;
    if (accepts(draft.target_prob(x), draft.draft_prob(x), k)) return kept(siblings, k);
    owe(owed, [&](TokenId i) { return left(draft.target_prob(i), draft.draft_prob(i)); });
  }
  return last(siblings, random, owed);
  // [end task 8.5]
}
// [end snippet one-after-another]

}  // namespace

// [snippet rejection-chain]
SiblingDecision rejection_chain(const Siblings& siblings, RandomSource& random,
                                std::span<double> owed) {
  return one_after_another(
      siblings, random, owed,
      [&](double p, double q, int k) {
        return random.accept(ratio(p / siblings.lenience, q), siblings.position, k);
      },
      [](double p, double q) { return std::max(0.0, p - q); });
}
// [end snippet rejection-chain]

SiblingDecision lenient_likeliest(const Siblings& siblings, RandomSource& /*random*/,
                                  std::span<double> /*owed*/) {
  const auto best = std::ranges::max_element(siblings.target_probs);
  for (int k = 0; k < std::ssize(siblings.trials); k++) {
    const auto x = static_cast<std::size_t>(siblings.token(siblings.trials[k]));
    if (siblings.target_probs[x] >= siblings.lenience * *best) return kept(siblings, k);
  }
  return {Drafts::kRoot, static_cast<TokenId>(best - siblings.target_probs.begin()),
          int_size(siblings.trials)};
}

SiblingDecision at_least_chain(const Siblings& siblings, RandomSource& random,
                               std::span<double> owed) {
  return one_after_another(
      siblings, random, owed, [](double p, double q, int) { return p >= q; },
      [](double p, double q) { return p >= q ? p - q : p; });
}

SiblingDecision non_iterative_chain(const Siblings& siblings, RandomSource& random,
                                    std::span<double> /*owed*/) {
  for (int k = 0; k < std::ssize(siblings.trials); k++) {
    const Proposal draft = proposal(siblings, siblings.trials[k], siblings.target_probs);
    double least = 1;  // 1 / M, the smallest q/p; 0 if q is 0 for a token of p
    for (TokenId i = 0; i < std::ssize(siblings.target_probs); i++) {
      const double p = draft.target_prob(i);
      if (p > 0) least = std::min(least, draft.draft_prob(i) / p);
    }
    const TokenId x = draft.token;
    const double probability = least * draft.target_prob(x) / draft.draft_prob(x);
    if (random.accept(std::min(1.0, probability), draft.position, k)) return kept(siblings, k);
  }
  return last(siblings, random, siblings.target_probs);
}

// [snippet match-own]
namespace {

SiblingDecision walk_to(const Siblings& siblings, TokenId own) {
  for (int k = 0; k < std::ssize(siblings.trials); k++) {
    if (siblings.token(siblings.trials[k]) == own) {
      return kept(siblings, k);
    }
  }
  return {Drafts::kRoot, own, int_size(siblings.trials)};
}

}  // namespace

SiblingDecision match_own(const Siblings& siblings, RandomSource& random,
                          std::span<double> /*owed*/) {
  return walk_to(siblings,
                 random.token(siblings.target_probs, siblings.position, Purpose::kTarget));
}

SiblingDecision match_race(const Siblings& siblings, RandomSource& random,
                           std::span<double> /*owed*/) {
  return walk_to(siblings, random.race(siblings.target_probs, siblings.position));
}
// [end snippet match-own]

// [snippet k-sequential]
// As rho grows, beta falls and rho beta does not, so there is one solution. Bisection finds it. The
// upper end is returned, because there the residual is certainly not negative.
double k_sequential_factor(std::span<const double> target_probs,
                           std::span<const double> draft_probs, int count) {
  double low = 1, high = count;
  for (int step = 0; step < 100 && low < high; step++) {
    const double rho = (low + high) / 2;
    double beta = 0;
    for (std::size_t i = 0; i < target_probs.size(); i++) {
      beta += std::min(draft_probs[i], target_probs[i] / rho);
    }
    (1 - std::pow(1 - beta, count) > rho * beta ? low : high) = rho;
    if (rho == low && rho == high) break;
  }
  return high;
}

SiblingDecision k_sequential(const Siblings& siblings, RandomSource& random,
                             std::span<double> owed) {
  const std::span<const double> q = siblings.tree.probs(siblings.trials.front());
  SPECDEC_CHECK(!q.empty(), "drafts that were drawn from a distribution");
  const int count = int_size(siblings.trials);
  const double rho = k_sequential_factor(siblings.target_probs, q, count);
  for (int k = 0; k < count; k++) {
    const Drafts::Trial& trial = siblings.trials[k];
    SPECDEC_CHECK(trial.probs == siblings.trials.front().probs, "drafts from one distribution");
    const auto x = static_cast<std::size_t>(siblings.token(trial));
    const double probability = ratio(siblings.target_probs[x] / rho, q[x]);
    if (random.accept(probability, siblings.position, k)) return kept(siblings, k);
  }
  double beta = 0;
  for (std::size_t i = 0; i < q.size(); i++) {
    beta += std::min(q[i], siblings.target_probs[i] / rho);
  }
  const double tried = beta > 0 ? (1 - std::pow(1 - beta, count)) / beta : 0;
  std::ranges::copy(siblings.target_probs, owed.begin());
  owe(owed, [&](TokenId token) {
    const auto i = static_cast<std::size_t>(token);
    return std::max(
        0.0, siblings.target_probs[i] - tried * std::min(q[i], siblings.target_probs[i] / rho));
  });
  return last(siblings, random, owed);
}
// [end snippet k-sequential]

namespace {

// Stage 5's rule for each draft, under its name.
NamedSiblingRule one_by_one(AcceptanceRule of_one, std::string_view summary, SiblingRule rule) {
  const auto found = std::ranges::find(acceptance_rules(), of_one, &NamedRule::rule);
  return {.name = found->name,
          .summary = summary,
          .rule = rule,
          .of_one = &*found,
          .on_device = TreeRule{JudgeTree::kOneByOne, *found->on_device}};
}

}  // namespace

std::span<const NamedSiblingRule> sibling_rules() {
  static const std::array<NamedSiblingRule, 7> kRules = {{
      one_by_one(rejection, "one after another, each against what is still owed", rejection_chain),
      one_by_one(at_least, "where p >= q, one after another", at_least_chain),
      one_by_one(non_iterative, "p / (M q), one after another", non_iterative_chain),
      one_by_one(sample_and_match, "the one that the target draws itself", match_own),
      one_by_one(coupled, "the one that wins the target's race", match_race),
      {.name = "k-sequential",
       .summary = "p / (rho q), then one residual for all: chains only",
       .rule = k_sequential,
       .needs_same_draws = true,
       .on_device = TreeRule{.judge = JudgeTree::kTogether}},
      {.name = "block",
       .summary = "one chain, judged as a whole",
       .needs_same_draws = true,
       .on_device = TreeRule{.judge = JudgeTree::kPath}},
  }};
  return kRules;
}

const NamedSiblingRule& find_sibling_rule(std::string_view name, std::string_view option) {
  return get_named(sibling_rules(), name, option, "rule for siblings");
}

}  // namespace specdec
