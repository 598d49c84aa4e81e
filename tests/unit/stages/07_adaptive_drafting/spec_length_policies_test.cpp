// The policies of stage 7 by numbers: what they ask, and what they learn.
#include <array>
#include <random>
#include <utility>

#include "stages/07_adaptive_drafting/confidence_spec_length.h"
#include "stages/07_adaptive_drafting/entropy_spec_length.h"
#include "stages/07_adaptive_drafting/schedule_spec_length.h"
#include "stages/07_adaptive_drafting/survival_spec_length.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

Round round_of(int drafted, int accepted) {
  return {.drafted = drafted,
          .accepted = accepted,
          .end = accepted == drafted ? RoundEnd::kAllAccepted : RoundEnd::kRejected};
}

// How many drafts a gate lets through where every place looks like this.
int drafted(SpecLengthPolicy& policy, const Probs& probs) {
  int n = 0;
  while (n < policy.next() && (policy.gate() == nullptr || policy.gate()->goes_on(probs, n))) n++;
  return n;
}

const Probs kCertain = {1, 0, 0, 0}, kEqual = {0.25, 0.25, 0.25, 0.25}, kHalves = {0.5, 0.5, 0, 0};

TEST(NormalisedEntropyTest, IsBetweenCertainAndEqual) {
  EXPECT_EQ(normalised_entropy(kCertain), 0);
  EXPECT_DOUBLE_EQ(normalised_entropy(kEqual), 1);
  EXPECT_DOUBLE_EQ(normalised_entropy(kHalves), 0.5);
}

TEST(EntropySpecLengthTest, IsALineBetweenTheBounds) {
  EntropySpecLength policy(1, 9);
  EXPECT_EQ(drafted(policy, kCertain), 9);
  EXPECT_EQ(drafted(policy, kHalves), 5);
  EXPECT_EQ(drafted(policy, kEqual), 1);
}

TEST(EntropySpecLengthTest, OnlyTheFirstPlaceDecides) {
  EntropySpecLength policy(1, 9);
  EXPECT_TRUE(policy.goes_on(kHalves, 0));
  for (int n = 1; n < 5; n++) EXPECT_TRUE(policy.goes_on(kEqual, n)) << n;
  EXPECT_FALSE(policy.goes_on(kCertain, 5));
}

// So the draft model makes no pass for the place after the last draft.
TEST(EntropySpecLengthTest, KnowsThatItHasEnough) {
  EntropySpecLength policy(1, 9);
  EXPECT_TRUE(policy.goes_on(kHalves, 0));
  EXPECT_FALSE(policy.has_enough(4));
  EXPECT_TRUE(policy.has_enough(5));
  policy.learn(round_of(5, 0));
  EXPECT_FALSE(policy.has_enough(5)) << "it was not asked in this round: a lookup had drafts";
}

// H of 0.5, then 0 with weight 0.75 on the mean: 0.375. Asked twice, it says the same.
TEST(EntropySpecLengthTest, SmoothsOverRoundsThatEnded) {
  EntropySpecLength policy(1, 9, 0.75);
  EXPECT_EQ(drafted(policy, kHalves), 5);
  policy.learn(round_of(5, 5));
  for (int i = 0; i < 2; i++) EXPECT_EQ(drafted(policy, kCertain), 6);
  policy.learn(round_of(6, 0));
  EXPECT_EQ(drafted(policy, kCertain), 7);  // 0.28
}

// A round in which a lookup had drafts, and a plain step, asked no gate: nothing is learned.
TEST(EntropySpecLengthTest, RoundsThatAskedNothingTeachNothing) {
  EntropySpecLength policy(1, 8, 0.9);
  policy.learn(round_of(3, 3));
  EXPECT_EQ(drafted(policy, kEqual), 1) << "a mean of 0 before it would make this 7";
  policy.learn(round_of(1, 1));
  for (int i = 0; i < 20; i++) {
    policy.learn(round_of(5, i % 5));
    policy.learn(round_of(0, 0));
  }
  EXPECT_EQ(drafted(policy, kEqual), 1);
  policy.learn(round_of(1, 0));
  EXPECT_EQ(drafted(policy, kCertain), 2) << "0.9 of 1, and 0.1 of 0: K is 8 - 6.3";
}

TEST(ConfidenceSpecLengthTest, StopsBelowTheThreshold) {
  ConfidenceSpecLength policy(0.5, 6);
  EXPECT_EQ(drafted(policy, kCertain), 6);
  EXPECT_EQ(drafted(policy, kHalves), 6) << "the threshold itself is enough";
  EXPECT_EQ(drafted(policy, kEqual), 0);
}

TEST(ScheduleSpecLengthTest, TwoMoreAfterASuccessOneLessOtherwise) {
  ScheduleSpecLength policy(1, 5, 8);
  const auto after = [&](int accepted) {
    policy.learn(round_of(policy.next(), accepted));
    return policy.next();
  };
  EXPECT_EQ(after(5), 7);
  EXPECT_EQ(after(7), 8) << "the largest";
  EXPECT_EQ(after(7), 7);
  EXPECT_EQ(after(0), 6);
  policy.learn({.drafted = 6, .accepted = 3, .end = RoundEnd::kStopped});
  EXPECT_EQ(policy.next(), 6) << "a stop tells nothing";
  policy.learn(round_of(0, 0));
  EXPECT_EQ(policy.next(), 6) << "a plain step tells nothing";
  for (int i = 0; i < 9; i++) after(0);
  EXPECT_EQ(policy.next(), 1) << "the smallest";
}

// c = 0.2, and each further row 0.1 of a pass.
SurvivalSpecLength by_survival(std::shared_ptr<SurvivalModel> model) {
  return SurvivalSpecLength(std::move(model), {1, 1.3, 1.6, 1.9, 2.2, 2.5}, 0.2);
}

// A margin of 0 begins with the estimate 1/2: 1.5 tokens for 1.5 are more than 1 for 1.2, but 1.75
// for 1.8 are fewer.
TEST(SurvivalSpecLengthTest, DraftsWhileADraftRaisesTokensPerCost) {
  SurvivalSpecLength policy = by_survival(std::make_shared<SurvivalModel>(5, 0));
  EXPECT_EQ(drafted(policy, kCertain), 5);
  EXPECT_EQ(drafted(policy, kEqual), 1);
  EXPECT_DOUBLE_EQ(policy.survival()[0], 0.5);
  EXPECT_DOUBLE_EQ(policy.survival()[1], 0.25) << "of both drafts";
  EXPECT_EQ(policy.survival().size(), 2) << "it has asked about one more than it drafted";
  EXPECT_EQ(drafted(policy, kEqual), 1) << "asked again, it says the same";
  EXPECT_EQ(policy.survival().size(), 2);
  EXPECT_EQ(policy.notes()[0].value, 0.25);
  policy.learn(round_of(1, 0));
  EXPECT_TRUE(policy.survival().empty());
}

TEST(SurvivalSpecLengthTest, VerifiesInFullAtFirst) {
  const auto model = std::make_shared<SurvivalModel>(5, 3);
  SurvivalSpecLength policy = by_survival(model);
  for (const int accepted : {1, 0}) {
    EXPECT_EQ(drafted(policy, kEqual), 5);
    policy.learn(round_of(5, accepted));
  }
  EXPECT_FALSE(model->warming_up()) << "three places were tested";
  EXPECT_LT(drafted(policy, kEqual), 5);
}

TEST(SurvivalSpecLengthTest, OnlyTestedPlacesTeach) {
  const auto learned = [](int drafts, bool asked, Round round) {
    const auto model = std::make_shared<SurvivalModel>(5);
    SurvivalSpecLength policy = by_survival(model);
    for (int i = 0; asked && i < drafts; i++) policy.goes_on(kHalves, i);
    policy.learn(round);
    return std::array{model->acceptance(0, 0), model->acceptance(1, 0), model->acceptance(2, 0)};
  };
  const auto fresh = learned(0, false, round_of(0, 0));
  EXPECT_EQ(learned(5, true, round_of(5, 1)), learned(2, true, round_of(2, 1)));
  EXPECT_NE(learned(5, true, round_of(5, 1)), fresh);
  EXPECT_EQ(learned(3, false, round_of(3, 1)), fresh) << "another drafter had the drafts";
  const Round stopped{.drafted = 5, .accepted = 0, .end = RoundEnd::kStopped};
  EXPECT_EQ(learned(5, true, stopped), fresh) << "a stop tests nothing";
}

// c = 0.2, and each further row 0.1 of a pass.
WhileItPays guarded(std::unique_ptr<SpecLengthPolicy> policy) {
  std::vector<double> costs;
  for (int K = 0; K <= 5; K++) costs.push_back(1 + 0.3 * K);
  return WhileItPays(std::move(policy), costs, 0.2);
}

TEST(WhileItPaysTest, GoesOnWhereRoundsGain) {
  WhileItPays policy = guarded(fixed_spec_length(5));
  for (int i = 0; i < 100; i++) {
    EXPECT_EQ(policy.next(), 5);
    policy.learn(round_of(5, i % 4 == 0 ? 0 : 3));  // 3.25 tokens for 2.5
  }
}

// Rounds that lose: it stops drafting, tries again with a short round after 8, 16, 32 plain steps,
// and all in all loses little.
TEST(WhileItPaysTest, PausesWhereRoundsLose) {
  WhileItPays policy = guarded(fixed_spec_length(5));
  double cost = 0, drafts = 0;
  int emitted = 0;
  for (; emitted < 200; emitted++) {
    const int K = policy.next();
    cost += 1 + 0.3 * K;
    drafts += K;
    policy.learn(round_of(K, 0));
  }
  EXPECT_LT(cost / emitted, 1.05);
  EXPECT_GT(drafts, 5 + 2 * 4) << "it has probed";
}

TEST(WhileItPaysTest, GoesOnAgainWhenDraftsGetBetter) {
  WhileItPays policy = guarded(fixed_spec_length(5));
  for (int i = 0; i < 50; i++) policy.learn(round_of(policy.next(), 0));
  int rounds = 0;
  while (policy.next() != 5) {
    const int K = policy.next();
    policy.learn(round_of(K, K));
    ASSERT_LT(rounds++, 40) << "one good probe is enough";
  }
}

TEST(WhileItPaysTest, PausesGetLongerUpTo32) {
  WhileItPays policy = guarded(fixed_spec_length(5));
  std::vector<int> pauses;
  int plain = 0;
  for (int i = 0; i < 200; i++) {
    const int K = policy.next();
    if (K == 2) pauses.push_back(std::exchange(plain, 0));
    plain += K == 0 ? 1 : 0;
    policy.learn(round_of(K, 0));
  }
  EXPECT_EQ(pauses, (std::vector<int>{8, 16, 32, 32, 32, 32, 32}));
}

// A drafted token that was never tested may be drawn by the same random number again. What it let a
// gate do must not reach the next rounds: rounds that differ in untested drafts alone teach the
// same.
TEST(WhileItPaysTest, UntestedDraftsOfAGateTeachNothing) {
  std::mt19937 random(7);
  int pauses = 0;
  for (int run = 0; run < 200; run++) {
    WhileItPays one = guarded(std::make_unique<ConfidenceSpecLength>(0.5, 5));
    WhileItPays other = guarded(std::make_unique<ConfidenceSpecLength>(0.5, 5));
    for (int i = 0; i < 60; i++) {
      const int asked = one.next();
      ASSERT_EQ(other.next(), asked);
      if (asked > 0) {
        for (WhileItPays* policy : {&one, &other}) policy->gate()->goes_on(kCertain, 0);
      }
      const int tested = std::min(asked, 1 + static_cast<int>(random() % 2));
      pauses += asked == 0 ? 1 : 0;
      if (tested == 0 || random() % 6 == 0) {  // all accepted: nothing was untested
        one.learn(round_of(tested, tested));
        other.learn(round_of(tested, tested));
        continue;
      }
      const auto untested = [&] {
        return tested + static_cast<int>(random() % unsigned(asked - tested + 1));
      };
      one.learn(round_of(untested(), tested - 1));
      other.learn(round_of(untested(), tested - 1));
    }
  }
  EXPECT_GT(pauses, 200) << "the guard decides something in these runs";
}

// A gate that refuses every draft has cost a pass of the draft model in each round.
TEST(WhileItPaysTest, CountsThePassThatAGateThrewAway) {
  WhileItPays policy = guarded(std::make_unique<ConfidenceSpecLength>(1, 5));
  int rounds = 0;
  while (policy.next() > 0) {
    ASSERT_EQ(drafted(policy, kHalves), 0);
    policy.learn(round_of(0, 0));
    ASSERT_LT(rounds++, 20);
  }
}

// K = 3 was known from the first place, so no pass was made to hear a no: all three drafts count,
// and nothing else, also after a rejection.
TEST(WhileItPaysTest, ChargesNoPassThatWasNeverMade) {
  WhileItPays policy = guarded(std::make_unique<EntropySpecLength>(1, 5));
  ASSERT_TRUE(policy.gate()->goes_on(kHalves, 0));
  ASSERT_TRUE(policy.gate()->has_enough(3));
  policy.learn(round_of(3, 0));
  EXPECT_DOUBLE_EQ(policy.notes().back().value, (0.9 * 12 + 1) / (0.9 * 8 + 1.9));
}

// A lookup had three drafts, so the draft model made no pass and the gate was not asked.
TEST(WhileItPaysTest, ChargesNoPassToARoundThatAskedNothing) {
  WhileItPays policy = guarded(std::make_unique<ConfidenceSpecLength>(0.5, 5));
  policy.learn(round_of(3, 1));
  EXPECT_DOUBLE_EQ(policy.notes().back().value, (0.9 * 12 + 2) / (0.9 * 8 + 1.9));
  ASSERT_TRUE(policy.gate()->goes_on(kCertain, 0));
  policy.learn(round_of(3, 3));
  EXPECT_DOUBLE_EQ(policy.notes().back().value,
                   (0.9 * (0.9 * 12 + 2) + 4) / (0.9 * (0.9 * 8 + 1.9) + 1.9 + 0.2))
      << "this one asked, and heard a no after three";
}

}  // namespace
}  // namespace specdec
