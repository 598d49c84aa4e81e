// The rule that gives rows to the drafts of a batch, and what it knows: costs and history.
#include "stages/07_adaptive_drafting/row_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/07_adaptive_drafting/batch_budget.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;

using Chains = std::vector<std::vector<double>>;

std::vector<int> given_to(const Chains& chains, const RowBudget& budget) {
  const std::vector<std::span<const double>> survival(chains.begin(), chains.end());
  return give_rows(survival, budget);
}

CostCurve curve() { return CostCurve({{1, 1.0}, {2, 1.05}, {4, 1.2}, {8, 1.7}, {16, 3.3}}); }

// ---- costs

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Its other definition: of all stretches that end at i or later, the smallest mean, and of these
// for all beginnings up to i the largest.
double isotonic_at(std::span<const double> values, std::size_t i) {
  double largest = -1;
  for (std::size_t first = 0; first <= i; first++) {
    double smallest = std::numeric_limits<double>::max();
    for (std::size_t end = i + 1; end <= values.size(); end++) {
      smallest = std::min(smallest, mean(values.subspan(first, end - first)));
    }
    largest = std::max(largest, smallest);
  }
  return largest;
}

TEST(IsotonicTest, IsTheLargestOfTheSmallestMeans) {
  EXPECT_TRUE(isotonic({}).empty());
  std::mt19937 random(1);
  for (int i = 0; i < 500; i++) {
    std::vector<double> values(1 + i % 12);
    for (double& value : values) value = static_cast<double>(random() % 8);
    const std::vector<double> found = isotonic(values);
    ASSERT_EQ(found.size(), values.size());
    EXPECT_TRUE(std::ranges::is_sorted(found));
    for (std::size_t at = 0; at < values.size(); at++) {
      EXPECT_NEAR(found[at], isotonic_at(values, at), 1e-12);
    }
    EXPECT_EQ(isotonic(found), found) << "to the bit, as a profile comes back from its file";
  }
}

TEST(CostCurveTest, IsTheLowerConvexHullOfMonotoneCosts) {
  //                              noise: fewer rows took longer; a bump; a step; a dent
  const CostCurve bumpy({{1, 1.2}, {2, 1.0}, {3, 1.5}, {4, 1.2}, {6, 2.0}, {8, 2.0}});
  double last = 0;
  for (int rows = 1; rows <= 12; rows++) {
    EXPECT_GE(bumpy.of_next_row(rows), last - 1e-12) << rows;
    last = bumpy.of_next_row(rows);
  }
  EXPECT_DOUBLE_EQ(bumpy.seconds(1), 1.1) << "the mean of 1 and 2";
  EXPECT_DOUBLE_EQ(bumpy.seconds(3), 1.225) << "between 2 and 4";
  EXPECT_DOUBLE_EQ(bumpy.seconds(6), 1.675) << "between 4 and 8, below the bump";
  EXPECT_DOUBLE_EQ(bumpy.seconds(8), 2.0);
  EXPECT_DOUBLE_EQ(bumpy.seconds(10), 2.325) << "beyond the last point as before it";
  EXPECT_DOUBLE_EQ(CostCurve({{1, 2.0}}).seconds(7), 2.0);
}

// ---- the rule

TEST(RowBudgetTest, GivesTheLargestSurvivalsTheFirstRows) {
  const Chains chains = {{0.9, 0.5, 0.4}, {0.8, 0.7}, {}, {0.2}};
  EXPECT_THAT(given_to(chains, {.most = 0}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(given_to(chains, {.most = 3}), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(given_to(chains, {.most = 5}), ElementsAre(3, 2, 0, 0));
  EXPECT_THAT(given_to(chains, {}), ElementsAre(3, 2, 0, 1)) << "without a limit, everything";
}

TEST(RowBudgetTest, IsTheBestSetOfSoManyPlaces) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 200; i++) {
    Chains chains(3);
    std::vector<double> all;
    for (auto& chain : chains) {
      double survival = 1;
      for (int places = static_cast<int>(random() % 5); places > 0; places--) {
        chain.push_back(survival *= uniform(random));
        all.push_back(survival);
      }
    }
    std::ranges::sort(all, std::greater());
    for (std::size_t n = 0; n <= all.size(); n++) {
      const std::vector<int> given = given_to(chains, {.most = static_cast<int>(n)});
      double sum = 0;
      for (std::size_t r = 0; r < chains.size(); r++) {
        sum += std::accumulate(chains[r].begin(), chains[r].begin() + given[r], 0.0);
      }
      ASSERT_NEAR(sum, std::accumulate(all.begin(), all.begin() + static_cast<long>(n), 0.0),
                  1e-12);
    }
  }
}

// One more row pays while it brings more tokens per second than the pass has so far. With convex
// costs the ratio then rises to its largest value.
TEST(RowBudgetTest, AddsRowsWhileTheTokensPerSecondRise) {
  const CostCurve costs = curve();
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  int some = 0;
  for (int i = 0; i < 500; i++) {
    Chains chains(1 + random() % 4);
    for (auto& chain : chains) {
      double survival = 1;
      for (int places = static_cast<int>(random() % 5); places > 0; places--) {
        chain.push_back(survival *= std::sqrt(uniform(random)));
      }
    }
    const double draft_seconds = 0.3 * uniform(random);
    const auto rate = [&](int most) {
      double tokens = static_cast<double>(chains.size()), rows = tokens;
      const std::vector<int> given = given_to(chains, {.most = most});
      for (std::size_t r = 0; r < chains.size(); r++) {
        tokens += std::accumulate(chains[r].begin(), chains[r].begin() + given[r], 0.0);
        rows += given[r];
      }
      return tokens / (draft_seconds + costs.seconds(rows));
    };
    const RowBudget budget{.costs = &costs, .draft_seconds = draft_seconds};
    const std::vector<int> given = given_to(chains, budget);
    const int n = std::accumulate(given.begin(), given.end(), 0);
    for (int most = 0; most < 20; most++)
      ASSERT_LE(rate(most), rate(n) + 1e-12) << most << ", " << n;
    some += n > 0 && given != given_to(chains, {}) ? 1 : 0;
  }
  EXPECT_GT(some, 100) << "often some drafts get rows, and others do not";
}

// What lossless verification needs: whether a place gets a row does not depend on its own draft,
// which decides about all later places of its request.
TEST(RowBudgetTest, DoesNotDependOnLaterPlacesOfTheRequest) {
  const CostCurve costs = curve();
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  int changed = 0;
  for (int i = 0; i < 3000; i++) {
    Chains chains(3);
    for (auto& chain : chains) {
      for (int places = 4; places > 0; places--) chain.push_back(uniform(random));  // in any order
    }
    RowBudget budget{.most = static_cast<int>(random() % 9)};
    if (i % 2 == 0) budget = {.costs = &costs, .draft_seconds = 0.1};
    const std::vector<int> given = given_to(chains, budget);
    const std::size_t r = random() % 3, place = random() % 4;
    Chains other = chains;
    other[r].resize(place + 1 + random() % 4);
    for (std::size_t later = place + 1; later < other[r].size(); later++) {
      other[r][later] = uniform(random);
    }
    const std::vector<int> now = given_to(other, budget);
    const int n = static_cast<int>(place);
    ASSERT_EQ(now[r] > n, given[r] > n) << "place " << place << " of request " << r;
    changed += now != given;
  }
  EXPECT_GT(changed, 100) << "the later places matter to others";
}

// ---- what earlier steps taught

BatchBudget budget_for(double draft_step) {
  BatchBudget budget({}, 4);
  const CostCurve draft({{1, draft_step}, {16, 2 * draft_step}});
  budget.set_costs({curve(), draft, draft});
  return budget;
}

// Lets the budget learn from a batch whose drafts are accepted with probability alpha. The number
// of rounds in which something was drafted.
int teach(BatchBudget& budget, double alpha, int requests, int steps) {
  std::mt19937 random(4);
  std::bernoulli_distribution accepts(alpha);
  int drafting = 0;
  for (int step = 0; step < steps; step++) {
    budget.begin(requests);
    std::vector<BatchBudget::Outcome> outcomes;
    for (int r = 0; r < requests; r++) {
      const int drafted = budget.most_places(r);
      drafting += drafted > 0 ? 1 : 0;
      BatchBudget::Outcome outcome{.request = r, .offered = drafted, .given = drafted};
      while (outcome.accepted < drafted && accepts(random)) outcome.accepted++;
      outcomes.push_back(outcome);
    }
    budget.learn(outcomes);
  }
  return drafting;
}

// The second request drafts as all do.
TEST(BatchBudgetTest, DraftsAsFarAsItPays) {
  BatchBudget cheap = budget_for(0.01), dear = budget_for(0.5), bad = budget_for(0.05);
  teach(cheap, 0.95, 2, 10);
  EXPECT_GE(cheap.most_places(1), 3) << "it is quick";
  teach(cheap, 0.95, 2, 100);
  EXPECT_GE(cheap.most_places(1), 3);
  teach(dear, 0.6, 2, 40);
  EXPECT_GT(teach(bad, 0.02, 4, 40), 0) << "it learns";
  EXPECT_EQ(dear.most_places(1), 0) << "drafts cost more than they can bring";
  EXPECT_EQ(bad.most_places(1), 0) << "drafts bring nothing";
  EXPECT_GT(bad.rate(0), bad.rate(1));
}

// Costs are measured, so what seems to gain a few percent may lose as many.
TEST(BatchBudgetTest, APlaceMustGainMoreThanCostsAreOff) {
  int gained_too_little = 0;
  for (double draft_step = 0.01; draft_step < 0.4; draft_step += 0.01) {
    BatchBudget budget = budget_for(draft_step);
    teach(budget, 0.8, 2, 100);
    const int depth = budget.most_places(1);
    EXPECT_TRUE(depth == 0 || budget.rate(depth) > 1.05 * budget.rate(0)) << draft_step;
    if (depth == 4) continue;
    const double gain = budget.rate(depth + 1) / budget.rate(depth);
    EXPECT_LE(gain, 1.05) << draft_step;
    gained_too_little += gain > 1.01 ? 1 : 0;
  }
  EXPECT_GT(gained_too_little, 3);
}

// What is not known yet costs little: the oldest request alone drafts, and one place.
TEST(BatchBudgetTest, OneRequestTries) {
  BatchBudget budget = budget_for(0.02);
  EXPECT_EQ(teach(budget, 1, 4, 1), 0) << "the first step shows which requests there are";
  for (int step = 0; step < 4; step++) {
    EXPECT_EQ(budget.most_places(0), 1);
    EXPECT_EQ(budget.most_places(1), 0);
    teach(budget, 1, 4, 1);
  }
  EXPECT_GT(budget.most_places(1), 1);
}

// The next one goes on with what an ended request tried.
TEST(BatchBudgetTest, AnotherRequestGoesOnWithATry) {
  BatchBudget budget = budget_for(0.2);
  const auto step_of = [&](RequestId first, RequestId second) {
    std::vector<BatchBudget::Outcome> step;
    for (const RequestId request : {first, second}) {
      const int drafted = budget.most_places(request);
      step.push_back({.request = request, .offered = drafted, .given = drafted});
    }
    budget.learn(step);
  };
  step_of(0, 1);
  step_of(0, 1);
  step_of(1, 2);
  EXPECT_EQ(budget.most_places(0), 0);
  EXPECT_EQ(budget.most_places(1), 1);
  for (int step = 0; step < 3; step++) step_of(1, 2);
  EXPECT_EQ(budget.most_places(1), 0) << "a step in which nobody tried was none of the try";
}

TEST(BatchBudgetTest, TriesAgainMoreAndMoreRarelyAndStartsAgain) {
  BatchBudget budget = budget_for(0.02);
  EXPECT_EQ(teach(budget, 0, 4, 1 + 4), 4);
  EXPECT_EQ(teach(budget, 0, 4, 64), 0);
  EXPECT_EQ(teach(budget, 0, 4, 4), 4);
  EXPECT_EQ(teach(budget, 0, 4, 128), 0);
  EXPECT_EQ(teach(budget, 0, 4, 4), 4);
  EXPECT_EQ(teach(budget, 0, 4, 256), 0);
  teach(budget, 1, 1, 1000);
  EXPECT_GE(budget.most_places(0), 3) << "the text has become easy";
}

// With 16 requests on this curve a second row costs each as much as the first one, so even drafts
// that are all accepted gain nothing.
TEST(BatchBudgetTest, NeverDraftsWhereNotEvenAcceptedDraftsPay) {
  BatchBudget budget = budget_for(0.01);
  EXPECT_EQ(teach(budget, 1, 16, 2000), 0);
  EXPECT_GT(teach(budget, 1, 2, 10), 0) << "with fewer requests they do";
}

// When a step begins, there are pages and sequences for the drafts that were planned before it.
TEST(BatchBudgetTest, BeginsNoStepWithMoreThanWasPlanned) {
  BatchBudget budget = budget_for(0.01);
  teach(budget, 1, 16, 1);
  ASSERT_EQ(budget.most_places(0), 0);
  budget.begin(1);
  EXPECT_EQ(budget.most_places(0), 0);
  teach(budget, 1, 1, 1);
  ASSERT_EQ(budget.most_places(0), 1) << "a try";
  budget.begin(16);
  EXPECT_EQ(budget.most_places(0), 0) << "less is possible at once";
  teach(budget, 0.9, 1, 10);
  ASSERT_GT(budget.most_places(0), 1);
  budget.begin(16);
  EXPECT_EQ(budget.most_places(0), 0);
}

// Heads catch up before their first draft: one draft that is always accepted does not pay for that.
TEST(BatchBudgetTest, CountsWhatTheFirstDraftCosts) {
  BatchBudget budget({}, 1);
  budget.set_costs({curve(), CostCurve({{1, 0.9}}), CostCurve({{1, 0.01}})});
  EXPECT_EQ(teach(budget, 1, 2, 100), 0);
}

TEST(BatchBudgetTest, AsksForTheSurvivalThatTheCheapestRowNeeds) {
  BatchBudget budget = budget_for(0.01);
  teach(budget, 0.9, 8, 50);
  const double needed = budget.rate(budget.most_places(1)) * curve().of_next_row(8);
  EXPECT_NEAR(budget.least_survival(), needed, 0.05 * needed);
  BatchBudget fixed(5, 4);
  teach(fixed, 0, 8, 50);
  EXPECT_EQ(fixed.most_places(1), 4) << "a fixed budget stops nothing";
  EXPECT_EQ(fixed.least_survival(), 0);
}

TEST(BatchBudgetTest, CountsPlacesAndRows) {
  BatchBudget budget(3, 4);
  const BatchBudget::Outcome first[] = {{0, 4, 2, 1}, {1, 3, 1, 1}}, second[] = {{0, 1, 1, 0}};
  budget.learn(first);
  budget.learn(second);
  budget.learn({});
  EXPECT_EQ(budget.stats().steps, 3);
  EXPECT_EQ(budget.stats().offered, 8);
  EXPECT_EQ(budget.stats().given, 4);
  EXPECT_THAT(budget.stats().steps_by_given, ElementsAre(1, 1, 0, 1));
}

}  // namespace
}  // namespace specdec
