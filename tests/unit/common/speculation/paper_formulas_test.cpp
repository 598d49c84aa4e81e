// The cost model of speculation against what its authors printed, and against simulation.
#include "common/speculation/paper_formulas.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "common/sampling/uniform.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr double kAlphas[] = {0, 0.05, 0.2, 0.5, 0.7, 0.8, 0.95, 0.999, 1};

// The speedup over plain decoding, Theorem 3.8 where v is 1.
double walltime_factor(double alpha, int K, double c, double v = 1) {
  return expected_emitted(alpha, K) / (K * c + v);
}

// The best K where a pass costs v whatever K is.
int best_of(double alpha, double c, double v, int largest) {
  std::vector<double> round_costs;
  for (int K = 0; K <= largest; ++K) round_costs.push_back(K * c + v);
  return best_spec_length(alpha, round_costs);
}

// The speedup, for v = 1, of an oracle that drafts what will be accepted and no more (section 3.5).
// Its rounds emit 1 / (1 - alpha) tokens, and it drafts all of them but the last.
double oracle_factor(double alpha, double c) { return 1 / (1 - alpha + c * alpha); }

// ---- what Leviathan et al. print (ICML 2023) ----

TEST(SpeculationModelTest, Table1) {
  struct Line {
    double alpha;
    int spec_length;
    double speed;  // printed with two decimals; c = 0
  };
  for (const Line& line : {Line{0.6, 2, 1.96}, Line{0.7, 3, 2.53}, Line{0.8, 2, 2.44},
                           Line{0.8, 5, 3.69}, Line{0.9, 2, 2.71}, Line{0.9, 10, 6.86}}) {
    SCOPED_TRACE(fmt::format("alpha {} K {}", line.alpha, line.spec_length));
    EXPECT_NEAR(walltime_factor(line.alpha, line.spec_length, 0), line.speed, 0.00501);
  }
}

// Table 4 gives alpha and c with two decimals and the prediction with one; so what the formula
// makes of the corners of alpha +- 0.005, c +- 0.005 must enclose the printed number +- 0.05.
TEST(SpeculationModelTest, Table4) {
  struct Line {
    int spec_length;
    double alpha, c, predicted;
  };
  for (const Line& line :
       {Line{7, 0.75, 0.02, 3.2}, Line{7, 0.80, 0.04, 3.3}, Line{7, 0.82, 0.11, 2.5},
        Line{7, 0.62, 0.02, 2.3}, Line{5, 0.68, 0.04, 2.4}, Line{3, 0.71, 0.11, 2.0},
        Line{5, 0.65, 0.02, 2.4}, Line{5, 0.73, 0.04, 2.6}, Line{3, 0.74, 0.11, 2.0},
        Line{5, 0.53, 0.02, 1.9}, Line{3, 0.55, 0.04, 1.8}, Line{3, 0.56, 0.11, 1.6}}) {
    SCOPED_TRACE(fmt::format("alpha {} K {} c {}", line.alpha, line.spec_length, line.c));
    const double low = walltime_factor(line.alpha - 0.005, line.spec_length, line.c + 0.005);
    const double high = walltime_factor(line.alpha + 0.005, line.spec_length, line.c - 0.005);
    EXPECT_LE(low, line.predicted + 0.05);
    EXPECT_GE(high, line.predicted - 0.05);
  }
}

// Section 3.6: a bigram model with alpha 0.2 gives 1.25 with K = 3.
TEST(SpeculationModelTest, TheBigramModel) { EXPECT_NEAR(walltime_factor(0.2, 3, 0), 1.25, 0.005); }

// Section 3.5: an oracle for K is up to about 60% faster than the best K.
TEST(SpeculationModelTest, TheOraclesAdvantage) {
  double largest = 1;
  for (double alpha = 0.5; alpha < 0.995; alpha += 0.01) {
    for (double c = 0.01; c <= 0.1; c += 0.01) {
      const double best = walltime_factor(alpha, best_of(alpha, c, 1, 200), c);
      largest = std::max(largest, oracle_factor(alpha, c) / best);
    }
  }
  EXPECT_GT(largest, 1.55);
  EXPECT_LT(largest, std::numbers::e / (std::numbers::e - 1));
}

// By hand: a bf16 draft of 1B parameters for a target of 3B costs 0.385 of it in bytes.
TEST(SpeculationModelTest, LargeDraftHardlyPays) {
  EXPECT_EQ(best_of(0.7, 0.385, 1, 32), 2);
  EXPECT_NEAR(walltime_factor(0.7, 2, 0.385), 1.24, 0.005);
  EXPECT_NEAR(walltime_factor(0.7, 5, 0.385), 1.00, 0.01);
}

// ---- by definition ----

TEST(SpeculationModelTest, FormulasByHand) {
  EXPECT_DOUBLE_EQ(expected_emitted(0.5, 3), 1.875);
  EXPECT_DOUBLE_EQ(walltime_factor(0.5, 3, 0.25, 1.25), 1.875 / 2);
}

TEST(SpeculationModelTest, EdgesOfAlpha) {
  for (const int K : {0, 1, 5, 1000}) {
    EXPECT_EQ(expected_emitted(0, K), 1);
    EXPECT_EQ(expected_emitted(1, K), K + 1) << "the limit";
    EXPECT_NEAR(expected_emitted(1 - 1e-13, K), K + 1, 1e-6) << "nothing cancels";
  }
  EXPECT_NEAR(expected_emitted(0.95, 2000), 1 / (1 - 0.95), 1e-12) << "an oracle's rounds";
}

TEST(SpeculationModelTest, NoSpeculationIsPlainDecoding) {
  for (const double alpha : kAlphas) {
    EXPECT_EQ(expected_emitted(alpha, 0), 1);
    EXPECT_EQ(walltime_factor(alpha, 0, 0.3), 1);
  }
}

// Emitted tokens are n + 1 with n accepted of K: all K with alpha^K, n < K with alpha^n (1 -
// alpha).
TEST(SpeculationModelTest, ExpectationByEnumeration) {
  for (const double alpha : kAlphas) {
    for (int K = 0; K <= 20; K++) {
      double mean = std::pow(alpha, K) * (K + 1);
      for (int n = 0; n < K; n++) mean += std::pow(alpha, n) * (1 - alpha) * (n + 1);
      EXPECT_NEAR(expected_emitted(alpha, K), mean, 1e-12) << "alpha " << alpha << " K " << K;
    }
  }
}

// ---- by simulation ----

struct Totals {
  long long emitted = 0, drafted = 0;
};

// Rounds in which each draft token is accepted with probability alpha, one coin a token.
Totals simulate(double alpha, int K, int rounds) {
  Totals totals;
  for (int round = 0, position = 0; round < rounds; round++) {
    int accepted = 0;
    while (accepted < K && uniform(11, position++, Purpose::kAccept) < alpha) accepted++;
    totals.emitted += accepted + 1;
    totals.drafted += K;
  }
  return totals;
}

// A round emits 1 to K + 1 tokens, so by Hoeffding's inequality the mean of n rounds is farther
// than t from its expectation with probability at most 2 exp(-2 n (t / K)^2).
double allowed_deviation(int K, int rounds, double false_alarm) {
  return K * std::sqrt(std::log(2 / false_alarm) / (2 * rounds));
}

// False-alarm rate 1e-8 a case, 20 cases, so 2e-7 together; a mean off by 0.032 K is detected.
TEST(SpeculationModelTest, SimulatedRoundsAgree) {
  constexpr int kRounds = 40'000;
  for (const double alpha : {0.1, 0.5, 0.7, 0.9, 0.98}) {
    for (const int K : {1, 2, 5, 8}) {
      SCOPED_TRACE(fmt::format("alpha {} K {}", alpha, K));
      const Totals totals = simulate(alpha, K, kRounds);
      const auto emitted = static_cast<double>(totals.emitted);
      const double t = allowed_deviation(K, kRounds, 1e-8);
      EXPECT_NEAR(emitted / kRounds, expected_emitted(alpha, K), t);
      // The factor is that of the simulated costs.
      const double c = 0.15, v = 1.2, time = totals.drafted * c + kRounds * v;
      EXPECT_NEAR(emitted / time, walltime_factor(alpha, K, c, v), t / (K * c + v));
    }
  }
}

// The control: what is simulated with another alpha or K must not pass for this one.
TEST(SpeculationModelTest, SimulationTellsOtherParametersApart) {
  constexpr int kRounds = 40'000;
  const double mean = static_cast<double>(simulate(0.7, 5, kRounds).emitted) / kRounds;
  const double t = allowed_deviation(5, kRounds, 1e-8);
  EXPECT_GT(std::abs(mean - expected_emitted(0.65, 5)), t);
  EXPECT_GT(std::abs(mean - expected_emitted(0.7, 4)), t) << "the bonus token is missing";
}

// ---- the choice of K ----

TEST(SpeculationModelTest, BestSpecLengthIsTheFastest) {
  for (const double alpha : kAlphas) {
    for (const double c : {0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0}) {
      for (const double v : {0.9, 1.0, 1.3}) {
        const int best = best_of(alpha, c, v, 24);
        const double factor = best == 0 ? 1 : walltime_factor(alpha, best, c, v);
        EXPECT_GE(factor, 1);
        for (int K = 1; K <= 24; K++) {
          EXPECT_LE(walltime_factor(alpha, K, c, v), factor) << alpha << " " << c << " " << v;
        }
      }
    }
  }
}

// Figure 3's shape: K grows with alpha, and shrinks with c.
TEST(SpeculationModelTest, BestSpecLengthFollowsAlphaAndC) {
  for (double alpha = 0.05; alpha < 0.95; alpha += 0.05) {
    for (const double c : {0.01, 0.02, 0.05, 0.1}) {
      const int best = best_of(alpha, c, 1, 200);
      EXPECT_GE(best_of(alpha + 0.05, c, 1, 200), best);
      EXPECT_GE(best, best_of(alpha, 2 * c, 1, 200));
    }
  }
}

TEST(SpeculationModelTest, BestSpecLengthAtTheEdges) {
  EXPECT_EQ(best_of(0, 0, 1, 32), 0) << "the smallest among equals";
  EXPECT_EQ(best_of(0.5, 0.6, 1, 32), 0) << "no K is faster";
  EXPECT_EQ(best_of(1, 0.1, 1, 32), 32);
  EXPECT_EQ(best_of(0.9, 0, 1, 32), 32);
  EXPECT_EQ(best_of(0.9, 0.01, 1, 0), 0);
  EXPECT_EQ(best_of(0.8, 0.1, 1, 32), 6) << "2.459, 2.470 and 2.448 with 5, 6 and 7";
  EXPECT_EQ(best_of(0.8, 0.1, 2, 32), 8) << "1.541, 1.546 and 1.539 with 7, 8 and 9";
}

TEST(SpeculationModelTest, Corollary39) {
  for (const double alpha : kAlphas) {
    for (const double c : {0.0, 0.04, 0.06, 0.19, 0.21, 0.5, 0.71, 1.0, 1.5}) {
      const int best = best_of(alpha, c, 1, 64);
      EXPECT_EQ(alpha > c, best > 0) << "alpha " << alpha << " c " << c;
      if (best > 0) {
        EXPECT_GE(walltime_factor(alpha, best, c), (1 + alpha) / (1 + c));
      }
    }
  }
}

TEST(SpeculationModelTest, NoKBeatsTheOracle) {
  for (const double alpha : kAlphas) {
    for (int K = 0; K <= 64; K++) {
      EXPECT_LE(expected_emitted(alpha, K) * (1 - alpha), 1 + 1e-12);
      for (const double c : {0.01, 0.3, 1.0}) {
        EXPECT_LE(walltime_factor(alpha, K, c), oracle_factor(alpha, c) * (1 + 1e-12));
      }
    }
  }
}

TEST(SpeculationModelDeathTest, RangesAreChecked) {
  const double nan = std::nan("");
  EXPECT_DEATH(expected_emitted(1.01, 3), "alpha 1.01 to be a probability");
  EXPECT_DEATH(expected_emitted(nan, 3), "alpha nan to be a probability");
  EXPECT_DEATH(expected_emitted(0.5, -1), "a spec_length of at least 0, not -1");
}

}  // namespace
}  // namespace specdec
