// g on a guess of f's result: the same distribution of g's input, and the latency of the formula.
#include "stages/00_toy_speculation/overlap.h"

#include <random>

#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/wrong_rules.h"
#include "tests/test_support.h"
#include "tests/unit/stages/00_toy_speculation/random_tables.h"

namespace specdec::toy {
namespace {

constexpr std::array<Times, 4> kTimes = {{{3, 2}, {2, 3}, {1, 4}, {1, 1}}};

double beta(const Probs& target_probs, const Probs& draft_probs) {
  double sum = 0;
  for (std::size_t i = 0; i < target_probs.size(); i++) {
    sum += std::min(target_probs[i], draft_probs[i]);
  }
  return sum;
}

void expect_exact(const Probs& target_probs, const Probs& draft_probs) {
  for (const Times& times : kTimes) {
    const OverlapLaw result = overlap_law(target_probs, draft_probs, times);
    EXPECT_LE(largest_difference(result.law, law_of(target_probs)), kExact);
    EXPECT_NEAR(result.mean_latency, mean_latency(times, beta(target_probs, draft_probs)), kExact)
        << fmt::format("T_f = {}, T_g = {}", times.f, times.g);
  }
}

TEST(OverlapTest, LawIsTheTargetsAndLatencyTheFormulas) {
  for (std::size_t context = 0; context < kWords.size(); context++) {
    SCOPED_TRACE(kWords[context]);
    expect_exact(example_tables().target_probs[context], example_tables().draft_probs[context]);
  }
  std::mt19937 random(11);
  for (int i = 0; i < 20; i++) {
    const Probs target_probs = random_row(4, random);
    expect_exact(target_probs, random_row(4, random));
  }
}

TEST(OverlapTest, LatencyIsTheOneComputedByHand) {
  EXPECT_NEAR(mean_latency({3, 2}, 0.65), 3.7, kExact);
  EXPECT_NEAR(mean_latency({2, 3}, 0.65), 4.05, kExact);
  EXPECT_EQ(mean_latency({3, 2}, 1), 3) << "a perfect guess hides the shorter function";
  EXPECT_GT(mean_latency({1, 4}, 0.65), 1 + 4) << "where g is long, a bad guess costs";
}

// p is (.05, .70, .05, .20). A rejected guess, with 0.35, is replaced by a draw
// from p: "." comes with 0.10 + 0.07.
TEST(OverlapControlTest, ADrawFromFInsteadOfTheResidualHasAnotherLaw) {
  const Probs &target_probs = example_tables().target_probs[0],
              &draft_probs = example_tables().draft_probs[0];
  const OverlapLaw result = overlap_law(target_probs, draft_probs, {3, 2}, kWrongRules[0].rule);
  EXPECT_NEAR(largest_difference(result.law, law_of(target_probs)), 0.03, kExact);
  EXPECT_NEAR(result.mean_latency, 3.7, kExact) << "the latency shows nothing";
}

// A guess that is kept only where it equals f's own draw is kept with sum p q, which is less.
TEST(OverlapControlTest, TheFormulaWithAnotherAcceptanceMisses) {
  const Probs &target_probs = example_tables().target_probs[0],
              &draft_probs = example_tables().draft_probs[0];
  double match = 0;
  for (std::size_t i = 0; i < target_probs.size(); i++) match += target_probs[i] * draft_probs[i];
  const double latency = overlap_law(target_probs, draft_probs, {3, 2}).mean_latency;
  EXPECT_GE(std::abs(latency - mean_latency({3, 2}, match)), kVisible);
}

}  // namespace
}  // namespace specdec::toy
