#include "stages/programs/adaptive/all_places.h"

#include <string_view>

#include <gtest/gtest.h>

namespace specdec {
namespace {

// '+': a draft there would be accepted.
std::vector<TriedPlace> places(std::string_view marks) {
  std::vector<TriedPlace> result;
  for (const char mark : marks) result.push_back({mark == '+' ? 1.0 : 0.0, mark == '+'});
  return result;
}

TEST(OracleRunTest, DraftsWhatWillBeAccepted) {
  // Rounds of 2, 0 and 3 drafts, each with the target's own token after them.
  const OracleRun run = oracle_run(places("++--+++-"), 5);
  EXPECT_EQ(run.rounds, (std::vector<int>{1, 0, 1, 1, 0, 0}));
  EXPECT_EQ(run.emitted, 8);
  EXPECT_EQ(run.drafted, 5);
  EXPECT_EQ(run.target_forwards(), 3);
}

TEST(OracleRunTest, KIsBoundedAndTheBonusTakesThePlaceBehind) {
  // With K = 2 at most: ++ and the bonus in place of +, then + and -.
  const OracleRun run = oracle_run(places("++++-"), 2);
  EXPECT_EQ(run.rounds, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(run.emitted, 5);
}

TEST(OracleRunTest, ATextThatEndsWithAcceptedDraftsHasNoTokenAfterThem) {
  const OracleRun run = oracle_run(places("-++"), 5);
  EXPECT_EQ(run.rounds, (std::vector<int>{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(run.emitted, 3);
}

TEST(OracleRunTest, TheGainIsTokensOverCosts) {
  const OracleRun run = oracle_run(places("++-+-"), 2);
  EXPECT_DOUBLE_EQ(run.speedup(std::vector<double>{1, 1.25, 1.5}), 5 / (1.25 + 1.5));
}

// No policy with the same bound beats it: every way to cut a text into rounds that draft only what
// is accepted takes at least as many.
TEST(OracleRunTest, TakesTheFewestRounds) {
  for (unsigned marks = 0; marks < 1U << 9; marks++) {
    std::string text;
    for (int i = 0; i < 9; i++) text += (marks >> i & 1) != 0 ? '+' : '-';
    std::vector<int> fewest(10 + 4, 0);  // rounds from a place on
    for (int at = 8; at >= 0; at--) {
      int best = 1 << 20;
      for (int K = 0; K <= 3; K++) {
        if (K > 0 && (at + K > 9 || text[static_cast<std::size_t>(at + K) - 1] != '+')) break;
        best = std::min(best, 1 + fewest[static_cast<std::size_t>(at + K) + 1]);
      }
      fewest[static_cast<std::size_t>(at)] = best;
    }
    EXPECT_EQ(oracle_run(places(text), 3).target_forwards(), fewest[0]) << text;
  }
}

}  // namespace
}  // namespace specdec
