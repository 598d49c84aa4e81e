// The formula for two levels with the numbers of a run.
#include <cmath>

#include <gtest/gtest.h>

#include "common/speculation/paper_formulas.h"
#include "stages/programs/adaptive/drafters.h"

namespace specdec {
namespace {

// 24 rounds of K = 5: 76 of 90 tested drafts were accepted, with 79 passes of the draft model,
// which accepted 41 of 96 inner drafts.
RunStats stats_of_rounds() {
  RunStats stats;
  stats.rounds = 24;
  stats.drafted = 120;
  stats.tested = 90;
  stats.accepted = 76;
  stats.rounds_by_drafted = {0, 0, 0, 0, 0, 24};
  return stats;
}

Speedup costs(double c, double v) {
  Speedup speedup;
  speedup.c = c;
  speedup.v = v;
  return speedup;
}

// With k of at least K - 1 every draft but the last of a phase is tested, so the formula has the
// run's own passes: 5 - 4 * 41 / 96 = 79 / 24 for each round.
TEST(TwoLevelSpeedupTest, CountsInPlainSteps) {
  const SpeculatingDrafter::Counts inner{
      .passes = 79, .drafted = 178, .tested = 96, .accepted = 41};
  const double emitted = expected_emitted(76.0 / 90, 5);
  for (const auto& [c, v] : {std::pair{0.2, 1.0}, {0.2, 2.4}, {0.0, 2.4}}) {
    EXPECT_NEAR(two_level_speedup(inner, 4, stats_of_rounds(), costs(c, v)), emitted / (5 * c + v),
                1e-12)
        << c << ", " << v;
  }
}

TEST(TwoLevelSpeedupTest, ARoundWithoutDraftsIsAPlainStep) {
  RunStats stats = stats_of_rounds();
  stats.rounds_by_drafted[0] = 24;
  const SpeculatingDrafter::Counts inner{
      .passes = 79, .drafted = 178, .tested = 96, .accepted = 41};
  const double emitted = expected_emitted(76.0 / 90, 5);
  EXPECT_NEAR(two_level_speedup(inner, 4, stats, costs(0.2, 2.4)), (emitted + 1) / (3.4 + 1),
              1e-12);
}

TEST(TwoLevelSpeedupTest, UnknownWhereNothingWasTested) {
  EXPECT_TRUE(std::isnan(two_level_speedup({}, 4, stats_of_rounds(), costs(0.2, 2.4))));
  EXPECT_TRUE(std::isnan(two_level_speedup({.passes = 9, .tested = 3}, 4, {}, costs(0.2, 2.4))));
}

}  // namespace
}  // namespace specdec
