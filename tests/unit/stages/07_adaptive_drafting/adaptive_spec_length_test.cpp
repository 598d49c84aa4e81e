// --spec-length auto: the best K by costs, and how a request's K follows what was accepted.
#include "stages/07_adaptive_drafting/adaptive_spec_length.h"

#include <cmath>
#include <random>

#include "tests/test_support.h"

namespace specdec {
namespace {

Round round_of(int drafted, int accepted) {
  return {.drafted = drafted,
          .accepted = accepted,
          .end = accepted == drafted ? RoundEnd::kAllAccepted : RoundEnd::kRejected};
}

// K c + v, for v = 1 + slope K.
std::vector<double> costs(double c, double slope, int most = 16) {
  std::vector<double> result;
  for (int K = 0; K <= most; K++) result.push_back(K * c + 1 + slope * K);
  return result;
}

// Rounds in which each test succeeds with probability alpha, until so many tokens are there.
// Returns the mean K per round.
double run(AdaptiveSpecLength& policy, double alpha, int tokens, std::mt19937& random) {
  double drafted = 0, rounds = 0;
  for (int emitted = 0; emitted < tokens; rounds++) {
    const int K = policy.next();
    int accepted = 0;
    while (accepted < K && static_cast<double>(random()) < alpha * 0x1p32) accepted++;
    const Round round = round_of(K, accepted);
    policy.learn(round);
    emitted += round.emitted();
    drafted += K;
  }
  return drafted / rounds;
}

TEST(BestSpecLengthTest, IsTheLargestQuotientByBruteForce) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> any(0, 1);
  int zeros = 0, inside = 0;
  for (int i = 0; i < 2000; i++) {
    std::vector<double> round_costs = {1};
    for (int K = 1; K <= 12; K++) {
      round_costs.push_back(round_costs.back() + 0.5 * any(random) * any(random));
    }
    const double alpha = any(random);
    int best = 0;
    double best_factor = 1;
    for (int K = 1; K <= 12; K++) {
      double emitted = 0;
      for (int n = 0; n <= K; n++) emitted += std::pow(alpha, n);
      const double factor = emitted / round_costs[static_cast<std::size_t>(K)];
      if (factor > best_factor + 1e-9) {
        best = K;
        best_factor = factor;
      }
    }
    ASSERT_EQ(best_spec_length(alpha, round_costs), best) << i;
    zeros += best == 0;
    inside += best > 0 && best < 12;
  }
  EXPECT_GT(zeros, 100);
  EXPECT_GT(inside, 500);
}

TEST(BestSpecLengthTest, TakesTheSmallestAmongEquals) {
  EXPECT_EQ(best_spec_length(1, std::vector<double>{1, 2, 3}), 0);
  EXPECT_EQ(best_spec_length(1, std::vector<double>{1, 1, 1.5, 2}), 1) << "2 / 1 = 3 / 1.5 = 4 / 2";
  EXPECT_EQ(best_spec_length(1, std::vector<double>{1}), 0);
  EXPECT_EQ(best_spec_length(0.5, std::vector<double>{100, 1.4, 1.7}), 1)
      << "a round without drafts is a plain step, whatever is said of its cost";
  EXPECT_EQ(best_spec_length(0.5, std::vector<double>{0.1, 1.4, 1.7}), 1);
}

TEST(AdaptiveSpecLengthTest, BeginsHopefully) {
  const AdaptiveSpecLength policy(costs(0.1, 0));
  EXPECT_DOUBLE_EQ(policy.alpha(), 0.8);
  EXPECT_EQ(policy.next(), best_spec_length(0.8, costs(0.1, 0)));
  EXPECT_EQ(policy.largest(), 16);
  EXPECT_DOUBLE_EQ(policy.factor(2), (1 + 0.8 + 0.64) / 1.2);
}

// 2 of 3 tested drafts accepted, then a bonus round, then a plain step; by hand.
TEST(AdaptiveSpecLengthTest, CountsWhatWasTestedAndForgets) {
  AdaptiveSpecLength policy(costs(0.1, 0));
  double accepted = 4, tested = 5;
  const auto token = [&](int was_tested, int was_accepted) {
    accepted = 0.98923 * accepted + was_accepted;
    tested = 0.98923 * tested + was_tested;
  };
  policy.learn(round_of(5, 2));  // drafts 4 and 5 were not tested
  token(1, 1), token(1, 1), token(1, 0);
  EXPECT_DOUBLE_EQ(policy.alpha(), accepted / tested);
  policy.learn(round_of(2, 2));
  token(1, 1), token(1, 1), token(0, 0);  // the bonus is no test
  EXPECT_DOUBLE_EQ(policy.alpha(), accepted / tested);
  policy.learn({.drafted = 4, .accepted = 1, .end = RoundEnd::kStopped});
  token(1, 1);
  policy.learn(round_of(0, 0));
  token(0, 0);
  policy.learn(round_of(1, 0));
  token(1, 0);
  EXPECT_DOUBLE_EQ(policy.alpha(), accepted / tested);
  EXPECT_NEAR(std::pow(0.98923, 64), 0.5, 1e-4) << "a half-life of 64 tokens";
}

TEST(AdaptiveSpecLengthTest, LongerRoundsForBetterDrafts) {
  std::mt19937 random(2);
  double before = -1;
  for (const double alpha : {0.2, 0.5, 0.7, 0.9, 0.98}) {
    AdaptiveSpecLength policy(costs(0.05, 0.01));
    run(policy, alpha, 500, random);
    const double mean = run(policy, alpha, 4000, random);
    const int best = best_spec_length(alpha, costs(0.05, 0.01));
    EXPECT_GT(mean, before);
    EXPECT_NEAR(mean, best, 0.35 * best + 0.5) << alpha;
    before = mean;
  }
}

TEST(AdaptiveSpecLengthTest, FollowsAChange) {
  std::mt19937 random(3);
  AdaptiveSpecLength policy(costs(0.1, 0.02));
  run(policy, 0.95, 600, random);
  const int high = policy.next();
  run(policy, 0.3, 300, random);
  const int low = policy.next();
  run(policy, 0.95, 600, random);
  EXPECT_GE(high, 7);
  EXPECT_LE(low, 3);
  EXPECT_GE(policy.next(), 7);
}

// With a long memory it would not be back; 600 good tokens after 6000 bad ones.
TEST(AdaptiveSpecLengthTest, PlainStepsWhereNothingPaysAndBackByProbes) {
  std::mt19937 random(4);
  AdaptiveSpecLength policy(costs(0.3, 0.1));
  const double bad = run(policy, 0.1, 6000, random);
  EXPECT_LE(bad, 0.2);
  EXPECT_GT(bad, 0) << "there were probes";
  run(policy, 0.97, 800, random);
  EXPECT_GE(run(policy, 0.97, 400, random), 2);
}

TEST(AdaptiveSpecLengthTest, AProbeIsOneDraftAfter32PlainSteps) {
  AdaptiveSpecLength policy(costs(0.3, 0.1));
  for (int i = 0; i < 100 && policy.next() > 0; i++) policy.learn(round_of(policy.next(), 0));
  ASSERT_EQ(policy.next(), 0);
  for (int probe = 0; probe < 3; probe++) {
    for (int i = 0; i < 32; i++) {
      ASSERT_EQ(policy.next(), 0) << i;
      policy.learn(round_of(0, 0));
    }
    ASSERT_EQ(policy.next(), 1);
    policy.learn(round_of(0, 0));  // the drafter had nothing to propose
    ASSERT_EQ(policy.next(), 1) << "until it has";
    policy.learn(round_of(1, 0));
  }
}

TEST(AdaptiveSpecLengthTest, NoProbesWhereNoAlphaCanPay) {
  AdaptiveSpecLength policy(costs(1, 0));
  EXPECT_FALSE(policy.can_pay());
  for (int i = 0; i < 200; i++) {
    ASSERT_EQ(policy.next(), 0);
    policy.learn(round_of(0, 0));
  }
  EXPECT_TRUE(AdaptiveSpecLength(costs(0.99, 0)).can_pay());
}

// Tokens without tests must not wear the counts down to 0 / 0.
TEST(AdaptiveSpecLengthTest, RemembersOverAnyNumberOfPlainSteps) {
  AdaptiveSpecLength policy(costs(0.1, 0));
  for (int i = 0; i < 200'000; i++) policy.learn(round_of(0, 0));
  EXPECT_NEAR(policy.alpha(), 0.8, 1e-12);
  policy.learn(round_of(1, 0));
  EXPECT_NEAR(policy.alpha(), 0.4, 0.01) << "what is left weighs as much as one test";
}

TEST(AdaptiveSpecLengthTest, TheSameRoundsGiveTheSameK) {
  for (const double alpha : {0.3, 0.8}) {
    std::vector<double> means;
    for (int i = 0; i < 2; i++) {
      std::mt19937 random(5);
      AdaptiveSpecLength policy(costs(0.1, 0.05));
      means.push_back(run(policy, alpha, 3000, random));
    }
    EXPECT_EQ(means[0], means[1]);
  }
}

}  // namespace
}  // namespace specdec
