#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/speculation/paper_formulas.h"

namespace specdec {

// A target, its draft model and a draft for that: what is known about them. Costs are in plain
// steps of the target.
struct TwoLevels {
  double draft_alpha = 0, inner_alpha = 0;  // accepted by the target, by the draft model
  double draft_step = 0, inner_step = 0;    // c1, c2: a pass of each
};

// [snippet two-levels]
// What it costs to draft K tokens for the target by rounds of up to k inner drafts each: C(K). With
// m tokens still missing, an inner round proposes k' = min(k, m - 1) tokens, so it costs k' c2 +
// c1. With probability alpha2^j (1 - alpha2) it accepts j < k' of them and brings j + 1 tokens;
// with probability alpha2^k' it accepts all and brings k' + 1.
inline double drafting_cost(const TwoLevels& levels, int K, int k) {
  const double alpha = levels.inner_alpha;
  std::vector<double> cost(static_cast<std::size_t>(K) + 1);  // of m missing tokens
  for (int m = 1; m <= K; m++) {
    const int proposed = std::min(k, m - 1);
    double rest = 0;  // what is missing after this round costs, on average
    for (int accepted = 0; accepted <= proposed; accepted++) {
      const double ends_here = accepted < proposed ? 1 - alpha : 1;
      rest += std::pow(alpha, accepted) * ends_here * cost[m - accepted - 1];
    }
    cost[m] = proposed * levels.inner_step + levels.draft_step + rest;
  }
  return cost.back();
}

// Theorem 3.8 applied twice: how much faster than plain decoding. REQUIRES: K, k of at least 0;
// with k = 0 the draft model drafts alone.
inline double two_level_factor(const TwoLevels& levels, int K, int k) {
  return expected_emitted(levels.draft_alpha, K) / (drafting_cost(levels, K, k) + 1);
}

struct BestTwoLevels {
  int K = 0, k = 0;
  double factor = 1;
};

// The best of all K up to `largest` and k below K, the smallest among equals; K = 0: plain
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
