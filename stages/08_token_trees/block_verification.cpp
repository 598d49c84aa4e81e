#include "stages/08_token_trees/block_verification.h"

#include <algorithm>

#include "kernels/int_size.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {
namespace {

double prob_of(std::span<const double> probs, TokenId token, TokenId certain) {
  if (probs.empty()) return token == certain ? 1 : 0;
  return probs[token];
}

// Writes the unnormalised residual max(0, reach p - q) after i drafts into `owed`, [V], and returns
// its sum.
double owe_after(const DraftedBlock& block, int i, double reach, std::span<double> owed) {
  const auto target_probs = block.target_probs(i);
  const auto draft_probs = block.draft_probs(i);
  double total = 0;
  for (TokenId token = 0; token < std::ssize(owed); token++) {
    const auto at = static_cast<std::size_t>(token);
    const double q = prob_of(draft_probs, token, block.tokens[i]);
    owed[at] = std::max(0.0, reach * target_probs[at] - q);
    total += owed[at];
  }
  return total;
}

}  // namespace

// [snippet verify-block]
BlockDecision verify_block(const DraftedBlock& block, RandomSource& random,
                           std::span<double> owed) {
  // [task 8.6: verify a block]
  const int n = int_size(block.tokens);
  BlockDecision decision;
  // reach is the paper's p_i = min(1, p_(i-1) p / q), the probability that the prefix of i drafts
  // is in reach; reach_accepted is that of the longest prefix that passed its test.
  double reach = 1, reach_accepted = 1;
  for (int i = 1; i <= n; i++) {
    const TokenId x = block.tokens[i - 1];
    const double p = block.target_probs(i - 1)[x];
    reach = std::min(1.0, reach * p / prob_of(block.draft_probs(i - 1), x, x));
    double probability = reach;
    if (i < n) {
      const double left = owe_after(block, i, reach, owed);
      const double all = left + 1 - reach;
      probability = all > 0 ? left / all : 1;  // nothing is owed: reach = 1, and q equals p
    }
    if (random.accept(probability, block.position + i - 1, draw_index(i - 1, 0))) {
      decision.accepted = i;
      reach_accepted = reach;
    }
  }
  const int position = block.position + decision.accepted;
  if (decision.accepted == n) {
    decision.token = random.token(block.target_probs(n), position, Purpose::kTarget);
  } else {
    const bool any = owe_after(block, decision.accepted, reach_accepted, owed) > 0;
    decision.token = random.token(any ? owed : block.target_probs(decision.accepted), position,
                                  Purpose::kResample);
  }
  return decision;
  // [end task 8.6]
}
// [end snippet verify-block]

}  // namespace specdec
