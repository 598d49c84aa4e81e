#include "stages/07_adaptive_drafting/two_levels.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace specdec {
namespace {

TEST(TwoLevelsTest, WithoutInnerDraftsItIsTheorem38) {
  const TwoLevels levels{
      .draft_alpha = 0.7, .inner_alpha = 0.4, .draft_step = 0.385, .inner_step = 0.01};
  for (int K = 0; K <= 8; K++) {
    EXPECT_DOUBLE_EQ(two_level_factor(levels, K, 0), expected_emitted(0.7, K) / (K * 0.385 + 1));
  }
}

// One token is missing: the draft model drafts it alone, 0.4. Two: one inner draft, and half of the
// rounds leave one token, 0.05 + 0.4 + 0.4 / 2. Three: two inner drafts, after which two tokens,
// one or none are missing with probability 1/2, 1/4, 1/4.
TEST(TwoLevelsTest, ByHand) {
  const TwoLevels levels{
      .draft_alpha = 1, .inner_alpha = 0.5, .draft_step = 0.4, .inner_step = 0.05};
  EXPECT_DOUBLE_EQ(drafting_cost(levels, 1, 2), 0.4);
  EXPECT_DOUBLE_EQ(drafting_cost(levels, 2, 2), 0.65);
  EXPECT_DOUBLE_EQ(drafting_cost(levels, 3, 2), 0.1 + 0.4 + 0.65 / 2 + 0.4 / 4);
  EXPECT_DOUBLE_EQ(two_level_factor(levels, 3, 2), 4 / (0.925 + 1));
}

// Where a draft phase is: how likely it is that an inner round begins with m tokens missing.
std::vector<double> rounds_with_missing(double alpha, int K, int k) {
  std::vector<double> begins(static_cast<std::size_t>(K) + 1);
  begins.back() = 1;
  for (int m = K; m > 0; m--) {
    double reached = begins[static_cast<std::size_t>(m)];
    int left = m;
    for (int i = std::min(k, m - 1); i > 0; i--) {  // an inner draft: rejected here, or the next
      begins[static_cast<std::size_t>(--left)] += (1 - alpha) * reached;
      reached *= alpha;
    }
    begins[static_cast<std::size_t>(left - 1)] += reached;  // the bonus
  }
  return begins;
}

TEST(TwoLevelsTest, IsWhatInnerRoundsCost) {
  for (const double alpha : {0.0, 0.3, 0.6, 0.9, 1.0}) {
    const TwoLevels levels{.inner_alpha = alpha, .draft_step = 0.385, .inner_step = 0.05};
    for (int K = 0; K <= 8; K++) {
      for (int k = 0; k <= 9; k++) {
        const std::vector<double> begins = rounds_with_missing(alpha, K, k);
        double cost = 0;
        for (int m = 1; m <= K; m++) {
          cost += begins[static_cast<std::size_t>(m)] * (0.385 + std::min(k, m - 1) * 0.05);
        }
        EXPECT_NEAR(drafting_cost(levels, K, k), cost, 1e-12) << alpha << ", " << K << ", " << k;
      }
    }
  }
}

TEST(TwoLevelsTest, TheBestIsTheBest) {
  const TwoLevels levels{
      .draft_alpha = 0.7, .inner_alpha = 0.6, .draft_step = 0.385, .inner_step = 0.002};
  const BestTwoLevels best = best_two_levels(levels, 16);
  for (int K = 0; K <= 16; K++) {
    for (int k = 0; k <= 16; k++) EXPECT_LE(two_level_factor(levels, K, k), best.factor);
  }
  EXPECT_DOUBLE_EQ(two_level_factor(levels, best.K, best.k), best.factor);
}

// The chapter's pair of 3B and 1B. k is below K: more inner drafts than K - 1 are never proposed.
TEST(TwoLevelsTest, TheBestForALargePair) {
  struct Best {
    double alpha, inner_alpha;
    int K, k;
    double factor;
  };
  for (const Best& want : {Best{0.5, 0.5, 2, 1, 1.080},
                           {0.7, 0.5, 3, 2, 1.357},
                           {0.7, 0.7, 3, 2, 1.487},
                           {0.9, 0.7, 7, 6, 2.330}}) {
    const BestTwoLevels best = best_two_levels({.draft_alpha = want.alpha,
                                                .inner_alpha = want.inner_alpha,
                                                .draft_step = 0.392,
                                                .inner_step = 0.033},
                                               16);
    EXPECT_EQ(best.K, want.K) << want.alpha << ", " << want.inner_alpha;
    EXPECT_EQ(best.k, want.k) << want.alpha << ", " << want.inner_alpha;
    EXPECT_NEAR(best.factor, want.factor, 5e-4);
  }
}

TEST(TwoLevelsTest, PlainDecodingWhereNothingPays) {
  const BestTwoLevels best = best_two_levels(
      {.draft_alpha = 0.2, .inner_alpha = 0.2, .draft_step = 0.9, .inner_step = 0.5}, 8);
  EXPECT_EQ(best.K, 0);
  EXPECT_DOUBLE_EQ(best.factor, 1);
}

}  // namespace
}  // namespace specdec
