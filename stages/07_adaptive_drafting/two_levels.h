#pragma once
#include "common/speculation/paper_formulas.h"

namespace specdec {

// A target, its draft model and a draft for that: what is known about them. Costs are in plain
// steps of the target.
struct TwoLevels {
  double draft_alpha = 0, inner_alpha = 0;  // accepted by the target, by the draft model
  double draft_step = 0, inner_step = 0;    // c1, c2: a pass of each
};

// [snippet two-levels]
// Theorem 3.8 applied twice: how much faster than plain decoding, with K drafts for the target that
// are made by rounds of k inner drafts each. An inner round costs k c2 + c1 and brings E(alpha2, k)
// drafts. It is an estimate: the last inner round of a draft phase may bring more than is wanted.
// K, k: at least 0; with k = 0 the draft model drafts alone.
inline double two_level_factor(const TwoLevels& levels, int K, int k) {
  const double inner_rounds = K / expected_emitted(levels.inner_alpha, k);
  const double drafting = inner_rounds * (k * levels.inner_step + levels.draft_step);
  return expected_emitted(levels.draft_alpha, K) / (drafting + 1);
}

struct BestTwoLevels {
  int K = 0, k = 0;
  double factor = 1;
};

// The best of all K and k up to `largest`, the smallest among equals; K = 0: plain decoding.
inline BestTwoLevels best_two_levels(const TwoLevels& levels, int largest) {
  BestTwoLevels best;
  for (int K = 1; K <= largest; K++) {
    for (int k = 0; k <= largest; k++) {
      const double factor = two_level_factor(levels, K, k);
      if (factor > best.factor) best = {K, k, factor};
    }
  }
  return best;
}
// [end snippet two-levels]

}  // namespace specdec
