#include "stages/08_token_trees/best_shape.h"

#include <algorithm>
#include <functional>

#include "tests/test_support.h"

namespace specdec {
namespace {

using Plan = Likeliest::Plan;

int size_of(const Plan& plan) { return static_cast<int>(plan.size()) - 1; }

int levels_of(const Plan& plan, std::size_t node = 0) {
  int levels = 0;
  for (const int child : plan[node].children) {
    levels = std::max(levels, 1 + levels_of(plan, static_cast<std::size_t>(child)));
  }
  return levels;
}

// The largest value of any plan with so many nodes below one node, by trying all of them: every way
// to divide the nodes among the children.
double best_by_trying(const AcceptanceByRank& acceptance, int level, int levels, int nodes) {
  if (level == levels) return 0;
  const auto& row = acceptance[std::min<std::size_t>(std::size_t(level), acceptance.size() - 1)];
  const std::function<double(std::size_t, int)> from = [&](std::size_t rank, int left) -> double {
    double best = 0;
    for (int size = 1; rank < row.size() && size <= left; size++) {
      const double below = best_by_trying(acceptance, level + 1, levels, size - 1);
      best = std::max(best, row[rank] * (1 + below) + from(rank + 1, left - size));
    }
    return best;
  };
  return from(0, nodes);
}

TEST(BestShapeTest, NoOtherShapeAcceptsMore) {
  const AcceptanceByRank tables[] = {{{0.7, 0.2, 0.05}},
                                     {{0.5, 0.3, 0.1, 0.05}, {0.9}, {0.4, 0.4}},
                                     {{0.34, 0.33, 0.33}},
                                     {{1.0, 0.0}},
                                     {{0.1}, {0.9, 0.1}}};
  for (const AcceptanceByRank& acceptance : tables) {
    for (int nodes = 1; nodes <= 8; nodes++) {
      for (int levels = 1; levels <= 4; levels++) {
        const Plan plan = best_plan(acceptance, nodes, levels);
        EXPECT_LE(size_of(plan), nodes);
        EXPECT_LE(levels_of(plan), levels);
        EXPECT_NEAR(expected_accepted(plan, acceptance),
                    best_by_trying(acceptance, 0, levels, nodes), 1e-12)
            << nodes << " nodes, " << levels << " levels";
      }
    }
  }
}

// With one rank a tree is a chain, and the sum is that of the paper's formula (1).
TEST(BestShapeTest, OneRankMakesAChain) {
  const Plan plan = best_plan({{0.8}}, 9, 5);
  EXPECT_EQ(size_of(plan), 5);
  EXPECT_EQ(levels_of(plan), 5);
  double sum = 0, product = 1;
  for (int i = 0; i < 5; i++) sum += product *= 0.8;
  EXPECT_NEAR(expected_accepted(plan, {{0.8}}), sum, 1e-12);
}

TEST(BestShapeTest, WidthsMakeTheirPlan) {
  const Plan plan = plan_of_widths(std::vector<int>{3, 2, 1});
  EXPECT_EQ(size_of(plan), 3 + 6 + 6);
  EXPECT_EQ(levels_of(plan), 3);
  EXPECT_EQ(plan[0].children, (std::vector<int>{1, 2, 3}));
  EXPECT_NEAR(expected_accepted(plan, {{0.5, 0.3, 0.1}}), 0.9 + 0.9 * 0.8 + 0.9 * 0.8 * 0.5, 1e-12);
}

}  // namespace
}  // namespace specdec
