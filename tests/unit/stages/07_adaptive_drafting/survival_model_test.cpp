// The model of survival by numbers: what it begins with, what it learns, and from how little.
#include "stages/07_adaptive_drafting/survival_model.h"

#include <cmath>
#include <random>

#include "tests/test_support.h"

namespace specdec {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Top2MarginTest, IsTheDifferenceOfTheTwoLargestLogits) {
  const std::vector<double> probs = {0.1, 0.6, 0, 0.3};
  EXPECT_DOUBLE_EQ(top2_margin(probs), std::log(2));
  EXPECT_EQ(top2_margin(std::vector<double>{0.5, 0.5}), 0);
  EXPECT_EQ(top2_margin(std::vector<double>{0, 1, 0}), kLargestMargin) << "filters left one";
  EXPECT_EQ(top2_margin(std::vector<double>{1, 1e-300}), kLargestMargin);
}

// One step from known numbers: P = 1/2, so the weight is 1/4 and the error +-1/2.
TEST(OnlineLogisticTest, StepsByNewtonsMethod) {
  OnlineLogistic fit({.a = 0, .b = 0, .ridge_a = 1, .ridge_b = 2});
  fit.learn(2, true);  // [[1.25, 0.5], [0.5, 3]], determinant 3.5, gradient (0.5, 1)
  EXPECT_DOUBLE_EQ(fit.logit(0), (3 * 0.5 - 0.5 * 1) / 3.5);
  EXPECT_DOUBLE_EQ(fit.logit(1) - fit.logit(0), (1.25 * 1 - 0.5 * 0.5) / 3.5);
}

// Drafts that are accepted by a logistic of the margin, at two positions with different ones.
TEST(SurvivalModelTest, FindsTheLogisticOfEachPosition) {
  SurvivalModel model(2);
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform;
  const auto truth = [](int position, double margin) {
    return position == 0 ? logistic(1.2 * margin - 1) : logistic(0.8 * margin - 2);
  };
  double error[2] = {};
  const int tests = 4000, last = 1000;
  for (int i = 0; i < tests; i++) {
    const int position = i % 2;
    const double margin = 6 * uniform(random);
    if (i >= tests - last) {
      error[position] +=
          std::abs(model.acceptance(position, margin) - truth(position, margin)) / last * 2;
    }
    model.learn(position, margin, uniform(random) < truth(position, margin));
  }
  EXPECT_LT(error[0], 0.05);
  EXPECT_LT(error[1], 0.05);
}

TEST(SurvivalModelTest, BeginsWithTheMarginAndWarmsUp) {
  SurvivalModel model(3, 2);
  EXPECT_GT(model.acceptance(0, 4), 0.9);
  EXPECT_DOUBLE_EQ(model.acceptance(0, 0), 0.5);
  EXPECT_TRUE(model.warming_up());
  model.learn(0, 1, true);
  EXPECT_TRUE(model.warming_up());
  model.learn(9, 1, false);  // beyond the last position
  EXPECT_FALSE(model.warming_up());
  EXPECT_EQ(model.acceptance(9, 1), model.acceptance(2, 1));
}

// Neither the most surprising example nor any number of them makes the estimates useless.
TEST(SurvivalModelTest, NoExampleOverturnsIt) {
  SurvivalModel model(1);
  for (int i = 0; i < 200; i++) model.learn(0, kLargestMargin, true);
  const double before = model.acceptance(0, kLargestMargin);
  model.learn(0, kLargestMargin, false);
  EXPECT_GT(model.acceptance(0, kLargestMargin), 0.8) << "before: " << before;
  for (int i = 0; i < 1000; i++) model.learn(0, kLargestMargin, false);
  EXPECT_LT(model.acceptance(0, kLargestMargin), 0.1);
  for (int i = 0; i < 1000; i++) model.learn(0, kLargestMargin, true);
  EXPECT_GT(model.acceptance(0, kLargestMargin), 0.9) << "old examples fade";
}

}  // namespace
}  // namespace specdec
