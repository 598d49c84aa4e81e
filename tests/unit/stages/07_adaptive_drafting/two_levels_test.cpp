#include "stages/07_adaptive_drafting/two_levels.h"

#include <random>

#include <gtest/gtest.h>

namespace specdec {
namespace {

TEST(TwoLevelsTest, WithoutInnerDraftsItIsTheorem38) {
  const TwoLevels levels{
      .draft_alpha = 0.7, .inner_alpha = 0.4, .draft_step = 0.385, .inner_step = 0.01};
  for (int K = 0; K <= 8; K++) {
    EXPECT_DOUBLE_EQ(two_level_factor(levels, K, 0), walltime_factor(0.7, K, 0.385));
  }
}

TEST(TwoLevelsTest, ByHand) {
  // Each inner round brings (1 - 0.5^3) / 0.5 = 1.75 drafts for 2 * 0.05 + 0.4 = 0.5; a round of 7
  // drafts has 4 of them.
  const TwoLevels levels{
      .draft_alpha = 1, .inner_alpha = 0.5, .draft_step = 0.4, .inner_step = 0.05};
  EXPECT_DOUBLE_EQ(two_level_factor(levels, 7, 2), 8 / (4 * 0.5 + 1));
}

// Rounds of both levels as they are played, with the model's assumptions: it comes close, although
// inner rounds end where K is reached.
TEST(TwoLevelsTest, IsWhatRoundsCost) {
  const TwoLevels levels{
      .draft_alpha = 0.8, .inner_alpha = 0.6, .draft_step = 0.385, .inner_step = 0.01};
  constexpr int K = 12, k = 3, kRounds = 40'000;
  std::mt19937 random(5);
  const auto accepted = [&](double alpha, int most) {
    int n = 0;
    while (n < most && std::generate_canonical<double, 53>(random) < alpha) n++;
    return n;
  };
  double emitted = 0, cost = 0;
  for (int round = 0; round < kRounds; round++) {
    for (int drafted = 0; drafted < K;) {
      const int inner = std::min(k, K - drafted - 1);
      cost += inner * levels.inner_step + levels.draft_step;
      drafted += accepted(levels.inner_alpha, inner) + 1;
    }
    cost += 1;
    emitted += accepted(levels.draft_alpha, K) + 1;
  }
  EXPECT_NEAR(emitted / cost / two_level_factor(levels, K, k), 1, 0.06);
}

TEST(TwoLevelsTest, TheBestIsTheBest) {
  const TwoLevels levels{
      .draft_alpha = 0.7, .inner_alpha = 0.6, .draft_step = 0.385, .inner_step = 0.002};
  const BestTwoLevels best = best_two_levels(levels, 16);
  for (int K = 0; K <= 16; K++) {
    for (int k = 0; k <= 16; k++) EXPECT_LE(two_level_factor(levels, K, k), best.factor);
  }
  EXPECT_DOUBLE_EQ(two_level_factor(levels, best.K, best.k), best.factor);
  EXPECT_GT(best.factor, 1.3 * walltime_factor(0.7, best_spec_length(0.7, 0.385, 1, 16), 0.385))
      << "the pair 3B and 1B at alpha 0.7: 1.24 at best with one level";
}

TEST(TwoLevelsTest, PlainDecodingWhereNothingPays) {
  const BestTwoLevels best = best_two_levels(
      {.draft_alpha = 0.2, .inner_alpha = 0.2, .draft_step = 0.9, .inner_step = 0.5}, 8);
  EXPECT_EQ(best.K, 0);
  EXPECT_DOUBLE_EQ(best.factor, 1);
}

}  // namespace
}  // namespace specdec
