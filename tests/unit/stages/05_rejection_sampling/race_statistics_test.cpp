// Races with real dice, by chi-square against exact probabilities, and how often the coupled rule
// accepts. Seeds are fixed: a test that passes passes always.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "stages/programs/sampling/speculation_options.h"
#include "tests/table_model.h"
#include "tests/unit/stages/05_rejection_sampling/chi_square.h"

namespace specdec {
namespace {

// 200,000 races of four tokens that can win: 3 degrees of freedom, bound 34. Shares that are off by
// 1.3% of themselves (root mean square; 0.013^2 x 200,000 = 34) are noticed about every second
// time, by 2.5% practically always.
constexpr int kRaces = 200'000;
const Probs kRaceProbs = {0.4, 0.3, 0.2, 0.1, 0};

template <typename Race>
ChiSquare chi_square_of_races(Race&& race) {
  std::map<TokenId, int> counts;
  std::map<TokenId, double> law;
  for (std::uint64_t seed = 0; seed < kRaces; seed++) counts[race(seed)]++;
  for (TokenId i = 0; i < 4; i++) law[i] = kRaceProbs[static_cast<std::size_t>(i)];
  return chi_square(counts, law);
}

// The winner where token i arrives at time(u_i, probs[i]).
TokenId first(std::uint64_t seed, const std::function<double(double, double)>& time) {
  std::vector<double> times;
  for (TokenId i = 0; i < 4; i++) {
    times.push_back(
        time(uniform(seed, 3, Purpose::kRace, i), kRaceProbs[static_cast<std::size_t>(i)]));
  }
  return static_cast<TokenId>(std::ranges::min_element(times) - times.begin());
}

TEST(RaceStatistics, AreWonAsOftenAsTheProbabilitiesSay) {
  const ChiSquare races =
      chi_square_of_races([](std::uint64_t seed) { return Dice(seed).race(kRaceProbs, 3); });
  EXPECT_EQ(races.degrees, 3);
  EXPECT_TRUE(races.accepts()) << races.statistic;
}

TEST(RaceStatistics, OtherTimesAreRejected) {
  const auto times = [](auto&& time) {
    return chi_square_of_races([&](std::uint64_t seed) { return first(seed, time); });
  };
  EXPECT_TRUE(times([](double u, double p) { return -std::log(u) / p; }).accepts());
  EXPECT_TRUE(times([](double u, double p) { return -std::log(u) * p; }).rejects());
  EXPECT_TRUE(times([](double u, double p) { return std::log(u) * p; }).rejects());
  EXPECT_TRUE(times([](double u, double p) { return u / p; }).rejects());
}

// beta, the probability with which rejection() accepts.
double overlap(const Probs& p, const Probs& q) {
  double total = 0;
  for (std::size_t i = 0; i < p.size(); i++) total += std::min(p[i], q[i]);
  return total;
}

// The probability that the winners of two races with shared noise are the same (sitting 5.8).
// Paulus et al.: 1 / sum_j max(p_j / p_i, q_j / q_i), over the i that win both.
double races_agree(const Probs& p, const Probs& q) {
  double total = 0;
  for (std::size_t i = 0; i < p.size(); i++) {
    if (p[i] == 0 || q[i] == 0) continue;  // never wins both
    double sum = 0;
    for (std::size_t j = 0; j < p.size(); j++) sum += std::max(p[j] / p[i], q[j] / q[i]);
    total += 1 / sum;
  }
  return total;
}

// Shared noise is what couples two models: equal rows always agree. With noise of their own they
// agree as often as two draws do.
TEST(RaceStatistics, SharedNoiseCouples) {
  const Probs other = {0.35, 0.35, 0.15, 0.15, 0};
  int equal = 0, close = 0, independent = 0;
  constexpr int kSeeds = 20'000;
  for (std::uint64_t seed = 0; seed < kSeeds; seed++) {
    Dice dice(seed);
    const TokenId own = dice.race(kRaceProbs, 3);
    equal += dice.race(kRaceProbs, 3) == own;
    close += dice.race(other, 3) == own;
    independent += dice.race(kRaceProbs, 4) == own;
  }
  EXPECT_EQ(equal, kSeeds);
  EXPECT_NEAR(independent, 0.3 * kSeeds, 0.017 * kSeeds) << "5 sigma";
  const double expected = races_agree(kRaceProbs, other);
  EXPECT_NEAR(close, expected * kSeeds, 0.016 * kSeeds) << "5 sigma";
}

// ---- how often the coupled rule accepts ----

// What Daliri, Musco and Suresh guarantee.
double guaranteed(const Probs& p, const Probs& q) { return overlap(p, q) / (2 - overlap(p, q)); }

// Pairs of random rows: some unrelated, some close to each other, some with zeros.
std::vector<std::pair<Probs, Probs>> random_pairs(int count) {
  std::mt19937 random(5);
  std::vector<std::pair<Probs, Probs>> pairs;
  for (int i = 0; i < count; i++) {
    const int vocab_size = 2 + i % 7;
    const double zeros = i % 3 == 0 ? 0.35 : 0, apart = i % 2 == 0 ? 1 : 0.2;
    const Probs p = normalised(random_weights(vocab_size, zeros, random));
    Probs q = normalised(random_weights(vocab_size, zeros, random));
    for (std::size_t t = 0; t < q.size(); t++) q[t] = apart * q[t] + (1 - apart) * p[t];
    pairs.emplace_back(p, normalised(q));
  }
  return pairs;
}

constexpr int kDrafts = 20'000;  // judged for each pair of rows

// By how many standard deviations the number of accepted drafts of kDrafts positions differs from
// what `probability` predicts. If the rule accepts with this probability, or with a higher one, the
// result is below -5 with a probability below 3e-7.
double deviations(const NamedRule& rule, const Probs& p, const Probs& q, double probability) {
  Dice dice(11);
  Probs scratch(p.size());
  int accepted = 0;
  for (int position = 0; position < kDrafts; position++) {
    const TokenId draft =
        rule.races ? dice.race(q, position) : dice.token(q, position, Purpose::kDraft);
    accepted += rule.rule({position, draft, p, q}, dice, scratch).accepted ? 1 : 0;
  }
  const double sigma = std::sqrt(kDrafts * probability * (1 - probability));
  return (accepted - kDrafts * probability) / std::max(sigma, 1.0);
}

// As mathematics: the formula keeps both bounds, and one pair of rows reaches the lower one.
TEST(CoupledBound, TheFormulaIsAtLeastTheGuaranteeAndAtMostTheOverlap) {
  constexpr double kRounding = 1e-12;
  for (const auto& [p, q] : random_pairs(5'000)) {
    EXPECT_GE(races_agree(p, q), guaranteed(p, q) - kRounding);
    EXPECT_LE(races_agree(p, q), overlap(p, q) + kRounding);
  }
  const Probs p = {0.5, 0.5, 0}, q = {0, 0.5, 0.5};
  EXPECT_NEAR(races_agree(p, q), 1 / 3.0, kRounding);
  EXPECT_NEAR(guaranteed(p, q), 1 / 3.0, kRounding) << "no larger bound holds for all rows";
}

// As a program: with real dice, the rule accepts as often as the formula says.
TEST(CoupledBound, TheRuleAcceptsAtLeastThatOften) {
  const NamedRule& coupled = find_acceptance_rule("coupled");
  for (const auto& [p, q] : random_pairs(42)) {
    EXPECT_LT(std::abs(deviations(coupled, p, q, races_agree(p, q))), 5);
    EXPECT_GT(deviations(coupled, p, q, guaranteed(p, q)), -5);
  }
}

// The control: a rule whose two draws are independent falls below the guarantee, and the same
// statistic notices.
TEST(CoupledBound, IndependentDrawsFallBelowIt) {
  const NamedRule& independent = find_acceptance_rule("sample-and-match");
  int below = 0, noticed = 0;
  for (const auto& [p, q] : random_pairs(42)) {
    double agree = 0;
    for (std::size_t i = 0; i < p.size(); i++) agree += p[i] * q[i];
    below += agree < guaranteed(p, q) ? 1 : 0;
    noticed += deviations(independent, p, q, guaranteed(p, q)) < -5 ? 1 : 0;
  }
  EXPECT_GE(below, 30);
  EXPECT_GE(noticed, below - 5) << "some are too close to the guarantee";
  EXPECT_LE(noticed, below);
}

}  // namespace
}  // namespace specdec
