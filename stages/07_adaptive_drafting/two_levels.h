#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/speculation/paper_formulas.h"

namespace specdec {

// A draft model for the target, and an inner draft model for the draft model. Costs are in plain
// steps of the target.
struct TwoLevels {
  double draft_alpha = 0, inner_alpha = 0;  // alpha1, alpha2: acceptance rates of their drafts
  double draft_step = 0, inner_step = 0;    // c1, c2: costs of their passes
};

// [snippet two-levels]
// C(K): the cost of drafting K tokens for the target in rounds of up to k inner drafts each. With m
// tokens still missing, an inner round drafts k' = min(k, m - 1) tokens, so it costs k' c2 + c1.
// With probability alpha2^j (1 - alpha2) it accepts j < k' of them and emits j + 1 tokens; with
// probability alpha2^k' it accepts all and emits k' + 1.
inline double drafting_cost(const TwoLevels& levels, int K, int k) {
  const double alpha = levels.inner_alpha;
  std::vector<double> cost(static_cast<std::size_t>(K) + 1);  // of m missing tokens
  for (int m = 1; m <= K; m++) {
    const int proposed = std::min(k, m - 1);
    double rest = 0;  // the average cost of the tokens that are missing after this round
    for (int accepted = 0; accepted <= proposed; accepted++) {
      const double ends_here = accepted < proposed ? 1 - alpha : 1;
      rest += std::pow(alpha, accepted) * ends_here * cost[m - accepted - 1];
    }
    cost[m] = proposed * levels.inner_step + levels.draft_step + rest;
  }
  return cost.back();
}

// Theorem 3.8 applied twice: the speedup over plain decoding. With k = 0 the draft model drafts
// alone. REQUIRES: K >= 0, k >= 0.
inline double two_level_factor(const TwoLevels& levels, int K, int k) {
  return expected_emitted(levels.draft_alpha, K) / (drafting_cost(levels, K, k) + 1);
}

struct BestTwoLevels {
  int K = 0, k = 0;
  double factor = 1;
};

// The best pair of K up to `largest` and k below K, the smallest among equals. K = 0 means plain
// decoding.
inline BestTwoLevels best_two_levels(const TwoLevels& levels, int largest) {
  BestTwoLevels best;
  for (int K = 1; K <= largest; K++) {
    for (int k = 0; k < K; k++) {
      const double factor = two_level_factor(levels, K, k);
      if (factor > best.factor) best = {K, k, factor};
    }
  }
  return best;
}
// [end snippet two-levels]

}  // namespace specdec
